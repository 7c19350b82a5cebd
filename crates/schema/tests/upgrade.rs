//! Upgrades of models of old opsets: the operators of the results. That the results are equal, ONNX Runtime and the
//! reference evaluator confirm (`cargo xtask interop`).

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::support::bytes;
use lodstone_formats::{OpenOptions, onnx};
use lodstone_model::{
    Attribute, AttributeValue, DType, Dialect, Dim, Model, Op, Program, TensorType, ValueType,
};
use lodstone_schema::onnx::{
    UpgradeError, changes, check, ir_version_of_opset, newest_opset, operators, upgrade,
    upgrade_with,
};
use lodstone_store::Location;
use serde::Deserialize;

#[derive(Deserialize)]
struct Index {
    cases: Vec<Case>,
}

/// A model, and its operators after an upgrade to the newest version.
#[derive(Deserialize)]
struct Case {
    name: String,
    kinds: Vec<String>,
}

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../formats/tests/golden/onnx_upgrade")
}

fn cases() -> Vec<Case> {
    let index = bytes(&directory().join("index.json"));
    serde_json::from_slice::<Index>(&index).unwrap().cases
}

fn open(name: &str) -> Model {
    let path = directory().join(format!("{name}.onnx"));
    (onnx::BINARY.read)(&Location::from(&path), &OpenOptions::default()).unwrap()
}

fn version(model: &Model) -> i64 {
    let versions = &model.main().unwrap().operator_versions;
    versions.iter().find(|(domain, _)| domain.is_empty()).unwrap().1
}

#[test]
fn each_change_of_an_operator_has_a_decision() {
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
fn a_model_is_upgraded_to_the_newest_opset() {
    let newest = newest_opset("").unwrap();
    let (mut count, mut wrong) = (0, Vec::new());
    for case in cases() {
        let mut model = open(&case.name);
        if let Err(error) = upgrade(&mut model, newest) {
            wrong.push(format!("{}: {error}", case.name));
            continue;
        }
        assert_eq!(version(&model), newest, "{}", case.name);
        let program = model.main().unwrap();
        assert!(program.version >= ir_version_of_opset("", newest), "{}", case.name);
        let kinds: Vec<_> = program.ops().map(|op| op.kind.as_str()).collect();
        // Blocks that an upgrade adds follow the existing ones.
        if kinds.iter().take(case.kinds.len()).ne(&case.kinds) {
            wrong.push(format!("{}: {kinds:?}, expected {:?}", case.name, case.kinds));
        }
        let findings = check(&model);
        if !findings.is_empty() {
            wrong.push(format!("{}: {:?}", case.name, findings.located));
        }
        count += 1;
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count > 80, "{count}");
}

#[test]
fn an_upgrade_passes_through_every_opset() {
    for case in cases() {
        // As Resize of version 10, it would lose the information that it only enlarges.
        if case.name == "upsample_computed_nearest" {
            continue;
        }
        let mut model = open(&case.name);
        let from = version(&model);
        for target in from..=newest_opset("").unwrap() {
            // A cast to an undeclared type may require a later opset.
            if let Err(error) = upgrade(&mut model, target) {
                let what = error.to_string();
                assert!(
                    what.contains("caller of the function") || what.contains("element type"),
                    "{what}"
                );
                continue;
            }
            // Introduced in version 18, and deprecated there.
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
        let program = open(&case.name).programs.into_main().unwrap();
        program.ops().map(|op| op.kind.clone()).collect::<Vec<_>>()
    };
    let kinds: BTreeSet<String> = cases().into_iter().flat_map(of).collect();
    // `floats` is only a rejection, and `power` is tested with GlobalLpPool.
    let others = ["Erf", "LpPool"];
    for operator in operators().filter(|operator| operator.domain == "ai.onnx") {
        let mut decisions = changes(operator.kind).iter().map(|(_, decision)| *decision);
        let is_more = decisions.any(|decision| !["same", "consumed"].contains(&decision));
        let has_model = kinds.contains(operator.kind) || others.contains(&operator.kind);
        assert!(!is_more || has_model, "{}", operator.kind);
    }
}

#[test]
fn operators_that_cannot_be_upgraded_are_named_and_the_model_is_unchanged() {
    let mut model = open("batch_normalization");
    let program = model.main_mut().unwrap();
    let ops = &mut program.blocks[0].ops;
    ops[0].attributes.retain(|attribute| attribute.name != "is_test");
    let mut second = ops[0].clone();
    let training = AttributeValue::Long(0);
    second.attributes.push(Attribute { name: "is_test".to_owned(), value: training });
    (second.name, second.outputs[0].args[0]) = ("bn".to_owned(), "z".to_owned());
    ops.push(second);
    let before = model.main().cloned();
    let error = upgrade(&mut model, 21).unwrap_err();
    let expected = "1 operator cannot be upgraded; the graph, operator 1 (`BatchNormalization` `bn`): \
                    is in training mode (`is_test` is 0)";
    assert_eq!(error.to_string(), expected);
    assert_eq!(model.main(), before.as_ref());
}

#[test]
fn upgrades_that_depend_on_unknown_dims_are_rejected() {
    let mut model = open("broadcast_Add");
    let block = &mut model.main_mut().unwrap().blocks[0];
    block.vars.iter_mut().for_each(|var| var.value.tensor_type_mut().unwrap().shape = None);
    let error = upgrade(&mut model, 13).unwrap_err().to_string();
    assert!(error.ends_with("the rank of `a` is unknown"), "{error}");
    // Unless the caller supports them.
    let tensor = |dims: &[u64]| {
        let shape = Some(dims.iter().map(|dim| Dim::Known(*dim)).collect());
        ValueType::tensor(TensorType::new(DType::Float32, shape))
    };
    let known = [("a", tensor(&[2, 3, 4])), ("b", tensor(&[3]))];
    let known = known.map(|(name, value)| (name.to_owned(), value)).into();
    upgrade_with(&mut model, 13, &[known]).unwrap();
    let kinds: Vec<_> = model.main().unwrap().ops().map(|op| op.kind.as_str()).collect();
    assert_eq!(kinds, ["Constant", "Unsqueeze", "Add"]);
}

#[test]
fn older_and_unknown_opsets_are_rejected() {
    let mut model = open("group_normalization");
    let error = upgrade(&mut model, 17).unwrap_err();
    assert_eq!(error, UpgradeError::Downgrade { from: 18, to: 17 });
    let newest = newest_opset("").unwrap();
    for requested in [0, -1, newest + 1] {
        assert_eq!(
            upgrade(&mut model, requested).unwrap_err(),
            UpgradeError::Unknown { requested, newest }
        );
    }
    model.main_mut().unwrap().dialect = Dialect::Glow;
    assert_eq!(upgrade(&mut model, newest).unwrap_err(), UpgradeError::NoOperators);
}

/// An edit of a program.
type Edit = fn(&mut Program);

fn op(program: &mut Program) -> &mut Op {
    &mut program.blocks[0].ops[0]
}

fn set(program: &mut Program, name: &str, value: AttributeValue) {
    let attributes = &mut op(program).attributes;
    attributes.retain(|attribute| attribute.name != name);
    attributes.push(Attribute { name: name.to_owned(), value });
}

fn text(value: &str) -> AttributeValue {
    AttributeValue::String(value.into())
}

fn declare(program: &mut Program, dtype: DType) {
    let vars = program.blocks[0].vars.iter_mut();
    vars.flat_map(|var| var.value.tensors_mut()).for_each(|tensor| tensor.dtype = dtype);
}

/// Models, edits of them, and the reason why the results cannot be upgraded.
const REFUSED: [(&str, Edit, &str); 14] = [
    ("spatial", |p| set(p, "spatial", AttributeValue::Long(0)), "(`spatial` is 0)"),
    ("dropout_test", |p| set(p, "is_test", AttributeValue::Long(0)), "is in training mode"),
    (
        "spatial",
        |p| op(p).outputs[0].args.extend(["a", "b", "c", "d"].map(str::to_owned)),
        "writes training statistics",
    ),
    ("cast", |p| set(p, "to", text("QUATERNION")), "casts to an unknown type"),
    ("power", |p| set(p, "p", AttributeValue::Float(1.5)), "has a fractional `p`"),
    (
        "axes_ReduceLogSum",
        |p| declare(p, DType::Int32),
        "computes int32, which is no longer supported",
    ),
    ("split", |p| op(p).inputs[0].args.push("x".to_owned()), "has sizes as an input"),
    ("tile", |p| op(p).inputs[0].args.swap(0, 1), "has repeats that are not constants"),
    (
        "upsample_computed_nearest",
        |p| {
            op(p).kind = "Resize".to_owned();
            p.operator_versions[0].1 = 10;
        },
        "takes the nearest by scales that are not constants",
    ),
    (
        "resize_linear",
        |p| set(p, "mode", text("nearest")),
        "takes the nearest while growing some dims and shrinking others",
    ),
    (
        "resize_sizes",
        |p| set(p, "coordinate_transformation_mode", text("tf_half_pixel")),
        "found `tf_half_pixel`",
    ),
    ("scan", |p| op(p).inputs[0].args[0] = "x".to_owned(), "has sequences of different lengths"),
    ("dropout_mask", |p| declare(p, DType::Unknown(0)), "its element type is unknown"),
    ("concat", |p| op(p).kind = "NoSuch".to_owned(), "is not an ONNX operator"),
];

#[test]
fn a_rejection_has_a_reason() {
    for (name, edit, why) in REFUSED {
        let mut model = open(name);
        let program = model.main_mut().unwrap();
        if name == "split" {
            program.operator_versions[0].1 = 1;
        }
        edit(program);
        let error = upgrade(&mut model, newest_opset("").unwrap()).unwrap_err().to_string();
        assert!(
            error.contains("the graph, operator 0 (") && error.contains(why),
            "{name}: {error}"
        );
    }
}

#[test]
fn a_scalar_is_converted_to_the_type_of_its_use() {
    // Before version 15 the type must be known; from then on it does not matter.
    let kinds = |target| {
        let mut model = open("clip_float16");
        upgrade(&mut model, target).unwrap();
        let program = model.programs.into_main().unwrap();
        program.ops().map(|op| op.kind.clone()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(kinds(13), "Abs Constant Cast Clip");
    assert_eq!(kinds(15), "Abs Constant CastLike Clip");
    let mut unknown = open("clip_float16");
    declare(unknown.main_mut().unwrap(), DType::Unknown(0));
    let error = upgrade(&mut unknown, 14).unwrap_err().to_string();
    assert!(error.contains("the element type of `z` is unknown"), "{error}");
    upgrade(&mut unknown, 15).unwrap();
}
