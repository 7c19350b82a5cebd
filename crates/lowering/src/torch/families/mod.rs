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

use std::collections::HashMap;
use std::sync::LazyLock;

use super::node::{Rule, base_name, is_written};

const FAMILIES: &[&[(&str, Rule)]] = &[
    activations::RULES,
    attention::RULES,
    binary::RULES,
    complex::RULES,
    compose::RULES,
    conv::RULES,
    copy::RULES,
    create::RULES,
    index::RULES,
    linear::RULES,
    normalize::RULES,
    pieces::RULES,
    pool::RULES,
    quantized::RULES,
    recurrent::RULES,
    reduce::RULES,
    reshape::RULES,
    resize::RULES,
    scripted::RULES,
    select::RULES,
    sizes::RULES,
    sort::RULES,
    unary::RULES,
    vision::RULES,
];

static RULES: LazyLock<HashMap<&str, Rule>> =
    LazyLock::new(|| FAMILIES.iter().flat_map(|family| family.iter().copied()).collect());

/// Returns the rule of an operator, by its kind with overload. One that writes to its first argument has the rule of the
/// one that does not.
pub(super) fn rule(kind: &str) -> Option<Rule> {
    let name = kind.split('.').next().unwrap_or(kind);
    let found = RULES.get(name).copied();
    if found.is_some() || !is_written(kind) {
        return found;
    }
    let (namespace, _) = kind.split_once("::")?;
    RULES.get(format!("{namespace}::{}", base_name(kind)).as_str()).copied()
}

/// Returns the names of all operators with a rule.
pub(super) fn kinds() -> impl Iterator<Item = &'static str> {
    RULES.keys().copied()
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

#[cfg(test)]
mod tests {
    use lodstone_schema::torch::overloads;

    use super::*;

    #[test]
    fn each_rule_is_of_an_operator() {
        let all: Vec<&str> = FAMILIES.iter().copied().flatten().map(|(kind, _)| *kind).collect();
        for kind in &all {
            let is_known = kind.split_once("::").is_some_and(|(namespace, _)| {
                matches!(namespace, "_operator" | "math" | "prim" | "torch" | "upgrader")
            });
            let is_written = !overloads(&format!("{kind}_")).is_empty();
            assert!(
                is_known || is_written || !overloads(kind).is_empty(),
                "`{kind}` is no operator"
            );
        }
        assert_eq!(all.len(), RULES.len(), "an operator has two rules");
    }
}
