//! Models of a few hundred bytes whose results would take gigabytes.

use lodstone_engine::{
    Budget, Context, Dense, Error, Executable, ExecutableOptions, Mode, Strings, Threads, Value,
};
use lodstone_model::{
    Attribute, AttributeValue, Block, DType, Dialect, Model, Op, Operand, Parameter, Program,
    Tensor, Topology,
};
use lodstone_schema::Code;
use lodstone_schema::onnx::newest_opset;

use super::CONSTANT;
use super::counting::{alone, peak_of};

/// The memory budget of a run.
const LIMIT: u64 = 64 << 20;

/// Returns an operator from names that are separated by spaces; `-` is an input that is omitted.
pub(crate) fn op(kind: &str, inputs: &str, outputs: &str, attributes: Vec<Attribute>) -> Op {
    let domain = match kind {
        "CastMap" | "CategoryMapper" | "DictVectorizer" | "LabelEncoder" | "OneHotEncoder"
        | "ZipMap" => "ai.onnx.ml",
        _ => "",
    };
    let names = |text: &str| {
        let names = text.split_whitespace().map(|name| name.replace('-', ""));
        vec![Operand { slot: String::new(), args: names.collect() }]
    };
    Op {
        domain: domain.to_owned(),
        kind: kind.to_owned(),
        inputs: names(inputs),
        outputs: names(outputs),
        attributes,
        ..Op::default()
    }
}

pub(crate) fn attribute(name: &str, value: AttributeValue) -> Attribute {
    Attribute { name: name.to_owned(), value }
}

pub(crate) fn block(inputs: &str, ops: Vec<Op>, outputs: &str) -> Block {
    let names = |text: &str| text.split_whitespace().map(str::to_owned).collect();
    Block { inputs: names(inputs), ops, outputs: names(outputs), ..Block::default() }
}

pub(crate) fn longs(values: &[i64], dims: &[usize]) -> Value {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    Dense::new(DType::Int64, dims, bytes.into()).unwrap().into()
}

fn text(text: &str) -> Value {
    Value::Strings(Strings::new(vec![1], vec![text.to_owned().into()]).unwrap())
}

pub(crate) fn zeros(dtype: DType, dims: &[usize]) -> Value {
    let shape: Vec<u64> = dims.iter().map(|dim| *dim as u64).collect();
    let size = usize::try_from(dtype.size_of(&shape).unwrap()).unwrap();
    Dense::new(dtype, dims, vec![0; size].into()).unwrap().into()
}

/// Runs a model until it exceeds the limit; the values are constants of the model, or its inputs.
fn expect_limit(name: &str, blocks: Vec<Block>, values: Vec<(&str, Value)>) {
    for mode in [Mode::Reference, Mode::Fast] {
        for is_constant in [false, true] {
            let mut topology = Topology {
                operator_versions: vec![
                    (String::new(), newest_opset("").unwrap()),
                    ("ai.onnx.ml".to_owned(), newest_opset("ai.onnx.ml").unwrap()),
                ],
                blocks: blocks.clone(),
                ..Topology::new(Dialect::Onnx)
            };
            let mut model = Model::default();
            let mut inputs = values.clone();
            if is_constant {
                let constant = |(name, value): (&str, Value)| -> Parameter {
                    Parameter { name: name.to_owned(), tensor: value.tensor().unwrap() }
                };
                model.parameters = std::mem::take(&mut inputs).into_iter().map(constant).collect();
            }
            topology.blocks[0].inputs = inputs.iter().map(|(name, _)| (*name).to_owned()).collect();
            model.set_main(Program::from(topology));
            let (budget, threads) = (Budget::new(LIMIT), Threads::new(2));
            let context = Context::new(&budget, &threads);
            let options = ExecutableOptions::default().with_mode(mode);
            let (made, peak) = peak_of(|| {
                Executable::new(&model, &options, context)?.run(inputs, context).map(|_| ())
            });
            let finding = match made {
                Err(Error::Op(error)) => error.finding,
                Err(Error::Program(finding)) => finding,
                other => panic!("{name}, {mode:?}: {other:?}"),
            };
            assert_eq!(finding.code, Code::Limit, "{name}, {mode:?}: {finding}");
            assert!(peak <= LIMIT + CONSTANT, "{name}, {mode:?}: {peak} bytes");
        }
    }
}

/// Returns a loop without an end. Its body has a state, `all`, from `inside`, and the given scan outputs.
fn endless(inside: Vec<Op>, state: &str, scans: &str) -> Vec<Block> {
    let body = attribute("body", AttributeValue::Block(1));
    let mut ops = vec![op("Identity", "on", "still", Vec::new())];
    ops.extend(inside);
    let (given, results) = match state {
        "" => (String::new(), String::new()),
        state => ("start".to_owned(), state.to_owned()),
    };
    let made = if scans.is_empty() { "last" } else { "stack" };
    let mut start = Vec::new();
    if !state.is_empty() {
        start.push(op("SequenceEmpty", "", "start", Vec::new()));
    }
    start.push(op("Loop", &format!("trips on {given}"), made, vec![body]));
    let formal = if state.is_empty() { "turn on" } else { "turn on all" };
    vec![block("", start, made), block(formal, ops, &format!("still {results} {scans}"))]
}

fn endless_inputs() -> Vec<(&'static str, Value)> {
    let on = Dense::new(DType::Bool, Vec::new(), vec![1].into()).unwrap();
    vec![("trips", longs(&[i64::MAX], &[])), ("on", on.into())]
}

#[test]
fn a_loop_that_scans_empty_tensors_stops() {
    let _alone = alone();
    let blocks = endless(vec![op("Identity", "empty", "scan", Vec::new())], "", "scan");
    let mut values = endless_inputs();
    values.push(("empty", zeros(DType::Float32, &[0])));
    expect_limit("Loop", blocks, values);
}

#[test]
fn a_loop_that_appends_to_a_sequence_stops() {
    let _alone = alone();
    let ops = vec![
        op("ConstantOfShape", "dims", "zeros", Vec::new()),
        op("Add", "zeros turned", "one", Vec::new()),
        op("SequenceInsert", "all one", "longer", Vec::new()),
    ];
    let cast = attribute("to", AttributeValue::Long(1));
    let ops = [vec![op("Cast", "turn", "turned", vec![cast])], ops].concat();
    let mut values = endless_inputs();
    values.push(("dims", longs(&[1 << 18], &[1])));
    expect_limit("SequenceInsert", endless(ops, "longer", ""), values);
}

/// A part of a tensor keeps all of its bytes.
#[test]
fn a_loop_that_appends_parts_of_large_tensors_stops() {
    let _alone = alone();
    let cast = attribute("to", AttributeValue::Long(1));
    let ops = vec![
        op("Cast", "turn", "turned", vec![cast]),
        op("ConstantOfShape", "dims", "zeros", Vec::new()),
        op("Add", "zeros turned", "large", Vec::new()),
        op("Slice", "large begin end", "one", Vec::new()),
        op("SequenceInsert", "all one", "longer", Vec::new()),
    ];
    let mut values = endless_inputs();
    values.push(("dims", longs(&[1 << 18], &[1])));
    values.push(("begin", longs(&[0], &[1])));
    values.push(("end", longs(&[1], &[1])));
    expect_limit("Slice", endless(ops, "longer", ""), values);
}

#[test]
fn splitting_into_many_tensors_is_limited() {
    let _alone = alone();
    let main = block("", vec![op("SplitToSequence", "x", "y", Vec::new())], "y");
    expect_limit("SplitToSequence", vec![main], vec![("x", zeros(DType::Int8, &[1 << 24]))]);
}

#[test]
fn strings_that_double_and_their_parts_are_limited() {
    let _alone = alone();
    for count in [20, 40] {
        let mut ops = Vec::new();
        for turn in 0..count {
            let (from, to) = (format!("x{turn} x{turn}"), format!("x{}", turn + 1));
            ops.push(op("StringConcat", &from, &to, Vec::new()));
        }
        let delimiter = attribute("delimiter", AttributeValue::String("b".into()));
        ops.push(op("StringSplit", &format!("x{count}"), "y n", vec![delimiter]));
        expect_limit("StringSplit", vec![block("", ops, "y n")], vec![("x0", text("ab"))]);
    }
}

#[test]
fn images_with_large_dims_are_limited() {
    let _alone = alone();
    let file = b"P6 20000 20000 255\n".to_vec();
    let file = Dense::new(DType::Uint8, vec![file.len()], file.into()).unwrap();
    let main = block("", vec![op("ImageDecoder", "x", "y", Vec::new())], "y");
    expect_limit("ImageDecoder", vec![main], vec![("x", file.into())]);
}

#[test]
fn results_that_depend_on_elements_are_limited() {
    let _alone = alone();
    let many = [1_usize << 23];
    let count = longs(&[1 << 23], &[1]);
    let cases = [("NonZero", "y"), ("Unique", "y")];
    for (kind, outputs) in cases {
        let one = Tensor::dense(DType::Int8, vec![1], vec![1_u8].into());
        let value = attribute("value", AttributeValue::Tensor(Box::new(one)));
        let ops = vec![
            op("ConstantOfShape", "dims", "x", vec![value]),
            op(kind, "x", outputs, Vec::new()),
        ];
        expect_limit(kind, vec![block("", ops, outputs)], vec![("dims", count.clone())]);
    }
    let strings = attribute("to", AttributeValue::Long(8));
    let main = block("", vec![op("Cast", "x", "y", vec![strings])], "y");
    expect_limit("Cast", vec![main], vec![("x", zeros(DType::Int8, &many))]);
    let labels = attribute("classlabels_int64s", AttributeValue::Longs(vec![0]));
    let main = block("", vec![op("ZipMap", "x", "y", vec![labels])], "y");
    expect_limit("ZipMap", vec![main], vec![("x", zeros(DType::Float32, &[1 << 20, 1]))]);
}
