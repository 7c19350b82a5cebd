//! Type inference over programs that no framework writes: values that overflow, blocks that run themselves, deep nesting,
//! calls that multiply.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::support::op;
use lodstone_model::{
    AttributeValue, Block, DType, Dialect, Dim, Function, Model, Op, Parameter, Program, Tensor,
    TensorType, Topology, ValueType, Var,
};
use lodstone_schema::Finding;
use lodstone_schema::onnx::infer::{
    Bodies, Element, Inference, Options, ValueInfo, infer, infer_op, show_type,
};

/// A time limit that none of these programs exceeds, even on a slow machine without optimization.
const LONG: Duration = Duration::from_secs(20);

fn tensor(dtype: DType, dims: &[Dim]) -> ValueType {
    let shape = Some(dims.to_vec());
    ValueType::tensor(TensorType::new(dtype, shape))
}

fn known(dims: &[u64]) -> Vec<Dim> {
    dims.iter().map(|dim| Dim::Known(*dim)).collect()
}

fn var(name: &str, value: ValueType) -> Var {
    Var { name: name.to_owned(), value, ..Var::default() }
}

fn ints(name: &str, numbers: &[i64]) -> Parameter {
    let data: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    let tensor = Tensor::dense(DType::Int64, vec![numbers.len() as u64], data.into());
    Parameter { name: name.to_owned(), tensor }
}

/// A model whose graph inputs are its variables.
fn model(vars: Vec<Var>, parameters: Vec<Parameter>, ops: Vec<Op>, outputs: &[&str]) -> Model {
    let block = Block {
        index: 0,
        parent: -1,
        inputs: vars.iter().map(|var| var.name.clone()).collect(),
        outputs: outputs.iter().map(ToString::to_string).collect(),
        vars,
        ops,
        ..Block::default()
    };
    let program = Program::from(Topology {
        version: Some(10),
        operator_versions: vec![(String::new(), 23)],
        blocks: vec![block],
        ..Topology::new(Dialect::Onnx)
    });
    Model { programs: program.into(), parameters, ..Model::default() }
}

fn inferred(model: &Model) -> Inference {
    let begin = Instant::now();
    let inference = infer(model, &Options::default());
    assert!(begin.elapsed() < LONG, "{:?}", begin.elapsed());
    inference
}

/// Formats the type of a value of the main graph.
fn shown(inference: &Inference, name: &str) -> String {
    inference.blocks[0].get(name).map(|info| show_type(&info.value)).unwrap_or_default()
}

#[test]
fn symbols_go_through_arithmetic_of_shapes() {
    let batch = Dim::Symbol(Arc::from("batch"));
    let vars = vec![var("x", tensor(DType::Float32, &[batch, Dim::Known(12), Dim::Known(4)]))];
    let parameters =
        vec![ints("zero", &[0]), ints("open", &[-1]), ints("one", &[1]), ints("three", &[3])];
    let ops = vec![
        op("Shape", &["x"], &["s"], &[]),
        op("Gather", &["s", "zero"], &["b"], &[]),
        op("Mul", &["b", "one"], &["b1"], &[]),
        op("Concat", &["b1", "three", "open"], &["target"], &[("axis", AttributeValue::Long(0))]),
        op("Reshape", &["x", "target"], &["y"], &[]),
        op("Concat", &["open", "b"], &["flat"], &[("axis", AttributeValue::Long(0))]),
        op("Reshape", &["y", "flat"], &["z"], &[]),
        op("Equal", &["target", "open"], &["is_open"], &[]),
        op("Where", &["is_open", "three", "target"], &["filled"], &[]),
        op("ConstantOfShape", &["filled"], &["zeros"], &[]),
        op("Size", &["z"], &["size"], &[]),
    ];
    let inference = inferred(&model(vars, parameters, ops, &["z"]));
    assert_eq!(inference.findings.located, []);
    assert_eq!(shown(&inference, "y"), "float32[batch, 3, 16]");
    assert_eq!(shown(&inference, "z"), "float32[48, batch]");
    assert_eq!(shown(&inference, "zeros"), "float32[batch, 3, 3]");
    let target = inference.blocks[0]["target"].contents.clone().unwrap();
    assert_eq!(
        target[..],
        [Element::Symbol(Arc::from("batch")), Element::Int(3), Element::Int(-1)]
    );
}

#[test]
fn unknown_dims_get_symbols_only_if_requested() {
    let vars = vec![var("x", tensor(DType::Float32, &known(&[3])))];
    let ops = vec![op("NonZero", &["x"], &["n"], &[]), op("Relu", &["x"], &["y"], &[])];
    let mut model = model(vars, Vec::new(), ops, &["n"]);
    assert_eq!(shown(&inferred(&model), "n"), "int64[1, ?]");
    let options = Options::default().with_fresh_symbols(true);
    assert_eq!(shown(&infer(&model, &options), "n"), "int64[1, unknown_0]");
    // A symbol that the program uses is not generated again.
    let taken = tensor(DType::Float32, &[Dim::Symbol(Arc::from("unknown_0"))]);
    model.main_mut().unwrap().blocks[0].vars.push(var("other", taken));
    assert_eq!(shown(&infer(&model, &options), "n"), "int64[1, unknown_1]");
}

#[test]
fn given_inputs_override_their_declarations() {
    let vars = vec![var("x", tensor(DType::Float32, &known(&[1, 3])))];
    let model = model(vars, Vec::new(), vec![op("Relu", &["x"], &["y"], &[])], &["y"]);
    let given = ValueInfo::tensor(DType::Float32, Some(known(&[8, 3])));
    let options = Options::default().with_inputs([("x".to_owned(), given)].into());
    let inference = infer(&model, &options);
    assert_eq!(
        (shown(&inference, "y"), inference.findings.located),
        ("float32[8, 3]".to_owned(), vec![])
    );
}

#[test]
fn an_initializer_that_is_an_input_is_a_constant_unless_a_run_may_replace_it() {
    let vars = vec![
        var("x", tensor(DType::Float32, &known(&[2, 6]))),
        var("target", tensor(DType::Int64, &known(&[2]))),
    ];
    let parameters = vec![ints("target", &[3, 4])];
    let ops = vec![op("Reshape", &["x", "target"], &["y"], &[])];
    let mut model = model(vars, parameters, ops, &["y"]);
    let overridable = Options::default().with_overridable(true);
    assert_eq!(shown(&inferred(&model), "y"), "float32[3, 4]");
    assert_eq!(shown(&infer(&model, &overridable), "y"), "float32[?, ?]");
    // A given input replaces the initializer.
    let mut given = ValueInfo::tensor(DType::Int64, Some(known(&[2])));
    given.contents = Some([Element::Int(12), Element::Int(1)].into());
    let given = Options::default().with_inputs([("target".to_owned(), given)].into());
    assert_eq!(shown(&infer(&model, &given), "y"), "float32[12, 1]");
    // Up to IR version 3, every initializer had to be an input.
    model.main_mut().unwrap().version = Some(3);
    assert_eq!(shown(&infer(&model, &overridable), "y"), "float32[3, 4]");
}

/// Bodies of an operator without blocks.
struct NoBlocks;

impl Bodies for NoBlocks {
    fn body(&mut self, block: i32, _: Vec<ValueInfo>) -> Result<Vec<ValueInfo>, Finding> {
        Err(format!("expected no block, found {block}").into())
    }
}

#[test]
fn infer_op_applies_the_rule_of_one_operator() {
    let (a, b) = (ValueInfo::tensor(DType::Float32, Some(known(&[2, 3]))), ValueInfo::default());
    let matmul = op("MatMul", &["a", "b"], &["y"], &[]);
    let found = infer_op(&matmul, 13, &[Some(&a), Some(&b)], &mut NoBlocks).unwrap();
    assert_eq!(show_type(&found[0].value), "float32[..]");
    let wrong = infer_op(&matmul, 13, &[Some(&a), Some(&a)], &mut NoBlocks).unwrap_err();
    assert!(wrong.message.ends_with("found [2, 3] and [2, 3]"), "{wrong}");
    let unknown = op("Mine", &["a"], &["y"], &[]);
    assert!(infer_op(&unknown, 13, &[Some(&a)], &mut NoBlocks).unwrap()[0].is_unknown());
}

#[test]
fn axes_of_a_transposition_do_not_count_from_the_end() {
    let x = ValueInfo::tensor(DType::Float32, Some(known(&[2, 3, 4])));
    let turned = |perm: &[i64]| {
        let perm = AttributeValue::Longs(perm.to_vec());
        let transpose = op("Transpose", &["x"], &["y"], &[("perm", perm)]);
        infer_op(&transpose, 21, &[Some(&x)], &mut NoBlocks)
    };
    assert_eq!(show_type(&turned(&[2, 0, 1]).unwrap()[0].value), "float32[4, 2, 3]");
    let wrong = turned(&[2, -3, 1]).unwrap_err();
    assert_eq!(wrong.message, "expected axes of at least 0, found -3");
}

#[test]
fn values_to_unpool_have_the_dims_of_their_indices() {
    let dims = [Dim::Known(1), Dim::Symbol("channels".into()), Dim::Known(2), Dim::Known(2)];
    let x = ValueInfo::tensor(DType::Float32, Some(dims.to_vec()));
    let attributes = ["kernel_shape", "strides"].map(|it| (it, AttributeValue::Longs(vec![2, 2])));
    let unpool = op("MaxUnpool", &["x", "places"], &["y"], &attributes);
    let unpooled = |places: &[u64]| {
        let places = ValueInfo::tensor(DType::Int64, Some(known(places)));
        infer_op(&unpool, 12, &[Some(&x), Some(&places)], &mut NoBlocks)
    };
    assert_eq!(show_type(&unpooled(&[1, 3, 2, 2]).unwrap()[0].value), "float32[1, 3, 4, 4]");
    for places in [&[1, 3, 3, 2][..], &[1, 3, 2]] {
        assert!(unpooled(places).unwrap_err().message.starts_with("expected "), "{places:?}");
    }
}

#[test]
fn huge_dims_allocate_nothing() {
    let huge = 1i64 << 60;
    let vars = vec![
        var("x", tensor(DType::Float32, &known(&[4, 4]))),
        var("wide", tensor(DType::Float32, &known(&[u64::MAX, u64::MAX]))),
    ];
    let parameters = vec![
        ints("huge", &[huge, huge]),
        ints("one", &[huge]),
        ints("start", &[0]),
        ints("step", &[1]),
        ints("least", &[i64::MIN, i64::MIN]),
        ints("pads", &[i64::MAX; 4]),
    ];
    let axis = |axis| [("axis", AttributeValue::Long(axis))];
    let list = |numbers: &[i64]| AttributeValue::Longs(numbers.to_vec());
    let ops = vec![
        op("ConstantOfShape", &["huge"], &["filled"], &[]),
        op("Tile", &["x", "huge"], &["tiled"], &[]),
        op("Tile", &["tiled", "huge"], &["tiled_again"], &[]),
        op("Expand", &["step", "huge"], &["expanded"], &[]),
        op("Range", &["start", "one", "step"], &["range"], &[]),
        op("Range", &["least", "one", "step"], &["no_range"], &[]),
        op("Flatten", &["wide"], &["flat"], &axis(2)),
        op("Concat", &["wide", "wide"], &["joined"], &axis(0)),
        op("Pad", &["x", "pads"], &["padded"], &[]),
        op("Slice", &["x", "least", "huge"], &["cut"], &[]),
        op("Gather", &["wide", "one"], &["taken"], &[]),
        op("Reshape", &["wide", "huge"], &["reshaped"], &[]),
        op("MatMul", &["wide", "wide"], &["product"], &[]),
        op("TopK", &["x", "one"], &["top", "places"], &[]),
        op("SpaceToDepth", &["x"], &["deep"], &[("blocksize", AttributeValue::Long(i64::MAX))]),
        op("ReduceSum", &["x", "least"], &["sum"], &[]),
        op("Unsqueeze", &["x", "huge"], &["unsqueezed"], &[]),
        op("Transpose", &["x"], &["turned"], &[("perm", list(&[i64::MIN, i64::MAX]))]),
        op("AveragePool", &["x"], &["pooled"], &[("kernel_shape", list(&[]))]),
        op("Split", &["x"], &["part"], &[("num_outputs", AttributeValue::Long(i64::MAX))]),
        op("TfIdfVectorizer", &["x"], &["counts"], &[("ngram_indexes", list(&[i64::MAX]))]),
        op("Multinomial", &["x"], &["drawn"], &[("sample_size", AttributeValue::Long(i64::MAX))]),
        op("Einsum", &["x"], &["e"], &[("equation", AttributeValue::String("i...i...->".into()))]),
    ];
    let inference = inferred(&model(vars, parameters, ops, &[]));
    assert!(inference.complete);
    assert_eq!(shown(&inference, "filled"), format!("float32[{huge}, {huge}]"));
    assert_eq!(shown(&inference, "tiled"), format!("float32[{}, {}]", huge * 4, huge * 4));
    // A dim does not exceed 64 bits.
    for kind in ["Tile", "Flatten"] {
        let findings = &inference.findings.located;
        assert!(findings.iter().any(|finding| finding.place.contains(kind)), "{kind}");
    }
    assert_eq!(shown(&inference, "range"), format!("int64[{huge}]"));
    assert_eq!(shown(&inference, "flat"), "anything");
    assert!(inference.blocks[0]["range"].contents.is_none());
}

/// A model in which `deep` blocks each hold `If`s of the next one, and the last runs `last`.
fn nested(deep: i32, last: i32) -> Model {
    let runs = |block: i32| {
        let branch = AttributeValue::Block(block);
        vec![op("If", &["c"], &["y"], &[("then_branch", branch.clone()), ("else_branch", branch)])]
    };
    let vars = vec![var("c", tensor(DType::Bool, &[]))];
    let mut model = model(vars, Vec::new(), runs(1), &["y"]);
    let blocks = &mut model.main_mut().unwrap().blocks;
    for number in 1..=deep {
        let next = if number == deep { last } else { number + 1 };
        let (ops, outputs) = (runs(next), vec!["y".to_owned()]);
        let (index, parent) = (number, number - 1);
        blocks.push(Block { index, parent, ops, outputs, ..Block::default() });
    }
    model
}

#[test]
fn recursive_or_deeply_nested_blocks_are_reported() {
    for (deep, last) in [(1, 1), (1, 0), (5, 3), (40, 1), (3, 77)] {
        let inference = inferred(&nested(deep, last));
        assert!(!inference.findings.is_empty(), "{deep} and {last}");
    }
    // Beyond the limit, nothing is inferred, and nothing is reported.
    for (deep, last) in [(1000, 1), (10_000, -1)] {
        let inference = inferred(&nested(deep, last));
        assert!(!inference.complete && inference.findings.is_empty(), "{deep} and {last}");
    }
    // Each block runs the next twice: 2^30 runs of the last one.
    let inference = inferred(&nested(30, 31));
    assert!(!inference.complete && !inference.findings.is_empty());
}

#[test]
fn nested_loops_stop_at_the_work_limit() {
    let depth = 40;
    let body = |block: i32| [("body", AttributeValue::Block(block))];
    let vars =
        vec![var("n", tensor(DType::Int64, &[])), var("x", tensor(DType::Float32, &known(&[1])))];
    let main = vec![op("Loop", &["n", "", "x"], &["y"], &body(1))];
    let mut model = model(vars, Vec::new(), main, &["y"]);
    let blocks = &mut model.main_mut().unwrap().blocks;
    for number in 1..=depth {
        let concat = op("Concat", &["s", "s"], &["s2"], &[("axis", AttributeValue::Long(0))]);
        let inner = op("Loop", &["n", "", "s2"], &["s3"], &body(number + 1));
        let ops = if number == depth { vec![concat] } else { vec![concat, inner] };
        let last = if number == depth { "s2" } else { "s3" };
        blocks.push(Block {
            index: number,
            inputs: ["i", "k", "s"].map(ToOwned::to_owned).into(),
            outputs: ["k", last].map(ToOwned::to_owned).into(),
            ops,
            ..Block::default()
        });
    }
    let inference = inferred(&model);
    assert_eq!(inference.findings.located, []);
    assert_eq!(shown(&inference, "y"), "float32[?]");
}

#[test]
fn calls_that_multiply_stop_at_the_work_limit() {
    let count = 40;
    let name = |number: i32| format!("f{number}");
    let call = |number: i32, inputs: &[&str], outputs: &[&str]| Op {
        domain: "here".to_owned(),
        ..op(&name(number), inputs, outputs, &[])
    };
    let vars = vec![var("x", tensor(DType::Float32, &known(&[1])))];
    let mut model = model(vars, Vec::new(), vec![call(1, &["x"], &["y"])], &["y"]);
    let program = model.main_mut().unwrap();
    for number in 1..=count {
        let ops = match number == count {
            true => vec![op("Relu", &["a"], &["c"], &[])],
            false => vec![call(number + 1, &["a"], &["b"]), call(number + 1, &["b"], &["c"])],
        };
        let (inputs, outputs) = (vec!["a".to_owned()], vec!["c".to_owned()]);
        program.blocks.push(Block { index: number, inputs, outputs, ops, ..Block::default() });
        let (domain, versions) = ("here".to_owned(), vec![(String::new(), 23)]);
        program.functions.push(Function {
            domain,
            name: name(number),
            block: number,
            operator_versions: versions,
            ..Function::default()
        });
    }
    let inference = inferred(&model);
    assert!(!inference.complete);
    // Without the doubling, everything is inferred.
    let program = model.main_mut().unwrap();
    for block in &mut program.blocks[1..] {
        block.ops.truncate(1);
        block.outputs = block.ops[0].outputs[0].args.clone();
    }
    let inference = inferred(&model);
    assert!(inference.complete, "{:?}", inference.findings);
    assert_eq!(shown(&inference, "y"), "float32[1]");
}

#[test]
fn a_function_sees_only_its_inputs_and_attributes() {
    let vars = vec![var("x", tensor(DType::Float32, &known(&[2, 3])))];
    let axis = [("axis", AttributeValue::Long(1))];
    let call = Op { domain: "here".to_owned(), ..op("twice", &["x", ""], &["y"], &axis) };
    let mut model = model(vars, Vec::new(), vec![call], &["y"]);
    let program = model.main_mut().unwrap();
    let given = AttributeValue::Reference { name: "axis".to_owned(), kind: 2 };
    let ops = vec![
        op("Concat", &["a", "a"], &["b"], &[("axis", given)]),
        op("Clip", &["b", "least"], &["c"], &[]),
        op("Relu", &["x"], &["unseen"], &[]),
    ];
    let block = Block {
        index: 1,
        inputs: vec!["a".to_owned(), "least".to_owned()],
        outputs: vec!["c".to_owned()],
        ops,
        ..Block::default()
    };
    program.blocks.push(block);
    program.functions.push(Function {
        domain: "here".to_owned(),
        name: "twice".to_owned(),
        block: 1,
        operator_versions: vec![(String::new(), 23)],
        ..Function::default()
    });
    let inference = inferred(&model);
    assert_eq!(inference.findings.located, []);
    assert_eq!(shown(&inference, "y"), "float32[2, 6]");
    assert!(inference.blocks[1]["unseen"].is_unknown());
}

#[test]
fn many_large_shapes_exceed_the_limit_and_are_reported() {
    let wide = known(&vec![2; 200]);
    let vars = vec![var("x", tensor(DType::Float32, &wide))];
    let names: Vec<String> = (0..100_000).map(|number| format!("y{number}")).collect();
    let ops = names.iter().map(|name| op("Relu", &["x"], &[name], &[])).collect();
    let inference = inferred(&model(vars, Vec::new(), ops, &[]));
    assert!(!inference.complete);
    let dims: usize =
        inference.blocks[0].values().filter_map(|info| Some(info.shape()?.len())).sum();
    assert!(dims < 100_000 * 200 && inference.findings.is_empty(), "{dims}");
    // More dims than any real model has.
    let vars = vec![var("x", tensor(DType::Float32, &known(&vec![2; 100_000])))];
    let inference = inferred(&model(vars, Vec::new(), vec![op("Relu", &["x"], &["y"], &[])], &[]));
    assert_eq!((shown(&inference, "y").as_str(), inference.complete), ("float32[..]", false));
}

#[test]
fn the_number_of_findings_is_limited() {
    let vars = vec![
        var("x", tensor(DType::Float32, &known(&[2]))),
        var("z", tensor(DType::Float32, &known(&[3]))),
    ];
    let ops =
        (0..5000).map(|number| op("Add", &["x", "z"], &[&format!("y{number}")], &[])).collect();
    let findings = inferred(&model(vars, Vec::new(), ops, &[])).findings;
    assert_eq!((findings.located.len(), findings.more), (1000, 4000));
}
