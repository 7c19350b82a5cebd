//! The decisions for all kinds of nodes.

use super::node::Rule;
use super::{
    conv, elementwise, gradient, index, linear, loss, moves, normalize, pool, quantize, reduce,
    signal, sparse, vision, window_gradient,
};
use crate::rules::{RuleName, Rules, families};

/// The decision for a kind of node.
#[derive(Clone, Copy, Debug)]
pub(super) enum Decision {
    /// A rule translates it.
    Rule(Rule),
    /// ONNX has no equivalent, for this reason.
    NoEquivalent(&'static str),
}

/// Families of rules, each a file.
static RULES: Rules<Rule> = Rules::new(&[families![
    elementwise,
    reduce,
    moves,
    quantize,
    linear,
    conv,
    pool,
    normalize,
    index,
    sparse,
    vision,
    signal,
    loss,
    gradient,
    window_gradient
]]);

/// Kinds without an ONNX equivalent, and the reasons.
const NO_EQUIVALENT: &[(&str, &str)] = &[
    ("BatchedPairwiseDotProductGrad", "Glow orders the pairs differently than in the products"),
    ("CollectRpnProposals", "it is only defined on hardware that implements it"),
    ("GaussianFill", "its random numbers come from Glow's own generator"),
    ("IntNBitSplitEmbeddingBags", "its tables have several types in one buffer"),
    ("IntNBitSplitEmbeddingWeightedBags", "its tables have several types in one buffer"),
    ("LookupTable", "it is only defined on hardware that implements it"),
    ("QuantizationProfile", "it writes a histogram as a side effect"),
    ("TFLiteCustomOperator", "it is an operator of another framework, by name"),
    ("TFLiteDetectionPostProcess", "it selects boxes by other rules than `NonMaxSuppression`"),
    ("TraceEvent", "it writes timings as a side effect"),
];

/// Returns the decision for a kind of node; `None` if the table has none.
pub(super) fn decision(kind: &str) -> Option<Decision> {
    let reason = || NO_EQUIVALENT.iter().find(|(known, _)| *known == kind);
    let rule = RULES.get(kind).map(Decision::Rule);
    rule.or_else(|| Some(Decision::NoEquivalent(reason()?.1)))
}

/// Returns the names of all rules.
pub(crate) fn names() -> impl Iterator<Item = RuleName> {
    RULES.names()
}

/// Returns the name of the rule of a node.
pub(crate) fn name(kind: &str) -> Option<RuleName> {
    RULES.name(kind)
}

/// Returns the kinds without an ONNX equivalent.
pub(crate) fn without_equivalent() -> impl Iterator<Item = &'static str> {
    NO_EQUIVALENT.iter().map(|(kind, _)| *kind)
}
