//! The tables of rules agree with the operators that the frameworks have.

use std::collections::BTreeSet;

use libtest_mimic::{Failed, Trial};
use lodstone_lowering::{glow, pir, rules};
use lodstone_model::Dialect;
use lodstone_schema::paddle::Release;
use lodstone_schema::{mxnet, paddle, torch};

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        Trial::test("no_operator_has_two_rules", distinct),
        Trial::test("rules_of_torch_are_of_operators", of_torch),
        Trial::test("rules_of_mxnet_are_of_operators_and_not_of_aliases", of_mxnet),
        Trial::test("rows_of_paddlepaddle_that_declare_a_rule_have_one", of_paddle),
        Trial::test("operators_of_paddlepaddle_that_changed_have_a_rule", of_older),
        Trial::test("nodes_of_glow_have_one_decision", of_glow),
    ]
}

fn kinds(dialect: Dialect) -> Vec<&'static str> {
    rules(dialect).into_iter().map(|rule| rule.kind).collect()
}

fn check(wrong: &[&str], what: &str) -> Result<(), Failed> {
    match wrong {
        [] => Ok(()),
        wrong => Err(format!("{what}: {wrong:?}").into()),
    }
}

/// Fails unless both have the same elements, once.
fn equal(mut found: Vec<&str>, mut expected: Vec<&str>) -> Result<(), Failed> {
    found.sort_unstable();
    expected.sort_unstable();
    match found == expected {
        true => Ok(()),
        false => Err(format!("found {found:?}, expected {expected:?}").into()),
    }
}

/// ONNX has operators of several domains.
fn distinct() -> Result<(), Failed> {
    for dialect in [Dialect::Pir, Dialect::Mxnet, Dialect::Caffe2, Dialect::Torch] {
        let mut seen = BTreeSet::new();
        let twice: Vec<&str> =
            kinds(dialect).into_iter().filter(|kind| !seen.insert(*kind)).collect();
        check(&twice, dialect.name())?;
    }
    Ok(())
}

fn of_torch() -> Result<(), Failed> {
    let is_operator = |kind: &str| {
        let is_known = kind.split_once("::").is_some_and(|(namespace, _)| {
            matches!(
                namespace,
                "_operator" | "math" | "prim" | "torch" | "upgrader" | "higher_order"
            )
        });
        let is_written = !torch::overloads(&format!("{kind}_")).is_empty();
        is_known || is_written || !torch::overloads(kind).is_empty()
    };
    let wrong: Vec<&str> =
        kinds(Dialect::Torch).into_iter().filter(|kind| !is_operator(kind)).collect();
    check(&wrong, "they are no operators")
}

fn of_mxnet() -> Result<(), Failed> {
    let is_operator = |kind: &str| mxnet::operator(kind).is_some_and(|it| it.alias_of.is_none());
    let own = rules(Dialect::Mxnet).into_iter().filter(|rule| rule.family != "control");
    let wrong: Vec<&str> = own.map(|rule| rule.kind).filter(|kind| !is_operator(kind)).collect();
    check(&wrong, "they are no operators, or aliases")
}

fn of_paddle() -> Result<(), Failed> {
    let declared = paddle::operators().filter(|row| row.computation.is_lowered());
    equal(kinds(Dialect::Paddle), declared.map(|row| row.kind).collect())
}

fn of_older() -> Result<(), Failed> {
    let is_newer = |change: &Release| Release::WRITTEN < *change;
    let changed = paddle::operators().filter(|row| row.changes.iter().any(is_newer));
    equal(pir::older_kinds(), changed.map(|row| row.kind).collect())
}

fn of_glow() -> Result<(), Failed> {
    let mut decided = kinds(Dialect::Glow);
    decided.extend(glow::nodes_without_equivalent());
    equal(decided, lodstone_schema::glow::nodes().iter().map(|node| node.kind).collect())
}
