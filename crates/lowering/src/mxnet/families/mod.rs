//! The rules of all operators, by family.

mod activations;
mod attention;
mod boxes;
mod conv;
mod detection;
mod elementwise;
mod functions;
mod index;
mod linalg;
mod linear;
mod make;
mod normalize;
mod numpy;
mod outputs;
mod parts;
mod patches;
mod pool;
mod proposals;
pub(super) mod quantized;
mod random;
pub(super) mod recurrent;
mod reduce;
mod regions;
mod sequences;
mod shape;
mod sort;
mod spatial;

use super::node::Rule;
use crate::rules::{RuleName, Rules, families};

static RULES: Rules<Rule> = Rules::new(&[families![
    activations,
    attention,
    boxes,
    conv,
    detection,
    elementwise,
    functions,
    index,
    linalg,
    linear,
    make,
    normalize,
    numpy,
    outputs,
    parts,
    patches,
    pool,
    proposals,
    quantized,
    random,
    recurrent,
    reduce,
    regions,
    sequences,
    shape,
    sort,
    spatial
]]);

/// Returns the rule of an operator, by its name without aliases.
pub(super) fn rule(kind: &str) -> Option<Rule> {
    RULES.get(kind)
}

/// Whether an operator fills a tensor whose dims of 0 are inferred.
pub(super) fn has_open_dims(kind: &str) -> bool {
    make::FILLS.contains(&kind)
}

/// Returns the name of the rule of an operator.
pub(super) fn name(kind: &str) -> Option<RuleName> {
    RULES.name(kind)
}

/// Returns the names of all rules.
pub(super) fn names() -> impl Iterator<Item = RuleName> {
    RULES.names()
}
