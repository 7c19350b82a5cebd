//! What becomes of each kind of node.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::node::Rule;
use super::{
    conv, elementwise, gradient, index, linear, loss, moves, normalize, pool, quantize, reduce,
    signal, sparse, vision, window_gradient,
};

/// What becomes of a kind of node.
#[derive(Clone, Copy, Debug)]
pub(super) enum Decision {
    /// It is said so.
    Rule(Rule),
    /// ONNX has no words for it, because of this.
    NoWords(&'static str),
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

/// Why ONNX has no words for a kind.
const NO_WORDS: &[(&str, &str)] = &[
    ("BatchedPairwiseDotProductGrad", "Glow takes the pairs in another order than in the products"),
    ("CollectRpnProposals", "what it computes is nowhere defined but on hardware that had it"),
    ("GaussianFill", "its random numbers are those of Glow's own generator"),
    ("IntNBitSplitEmbeddingBags", "its tables are of several types in one stretch of bytes"),
    (
        "IntNBitSplitEmbeddingWeightedBags",
        "its tables are of several types in one stretch of bytes",
    ),
    ("LookupTable", "how its table is looked up is a matter of hardware that had it"),
    ("QuantizationProfile", "it writes a histogram beside the graph"),
    ("TFLiteCustomOperator", "it is an operator of another framework, by name"),
    ("TFLiteDetectionPostProcess", "it selects boxes by other rules than `NonMaxSuppression`"),
    ("TraceEvent", "it writes times beside the graph"),
];

static DECISIONS: LazyLock<HashMap<&str, Decision>> = LazyLock::new(|| {
    let rules = FAMILIES.iter().flat_map(|family| family.iter());
    let rules = rules.map(|(kind, rule)| (*kind, Decision::Rule(*rule)));
    let reasons = NO_WORDS.iter().map(|(kind, why)| (*kind, Decision::NoWords(why)));
    rules.chain(reasons).collect()
});

/// What becomes of a kind of node; nothing if nobody decided.
pub(super) fn decision(kind: &str) -> Option<Decision> {
    DECISIONS.get(kind).copied()
}

#[cfg(test)]
mod tests {
    use lodstone_schema::glow::nodes;

    use super::{FAMILIES, NO_WORDS, decision};

    #[test]
    fn every_kind_of_node_is_decided_once() {
        let rules = FAMILIES.iter().flat_map(|family| family.iter().map(|(kind, _)| *kind));
        let mut decided: Vec<&str> = rules.chain(NO_WORDS.iter().map(|(kind, _)| *kind)).collect();
        decided.sort_unstable();
        let mut kinds: Vec<&str> = nodes().iter().map(|node| node.kind).collect();
        kinds.sort_unstable();
        assert_eq!(decided, kinds);
        assert!(kinds.iter().all(|kind| decision(kind).is_some()));
    }
}
