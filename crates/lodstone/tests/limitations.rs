//! Each limitation in the README still holds: this file has a check for each line of the list, and fails for a line without one.
//!
//! Operators in such a line are those that `lodstone ops` does not support.

use std::path::{Path, PathBuf};

use lodstone::formats::{Capabilities, capabilities};
use lodstone::model::{Block, Dialect, Op, Operand, Program, TensorType, ValueType, Var};
use lodstone::ops::OperatorTarget;
use lodstone::{DType, Dim, MemoryStore, Model, Save, open, open_bytes};
use lodstone_schema::onnx::{newest_opset, operator, operators};

use crate::documents::{between, read, spans};

/// A check of a limitation, which gets the operators that its line names.
type Check = fn(&[&str]);

/// The first words of each limitation, and its check.
const LIMITATIONS: [(&str, Check); 8] = [
    ("Only programs of", |_| only_paddlepaddle_trains()),
    ("PaddlePaddle:", |kinds| {
        lacks(Dialect::Paddle, "relu", kinds);
        early_programs_are_refused();
    }),
    ("MXNet:", |kinds| {
        lacks(Dialect::Mxnet, "Activation", kinds);
        states_are_not_edited();
    }),
    ("PyTorch:", |kinds| {
        lacks(Dialect::Torch, "aten::relu", kinds);
        complex_tensors_are_no_inputs();
    }),
    ("Caffe2:", |kinds| lacks(Dialect::Caffe2, "Relu", kinds)),
    ("ONNX:", |kinds| {
        onnx_has_all_kernels_but_these(kinds);
        other_syntaxes_of_onnx_are_not_read();
    }),
    ("Pickles", |_| pickles_lack_types()),
    ("Unix only", |_| files_need_unix()),
];

/// Words in code spans that name no operator.
const OTHER_SPANS: [&str; 4] = [".states", "mx.np", "com.microsoft", "onnx-text"];

fn golden(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../formats/tests/golden").join(file)
}

#[test]
fn every_limitation_in_the_readme_holds() {
    let readme = read("README.md");
    let list = between(&readme, "<!-- limitations -->", "<!-- end of limitations -->");
    let lines: Vec<&str> = list.trim().split("\n- ").collect();
    assert_eq!(lines.len(), LIMITATIONS.len(), "a line without a check, or a check without a line");
    for (line, (begin, check)) in lines.iter().zip(LIMITATIONS) {
        let line = line.trim_start_matches("- ");
        assert!(line.starts_with(begin), "expected a line that begins with {begin:?}: {line}");
        let operators = spans(line).into_iter().filter(|span| !OTHER_SPANS.contains(span));
        check(&operators.collect::<Vec<_>>());
    }
}

fn only_paddlepaddle_trains() {
    let programs = |of: &Capabilities| of.run.is_some();
    for of in capabilities().into_iter().filter(programs) {
        assert_eq!(of.train, Some(of.name.starts_with("paddle")), "{}", of.name);
        assert_eq!((of.run, of.to_onnx), (Some(true), Some(true)), "{}", of.name);
    }
}

/// Asserts that operators are not supported, and that one is.
fn lacks(dialect: Dialect, supported: &str, kinds: &[&str]) {
    assert!(!kinds.is_empty(), "the line names operators");
    assert!(!is_rejected(dialect, supported), "{supported} is supported");
    for kind in kinds {
        assert!(is_rejected(dialect, kind), "{kind} is supported now, or is no operator");
    }
}

/// Returns whether an operator is rejected whatever its inputs are.
fn is_rejected(dialect: Dialect, kind: &str) -> bool {
    const REASONS: [&str; 3] =
        ["the operator is not supported", "Python code", "it draws random numbers"];
    let report = lodstone::operators(&only(dialect, kind), OperatorTarget::Run);
    let found = report.expect("a report").operators;
    let found = found.iter().find(|found| found.kind == kind).expect("the operator");
    let named = format!("the operator `{kind}` is not supported");
    let is_reason = |reason: &String| {
        reason.contains(&named) || REASONS.iter().any(|known| reason.contains(known))
    };
    found.unsupported == 1 && found.reasons.iter().any(is_reason)
}

/// Returns a model whose program is one operator.
fn only(dialect: Dialect, kind: &str) -> Model {
    let result = Operand { slot: String::new(), args: vec!["y".to_owned()] };
    let op = Op { kind: kind.to_owned(), outputs: vec![result], ..Op::default() };
    let outputs = vec!["y".to_owned()];
    model(dialect, Block { ops: vec![op], outputs, parent: -1, ..Block::default() })
}

fn model(dialect: Dialect, block: Block) -> Model {
    let mut program = Program::new(dialect);
    program.blocks.push(block);
    let mut model = Model::default();
    model.programs.insert("main", program);
    model
}

fn early_programs_are_refused() {
    // A block with a variable `x`, whose type is the number 7 and not a message.
    let program = b"\x0a\x0b\x08\x00\x10\x00\x1a\x05\x0a\x01x\x10\x07";
    let store = MemoryStore::default();
    store.insert("x.pdmodel", program.to_vec()).expect("stored");
    let error = open(store.location("x.pdmodel")).expect_err("an early program");
    assert!(error.to_string().contains("before February 2018"), "{error}");
}

fn states_are_not_edited() {
    let mut model = open(golden("mxnet_states/2.0.0b1/protocol4.states")).expect("states");
    let dir = tempfile::tempdir().expect("a directory");
    model.clone().save(dir.path().join("same.states")).expect("written back");
    model.parameters.pop().expect("a tensor");
    let error = model.save(dir.path().join("edited.states")).expect_err("edited");
    assert!(error.to_string().contains("only elements may change"), "{error}");
}

fn complex_tensors_are_no_inputs() {
    let named =
        |name: &str, slot: &str| Operand { slot: slot.to_owned(), args: vec![name.to_owned()] };
    let message = |dtype: DType| {
        let tensor = TensorType::new(dtype, Some(vec![Dim::Known(2)]));
        let var = |name: &str| Var {
            name: name.to_owned(),
            value: ValueType::Tensor(tensor.clone()),
            ..Var::default()
        };
        let op = Op {
            kind: "aten::neg".to_owned(),
            inputs: vec![named("x", "self")],
            outputs: vec![named("y", "")],
            ..Op::default()
        };
        let block = Block {
            vars: vec![var("x"), var("y")],
            ops: vec![op],
            inputs: vec!["x".to_owned()],
            outputs: vec!["y".to_owned()],
            parent: -1,
            ..Block::default()
        };
        let lowered = lodstone_lowering::to_onnx(&model(Dialect::Torch, block)).expect("a route");
        lowered.map(|_| ()).map_err(|error| error.to_string())
    };
    assert_eq!(message(DType::Float32), Ok(()));
    let error = message(DType::Complex64).expect_err("a complex input");
    assert!(error.contains("complex"), "{error}");
}

fn onnx_has_all_kernels_but_these(kinds: &[&str]) {
    for domain in ["ai.onnx", "ai.onnx.ml"] {
        let newest = newest_opset(domain).expect("a domain");
        let all = operators().filter(|row| row.domain == domain);
        let all =
            all.filter(|row| operator(domain, row.kind, newest).is_some_and(|it| !it.deprecated));
        let names: Vec<_> = all.map(|row| row.kind).collect();
        assert!(names.len() > 15, "{domain} has {} operators", names.len());
        for name in names {
            assert!(lodstone_engine::is_computed(domain, name), "{domain}: {name}");
        }
    }
    assert!(lodstone_engine::is_computed("com.microsoft", "FusedMatMul"));
    for kind in kinds {
        assert!(!lodstone_engine::is_computed("com.microsoft", kind), "{kind} is computed now");
    }
    let wrong = read("crates/engine/tests/golden/onnx_nodes/wrong.tsv");
    assert!(wrong.contains("JPEG 2000 is not supported"), "JPEG 2000 is decoded now");
}

fn other_syntaxes_of_onnx_are_not_read() {
    let text =
        "<ir_version: 8, opset_import: [\"\": 17]>\ng (float[2] x) => (float[2] y) { y = Relu(x) }";
    let json = r#"{"irVersion": "8", "graph": {"node": [{"opType": "Relu"}]}}"#;
    for text in [text, json] {
        open_bytes(text.as_bytes().to_vec()).expect_err(text);
    }
}

fn pickles_lack_types() {
    let model = open(golden("paddle_pickle/3.3.1/bfloat16.pdparams")).expect("a pickle");
    let types = model.parameters.iter().map(|it| it.tensor.dtype);
    assert!(types.clone().any(|dtype| dtype == DType::Uint16), "{:?}", types.collect::<Vec<_>>());
    let warnings = model.report.warnings;
    assert!(warnings.iter().any(|it| it.contains("bfloat16")), "{warnings:?}");
}

fn files_need_unix() {
    let store = read("crates/store/src/lib.rs");
    assert!(store.contains("#[cfg(unix)]\nmod local;"), "files are read on other systems now");
}
