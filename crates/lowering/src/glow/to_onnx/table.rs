//! The decisions for all kinds of nodes.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::node::Rule;
use super::{
    conv, elementwise, gradient, index, linear, loss, moves, normalize, pool, quantize, reduce,
    signal, sparse, vision, window_gradient,
};

/// The decision for a kind of node.
#[derive(Clone, Copy, Debug)]
pub(super) enum Decision {
    /// A rule translates it.
    Rule(Rule),
    /// ONNX has no equivalent, for this reason.
    NoEquivalent(&'static str),
}

/// Families of rules, each a file.
const FAMILIES: &[&[(&str, Rule)]] = &[
    elementwise::RULES,
    reduce::RULES,
    moves::RULES,
    quantize::RULES,
    linear::RULES,
    conv::RULES,
    pool::RULES,
    normalize::RULES,
    index::RULES,
    sparse::RULES,
    vision::RULES,
    signal::RULES,
    loss::RULES,
    gradient::RULES,
    window_gradient::RULES,
];

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

static DECISIONS: LazyLock<HashMap<&str, Decision>> = LazyLock::new(|| {
    let rules = FAMILIES.iter().flat_map(|family| family.iter());
    let rules = rules.map(|(kind, rule)| (*kind, Decision::Rule(*rule)));
    let reasons = NO_EQUIVALENT.iter().map(|(kind, why)| (*kind, Decision::NoEquivalent(why)));
    rules.chain(reasons).collect()
});

/// Returns the decision for a kind of node; `None` if the table has none.
pub(super) fn decision(kind: &str) -> Option<Decision> {
    DECISIONS.get(kind).copied()
}

#[cfg(test)]
mod tests {
    use lodstone_schema::glow::nodes;

    use super::{FAMILIES, NO_EQUIVALENT, decision};

    #[test]
    fn every_kind_of_node_has_one_decision() {
        let rules = FAMILIES.iter().flat_map(|family| family.iter().map(|(kind, _)| *kind));
        let mut decided: Vec<&str> =
            rules.chain(NO_EQUIVALENT.iter().map(|(kind, _)| *kind)).collect();
        decided.sort_unstable();
        let mut kinds: Vec<&str> = nodes().iter().map(|node| node.kind).collect();
        kinds.sort_unstable();
        assert_eq!(decided, kinds);
        assert!(kinds.iter().all(|kind| decision(kind).is_some()));
    }
}
