//! Models of old sets of operators as ones of newer sets: what they are made of then. That they compute
//! the same, ONNX Runtime and the reference evaluator say (`cargo xtask interop`).

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use lodstone_formats::{OpenOptions, onnx};
use lodstone_model::{Dialect, Model};
use lodstone_schema::onnx::{
    UpgradeError, changes, check, ir_version_of_opset, newest_opset, operators, upgrade,
};
use serde::Deserialize;
use support::bytes;

#[derive(Deserialize)]
struct Index {
    cases: Vec<Case>,
}

/// A model, and the operators that it has at the newest version.
#[derive(Deserialize)]
struct Case {
    name: String,
    kinds: Vec<String>,
}

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/onnx_upgrade")
}

fn cases() -> Vec<Case> {
    let index = bytes(&directory().join("index.json"));
    serde_json::from_slice::<Index>(&index).unwrap().cases
}

fn open(name: &str) -> Model {
    let path = directory().join(format!("{name}.onnx"));
    (onnx::BINARY.read)(&path, &OpenOptions::default()).unwrap()
}

fn version(model: &Model) -> i64 {
    let versions = &model.program.as_ref().unwrap().operator_versions;
    versions.iter().find(|(domain, _)| domain.is_empty()).unwrap().1
}

#[test]
fn there_is_a_decision_for_each_change_of_an_operator() {
    let mut versions: BTreeMap<&str, BTreeSet<i64>> = BTreeMap::new();
    for operator in operators().filter(|operator| operator.domain == "ai.onnx") {
        versions.entry(operator.kind).or_default().insert(operator.since);
    }
    for (kind, versions) in versions {
        let changed: Vec<_> = versions.into_iter().skip(1).collect();
        let decided: Vec<_> = changes(kind).iter().map(|(version, _)| *version).collect();
        assert_eq!(decided, changed, "{kind}");
    }
}

#[test]
fn a_model_becomes_one_of_the_newest_set() {
    let newest = newest_opset("").unwrap();
    let (mut count, mut wrong) = (0, Vec::new());
    for case in cases() {
        let mut model = open(&case.name);
        if let Err(error) = upgrade(&mut model, newest) {
            wrong.push(format!("{}: {error}", case.name));
            continue;
        }
        assert_eq!(version(&model), newest, "{}", case.name);
        let program = model.program.as_ref().unwrap();
        assert!(program.version >= ir_version_of_opset("", newest), "{}", case.name);
        let kinds: Vec<_> = program.ops().map(|op| op.kind.as_str()).collect();
        // Blocks that an operator was put into are behind those that there were.
        if kinds.iter().take(case.kinds.len()).ne(&case.kinds) {
            wrong.push(format!("{}: {kinds:?}, expected {:?}", case.name, case.kinds));
        }
        let findings = check(&model);
        if !findings.is_empty() {
            wrong.push(format!("{}: {:?}", case.name, findings.told));
        }
        count += 1;
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count > 80, "{count}");
}

#[test]
fn a_model_goes_through_every_set_on_its_way() {
    for case in cases() {
        // As Resize of version 10 it would not say any more that nothing shrinks.
        if case.name == "upsample_computed_nearest" {
            continue;
        }
        let mut model = open(&case.name);
        let from = version(&model);
        for target in from..=newest_opset("").unwrap() {
            // What has to be cast to a type that it is not said can wait for a set that can.
            if let Err(error) = upgrade(&mut model, target) {
                let what = error.to_string();
                assert!(
                    what.contains("caller of the function") || what.contains("which type"),
                    "{what}"
                );
                continue;
            }
            // Version 18 brought it, and said that nobody should use it.
            let is_deprecated = case.name == "group_normalization" && target < 21;
            let findings = check(&model);
            assert!(findings.is_empty() || is_deprecated, "{} {target}: {findings:?}", case.name);
        }
        assert_eq!(version(&model), newest_opset("").unwrap(), "{}", case.name);
    }
}

#[test]
fn every_change_that_is_more_than_a_version_has_a_model() {
    let of = |case: Case| {
        let program = open(&case.name).program.unwrap();
        program.ops().map(|op| op.kind.clone()).collect::<Vec<_>>()
    };
    let kinds: BTreeSet<String> = cases().into_iter().flat_map(of).collect();
    // No model of theirs is upgraded otherwise than others': `floats` refuses, and `power` is that of
    // GlobalLpPool.
    let others = ["Erf", "LpPool"];
    for operator in operators().filter(|operator| operator.domain == "ai.onnx") {
        let mut decisions = changes(operator.kind).iter().map(|(_, decision)| *decision);
        let is_more = decisions.any(|decision| !["same", "consumed"].contains(&decision));
        let has_model = kinds.contains(operator.kind) || others.contains(&operator.kind);
        assert!(!is_more || has_model, "{}", operator.kind);
    }
}

#[test]
fn what_cannot_be_upgraded_is_named_and_the_model_stays_as_it_was() {
    let mut model = open("batch_normalization");
    let program = model.program.as_mut().unwrap();
    let ops = &mut program.blocks[0].ops;
    ops[0].attributes.retain(|attribute| attribute.name != "is_test");
    let mut second = ops[0].clone();
    let training = lodstone_model::AttributeValue::Long(0);
    second
        .attributes
        .push(lodstone_model::Attribute { name: "is_test".to_owned(), value: training });
    (second.name, second.outputs[0].args[0]) = ("bn".to_owned(), "z".to_owned());
    ops.push(second);
    let before = model.program.clone();
    let error = upgrade(&mut model, 21).unwrap_err();
    let expected = "1 operators cannot be upgraded; the graph, operator 1 (`BatchNormalization` `bn`): \
                    is in training mode (`is_test` is 0)";
    assert_eq!(error.to_string(), expected);
    assert_eq!(model.program, before);
}

#[test]
fn what_depends_on_dimensions_that_nobody_says_is_refused() {
    let mut model = open("broadcast_Add");
    let block = &mut model.program.as_mut().unwrap().blocks[0];
    block.vars.iter_mut().for_each(|var| var.value.tensors[0].shape = None);
    let error = upgrade(&mut model, 13).unwrap_err().to_string();
    assert!(error.ends_with("it cannot be told how many dimensions `a` has"), "{error}");
}

#[test]
fn older_and_unknown_sets_are_refused() {
    let mut model = open("group_normalization");
    let error = upgrade(&mut model, 17).unwrap_err();
    assert_eq!(error, UpgradeError::Downgrade { from: 18, to: 17 });
    let newest = newest_opset("").unwrap();
    for asked in [0, -1, newest + 1] {
        assert_eq!(
            upgrade(&mut model, asked).unwrap_err(),
            UpgradeError::Unknown { asked, newest }
        );
    }
    model.program.as_mut().unwrap().dialect = Dialect::Glow;
    assert_eq!(upgrade(&mut model, newest).unwrap_err(), UpgradeError::NoOperators);
}
