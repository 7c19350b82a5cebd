//! Simplification removes operators, keeps the names of inputs and outputs, and reports the origins of values.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a panic fails the test"
)]

use std::cell::Cell;

use crate::support::op;
use lodstone_model::{
    Attribute, AttributeValue, Block, DType, Dialect, Dim, Function, Model, Op, Parameter, Program,
    Tensor, TensorType, Topology, ValueType, Var,
};
use lodstone_schema::onnx::infer::{Options, infer};
use lodstone_schema::onnx::simplify::{Bounds, Evaluator, NoEvaluator, Simplified, simplify};
use lodstone_schema::onnx::{inline, newest_opset};
use lodstone_schema::{Code, Origin};

const ALL: Bounds = Bounds { each: u64::MAX, all: u64::MAX };

fn perm(order: &[i64]) -> [(&'static str, AttributeValue); 1] {
    [("perm", AttributeValue::Longs(order.to_vec()))]
}

fn block(inputs: &[&str], outputs: &[&str], ops: Vec<Op>) -> Block {
    let names = |names: &[&str]| names.iter().map(ToString::to_string).collect();
    Block { inputs: names(inputs), outputs: names(outputs), ops, ..Block::default() }
}

/// A program whose inputs are `float32[2, 3]`.
fn program(mut blocks: Vec<Block>) -> Program {
    let shape = Some(vec![Dim::Known(2), Dim::Known(3)]);
    let value = ValueType::tensor(TensorType::new(DType::Float32, shape));
    let main = &mut blocks[0];
    let var = |name: &String| Var { name: name.clone(), value: value.clone(), ..Var::default() };
    main.vars = main.inputs.iter().map(var).collect();
    Program::from(Topology {
        version: Some(10),
        operator_versions: vec![(String::new(), newest_opset("").unwrap())],
        blocks,
        ..Topology::new(Dialect::Onnx)
    })
}

fn longs(name: &str, numbers: &[i64]) -> Parameter {
    let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    let tensor = Tensor::dense(DType::Int64, vec![numbers.len() as u64], bytes.into());
    Parameter { name: name.to_owned(), tensor }
}

fn simple(program: &Program, parameters: &[Parameter], evaluator: &dyn Evaluator) -> Simplified {
    let mut model = Model { parameters: parameters.to_vec(), ..Model::default() };
    model.set_main(program.clone());
    let inference = infer(&model, &Options::default().with_overridable(true));
    assert!(inference.findings.is_empty(), "{:?}", inference.findings);
    simplify(program, parameters, &inference.blocks, evaluator, ALL).unwrap()
}

fn kinds(made: &Simplified) -> Vec<&str> {
    made.program.ops().map(|op| op.kind.as_str()).collect()
}

/// Returns the value of the result that a source value became.
fn value(made: &Simplified, name: &str) -> String {
    match made.origins.of(0, name) {
        Origin::Value(name) => name.to_string(),
        other => panic!("`{name}` became {other:?}"),
    }
}

#[test]
fn operators_that_change_nothing_are_removed() {
    let to_float = [("to", AttributeValue::Long(1))];
    let ops = vec![
        op("Identity", &["x"], &["a"], &[]),
        op("Cast", &["a"], &["b"], &to_float),
        op("Transpose", &["b"], &["c"], &perm(&[0, 1])),
        op("Relu", &["c"], &["d"], &[]),
        op("Identity", &["d"], &["y"], &[]),
    ];
    let made = simple(&program(vec![block(&["x"], &["y"], ops)]), &[], &NoEvaluator);
    // The output keeps its name.
    assert_eq!(kinds(&made), ["Relu", "Identity"]);
    assert_eq!(made.program.blocks[0].ops[0].input(""), ["x"]);
    assert_eq!(["a", "b", "c", "d"].map(|name| value(&made, name)), ["x", "x", "x", "d"]);
}

#[test]
fn a_cast_to_another_type_stays() {
    let to_double = [("to", AttributeValue::Long(11))];
    let ops = vec![op("Cast", &["x"], &["a"], &to_double), op("Relu", &["a"], &["y"], &[])];
    let made = simple(&program(vec![block(&["x"], &["y"], ops)]), &[], &NoEvaluator);
    assert_eq!(kinds(&made), ["Cast", "Relu"]);
}

#[test]
fn transposes_of_transposes_become_one_or_none() {
    let ops = vec![
        op("Unsqueeze", &["x", "axes"], &["wide"], &[]),
        op("Transpose", &["wide"], &["a"], &perm(&[1, 2, 0])),
        op("Transpose", &["a"], &["b"], &perm(&[1, 2, 0])),
        op("Relu", &["b"], &["y"], &[]),
        op("Transpose", &["b"], &["c"], &perm(&[1, 2, 0])),
        op("Relu", &["c"], &["z"], &[]),
    ];
    let program = program(vec![block(&["x"], &["y", "z"], ops)]);
    let made = simple(&program, &[longs("axes", &[0])], &NoEvaluator);
    assert_eq!(kinds(&made), ["Unsqueeze", "Transpose", "Relu", "Relu"]);
    let left = &made.program.blocks[0].ops[1];
    assert_eq!(left.input(""), ["wide"]);
    assert_eq!(left.attribute("perm"), Some(&AttributeValue::Longs(vec![2, 0, 1])));
    assert_eq!(value(&made, "c"), "wide");
    assert!(matches!(made.origins.of(0, "a"), Origin::Removed));
}

#[test]
fn known_shapes_become_constants() {
    let ops = vec![
        op("Shape", &["x"], &["shape"], &[]),
        op("Concat", &["shape", "one"], &["wider"], &[("axis", AttributeValue::Long(0))]),
        op("Reshape", &["x", "wider"], &["y"], &[]),
    ];
    let program = program(vec![block(&["x"], &["y"], ops)]);
    let made = simple(&program, &[longs("one", &[1])], &NoEvaluator);
    assert_eq!(kinds(&made), ["Reshape"]);
    let [constant] = &made.parameters[..] else { panic!("{:?}", made.parameters) };
    assert_eq!(constant.name, "wider");
    assert_eq!(constant.tensor.to_vec::<i64>().unwrap(), [2, 3, 1]);
    assert!(matches!(made.origins.of(0, "wider"), Origin::Folded(_)));
    assert!(matches!(made.origins.of(0, "shape"), Origin::Folded(_)));
    assert_eq!(made.folded, 40);
}

/// Doubles its input, and counts the evaluations.
#[derive(Default)]
struct Doubling(Cell<usize>);

impl Evaluator for Doubling {
    fn evaluate(&self, _: &Op, inputs: &[Option<&Tensor>]) -> Option<Vec<Tensor>> {
        self.0.set(self.0.get() + 1);
        let numbers = inputs[0]?.to_vec::<f32>().ok()?;
        let bytes: Vec<u8> = numbers.iter().flat_map(|it| (it * 2.0).to_le_bytes()).collect();
        Some(vec![Tensor::dense(DType::Float32, inputs[0]?.shape.clone(), bytes.into())])
    }
}

fn floats(name: &str, numbers: &[f32]) -> Parameter {
    let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    let tensor = Tensor::dense(DType::Float32, vec![numbers.len() as u64], bytes.into());
    Parameter { name: name.to_owned(), tensor }
}

#[test]
fn constants_are_folded_within_bounds() {
    let ops = vec![
        op("Neg", &["w"], &["a"], &[]),
        op("Neg", &["a"], &["b"], &[]),
        op("RandomUniformLike", &["b"], &["r"], &[]),
        op("Add", &["x", "b"], &["c"], &[]),
        op("Add", &["c", "r"], &["y"], &[]),
    ];
    let program = program(vec![block(&["x"], &["y"], ops)]);
    let parameters = [floats("w", &[1.0, 2.0, 3.0])];
    let made = simple(&program, &parameters, &Doubling::default());
    assert_eq!(kinds(&made), ["RandomUniformLike", "Add", "Add"]);
    let folded = made.parameters.iter().find(|parameter| parameter.name == "b").unwrap();
    assert_eq!(folded.tensor.to_vec::<f32>().unwrap(), [4.0, 8.0, 12.0]);
    for (bounds, calls) in [
        // Results that are too large are not computed at all.
        (Bounds { each: 11, all: 1000 }, 0),
        (Bounds { each: 12, all: 23 }, 2),
    ] {
        let mut model = Model { parameters: parameters.to_vec(), ..Model::default() };
        model.set_main(program.clone());
        let infos = infer(&model, &Options::default().with_overridable(true)).blocks;
        let evaluator = Doubling::default();
        let made = simplify(&program, &parameters, &infos, &evaluator, bounds).unwrap();
        assert!(kinds(&made).contains(&"Neg"), "{bounds:?}");
        assert_eq!(evaluator.0.get(), calls, "{bounds:?}");
    }
}

/// Casts to bytes of zero.
struct Narrowing;

impl Evaluator for Narrowing {
    fn evaluate(&self, op: &Op, inputs: &[Option<&Tensor>]) -> Option<Vec<Tensor>> {
        let shape = inputs[0].filter(|_| op.kind == "Cast")?.shape.clone();
        let count = usize::try_from(shape.iter().product::<u64>()).unwrap();
        Some(vec![Tensor::dense(DType::Int8, shape, vec![0; count].into())])
    }
}

#[test]
fn a_constant_may_be_narrowed_whatever_the_bound_of_one_constant() {
    let to = [("to", AttributeValue::Long(3))];
    let ops = vec![op("Cast", &["w"], &["a"], &to), op("Identity", &["a"], &["y"], &[])];
    let program = program(vec![block(&["x"], &["y"], ops)]);
    let parameters = [floats("w", &[1.0, 2.0, 3.0])];
    let mut model = Model { parameters: parameters.to_vec(), ..Model::default() };
    model.set_main(program.clone());
    let infos = infer(&model, &Options::default().with_overridable(true)).blocks;
    for (all, left) in [(3, &["Identity"][..]), (2, &["Cast", "Identity"])] {
        let bounds = Bounds { each: 0, all };
        let made = simplify(&program, &parameters, &infos, &Narrowing, bounds).unwrap();
        assert_eq!(kinds(&made), left, "{bounds:?}");
    }
}

#[test]
fn an_input_with_a_default_is_not_a_constant() {
    let ops = vec![op("Neg", &["w"], &["a"], &[]), op("Add", &["x", "a"], &["y"], &[])];
    let program = program(vec![block(&["x", "w"], &["y"], ops)]);
    let shape = vec![2, 3];
    let tensor = Tensor::dense(DType::Float32, shape, vec![0; 24].into());
    let parameters = [Parameter { name: "w".to_owned(), tensor }];
    let made = simple(&program, &parameters, &Doubling::default());
    assert_eq!(kinds(&made), ["Neg", "Add"]);
    assert_eq!(made.parameters.len(), 1);
}

fn branches(first: i32, second: i32) -> [(&'static str, AttributeValue); 2] {
    [("then_branch", AttributeValue::Block(first)), ("else_branch", AttributeValue::Block(second))]
}

/// A constant condition.
fn truth(name: &str, is_true: bool) -> Parameter {
    let tensor = Tensor::dense(DType::Bool, Vec::new(), vec![u8::from(is_true)].into());
    Parameter { name: name.to_owned(), tensor }
}

#[test]
fn a_known_branch_replaces_its_operator() {
    // Both branches and both operators use the same names.
    let branch = |kind| {
        block(
            &[],
            &["out"],
            vec![op(kind, &["x"], &["tmp"], &[]), op("Neg", &["tmp"], &["out"], &[])],
        )
    };
    let ops = vec![
        op("If", &["yes"], &["a"], &branches(1, 2)),
        op("If", &["no"], &["b"], &branches(3, 4)),
        op("Add", &["a", "b"], &["y"], &[]),
    ];
    let main = block(&["x"], &["y", "b"], ops);
    let blocks = vec![main, branch("Relu"), branch("Abs"), branch("Exp"), branch("Sqrt")];
    let parameters = [truth("yes", true), truth("no", false)];
    let made = simple(&program(blocks), &parameters, &NoEvaluator);
    assert_eq!(kinds(&made), ["Relu", "Neg", "Sqrt", "Neg", "Identity", "Add"]);
    assert_eq!(made.program.blocks.len(), 1);
    assert!(made.parameters.is_empty());
    let mut names: Vec<&str> = made.program.ops().flat_map(Op::writes).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), 6, "values share names: {names:?}");
    assert_eq!(made.program.blocks[0].outputs, ["y", "b"]);
    assert_eq!(made.infos[0].len(), 7, "{:?}", made.infos[0].keys());
}

#[test]
fn an_unknown_branch_is_simplified_in_place() {
    let one = block(
        &[],
        &["p"],
        vec![
            op("Identity", &["x"], &["q"], &[]),
            op("Neg", &["q"], &["p"], &[]),
            op("Exp", &["x"], &["unread"], &[]),
        ],
    );
    let other = block(&[], &["r"], vec![op("Identity", &["t"], &["r"], &[])]);
    let ops = vec![
        op("ReduceSum", &["x"], &["sum"], &[("keepdims", AttributeValue::Long(0))]),
        op("Cast", &["sum"], &["condition"], &[("to", AttributeValue::Long(9))]),
        op("Identity", &["x"], &["s"], &[]),
        op("Identity", &["s"], &["t"], &[]),
        op("If", &["condition"], &["y"], &branches(1, 2)),
    ];
    let made = simple(&program(vec![block(&["x"], &["y"], ops), one, other]), &[], &NoEvaluator);
    assert_eq!(kinds(&made), ["ReduceSum", "Cast", "If", "Neg", "Identity"]);
    assert_eq!(made.program.blocks[1].ops[0].input(""), ["x"]);
    // A block returns only values that its own operators write.
    assert_eq!(made.program.blocks[2].ops[0].input(""), ["x"]);
    assert!(matches!(made.origins.of(1, "unread"), Origin::Removed));
}

#[test]
fn functions_replace_their_calls() {
    let reference = |name: &str| AttributeValue::Reference { name: name.to_owned(), kind: 1 };
    let called = |inputs: &[&str], outputs: &[&str], attributes: &[(&str, AttributeValue)]| Op {
        domain: "own".to_owned(),
        ..op("F", inputs, outputs, attributes)
    };
    let body = block(
        &["a", "b"],
        &["out", "a", "out"],
        vec![
            op("LeakyRelu", &["a"], &["tmp"], &[("alpha", reference("slope"))]),
            op("Sum", &["tmp", "b"], &["out"], &[]),
        ],
    );
    let ops = vec![
        called(&["x", "x"], &["p", "q"], &[("slope", AttributeValue::Float(0.5))]),
        called(&["p"], &["y", "", "z"], &[]),
    ];
    let mut source = program(vec![block(&["x"], &["y", "z", "q"], ops), body]);
    source.functions = vec![Function {
        domain: "own".to_owned(),
        name: "F".to_owned(),
        block: 1,
        defaults: vec![Attribute { name: "slope".to_owned(), value: AttributeValue::Float(0.25) }],
        operator_versions: source.operator_versions.clone(),
        ..Function::default()
    }];
    let made = inline(&source).unwrap();
    assert!(made.functions.is_empty() && made.blocks.len() == 1);
    let ops = &made.blocks[0].ops;
    let kinds: Vec<&str> = ops.iter().map(|op| op.kind.as_str()).collect();
    assert_eq!(kinds, ["LeakyRelu", "Sum", "Identity", "LeakyRelu", "Sum", "Identity"]);
    let slopes: Vec<_> = ops.iter().filter_map(|op| op.attribute("alpha")).collect();
    assert_eq!(slopes, [&AttributeValue::Float(0.5), &AttributeValue::Float(0.25)]);
    // The second call omits an input.
    assert_eq!(ops[4].input("")[1], "");
    assert_eq!(ops[1].output(""), ["p"]);
    assert_eq!(
        (ops[2].input(""), ops[2].output("")),
        (&["x".to_owned()][..], &["q".to_owned()][..])
    );
    assert_eq!(
        (ops[5].input(""), ops[5].output("")),
        (&["y".to_owned()][..], &["z".to_owned()][..])
    );
    assert_ne!(ops[0].output(""), ops[3].output(""));
}

#[test]
fn functions_that_call_each_other_twice_exceed_the_work_limit() {
    let functions = 40;
    let name = |number: usize| format!("F{number}");
    let call = |number: usize, input: &str, output: &str| Op {
        domain: "own".to_owned(),
        ..op(&name(number), &[input], &[output], &[])
    };
    let mut blocks = vec![block(&["x"], &["y"], vec![call(0, "x", "y")])];
    for number in 0..functions {
        let ops = match number + 1 == functions {
            true => vec![op("Neg", &["a"], &["c"], &[])],
            false => vec![call(number + 1, "a", "b"), call(number + 1, "b", "c")],
        };
        blocks.push(block(&["a"], &["c"], ops));
    }
    let mut source = program(blocks);
    source.functions = (0..functions)
        .map(|number| Function {
            domain: "own".to_owned(),
            name: name(number),
            block: i32::try_from(number).unwrap() + 1,
            ..Function::default()
        })
        .collect();
    assert_eq!(inline(&source).unwrap_err().finding.code, Code::Limit);
    // The function that calls itself is named.
    source.blocks[40].ops = vec![call(0, "a", "c")];
    let error = inline(&source).unwrap_err();
    assert!(error.finding.message.contains("runs itself"), "{error}");
}
