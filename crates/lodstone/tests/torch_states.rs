//! A scripted module with state, numbers as inputs and loops that assign attributes returns what torch returned, as
//! TorchScript and as ONNX.

#![expect(clippy::disallowed_methods, reason = "reads golden files directly")]

use std::path::{Path, PathBuf};

use lodstone::model::{AttributeValue, Programs};
use lodstone::run::Value;
use lodstone::{
    ConvertOptions, Dim, Inputs, Loss, Model, OpenOptions, RunOptions, Tensor, convert, open,
    open_with, run,
};
use serde_json::Value as Json;

use crate::floats::{array, assert_near};

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/torch_states")
}

fn method(name: &str) -> Model {
    let name = if name == "forward" { Programs::MAIN } else { name };
    let options = OpenOptions::default().with_program(Some(name.to_owned()));
    open_with(golden().join("detector.pt"), &options).expect(name)
}

fn tensor(value: &Json) -> Tensor {
    let (shape, data) = array(value);
    Tensor::from_vec(shape, data).expect("a tensor")
}

/// Returns a number as an input of a run, and as a constant.
fn number(value: &Json) -> (Tensor, AttributeValue) {
    if let Some(truth) = value.as_bool() {
        let one = Tensor::from_vec(Vec::new(), vec![truth]).expect("a truth value");
        return (one, AttributeValue::Bool(truth));
    }
    if let Some(integer) = value.as_i64() {
        let one = Tensor::from_vec(Vec::new(), vec![integer]).expect("an integer");
        return (one, AttributeValue::Long(integer));
    }
    let fraction = value.as_f64().expect("a number");
    let one = Tensor::from_vec(Vec::new(), vec![fraction]).expect("a fraction");
    (one, AttributeValue::Double(fraction))
}

/// Runs a program; returns its outputs, or the values of `fetch`.
fn outputs(model: &Model, values: Vec<(String, Tensor)>, fetch: &[&str]) -> Vec<Tensor> {
    let values = values.into_iter().map(|(name, value)| (Some(name), value.into())).collect();
    let inputs = Inputs { values, lod: Vec::new() };
    let fetch = fetch.iter().map(|name| (*name).to_owned()).collect();
    let outputs = run(model, inputs, &RunOptions::default().with_fetch(fetch)).expect("a run");
    let tensor = |value| match value {
        Value::Tensor(tensor) => tensor,
        other => panic!("{other:?} is not a tensor"),
    };
    outputs.into_iter().map(|output| tensor(output.value)).collect()
}

fn cases() -> Vec<Json> {
    let text = std::fs::read(golden().join("cases.json")).expect("the cases");
    serde_json::from_slice(&text).expect("JSON")
}

#[test]
fn methods_return_what_torch_returned() {
    for case in cases() {
        let name = case["method"].as_str().expect("a name");
        let what = format!("{name} {}", case["numbers"]);
        let mut values = vec![("x".to_owned(), tensor(&case["x"]))];
        for (name, value) in case["numbers"].as_object().expect("numbers") {
            values.push((name.clone(), number(value).0));
        }
        let found = outputs(&method(name), values.clone(), &[]);
        assert_near(&found[0], &case["y"], &what);
    }
}

#[test]
fn exports_return_what_torch_returned_with_the_next_states() {
    let dir = tempfile::tempdir().expect("a directory");
    for (at, case) in cases().iter().enumerate() {
        let name = case["method"].as_str().expect("a name");
        let what = format!("{name} {}", case["numbers"]);
        let x = tensor(&case["x"]);
        let numbers = case["numbers"].as_object().expect("numbers").iter();
        let numbers = numbers.map(|(name, value)| (name.clone(), number(value).1)).collect();
        let dims = x.shape.iter().map(|dim| Dim::Known(*dim)).collect();
        let options = ConvertOptions::default()
            .with_input_shapes(vec![("x".to_owned(), dims)])
            .with_input_values(numbers)
            .with_allow(vec![Loss::Program]);
        let out = dir.path().join(format!("{at}.onnx"));
        convert(method(name), &out, &options).expect(&what);
        let exported = open(&out).expect(&what);
        let has_state = ["forward", "whole"].contains(&name);
        let states = ["output", "state.next", "context.next"];
        let fetch = if has_state { &states[..] } else { &states[..1] };
        let found = outputs(&exported, vec![("x".to_owned(), x)], fetch);
        assert_near(&found[0], &case["y"], &what);
        if has_state {
            assert_near(&found[1], &case["states"]["state"], &what);
            assert_near(&found[2], &case["states"]["context"], &what);
        }
    }
}

#[test]
fn an_unknown_or_wrong_fixed_input_is_an_error() {
    for (name, value, expected) in [
        ("sr", AttributeValue::Long(1), "there is no input `sr`; the inputs are `x`, `rate`"),
        ("x", AttributeValue::Long(1), "the input `x`: it is not declared as a number"),
        ("rate", AttributeValue::Double(1.5), "the input `rate`: expected a number of int64"),
    ] {
        let options = ConvertOptions::default().with_input_values(vec![(name.to_owned(), value)]);
        let dir = tempfile::tempdir().expect("a directory");
        let error = convert(method("forward"), dir.path().join("o.onnx"), &options);
        let error = error.expect_err(expected).to_string();
        assert!(error.contains(expected), "{error}");
    }
}
