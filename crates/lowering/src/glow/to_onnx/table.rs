//! What becomes of each kind of node.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::node::Rule;
use super::{
    conv, elementwise, index, linear, moves, normalize, pool, quantize, reduce, signal, sparse,
    vision,
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
];

/// Why ONNX has no words for a kind.
const NO_WORDS: &[(&str, &str)] = &[];

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
