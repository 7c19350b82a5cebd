//! ONNX programs lowered to Glow, compared with Glow's own conversions of the same models.
//!
//! Graphs are compared up to the names of nodes: saved values are compared by their computation. The models and Glow's
//! conversions are in `golden/glow_loaded`; with `LODSTONE_CASES`, those in
//! `DIR/glow` are also compared.
#![expect(clippy::disallowed_methods, reason = "tests look at files directly")]
#![expect(clippy::print_stdout, reason = "says what was tried")]

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use lodstone::model::Topology;
use lodstone::{ConvertOptions, Loss, Model, Target, convert, open};
use lodstone_lowering::lower;
use lodstone_model::{
    Attribute, AttributeValue, Block, DType, Dialect, Dim, Function, Op, Operand, Parameter,
    Program, Report, TensorType, ValueType, Var,
};
use lodstone_schema::glow;

use crate::graphs::{of_type, ways};

/// The models that are rejected, with a part of the reason.
const REFUSED: &[(&str, &str)] = &[
    // They read undeclared inputs, whose types Glow's tests pass to its loader.
    ("ArgMaxKeepDim", "value `input` does not exist"),
    ("ArgMaxNoKeepDim", "value `input` does not exist"),
    ("ArgMinDefault", "value `input` does not exist"),
    ("ArgMinKeepDim", "value `input` does not exist"),
    ("ArgMinNoKeepDim", "value `input` does not exist"),
    ("sparseLengthsSum", "value `data` does not exist"),
    // Glow adds a row of zeros that ONNX does not have.
    ("loop_no_iteration", "a loop without iterations has an empty output"),
    // ONNX does not define the result; in Glow, the last one wins.
    ("sliceAxesOverwrite", "expected distinct axes"),
];

/// The models that become a different graph than Glow's, and the difference.
const OTHERS: &[(&str, &str)] = &[
    ("MatMul4D", "Glow computed the product of constants"),
    ("castToFloat", "Glow's test gave its loader another type of the input"),
    ("constRelu", "Glow computed what constants become"),
    ("cumsum", "Glow's test gave its loader another type of the input"),
    ("mfccOneWindow", "weights of bands differ from Glow's in their last digits"),
    ("mfccTwoWindow", "weights of bands differ from Glow's in their last digits"),
    ("upsampleOpset7", "Glow brings channels to the end, which the node does not ask for"),
    ("upsampleOpset9", "Glow brings channels to the end, which the node does not ask for"),
];

/// Converts a file, and opens the result.
fn converted(source: &Path, dir: &Path, format: &str) -> Result<Model, String> {
    let model = open(source).map_err(|error| error.to_string())?;
    let out = dir.join("out.onnx");
    let options = ConvertOptions::default()
        .with_to(Some(Target::Format(format.to_owned())))
        .with_allow(vec![Loss::Metadata]);
    convert(model, &out, &options).map_err(|error| error.to_string())?;
    open(&out).map_err(|error| error.to_string())
}

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/glow_loaded")
}

/// Returns the models with Glow's conversions, by name.
fn cases() -> Vec<(String, PathBuf, PathBuf)> {
    let mut cases = Vec::new();
    for entry in std::fs::read_dir(golden()).unwrap() {
        let path = entry.unwrap().path();
        let file = path.file_name().unwrap().to_str().unwrap().to_owned();
        if let Some(name) = file.strip_suffix(".glow.onnxtxt") {
            cases.push((name.to_owned(), golden().join(format!("{name}.onnxtxt")), path));
        }
    }
    match std::env::var_os("LODSTONE_CASES").map(PathBuf::from) {
        None => println!("LODSTONE_CASES is not set: only the golden files were tried"),
        Some(all) => {
            let glow = all.join("glow");
            for entry in std::fs::read_dir(glow.join("models/onnxModels")).unwrap() {
                let path = entry.unwrap().path();
                let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
                let theirs = glow.join(format!("golden/onnx__{name}.glowcustom.onnxtxt"));
                let is_onnx =
                    |model: Model| model.programs.into_main().unwrap().dialect == Dialect::Onnx;
                if theirs.is_file()
                    && is_onnx(open(&path).unwrap())
                    && !cases.iter().any(|(known, ..)| *known == name)
                {
                    cases.push((name, path, theirs));
                }
            }
        }
    }
    cases.sort();
    cases
}

#[test]
fn an_onnx_program_becomes_the_graph_that_glow_makes_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let (mut equal, mut wrong) = (0, Vec::new());
    let mut others = Vec::new();
    let mut refused = Vec::new();
    for (name, source, theirs) in cases() {
        let expected_refusal = REFUSED.iter().find(|(known, _)| *known == name);
        let ours = match (converted(&source, dir.path(), "onnx-glow"), expected_refusal) {
            (Ok(ours), None) => ours,
            (Ok(_), Some(_)) => {
                wrong.push(format!("{name}: is no longer refused"));
                continue;
            }
            (Err(error), Some((_, words))) if error.contains(words) => {
                refused.push(name);
                continue;
            }
            (Err(error), _) => {
                wrong.push(format!("{name}: {error}"));
                continue;
            }
        };
        let findings = glow::check(&ours);
        if !findings.is_empty() {
            wrong.push(format!("{name}: {findings:?}"));
        }
        let mut known = HashMap::new();
        let (ours, theirs) = (ways(&ours, &mut known), ways(&open(theirs).unwrap(), &mut known));
        let is_other = OTHERS.iter().any(|(known, _)| *known == name);
        match (ours == theirs, is_other) {
            (true, false) => equal += 1,
            (false, true) => others.push(name),
            (true, true) => wrong.push(format!("{name}: is Glow's graph now")),
            (false, false) => wrong.push(format!("{name}: is another graph than Glow's")),
        }
    }
    println!("{equal} equal, {} other graphs, {} refused", others.len(), refused.len());
    assert!(wrong.is_empty(), "{} of them:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn every_container_has_the_same_program() {
    let dir = tempfile::tempdir().unwrap();
    let source = golden().join("simpleConv.onnxtxt");
    let mut known = HashMap::new();
    let mut all = ["onnx-glow", "onnx-glow-text", "onnx-glow-zip"].map(|format| {
        let model = converted(&source, dir.path(), format).unwrap();
        assert_eq!(model.format, format);
        let program = model.main().unwrap();
        assert_eq!(program.version, Some(7));
        assert_eq!(program.operator_versions, [(String::new(), 9)]);
        assert_eq!(program.blocks[0].name, "glow");
        ways(&model, &mut known)
    });
    all.sort();
    assert_eq!(all[0], all[2]);
}

fn quantized(name: &str) -> Model {
    let dir = tempfile::tempdir().unwrap();
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/onnx_quantized");
    let model = converted(&golden.join(format!("{name}.onnx")), dir.path(), "onnx-glow").unwrap();
    assert!(glow::check(&model).is_empty(), "{name}: {:?}", glow::check(&model));
    model
}

fn op<'m>(model: &'m Model, kind: &str) -> &'m Op {
    let main = &model.main().unwrap().blocks[0];
    let found = main.ops.iter().find(|op| op.kind == kind);
    found.unwrap_or_else(|| panic!("no {kind} in {:?}", main.ops))
}

#[test]
fn quantized_operators_become_nodes_between_integers() {
    let model = quantized("conv");
    let conv = op(&model, "Glow_Convolution");
    assert_eq!(of_type(conv, "i0"), "i8[1, 4, 3, 2]Some((0.1, 3))");
    assert_eq!(of_type(conv, "i1"), "i8[4, 2, 1, 2]Some((0.02, 0))");
    assert_eq!(of_type(conv, "i2"), "i32[4]Some((0.002, 0))");
    assert_eq!(of_type(conv, "o0"), "i8[1, 3, 3, 4]Some((0.3, -2))");
    assert_eq!(conv.name, "conv");
    for (name, group) in
        [("conv_channels", 1), ("conv_groups", 2), ("conv_moved", 1), ("qlinear_conv", 1)]
    {
        let model = quantized(name);
        let conv = op(&model, "Glow_ChannelwiseQuantizedConvolution");
        assert_eq!(of_type(conv, "i0"), "i8[1, 4, 3, 2]Some((0.1, 3))", "{name}");
        assert_eq!(of_type(conv, "o0"), "i8[1, 3, 3, 4]Some((0.3, -2))", "{name}");
        assert_eq!(conv.attribute("Group"), Some(&AttributeValue::Long(group)), "{name}");
        let scales = model.parameter(&conv.input("")[3]).unwrap().data.bytes().unwrap();
        let expected: Vec<u8> =
            [0.02_f32, 0.03, 0.04, 0.05].iter().flat_map(|n| n.to_le_bytes()).collect();
        assert_eq!(*scales, *expected, "{name}");
    }
    let model = quantized("topk");
    let top = op(&model, "Glow_TopK");
    assert_eq!(of_type(top, "i0"), "i8[3, 1, 5]Some((1.2, 5))");
    assert_eq!(of_type(top, "o0"), "i8[3, 1, 3]Some((1.2, 5))");
    let model = quantized("qlinear_matmul");
    let product = op(&model, "Glow_MatMul");
    assert_eq!(of_type(product, "i0"), "i8[3, 4]Some((0.1, 3))");
    assert_eq!(of_type(product, "i1"), "i8[4, 2]Some((0.2, 0))");
}

#[test]
fn a_bias_of_another_scale_keeps_its_values() {
    let model = quantized("conv_other_bias");
    let conv = op(&model, "Glow_Convolution");
    assert_eq!(of_type(conv, "i1"), "float[4, 2, 1, 2]None");
    // The values of integers with a scale for each channel.
    let main = &model.main().unwrap().blocks[0];
    let filter = main.ops.iter().find(|op| op.name == "conv_filter").unwrap();
    let numbers = model.parameter(&filter.input("")[0]).unwrap().data.bytes().unwrap();
    let number = f32::from_le_bytes(numbers[..4].try_into().unwrap());
    assert_eq!(number, f32::from(72_i8) * 0.02);
    let last = f32::from_le_bytes(numbers[60..].try_into().unwrap());
    let whole = (last / 0.05).round();
    assert_eq!(last, whole * 0.05);
}

fn text(value: &str) -> AttributeValue {
    AttributeValue::String(value.into())
}

fn attribute(name: &str, value: AttributeValue) -> Attribute {
    Attribute { name: name.to_owned(), value }
}

fn slot(args: &[&str]) -> Vec<Operand> {
    let args = args.iter().map(|arg| (*arg).to_owned()).collect();
    vec![Operand { slot: String::new(), args }]
}

fn variable(name: &str, dtype: DType, shape: &[u64], said: &str) -> Var {
    let shape = Some(shape.iter().map(|dim| Dim::Known(*dim)).collect());
    let value = ValueType::tensor(TensorType::new(dtype, shape));
    let attributes = vec![attribute("doc_string", text(said))];
    Var { name: name.to_owned(), value, attributes, ..Var::default() }
}

fn operator(domain: &str, kind: &str, inputs: &[&str], outputs: &[&str]) -> Op {
    Op {
        domain: domain.to_owned(),
        kind: kind.to_owned(),
        inputs: slot(inputs),
        outputs: slot(outputs),
        ..Op::default()
    }
}

/// Returns a program with one input, one output and these operators.
fn program(input: Var, output: Var, ops: Vec<Op>) -> Model {
    let names = |var: &Var| vec![var.name.clone()];
    let main = Block {
        parent: -1,
        inputs: names(&input),
        outputs: names(&output),
        vars: vec![input, output],
        ops,
        ..Block::default()
    };
    let program = Program::from(Topology {
        version: Some(10),
        operator_versions: vec![(String::new(), 21), ("com.facebook.glow".to_owned(), 1)],
        blocks: vec![main],
        ..Topology::new(Dialect::Onnx)
    });
    Model { programs: program.into(), ..Model::default() }
}

fn lowered(mut model: Model) -> Result<Model, String> {
    let lowered = lower(&mut model, Dialect::Glow, &mut Report::default()).unwrap();
    lowered.map(|_| model).map_err(|error| error.to_string())
}

#[test]
fn properties_of_storage_are_kept() {
    let said = "$offline:1$trainable:1$layout:NHWC$elemKind:i8$qScale:0.5$qOffset:3";
    let input = variable("in", DType::Int8, &[2, 3], said);
    let said = "$trainable:0$layout:NCHW$elemKind:i8$qScale:0.5$qOffset:3$saveName:kept";
    let output = variable("out", DType::Int8, &[3, 2], said);
    let transpose = operator("", "Transpose", &["in"], &["out"]);
    let model = lowered(program(input, output, vec![transpose])).unwrap();
    assert!(glow::check(&model).is_empty(), "{:?}", glow::check(&model));
    let main = &model.main().unwrap().blocks[0];
    let said = |name: &str| {
        let var = main.vars.iter().find(|var| var.name == name).unwrap();
        let AttributeValue::String(text) = &var.attributes[0].value else { panic!() };
        glow::Storage::parse(&text.to_string()).unwrap()
    };
    assert_eq!(said("in").offline, Some(true));
    assert_eq!(said("in").trainable, Some(true));
    assert_eq!(said("in").layout.as_deref(), Some("NHWC"));
    assert_eq!(said("in").quantization, Some((0.5, 3)));
    assert_eq!(said("out").layout.as_deref(), Some("NCHW"));
    assert_eq!(said("out").save_name.as_deref(), Some("kept"));
    let transpose = op(&model, "Glow_Transpose");
    assert_eq!(of_type(transpose, "o0"), "i8[3, 2]Some((0.5, 3))");
    assert_eq!(op(&model, "Identity").name, "kept");
}

#[test]
fn glow_nodes_in_a_custom_opset_are_unchanged() {
    let input = variable("in", DType::Float32, &[2, 3], "");
    let output = variable("out", DType::Float32, &[2, 3], "");
    let mut node = operator("com.facebook.glow", "Glow_Logit", &["in"], &["out"]);
    node.attributes = vec![
        attribute("o0_elemKind", text("float")),
        attribute("o0_shape", AttributeValue::Longs(vec![2, 3])),
        attribute("Epsilon", AttributeValue::Float(0.25)),
    ];
    let model = lowered(program(input.clone(), output.clone(), vec![node.clone()])).unwrap();
    let logit = op(&model, "Glow_Logit");
    assert_eq!(logit.attribute("Epsilon"), Some(&AttributeValue::Float(0.25)));
    assert_eq!(of_type(logit, "o0"), "float[2, 3]None");
    node.attributes.pop();
    let refused = lowered(program(input, output, vec![node])).unwrap_err();
    assert!(refused.contains("expected the attribute `Epsilon`"), "{refused}");
}

#[test]
fn all_operators_without_an_equivalent_are_reported_with_their_location() {
    let input = variable("in", DType::Float32, &[2, 3], "");
    let output = variable("out", DType::Float32, &[2, 3], "");
    let mut cosh = operator("", "Cosh", &["in"], &["a"]);
    cosh.name = "wide".to_owned();
    let ops = vec![
        cosh,
        operator("", "Relu", &["a"], &["b"]),
        operator("", "Sinh", &["b"], &["out"]),
        // Nothing reads it.
        operator("", "Tanh", &["in"], &["dead"]),
        operator("", "Asinh", &["dead"], &["deader"]),
    ];
    let refused = lowered(program(input, output, ops)).unwrap_err();
    let expected = "2 operators have no Glow equivalent; \
        the graph, operator 0 (`Cosh` `wide`): Glow has no operator `Cosh`; \
        the graph, operator 2 (`Sinh`): Glow has no operator `Sinh`";
    assert_eq!(refused, expected);
}

#[test]
fn numbers_that_require_too_much_are_rejected() {
    let long = |name: &str, number| attribute(name, AttributeValue::Long(number));
    let input = variable("in", DType::Float32, &[1 << 40, 1 << 30], "");
    let output = variable("out", DType::Float32, &[1], "");
    let relu = operator("", "Relu", &["in"], &["out"]);
    let refused = lowered(program(input, output.clone(), vec![relu])).unwrap_err();
    assert!(refused.contains("too large"), "{refused}");
    // A constant of one number is small, whatever its value.
    let input = variable("in", DType::Float32, &[1], "");
    let mut shape = operator("", "Constant", &[], &["shape"]);
    shape.attributes = vec![attribute("value_ints", AttributeValue::Longs(vec![1 << 40]))];
    let large = variable("out", DType::Float32, &[1 << 40], "");
    let filled = operator("", "ConstantOfShape", &["shape"], &["out"]);
    let model = lowered(program(input, large, vec![shape, filled])).unwrap();
    assert_eq!(of_type(op(&model, "Glow_Splat"), "o0"), "float[1099511627776]None");
    // The steps of a recurrent operator become nodes.
    let steps = 1 << 40;
    let input = variable("in", DType::Float32, &[steps, 1, 1], "");
    let mut model =
        program(input, output, vec![operator("", "RNN", &["in", "w", "r"], &["", "out"])]);
    model.main_mut().unwrap().blocks[0].ops[0].attributes = vec![long("hidden_size", 1)];
    for name in ["w", "r"] {
        let data = lodstone_store::Blob::memory(vec![0; 4]);
        let tensor = lodstone_model::Tensor::dense(DType::Float32, vec![1, 1, 1], data);
        model.parameters.push(Parameter { name: name.to_owned(), tensor });
    }
    let refused = lowered(model).unwrap_err();
    assert!(refused.contains("too many nodes"), "{refused}");
}

/// Returns a program with `depth` functions, each of which calls the next twice; the last one consists of `leaf`.
fn doubling(depth: usize, leaf: Vec<Op>) -> Model {
    let value = |name| variable(name, DType::Float32, &[2], "");
    let call = |number: usize, from: &str, to: &str| {
        operator("own", &format!("f{number}"), &[from], &[to])
    };
    let mut model = program(value("x"), value("y"), vec![call(0, "x", "y")]);
    let program = model.main_mut().unwrap();
    program.operator_versions.push(("own".to_owned(), 1));
    let program: &mut Topology = program;
    for number in 0..=depth {
        let next = || vec![call(number + 1, "x", "t"), call(number + 1, "t", "y")];
        let ops = if number < depth { next() } else { leaf.clone() };
        let names = |name: &str| vec![name.to_owned()];
        let block = Block { inputs: names("x"), outputs: names("y"), ops, ..Block::default() };
        program.functions.push(Function {
            name: format!("f{number}"),
            domain: "own".to_owned(),
            block: i32::try_from(program.blocks.len()).unwrap(),
            operator_versions: program.operator_versions.clone(),
            ..Function::default()
        });
        program.blocks.push(block);
    }
    model
}

#[test]
fn the_work_of_a_call_includes_its_inputs() {
    let leaf = vec![operator("", "Max", &["x"; 5000], &["y"])];
    assert!(lowered(doubling(4, leaf.clone())).is_ok());
    let refused = lowered(doubling(12, leaf)).unwrap_err();
    assert!(refused.contains("exceeds the work limit for its size"), "{refused}");
    // Names are stored for each value.
    let name = "t".repeat(100_000);
    let leaf = vec![operator("", "Relu", &["x"], &[&name]), operator("", "Relu", &[&name], &["y"])];
    let refused = lowered(doubling(10, leaf)).unwrap_err();
    assert!(refused.contains("exceeds the work limit for its size"), "{refused}");
}

#[test]
fn constants_are_shared_however_often_they_are_used() {
    let mut constant = operator("", "Constant", &[], &["k"]);
    constant.attributes = vec![attribute("value_floats", AttributeValue::Floats(vec![1.0, 2.0]))];
    let leaf = vec![constant, operator("", "Add", &["x", "k"], &["y"])];
    let model = lowered(doubling(6, leaf)).unwrap();
    let ops = &model.main().unwrap().blocks[0].ops;
    assert_eq!(ops.iter().filter(|op| op.kind == "Glow_Add").count(), 64);
    assert_eq!(model.parameters.len(), 1);
}

#[test]
fn constants_computed_from_numbers_are_limited_together() {
    let scalar = |name: &str, number: i64| {
        let mut op = operator("", "Constant", &[], &[name]);
        op.attributes = vec![attribute("value_int", AttributeValue::Long(number))];
        op
    };
    let ranges = |count: usize| {
        let mut ops = vec![scalar("start", 0), scalar("limit", 1 << 20), scalar("delta", 1)];
        let names: Vec<String> = (0..count).map(|number| format!("r{number}")).collect();
        let range = |name: &String| operator("", "Range", &["start", "limit", "delta"], &[name]);
        ops.extend(names.iter().map(range));
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut concat = operator("", "Concat", &names, &["out"]);
        concat.attributes = vec![attribute("axis", AttributeValue::Long(0))];
        ops.push(concat);
        let input = variable("in", DType::Float32, &[1], "");
        program(input, variable("out", DType::Int64, &[(count as u64) << 20], ""), ops)
    };
    assert!(lowered(ranges(2)).is_ok());
    let refused = lowered(ranges(40)).unwrap_err();
    assert!(refused.contains("exceeds the work limit for its size"), "{refused}");
}

/// Reproducible pseudo-random numbers.
struct Chance(u64);

impl Chance {
    fn below(&mut self, count: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % count.max(1) as u64).unwrap()
    }

    fn number(&mut self) -> i64 {
        const NUMBERS: [i64; 12] =
            [0, 1, -1, 2, 3, 7, -2, i64::MAX, i64::MIN, 1 << 31, 1 << 40, -(1 << 33)];
        NUMBERS[self.below(NUMBERS.len())]
    }
}

/// Changes a part of a model.
fn damage(model: &mut Model, chance: &mut Chance) {
    let blocks = &mut model.programs.main_mut().unwrap().blocks;
    let number = chance.below(blocks.len());
    let block = &mut blocks[number];
    let all: Vec<String> = block.ops.iter().flat_map(Op::writes).map(str::to_owned).collect();
    match chance.below(8) {
        0..=2 if !block.ops.is_empty() => {
            let number = chance.below(block.ops.len());
            let attributes = &mut block.ops[number].attributes;
            if attributes.is_empty() {
                return;
            }
            let number = chance.below(attributes.len());
            match &mut attributes[number].value {
                AttributeValue::Long(value) => *value = chance.number(),
                AttributeValue::Longs(values) if !values.is_empty() => {
                    let place = chance.below(values.len());
                    values[place] = chance.number();
                }
                AttributeValue::Float(value) => *value = f32::NAN,
                AttributeValue::Block(value) => *value = i32::try_from(chance.below(5)).unwrap(),
                _ => drop(attributes.remove(number)),
            }
        }
        3 if !block.ops.is_empty() => {
            let number = chance.below(block.ops.len());
            let place = chance.below(all.len());
            let operands = &mut block.ops[number].inputs;
            if let Some(operand) = operands.first_mut().filter(|o| !o.args.is_empty()) {
                let input = chance.below(operand.args.len());
                operand.args[input] = all.get(place).cloned().unwrap_or_default();
            }
        }
        4 | 5 if !block.vars.is_empty() => {
            let number = chance.below(block.vars.len());
            for tensor in block.vars[number].value.tensors_mut() {
                let dims = tensor.shape.get_or_insert_default();
                let place = chance.below(dims.len() + 1);
                let dim = Dim::Known(chance.number().unsigned_abs());
                match dims.get_mut(place) {
                    Some(old) => *old = dim,
                    None => dims.push(dim),
                }
            }
        }
        6 if !model.parameters.is_empty() => {
            let number = chance.below(model.parameters.len());
            let tensor = &mut model.parameters[number].tensor;
            let place = chance.below(tensor.shape.len());
            match tensor.shape.get_mut(place) {
                Some(size) => *size = chance.number().unsigned_abs(),
                None => tensor.shape.push(2),
            }
        }
        _ if !block.ops.is_empty() => {
            let kinds: Vec<String> = block.ops.iter().map(|op| op.kind.clone()).collect();
            let number = chance.below(kinds.len());
            block.ops[number].kind.clone_from(&kinds[chance.below(kinds.len())]);
        }
        _ => {}
    }
}

#[test]
fn damaged_programs_do_no_harm() {
    let mut sources: Vec<PathBuf> = cases().into_iter().map(|(_, source, _)| source).collect();
    let quantized = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/onnx_quantized");
    for name in ["conv", "conv_channels", "topk", "qlinear_conv", "qlinear_matmul"] {
        sources.push(quantized.join(format!("{name}.onnx")));
    }
    let mut chance = Chance(0x2545_f491_4f6c_dd1d);
    let (mut said, mut refused) = (0, 0);
    for source in sources {
        let whole = open(&source).unwrap();
        for _ in 0..60 {
            let mut model = whole.clone();
            for _ in 0..=chance.below(3) {
                damage(&mut model, &mut chance);
            }
            match lowered(model) {
                Ok(model) => {
                    let findings = glow::check(&model);
                    assert!(findings.is_empty(), "{}: {findings:?}", source.display());
                    said += 1;
                }
                Err(_) => refused += 1,
            }
        }
    }
    println!("{said} said, {refused} refused");
    assert!(said > 100 && refused > 100);
}
