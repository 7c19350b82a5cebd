//! The frame, with a toy dialect.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

mod toy;

use std::collections::HashMap;

use lodstone_engine::{Budget, Context, Executable, ExecutableOptions, Threads, Value};
use lodstone_model::{
    Attribute, AttributeValue, Block, DType, Dialect, Dim, Model, Op, Operand, Program, Report,
    Tensor, TensorType, Topology,
};
use lodstone_store::Blob;

use super::{Scope, Variables};
use toy::{Toy, Walk};

fn op(kind: &str, inputs: &[&str], outputs: &[&str]) -> Op {
    let list = |names: &[&str]| {
        let args = names.iter().map(|name| (*name).to_owned()).collect();
        vec![Operand { slot: String::new(), args }]
    };
    let (inputs, outputs) = (list(inputs), list(outputs));
    let attributes = match kind {
        "times" => vec![Attribute { name: "body".to_owned(), value: AttributeValue::Block(1) }],
        _ => Vec::new(),
    };
    Op { kind: kind.to_owned(), inputs, outputs, attributes, ..Op::default() }
}

fn block(ops: Vec<Op>, outputs: &[&str]) -> Block {
    let outputs = outputs.iter().map(|name| (*name).to_owned()).collect();
    Block { ops, outputs, ..Block::default() }
}

/// `x[-1] = y`, and the double of `x`, three times; an operator without a rule, whose result nothing reads.
fn model() -> Model {
    let main = vec![
        op("row", &["x"], &["row"]),
        op("unknown", &["row"], &["unread"]),
        op("set_", &["row", "y"], &[]),
        op("times", &["x"], &["z"]),
    ];
    let blocks = vec![block(main, &["z"]), block(vec![op("add", &["x", "x"], &["y"])], &["y"])];
    let program = Topology { blocks, ..Topology::new(Dialect::Torch) };
    Model { programs: Program::from(program).into(), ..Model::default() }
}

fn walk(model: &Model, covers: bool) -> Walk<'_> {
    let mut walk = Walk::begin(model, Toy::default(), covers).unwrap();
    for (name, dims) in [("x", vec![2, 2]), ("y", vec![2])] {
        let dims = dims.into_iter().map(Dim::Known).collect();
        let value = walk.input(name, TensorType::new(DType::Float32, Some(dims)));
        let item = walk.dialect.tensors.add(value, None);
        walk.scope.bind(name, item);
    }
    walk.main();
    walk
}

fn floats(values: &[f32], dims: Vec<u64>) -> Tensor {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    Tensor::dense(DType::Float32, dims, Blob::memory(bytes))
}

#[test]
fn a_view_is_written_and_a_loop_runs() {
    let model = model();
    let walk = walk(&model, false);
    let (made, _) = walk.finish(&mut Report::default(), Walk::output, |_, _, _| ()).unwrap();
    let (budget, threads) = (Budget::default(), Threads::default());
    let context = || Context::new(&budget, &threads);
    let executable = Executable::new(&made, &ExecutableOptions::default(), context()).unwrap();
    let given = [
        ("x", Value::of(&floats(&[1.0, 2.0, 3.0, 4.0], vec![2, 2])).unwrap()),
        ("y", Value::of(&floats(&[5.0, 6.0], vec![2])).unwrap()),
    ];
    let result = executable.run(given.into(), context()).unwrap().remove(0).tensor().unwrap();
    let expected = floats(&[8.0, 16.0, 40.0, 48.0], vec![2, 2]);
    assert_eq!(result.data.bytes().unwrap(), expected.data.bytes().unwrap());
}

#[test]
fn coverage_tries_what_nothing_reads() {
    let model = model();
    let covered = walk(&model, true).coverage();
    let missing: Vec<&str> =
        covered.iter().filter(|it| it.finding.is_some()).map(|it| it.kind.as_str()).collect();
    assert_eq!((covered.len(), missing), (5, vec!["unknown"]));
}

#[test]
fn a_block_that_runs_itself_is_an_error() {
    let mut model = model();
    let mut program = model.main().unwrap().clone();
    program.blocks[1].ops.push(op("times", &["x"], &["z"]));
    model.set_main(program);
    let findings = walk(&model, false).findings;
    assert_eq!(findings.count(), 1, "{:?}", findings.located);
    assert_eq!(findings.located[0].place, "subgraph 1, operator 1 (`times`)");
    assert_eq!(findings.located[0].finding.message, "subgraphs are nested deeper than 64");
}

#[test]
fn a_block_sees_the_names_around_it_until_it_declares_them() {
    let variables = |names: &[(&str, Option<i32>)]| -> Variables<i32> {
        names
            .iter()
            .map(|(name, first)| ((*name).to_owned(), *first))
            .collect::<HashMap<_, _>>()
            .into()
    };
    let mut scope: Scope<i32> = [("a", 1), ("b", 2), ("c", 3)]
        .map(|(name, item)| (name.to_owned(), item))
        .into_iter()
        .collect();
    scope.open(&variables(&[("b", None), ("w", Some(4))]));
    let found = ["a", "b", "c", "w"].map(|name| scope.get(name).copied());
    assert_eq!(found, [Some(1), None, Some(3), Some(4)]);
    scope.open(&variables(&[]));
    scope.bind("a", 5);
    scope.bind("b", 6);
    scope.fail("c");
    assert_eq!(scope.get("b"), Some(&6));
    let mut assigned = scope.close().unwrap();
    assigned.sort_by(|(a, _), (b, _)| a.cmp(b));
    let assigned: Vec<_> = assigned.into_iter().map(|(name, item)| (name, item.ok())).collect();
    let expected = [("a", Some(5)), ("b", Some(6)), ("c", None)];
    assert_eq!(assigned, expected.map(|(name, item)| (name.to_owned(), item)));
    // What becomes of it depends on the operator that runs the block.
    assert_eq!(["a", "b", "c"].map(|name| scope.get(name).copied()), [Some(1), None, Some(3)]);
    scope.bind("b", 7);
    assert!(scope.close().unwrap().is_empty());
    assert_eq!(scope.get("b"), Some(&2));
}
