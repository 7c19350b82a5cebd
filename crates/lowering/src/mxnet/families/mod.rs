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

use std::collections::HashMap;
use std::sync::LazyLock;

use super::node::Rule;

const FAMILIES: &[&[(&str, Rule)]] = &[
    activations::RULES,
    attention::RULES,
    boxes::RULES,
    conv::RULES,
    detection::RULES,
    elementwise::RULES,
    functions::RULES,
    index::RULES,
    linalg::RULES,
    linear::RULES,
    make::RULES,
    normalize::RULES,
    numpy::RULES,
    outputs::RULES,
    parts::RULES,
    patches::RULES,
    pool::RULES,
    proposals::RULES,
    quantized::RULES,
    random::RULES,
    recurrent::RULES,
    reduce::RULES,
    regions::RULES,
    sequences::RULES,
    shape::RULES,
    sort::RULES,
    spatial::RULES,
];

static RULES: LazyLock<HashMap<&str, Rule>> =
    LazyLock::new(|| FAMILIES.iter().flat_map(|family| family.iter().copied()).collect());

/// Returns the rule of an operator, by its name without aliases.
pub(super) fn rule(kind: &str) -> Option<Rule> {
    RULES.get(kind).copied()
}

/// Whether an operator fills a tensor whose dims of 0 are inferred.
pub(super) fn has_open_dims(kind: &str) -> bool {
    make::FILLS.contains(&kind)
}

/// Returns the names of all operators with a rule.
pub(super) fn kinds() -> impl Iterator<Item = &'static str> {
    RULES.keys().copied()
}

#[cfg(test)]
mod tests {
    use lodstone_schema::mxnet::operator;

    use super::*;

    #[test]
    fn each_rule_is_of_an_operator_and_none_is_of_an_alias() {
        let all: Vec<&str> = FAMILIES.iter().copied().flatten().map(|(kind, _)| *kind).collect();
        for kind in &all {
            let alias = operator(kind).map(|known| known.alias_of);
            assert_eq!(alias, Some(None), "`{kind}` is no operator, or an alias");
        }
        assert_eq!(all.len(), RULES.len(), "an operator has two rules");
    }
}
