//! Findings for models that violate rules of ONNX, compared with those of ONNX's own checker.

#![expect(clippy::print_stdout, reason = "reports what was tested")]

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use crate::support::bytes;
use lodstone_formats::{OpenOptions, onnx};
use lodstone_model::{
    Attribute, AttributeValue, Block, DType, Dialect, Dim, Model, Op, TensorType, ValueType,
};
use lodstone_schema::onnx::infer::{Options, infer};
use lodstone_schema::onnx::{check, check_with};
use lodstone_store::Location;
use serde::Deserialize;

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../formats/tests/golden")
}

#[derive(Deserialize)]
struct Index {
    cases: Vec<Case>,
}

/// A model and its expected findings.
#[derive(Deserialize)]
struct Case {
    name: String,
    /// The message of the checker without type inference, and with it.
    checker: Option<String>,
    full: Option<String>,
    /// A part of the expected finding.
    says: Option<String>,
    /// The reason for a difference from the checker.
    why: Option<String>,
}

fn open(path: &Path) -> Result<Model, lodstone_formats::Error> {
    (onnx::BINARY.read)(&Location::from(path), &OpenOptions::default())
}

/// Returns the error of a model that cannot be opened, or its findings, including those of type inference.
fn said(path: &Path) -> Vec<String> {
    let model = match open(path) {
        Err(error) => return vec![error.to_string()],
        Ok(model) => model,
    };
    let inference = infer(&model, &Options::default());
    let types = inference
        .blocks
        .iter()
        .map(|block| block.iter().map(|(name, info)| (name.clone(), info.value.clone())).collect());
    let mut findings = check_with(&model, &types.collect::<Vec<_>>());
    findings.extend(inference.findings);
    findings.located.iter().map(ToString::to_string).collect()
}

#[test]
fn violations_are_reported_with_their_locations() {
    let directory = golden().join("onnx_check");
    let index: Index = serde_json::from_slice(&bytes(&directory.join("index.json"))).unwrap();
    assert!(index.cases.len() > 130);
    let mut wrong = Vec::new();
    for case in index.cases {
        let said = said(&directory.join(format!("{}.onnx", case.name)));
        let is_right = match &case.says {
            None => said.is_empty(),
            Some(words) => said.iter().any(|said| said.contains(words.as_str())),
        };
        if !is_right {
            wrong.push(format!("{}: {said:?}, expected {:?}", case.name, case.says));
        }
        // Exactly the differences from the checker have a reason.
        assert!(case.checker.is_none() || case.full.is_some(), "{}", case.name);
        let agrees = said.is_empty() == case.full.is_none();
        if agrees == case.why.is_some() {
            wrong.push(format!("{}: {said:?}, the checker: {:?}", case.name, case.full));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Models that only the checker rejects, or only Lodstone, with the reason.
const DIFFERENT: [(&str, &str); 4] = [
    ("encodings/long-lengths.onnx", "protobuf asks for lengths in as few bytes as possible"),
    ("onnxModels/loop_emptycond.onnxtxt", "declares 10 trips, and says 7"),
    ("versions/ir1.onnx", "attributes had no type"),
    ("versions/ir2.onnx", "an attribute without a type says by its value of which it is"),
];

/// Returns the messages of the checker, by the last two components of the path.
fn verdicts() -> HashMap<String, String> {
    serde_json::from_slice(&bytes(&golden().join("onnx_check/collection.json"))).unwrap()
}

/// Compares the findings for all models below a directory with those of the checker; returns their number.
fn compare(directory: &Path) -> usize {
    let verdicts = verdicts();
    let (mut open, mut wrong, mut count) = (vec![directory.to_path_buf()], Vec::new(), 0);
    while let Some(directory) = open.pop() {
        for entry in Location::from(&directory).list().unwrap() {
            let path = directory.join(&entry.name);
            if entry.is_dir {
                open.push(path);
                continue;
            }
            let parent = directory.file_name().unwrap().to_str().unwrap();
            let name = format!("{parent}/{}", entry.name);
            let Some(verdict) = verdicts.get(&name) else { continue };
            let found = said(&path);
            count += 1;
            let is_different = DIFFERENT.iter().any(|(known, _)| *known == name);
            let is_right = match verdict.as_str() {
                "fine" => found.is_empty(),
                _ => !found.is_empty(),
            };
            if is_right == is_different {
                wrong.push(format!("{name}: {verdict}, and here: {found:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    count
}

#[test]
fn golden_models_are_judged_as_the_checker_judges_them() {
    assert!(compare(&golden().join("onnx")) > 35);
    let verdicts = verdicts();
    assert!(DIFFERENT.iter().all(|(name, _)| verdicts.contains_key(*name)));
}

#[test]
fn models_of_a_collection_are_judged_as_the_checker_judges_them() {
    let Some(cases) = std::env::var_os("LODSTONE_CASES").map(PathBuf::from) else {
        println!("LODSTONE_CASES is not set: only the golden files were tried");
        return;
    };
    assert!(compare(&cases.join("glow/models")) + compare(&cases.join("peers")) > 190);
}

#[test]
fn types_that_were_inferred_are_checked_like_those_that_are_declared() {
    let model = open(&golden().join("onnx_check/good.onnx")).unwrap();
    let tensor = |dtype| ValueType::tensor(TensorType::new(dtype, Some(vec![Dim::Known(2)])));
    let mut model = model;
    let block = &mut model.main_mut().unwrap().blocks[0];
    // y = Relu(Relu(x)), of which only x is declared.
    block.vars.retain(|var| var.name == "x");
    block.outputs.clear();
    let mut second = block.ops[0].clone();
    second.inputs[0].args = vec!["y".to_owned()];
    second.outputs[0].args = vec!["z".to_owned()];
    block.ops.push(second);
    let with = |dtype| {
        let known = HashMap::from([("z".to_owned(), tensor(dtype))]);
        let mut told = check_with(&model, &[known]).located;
        told.retain(|finding| finding.finding.message != "has no outputs");
        told
    };
    assert_eq!(with(DType::Float32), []);
    let [finding] = with(DType::Int64).try_into().unwrap();
    assert_eq!(finding.place, "the graph, operator 1 (`Relu`), output 0");
    assert_eq!(finding.finding.message, "`Y` is tensor(int64), where T is tensor(float) elsewhere");
}

#[test]
fn invalid_programs_built_by_hand_are_reported() {
    let mut model = open(&golden().join("onnx/blocks/if.onnx")).unwrap();
    let program = model.main_mut().unwrap();
    assert_eq!(program.dialect, Dialect::Onnx);
    // A cyclic block, a missing one, and very long names.
    let inside =
        |number| Attribute { name: "n".repeat(1 << 20), value: AttributeValue::Block(number) };
    let op = Op {
        kind: "If".to_owned(),
        name: "o".repeat(1 << 20),
        attributes: [1, 1, 0, -1, 99].map(inside).into(),
        ..Op::default()
    };
    program.blocks[1].ops = vec![op.clone(), op];
    let findings = check(&model).located;
    let has = |what| findings.iter().any(|finding| finding.finding.message.contains(what));
    assert!(has("block 1 also belongs to another operator"));
    assert!(has("expected block 99, found none"));
    assert!(findings.iter().all(|finding| finding.to_string().len() < 2000));
}

#[test]
fn a_chain_of_blocks_ends() {
    let mut model = open(&golden().join("onnx_check/good.onnx")).unwrap();
    let blocks = &mut model.main_mut().unwrap().blocks;
    for number in 1..5000 {
        let value = AttributeValue::Block(number);
        let attributes = vec![Attribute { name: "body".to_owned(), value }];
        let op = Op { kind: "If".to_owned(), attributes, ..Op::default() };
        blocks.last_mut().unwrap().ops.push(op);
        blocks.push(Block { index: number, name: "b".to_owned(), ..Block::default() });
    }
    let findings = check(&model).located;
    let has = |what| findings.iter().any(|finding| finding.finding.message == what);
    assert!(has("blocks are nested more than 64 deep"));
}
