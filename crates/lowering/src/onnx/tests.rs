#![expect(clippy::expect_used, clippy::indexing_slicing, reason = "a panic fails the test")]

use lodstone_model::{DType, Dim};
use lodstone_schema::Code;
use lodstone_schema::onnx::infer::ValueInfo;

use super::pools::{Empty, Pool};
use super::windows::{Divisor, Pads, Rounding, Windows};
use super::{Graph, Value, ints};

fn floats(name: &str, dims: &[u64]) -> Value {
    let dims = dims.iter().map(|dim| Dim::Known(*dim)).collect();
    Value::new(name, ValueInfo::tensor(DType::Float32, Some(dims)))
}

#[test]
fn fresh_names_are_unique() {
    let mut graph = Graph::default();
    ["relu_Relu", "relu_Relu_1"].iter().for_each(|name| graph.names.take(name));
    graph.begin("relu");
    let x = floats("x", &[2]);
    let made = graph.call("Relu", &[&x], []).expect("right");
    assert_eq!(made.name(), "relu_Relu_2");
    let long = graph.names.fresh(&"n".repeat(100_000));
    assert_eq!(long.len(), 200, "names of a file may have any length");
}

#[test]
fn a_final_name_replaces_the_name_in_earlier_readers() {
    let mut graph = Graph::default();
    graph.begin("node");
    let x = floats("x", &[2]);
    let one = graph.call("Relu", &[&x], []).expect("right");
    let two = graph.call("Neg", &[&one], []).expect("right");
    graph.name(&one, "first", "node").expect("named");
    graph.name(&two, "second", "").expect("named");
    let three = graph.call("Abs", &[&one], []).expect("right");
    let names: Vec<_> =
        graph.ops.iter().map(|op| (op.input("")[0].as_str(), op.output("")[0].as_str())).collect();
    assert_eq!(names, [("x", "first"), ("first", "second"), ("first", three.name())]);
    assert_eq!(graph.ops[0].name, "node");
}

#[test]
fn inputs_and_named_values_are_copied() {
    let mut graph = Graph::default();
    graph.begin("node");
    let x = floats("x", &[2]);
    graph.name(&x, "out", "node").expect("named");
    let made = graph.call("Relu", &[&x], []).expect("right");
    graph.name(&made, "one", "").expect("named");
    graph.name(&made, "two", "").expect("named");
    let kinds: Vec<&str> = graph.ops.iter().map(|op| op.kind.as_str()).collect();
    assert_eq!(kinds, ["Identity", "Relu", "Identity"]);
    assert_eq!(graph.ops[2].input(""), ["one"]);
}

#[test]
fn equal_constants_are_shared_and_removed_with_their_first_user() {
    let mut graph = Graph::default();
    graph.begin("first");
    let one = graph.longs(&[1, 2]);
    assert_eq!(graph.longs(&[1, 2]).name(), one.name());
    assert_ne!(graph.longs(&[2, 1]).name(), one.name());
    graph.begin("second");
    let kept = graph.constants.len();
    graph.longs(&[3]);
    graph.take_back();
    assert_eq!(graph.constants.len(), kept);
    let again = graph.longs(&[3]);
    assert!(graph.constants.iter().any(|constant| constant.name == again.name()));
}

#[test]
fn an_operator_that_contradicts_its_inputs_is_rejected() {
    let mut graph = Graph::default();
    let (x, y) = (floats("x", &[2, 3]), floats("y", &[2, 3]));
    let error = graph.call("MatMul", &[&x, &y], []).expect_err("3 differs from 2");
    assert!(error.message.starts_with("as `MatMul`: "), "{error}");
    let error = graph.call("Transpose", &[&x], [ints("perm", &[0, 0])]).expect_err("twice");
    assert!(error.message.starts_with("as `Transpose`: "), "{error}");
    let number = graph.long(1);
    let error = graph.add(&x, &number).expect_err("different types");
    assert!(error.message.contains("tensor(int64)"), "{error}");
    assert!(graph.ops.is_empty());
}

#[test]
fn a_program_declares_the_lowest_opset_of_its_operators() {
    let of = |dtype: DType, kind: &str| {
        let mut graph = Graph::exported();
        let x = Value::new("x", ValueInfo::tensor(dtype, Some(vec![Dim::Known(2)])));
        graph.call(kind, &[&x], []).expect("emitted");
        graph.versions().expect("a release has them")
    };
    assert_eq!(of(DType::Float32, "Acos"), (21, 10));
    // This type is supported since version 22.
    assert_eq!(of(DType::BFloat16, "Acos"), (22, 10));
    // Version 28 supports it for fewer types.
    assert_eq!(of(DType::Float32, "ReduceLogSum"), (21, 10));
    let mut graph = Graph::exported();
    let x = Value::new("x", ValueInfo::tensor(DType::Float32, Some(vec![Dim::Known(2)])));
    graph.begin("x");
    graph.call("Relu", &[&x], []).expect("emitted");
    let x = Value::new("y", ValueInfo::tensor(DType::BFloat16, Some(vec![Dim::Known(2)])));
    graph.begin("y");
    graph.call("Acos", &[&x], []).expect("emitted");
    graph.take_back();
    assert_eq!(graph.versions(), Ok((21, 10)), "removed operators need no version");
}

#[test]
fn windows_without_a_bound_are_errors() {
    const MOST: i64 = i32::MAX as i64;
    let mut graph = Graph::default();
    let windows = |kernel: i64, pad: i64| {
        Windows::of_pool(&[kernel; 2], &[1; 2], &Pads::both(&[pad; 2])).expect("windows")
    };
    let error = graph.columns(&floats("x", &[1, 1, 2, 2]), &windows(MOST, MOST)).expect_err("taps");
    assert!(error.message.contains("elements of a window"), "{error}");
    // As many windows as elements: none of them is computed, or listed, one by one.
    let x = floats("x", &[1, 1, 1 << 40, 1 << 40]);
    let pool = Pool::new(&x, windows(3, 3), Rounding::Down).expect("a pool");
    let error = graph.max_pool_with_places(&x, &pool).expect_err("windows");
    assert_eq!(error.code, Code::Limit, "{error}");
    let pool = pool.with_empty(Empty::Quotient);
    let error = graph.mean_pool(&x, &pool, Divisor::Inside).expect_err("windows");
    assert_eq!(error.code, Code::Limit, "{error}");
}
