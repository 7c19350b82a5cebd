//! The rules of all operators, by family.

mod activations;
mod attention;
mod binary;
pub(super) mod complex;
mod compose;
mod conv;
mod copy;
mod create;
mod index;
mod linear;
mod normalize;
mod pieces;
mod pool;
mod quantized;
mod recurrent;
mod reduce;
mod reshape;
mod resize;
mod scripted;
mod select;
mod sizes;
mod sort;
mod unary;
mod vision;

use super::node::{Rule, base_name};
use crate::rules::{RuleName, Rules, families};
use lodstone_schema::torch::is_written;

static RULES: Rules<Rule> = Rules::new(&[families![
    activations,
    attention,
    binary,
    complex,
    compose,
    conv,
    copy,
    create,
    index,
    linear,
    normalize,
    pieces,
    pool,
    quantized,
    recurrent,
    reduce,
    reshape,
    resize,
    scripted,
    select,
    sizes,
    sort,
    unary,
    vision
]]);

/// Returns the rule of an operator, by its kind with overload. One that writes to its first argument has the rule of the
/// one that does not.
pub(super) fn rule(kind: &str) -> Option<Rule> {
    RULES.get(name(kind)?.kind)
}

/// Returns the name of the rule of an operator.
pub(super) fn name(kind: &str) -> Option<RuleName> {
    let own = kind.split('.').next().unwrap_or(kind);
    let found = RULES.name(own);
    if found.is_some() || !is_written(kind) {
        return found;
    }
    let (namespace, _) = kind.split_once("::")?;
    RULES.name(&format!("{namespace}::{}", base_name(kind)))
}

/// Returns the names of all rules.
pub(super) fn names() -> impl Iterator<Item = RuleName> {
    RULES.names()
}

/// Operators that draw random numbers, without the mark of those that write.
const RANDOM: &[&str] = &[
    "bernoulli",
    "binomial",
    "cauchy",
    "exponential",
    "geometric",
    "log_normal",
    "multinomial",
    "normal",
    "normal_functional",
    "poisson",
    "rand",
    "rand_like",
    "randint",
    "randint_like",
    "randn",
    "randn_like",
    "random",
    "randperm",
    "uniform",
];

/// Whether an operator draws random numbers.
pub(super) fn is_random(kind: &str) -> bool {
    kind.starts_with("aten::") && RANDOM.contains(&base_name(kind))
}

/// Operators that change the dims of their argument itself.
const RESTRUCTURING: &[&str] = &[
    "as_strided",
    "movedim",
    "permute",
    "resize",
    "resize_as",
    "set",
    "squeeze",
    "swapaxes",
    "swapdims",
    "t",
    "transpose",
    "unsqueeze",
];

/// Whether an operator changes the dims of its argument itself.
pub(super) fn is_restructuring(kind: &str) -> bool {
    is_written(kind) && RESTRUCTURING.contains(&base_name(kind))
}
