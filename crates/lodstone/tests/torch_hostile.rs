//! Hostile variants of exported PyTorch programs: changed arguments, inputs and JSON. None is a panic; errors name the
//! operator.

#![expect(clippy::disallowed_methods, reason = "tests read their own files")]
#![expect(clippy::expect_used, clippy::indexing_slicing, reason = "tests")]

use std::fs;
use std::path::{Path, PathBuf};

use crate::torch_runs::{exported, inputs, names, recorded};
use lodstone::model::{AttributeValue, ByteString, TensorType, ValueType};
use lodstone::{DType, Dim, Model, Parameter, RunOptions, Tensor, open, open_bytes, run};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../lowering/tests/golden/torch")
}

/// Values that arguments get in turn.
fn hostile() -> Vec<AttributeValue> {
    let longs = [i64::MIN, -1, 0, 1, 7, 1 << 40, i64::MAX].map(AttributeValue::Long);
    let lists = [vec![], vec![-1], vec![0, 0], vec![1; 8], vec![1 << 32, 1 << 32], vec![2, 1, 0]];
    let doubles = [f64::NAN, f64::INFINITY, -1.5, 0.0].map(AttributeValue::Double);
    let others = [
        AttributeValue::None,
        AttributeValue::Bool(true),
        AttributeValue::Doubles(vec![0.5, f64::NAN]),
        AttributeValue::String(ByteString::from("no such word")),
        AttributeValue::Type(Box::new(ValueType::Scalar(DType::Complex64))),
        AttributeValue::Block(77),
    ];
    let lists = lists.into_iter().map(AttributeValue::Longs);
    longs.into_iter().chain(lists).chain(doubles).chain(others).collect()
}

/// Runs and exports a changed model. Whatever the result is, it is no panic; an error names the operator.
fn attempt(what: &str, model: &Model, given: &[Parameter]) {
    let options = RunOptions::default().with_max_memory(Some(1 << 28)).with_max_steps(Some(10_000));
    if let Err(error) = run(model, inputs(given), &options) {
        let text = error.to_string();
        assert!(!text.contains("internal error"), "{what}: {text}");
        let is_placed =
            ["operator", "input", "output", "parameter", "memory", "bytes", "declared", "graph"];
        assert!(is_placed.iter().any(|word| text.contains(word)), "{what}: {text}");
    }
    if let Err(error) = exported(model.clone()) {
        assert!(!error.to_string().contains("internal error"), "{what}: {error}");
    }
}

/// Returns the recorded models with their inputs.
fn models() -> Vec<(String, Model, Vec<Parameter>)> {
    let folder = folder();
    let one = |name: String| {
        let model = open(folder.join(format!("{name}.pt2"))).expect("a model");
        let (given, _) = recorded(&folder, &name);
        (name, model, given)
    };
    names(&folder).into_iter().map(one).collect()
}

#[test]
fn changed_arguments_are_errors_or_run() {
    for (name, model, given) in models() {
        let blocks = &model.main().expect("a program").blocks;
        let places = blocks.iter().enumerate();
        let places: Vec<(usize, usize)> =
            places.flat_map(|(at, block)| (0..block.ops.len()).map(move |op| (at, op))).collect();
        for (block, number) in places {
            let attributes = blocks[block].ops[number].attributes.clone();
            for (at, attribute) in attributes.iter().enumerate() {
                for value in hostile() {
                    let what = format!("{name}: `{}` = {value:?}", attribute.name);
                    let mut changed = model.clone();
                    let main = changed.programs.main_mut().expect("a program");
                    main.blocks[block].ops[number].attributes[at].value = value;
                    attempt(&what, &changed, &given);
                }
            }
            for slot in 0..blocks[block].ops[number].inputs.len() {
                let mut changed = model.clone();
                let main = changed.programs.main_mut().expect("a program");
                main.blocks[block].ops[number].inputs.remove(slot);
                attempt(&format!("{name}: without the input {slot}"), &changed, &given);
            }
        }
    }
}

#[test]
fn changed_inputs_are_errors_or_run() {
    for (name, model, given) in models() {
        for at in 0..given.len() {
            for change in 0..3 {
                let mut changed = model.clone();
                let mut given = given.clone();
                let (dtype, dims) = match change {
                    0 => (DType::Float32, vec![]),
                    1 => (DType::Int32, vec![2]),
                    _ => (DType::Float32, vec![0, 1, 3, 1, 2, 1]),
                };
                let size = dtype.size_of(&dims).expect("a size");
                let bytes = vec![0_u8; usize::try_from(size).expect("a small size")];
                given[at].tensor =
                    Tensor::dense(dtype, dims.clone(), lodstone::Blob::memory(bytes));
                let main = changed.programs.main_mut().expect("a program");
                for var in &mut main.blocks[0].vars {
                    if var.name == given[at].name {
                        let dims = dims.iter().map(|dim| Dim::Known(*dim)).collect();
                        var.value = TensorType::new(dtype, Some(dims)).into();
                    }
                }
                attempt(&format!("{name}: input {at}, change {change}"), &changed, &given);
            }
        }
    }
}

/// Replaces text by other text of the same size.
fn replaced(file: &[u8], from: &str, to: &str) -> Vec<u8> {
    assert_eq!(from.len(), to.len());
    let place = file.windows(from.len()).position(|part| part == from.as_bytes());
    let place = place.expect("the text");
    [&file[..place], to.as_bytes(), &file[place + from.len()..]].concat()
}

#[test]
fn changed_json_is_an_error_that_names_the_place() {
    let file = fs::read(folder().join("convt2d.pt2")).expect("a file");
    let cases = [
        ("\"major\": 8", "\"major\": 9", "9.20"),
        ("{\"as_ints\": ", "{\"as_inks\": ", "as_inks"),
        ("aten.conv_transpose2d.input", "aten_conv_transpose2d_input", "aten_conv"),
        ("\"dtype\": 7", "\"dtype\": 0", "element type"),
        ("\"layout\": 7", "\"layout\": 6", "layout"),
        ("{\"parameter\": ", "{\"perimeter\": ", "perimeter"),
        ("{\"user_output\": ", "{\"user_outpot\": ", "user_outpot"),
        ("\"graph\": {\"inputs\"", "\"graph\": [\"inputs\"", "exported program"),
    ];
    for (from, to, part) in cases {
        let error = open_bytes(replaced(&file, from, to)).expect_err(to).to_string();
        assert!(error.contains(part), "{from} -> {to}: {error}");
    }
}

#[test]
fn truncated_json_is_an_error() {
    let file = fs::read(folder().join("cond.pt2")).expect("a file");
    let start = file.windows(15).position(|part| part == b"{\"graph_module\"").expect("JSON");
    for at in (start..start + 3000).step_by(37) {
        let mut changed = file.clone();
        changed[at] = b'}';
        // Changes in names and numbers may leave a program.
        if let Err(error) = open_bytes(changed) {
            assert!(!error.to_string().contains("internal error"), "{at}: {error}");
        }
    }
}
