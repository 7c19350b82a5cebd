//! Complete models that PyTorch and onnxscript exported return the results of ONNX Runtime
//! (`golden/onnx_models/make_onnx_models.py`), and runs respect their limits.

#![expect(clippy::expect_used, clippy::unwrap_used, clippy::panic, reason = "tests fail so")]

use std::path::{Path, PathBuf};

use lodstone_engine::{
    Budget, Context, Dense, Error, Executable, ExecutableOptions, Folding, Mode, Session, State,
    Steps, Threads, Value,
};
use lodstone_formats::{OpenOptions, numpy, onnx};
use lodstone_model::{
    Attribute, AttributeValue, Block, DType, Dialect, Model, Op, Operand, Parameter, Program,
    Tensor, Topology, Var,
};
use lodstone_schema::Code;
use lodstone_schema::onnx::infer::{Options, ValueInfo, infer};
use lodstone_schema::onnx::simplify::{Bounds, simplify};
use lodstone_schema::onnx::{check, inline, newest_opset};
use lodstone_store::{Blob, Location, Progress};

/// The maximum difference from ONNX Runtime, relative to the larger of 1 and the number.
const NEAR: f64 = 2e-5;

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/onnx_models").join(name)
}

fn model(name: &str) -> Model {
    let path = Location::from(&golden(&format!("{name}.onnx")));
    let mut model = (onnx::BINARY.read)(&path, &OpenOptions::default()).expect("readable");
    model.load().expect("readable");
    model
}

/// The inputs by name, and the outputs.
type Feed = (Vec<(String, Value)>, Vec<Value>);

fn feed(name: &str, number: usize) -> Feed {
    let path = Location::from(&golden(&format!("{name}.{number}.npz")));
    let archive = (numpy::NPZ.read)(&path, &OpenOptions::default()).expect("readable");
    let (mut inputs, mut outputs) = (Vec::new(), Vec::new());
    for Parameter { name, tensor } in archive.parameters {
        let value = Value::of(&tensor).expect("a value");
        match (name.strip_prefix("in."), name.strip_prefix("out.")) {
            (Some(name), _) => inputs.push((name.to_owned(), value)),
            (_, Some(number)) => outputs.push((number.parse::<usize>().expect("one"), value)),
            _ => panic!("`{name}` is neither"),
        }
    }
    outputs.sort_by_key(|(number, _)| *number);
    (inputs, outputs.into_iter().map(|(_, value)| value).collect())
}

/// The names of the models, with the number of their inputs.
fn models() -> Vec<(String, usize)> {
    let text = Blob::open(golden("index.json"), false).and_then(|blob| blob.read()).expect("there");
    let index: serde_json::Value = serde_json::from_slice(&text).expect("JSON");
    let cases = index.get("cases").and_then(|cases| cases.as_array()).expect("a list");
    let case = |case: &serde_json::Value| {
        let feeds = case.get("feeds").and_then(|feeds| feeds.as_u64()).expect("a number");
        let name = case.get("name").and_then(|name| name.as_str()).expect("a name");
        (name.to_owned(), usize::try_from(feeds).expect("few"))
    };
    cases.iter().map(case).collect()
}

fn named(inputs: &[(String, Value)]) -> Vec<(&str, Value)> {
    inputs.iter().map(|(name, value)| (name.as_str(), value.clone())).collect()
}

fn options(mode: Mode) -> ExecutableOptions {
    ExecutableOptions::default().with_mode(mode)
}

fn bits(values: &[Value]) -> Vec<Vec<u8>> {
    values.iter().map(|value| value.dense().unwrap().bytes().unwrap().to_vec()).collect()
}

fn assert_near(found: &[Value], expected: &[Value], what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (found, expected) in found.iter().zip(expected) {
        let (found, expected) = (found.dense().unwrap(), expected.dense().unwrap());
        assert_eq!((found.dtype(), found.dims()), (expected.dtype(), expected.dims()), "{what}");
        for (a, b) in found.to_f64().unwrap().iter().zip(expected.to_f64().unwrap()) {
            assert!((a - b).abs() <= NEAR * b.abs().max(1.0), "{what}: {a} is not {b}");
        }
    }
}

#[test]
fn models_compute_what_onnx_runtime_computes() {
    let (budget, threads) = (Budget::default(), Threads::default());
    let context = Context::new(&budget, &threads);
    for (name, feeds) in models() {
        for mode in [Mode::Reference, Mode::Fast] {
            let executable = Executable::new(&model(&name), &options(mode), context);
            let executable = executable.unwrap_or_else(|error| panic!("{name}: {error}"));
            for number in 0..feeds {
                let what = format!("{name}, feed {number}, {mode:?}");
                let (inputs, expected) = feed(&name, number);
                let made = executable.run(named(&inputs), context);
                let made = made.unwrap_or_else(|error| panic!("{what}: {error}"));
                assert_near(&made, &expected, &what);
            }
        }
    }
}

#[test]
fn simplified_models_are_valid_and_compute_the_same() {
    let (budget, threads) = (Budget::default(), Threads::default());
    let context = Context::new(&budget, &threads);
    let all = Bounds { each: u64::MAX, all: u64::MAX };
    let mut removed = 0;
    for (name, feeds) in models() {
        let mut source = model(&name);
        let program = inline(source.main().unwrap()).unwrap();
        source.set_main(program);
        let infos = infer(&source, &Options::default().with_overridable(true)).blocks;
        let program = source.main().unwrap();
        let simple = simplify(program, &source.parameters, &infos, &Folding(&threads), all);
        let simple = simple.unwrap_or_else(|error| panic!("{name}: {error}"));
        removed += program.ops().count() - simple.program.ops().count();
        let mut made = Model { parameters: simple.parameters, ..Model::default() };
        made.set_main(simple.program);
        let findings = check(&made);
        assert!(findings.is_empty(), "{name}: {:?}", findings.located);
        let executable = Executable::new(&made, &options(Mode::Reference), context).unwrap();
        for number in 0..feeds {
            let (inputs, expected) = feed(&name, number);
            let found = executable.run(named(&inputs), context).unwrap();
            assert_near(&found, &expected, &name);
        }
    }
    assert!(removed > 40, "{removed}");
}

#[test]
fn results_do_not_depend_on_earlier_runs_or_on_other_threads() {
    let (budget, threads) = (Budget::default(), Threads::default());
    let context = Context::new(&budget, &threads);
    for (name, feeds) in models() {
        let executable = Executable::new(&model(&name), &options(Mode::Fast), context).unwrap();
        let expected: Vec<_> = (0..feeds)
            .map(|number| {
                let fresh = Executable::new(&model(&name), &options(Mode::Fast), context).unwrap();
                bits(&fresh.run(named(&feed(&name, number).0), context).unwrap())
            })
            .collect();
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for number in (0..feeds).chain((0..feeds).rev()) {
                        let inputs = feed(&name, number).0;
                        let made = executable.run(named(&inputs), context).unwrap();
                        assert_eq!(bits(&made), expected[number], "{name}, feed {number}");
                    }
                });
            }
        });
    }
}

#[test]
fn plans_are_kept_for_some_types_alone_and_results_stay_the_same() {
    let (budget, threads) = (Budget::default(), Threads::default());
    let context = Context::new(&budget, &threads);
    let executable = Executable::new(&model("whole"), &options(Mode::Fast), context).unwrap();
    let run = |rows: u64| {
        let x = singles(&[rows, 3], 0.5);
        bits(&executable.run(vec![("x", x)], context).unwrap())
    };
    let first: Vec<_> = (1..60).map(run).collect();
    let again: Vec<_> = (1..60).map(run).collect();
    assert_eq!(first, again);
}

#[test]
fn an_input_with_a_default_may_be_left_out() {
    let (budget, threads) = (Budget::default(), Threads::default());
    let context = Context::new(&budget, &threads);
    let executable = Executable::new(&model("whole"), &options(Mode::Fast), context).unwrap();
    assert!(executable.inputs().eq(["x", "scale"]));
    assert_eq!(executable.outputs(), ["z", "w"]);
    let x = singles(&[1, 3], 1.0);
    let left_out = executable.run(vec![("x", x.clone())], context).unwrap();
    let given = vec![("scale", singles(&[1], 3.0)), ("x", x)];
    assert_eq!(bits(&left_out), bits(&executable.run(given, context).unwrap()));
}

#[test]
fn wrong_inputs_are_named() {
    let (budget, threads) = (Budget::default(), Threads::default());
    let context = Context::new(&budget, &threads);
    let executable = Executable::new(&model("whole"), &options(Mode::Fast), context).unwrap();
    let x = || singles(&[2, 3], 1.0);
    let long = Value::from(Dense::new(DType::Int64, vec![1, 3], vec![0; 24].into()).unwrap());
    for (inputs, expected) in [
        (vec![], "input `x`: it is missing"),
        (vec![("x", x()), ("y", x())], "input `y`: there is no such input; there are `x`, `scale`"),
        (vec![("x", x()), ("x", x())], "input `x`: it is given twice"),
        (vec![("x", long)], "input `x`: expected float32[n, 3], found int64[1, 3]"),
        (vec![("x", singles(&[3], 1.0))], "input `x`: expected float32[n, 3], found float32[3]"),
        (
            vec![("x", singles(&[2, 4], 1.0))],
            "input `x`: expected float32[n, 3], found float32[2, 4]",
        ),
    ] {
        assert_eq!(executable.run(inputs, context).unwrap_err().to_string(), expected);
    }
}

#[test]
fn any_value_of_the_graph_may_be_an_output() {
    let (budget, threads) = (Budget::default(), Threads::default());
    let context = Context::new(&budget, &threads);
    let wanted = options(Mode::Fast).with_outputs(vec!["t".to_owned(), "y".to_owned()]);
    let executable = Executable::new(&model("whole"), &wanted, context).unwrap();
    let made = executable.run(vec![("x", singles(&[1, 3], 2.0))], context).unwrap();
    assert_eq!(made[0].dense().unwrap().dims(), [2, 3]);
    assert_eq!(made[1].dense().unwrap().to_f64().unwrap(), [6.0; 3]);
    let absent = options(Mode::Fast).with_outputs(vec!["nothing".to_owned()]);
    let error = Executable::new(&model("whole"), &absent, context).unwrap_err();
    assert_eq!(error.to_string(), "there is no value `nothing`");
}

#[test]
fn a_loop_takes_as_many_steps_as_it_has_trips() {
    let (budget, threads) = (Budget::default(), Threads::default());
    let context = Context::new(&budget, &threads);
    let executable = Executable::new(&model("rounds"), &options(Mode::Fast), context).unwrap();
    let inputs = |count: i64| {
        let count = Dense::new(DType::Int64, Vec::new(), count.to_le_bytes().to_vec().into());
        vec![("x", singles(&[3, 4], -0.5)), ("count", count.unwrap().into())]
    };
    let steps = |count: i64| {
        let steps = Steps::new(u64::MAX);
        executable.run(inputs(count), context.with_steps(&steps)).unwrap();
        steps.taken()
    };
    // The branches differ in few operators.
    let (once, twice, thrice) = (steps(200), steps(400), steps(600));
    assert!((twice - once).abs_diff(thrice - twice) < once / 4, "{once} {twice} {thrice}");
    let few = Steps::new(100);
    let error = executable.run(inputs(i64::MAX), context.with_steps(&few)).unwrap_err();
    assert!(error.to_string().ends_with("the run exceeds its limit of 100 steps"), "{error}");
}

#[test]
fn a_cancelled_run_stops() {
    let (budget, threads) = (Budget::default(), Threads::default());
    let progress = Progress::default();
    let context = Context::new(&budget, &threads).with_progress(&progress);
    let executable = Executable::new(&model("rounds"), &options(Mode::Fast), context).unwrap();
    let endless = i64::MAX.to_le_bytes().to_vec();
    let endless = Dense::new(DType::Int64, Vec::new(), endless.into()).unwrap();
    let inputs = vec![("x", singles(&[3, 4], -0.5)), ("count", endless.into())];
    std::thread::scope(|scope| {
        let run = scope.spawn(|| executable.run(inputs, context));
        std::thread::sleep(std::time::Duration::from_millis(50));
        progress.cancel();
        assert!(matches!(run.join().unwrap(), Err(Error::Cancelled)));
    });
}

#[test]
fn a_run_keeps_to_its_budget() {
    let threads = Threads::default();
    let large = Budget::default();
    let context = Context::new(&large, &threads);
    let executable = Executable::new(&model("images"), &options(Mode::Fast), context).unwrap();
    let inputs = || vec![("x", singles(&[4, 3, 64, 64], 0.5))];
    executable.run(inputs(), context).unwrap();
    // The first convolution alone allocates 512 KiB.
    let small = Budget::new(400 << 10);
    let error = executable.run(inputs(), Context::new(&small, &threads)).unwrap_err();
    let Error::Program(finding) = error else { panic!("{error}") };
    assert_eq!(finding.code, Code::Limit);
    // The reserved memory is released.
    let fitting = Budget::new(4 << 20);
    for _ in 0..3 {
        executable.run(inputs(), Context::new(&fitting, &threads)).unwrap();
    }
}

/// A model of one operator, whose inputs are of any type.
fn single(kind: &str, attributes: Vec<Attribute>, inputs: &[&str]) -> Model {
    let operand = |args: &[&str]| {
        let args = args.iter().map(|name| (*name).to_owned()).collect();
        vec![Operand { slot: String::new(), args }]
    };
    let (read, written) = (operand(inputs), operand(&["y"]));
    let kind = kind.to_owned();
    let block = Block {
        inputs: inputs.iter().map(|name| (*name).to_owned()).collect(),
        outputs: vec!["y".to_owned()],
        ops: vec![Op { kind, inputs: read, outputs: written, attributes, ..Op::default() }],
        ..Block::default()
    };
    let topology = Topology {
        version: Some(10),
        operator_versions: vec![(String::new(), newest_opset("").unwrap())],
        blocks: vec![block],
        ..Topology::new(Dialect::Onnx)
    };
    let mut model = Model::default();
    model.set_main(Program::from(topology));
    model
}

#[test]
fn wrongly_declared_results_have_the_types_of_their_operators() {
    let (budget, threads) = (Budget::default(), Threads::default());
    let context = Context::new(&budget, &threads);
    let mut model = single("Shape", Vec::new(), &["x"]);
    let declared = ValueInfo::tensor(DType::Float32, Some(Vec::new())).value;
    let var = Var { name: "y".to_owned(), value: declared, ..Var::default() };
    model.main_mut().unwrap().blocks[0].vars.push(var);
    let executable = Executable::new(&model, &options(Mode::Fast), context).unwrap();
    let made = executable.run(vec![("x", singles(&[2, 3], 0.5))], context).unwrap();
    let made = made[0].dense().unwrap();
    assert_eq!((made.dtype(), made.dims()), (DType::Int64, &[2][..]));
    assert_eq!(made.to_f64().unwrap(), [2.0, 3.0]);
}

#[test]
fn small_elements_count_in_a_long_softmax() {
    let (budget, threads) = (Budget::default(), Threads::default());
    let context = Context::new(&budget, &threads);
    let count = 20_000_u16;
    let expected = 1.0 / (1.0 + f64::from(count - 1) * (-20.0_f64).exp());
    for dims in [[1, u64::from(count)], [u64::from(count), 1]] {
        let axis = i64::from(dims[0] == 1);
        let attributes =
            vec![Attribute { name: "axis".to_owned(), value: AttributeValue::Long(axis) }];
        let model = single("Softmax", attributes, &["x"]);
        let executable = Executable::new(&model, &options(Mode::Fast), context).unwrap();
        let numbers = std::iter::once(20_f32).chain(std::iter::repeat_n(0.0, count.into()));
        let bytes: Vec<u8> = numbers.take(count.into()).flat_map(f32::to_le_bytes).collect();
        let x = Tensor::dense(DType::Float32, dims.to_vec(), bytes.into());
        let made = executable.run(vec![("x", Value::of(&x).unwrap())], context).unwrap();
        let found = made[0].dense().unwrap().to_f64().unwrap()[0];
        assert!((found - expected).abs() < 1e-5, "{found} is not {expected}");
    }
}

#[test]
fn memory_that_a_kernel_works_in_counts() {
    let threads = Threads::default();
    let text = |name: &str, value: &str| Attribute {
        name: name.to_owned(),
        value: AttributeValue::String(value.into()),
    };
    // The inputs and the result take some KiB each, the scores and the product of the first two terms more than a MiB.
    let attention = (single("Attention", Vec::new(), &["q", "k", "v"]), [1, 1, 512, 1]);
    let equation = vec![text("equation", "abcd,abed,abce->ab")];
    let einsum = (single("Einsum", equation, &["q", "k", "v"]), [1, 1, 512, 1]);
    for (at, (model, dims)) in [attention, einsum].into_iter().enumerate() {
        let large = Budget::default();
        let context = Context::new(&large, &threads);
        let executable = Executable::new(&model, &options(Mode::Fast), context).unwrap();
        let last = if at == 1 { [1, 1, 1, 512] } else { dims };
        let inputs = || {
            let values = [dims, dims, last].map(|dims| singles(&dims, 0.5));
            ["q", "k", "v"].into_iter().zip(values).collect::<Vec<_>>()
        };
        executable.run(inputs(), context).unwrap();
        let small = Budget::new(1 << 20);
        let error = executable.run(inputs(), Context::new(&small, &threads)).unwrap_err();
        let Error::Op(error) = error else { panic!("{error}") };
        assert_eq!(error.finding.code, Code::Limit);
        let fitting = Budget::new(64 << 20);
        for _ in 0..3 {
            executable.run(inputs(), Context::new(&fitting, &threads)).unwrap();
        }
    }
}

#[test]
fn all_operators_without_a_kernel_are_named() {
    let (budget, threads) = (Budget::default(), Threads::default());
    let mut model = model("whole");
    let program = model.main_mut().unwrap();
    program.operator_versions.push(("strange".to_owned(), 1));
    for at in [0, 3] {
        let op = &mut program.blocks[0].ops[at];
        op.domain = "strange".to_owned();
        op.kind = format!("Op{at}");
    }
    let error = Executable::new(&model, &options(Mode::Fast), Context::new(&budget, &threads));
    let Err(Error::Operators(findings)) = error else { panic!("{error:?}") };
    let told: Vec<String> = findings.located.iter().map(ToString::to_string).collect();
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[0].contains("operator `Op0` of strange is not supported"), "{told:?}");
    assert!(told[1].contains("operator `Op3` of strange is not supported"), "{told:?}");
}

fn singles(dims: &[u64], value: f32) -> Value {
    let count = usize::try_from(dims.iter().product::<u64>()).unwrap();
    let bytes = value.to_le_bytes().repeat(count);
    Value::of(&Tensor::dense(DType::Float32, dims.to_vec(), bytes.into())).unwrap()
}

/// `total` is incremented by `x` in each run.
fn sums() -> Model {
    let operand = |args: &[&str]| {
        let args = args.iter().map(|name| (*name).to_owned()).collect();
        vec![Operand { slot: String::new(), args }]
    };
    let op = |kind: &str, inputs: &[&str], output: &str| Op {
        kind: kind.to_owned(),
        inputs: operand(inputs),
        outputs: operand(&[output]),
        ..Op::default()
    };
    let block = Block {
        inputs: vec!["x".to_owned(), "total".to_owned()],
        outputs: vec!["doubled".to_owned()],
        ops: vec![op("Add", &["total", "x"], "next"), op("Add", &["next", "next"], "doubled")],
        ..Block::default()
    };
    let topology = Topology {
        version: Some(10),
        operator_versions: vec![(String::new(), newest_opset("").unwrap())],
        blocks: vec![block],
        ..Topology::new(Dialect::Onnx)
    };
    let total = singles(&[2], 0.0).tensor().unwrap();
    let parameters = vec![Parameter { name: "total".to_owned(), tensor: total }];
    let mut model = Model { parameters, ..Model::default() };
    model.set_main(Program::from(topology));
    model
}

#[test]
fn a_session_keeps_states_and_a_run_without_one_does_not() {
    let (budget, threads) = (Budget::default(), Threads::default());
    let context = Context::new(&budget, &threads);
    let state = State { input: "total".to_owned(), output: "next".to_owned() };
    let options = options(Mode::Fast).with_states(vec![state]);
    let executable = Executable::new(&sums(), &options, context).unwrap();
    let x = || vec![("x", singles(&[2], 1.5))];
    for _ in 0..2 {
        let made = executable.run(x(), context).unwrap();
        assert_eq!(made.len(), 1);
        assert_eq!(made[0].dense().unwrap().to_f64().unwrap(), [3.0, 3.0]);
    }
    let mut session = Session::new(&executable);
    for run in 1..4 {
        let made = session.run(x(), context).unwrap();
        assert_eq!(made[0].dense().unwrap().to_f64().unwrap(), [3.0 * f64::from(run); 2]);
    }
    // A failed run does not change the states.
    session.run(vec![("x", singles(&[3], 1.0))], context).unwrap_err();
    let made = session.run(x(), context).unwrap();
    assert_eq!(made[0].dense().unwrap().to_f64().unwrap(), [12.0; 2]);
    let made = executable.run(x(), context).unwrap();
    assert_eq!(made[0].dense().unwrap().to_f64().unwrap(), [3.0, 3.0]);
}

#[test]
fn a_scan_without_steps_stacks_nothing_along_its_axis() {
    let (budget, threads) = (Budget::default(), Threads::default());
    let context = Context::new(&budget, &threads);
    let mut model = sums();
    let program = model.main_mut().unwrap();
    let slot = |name: &str| vec![Operand { slot: String::new(), args: vec![name.to_owned()] }];
    let attribute = |name: &str, value| Attribute { name: name.to_owned(), value };
    let (inputs, outputs) = (vec!["row".to_owned()], vec!["same".to_owned()]);
    let same = Op {
        kind: "Identity".to_owned(),
        inputs: slot("row"),
        outputs: slot("same"),
        ..Op::default()
    };
    program.blocks.push(Block {
        index: 1,
        parent: 0,
        inputs,
        outputs,
        ops: vec![same],
        ..Block::default()
    });
    program.blocks[0].ops = vec![Op {
        kind: "Scan".to_owned(),
        inputs: slot("x"),
        outputs: slot("doubled"),
        attributes: vec![
            attribute("body", AttributeValue::Block(1)),
            attribute("num_scan_inputs", AttributeValue::Long(1)),
            attribute("scan_output_axes", AttributeValue::Longs(vec![1])),
        ],
        ..Op::default()
    }];
    for mode in [Mode::Reference, Mode::Fast] {
        let executable = Executable::new(&model, &options(mode), context).unwrap();
        for steps in [2, 0] {
            let made = executable.run(vec![("x", singles(&[steps, 3], 1.0))], context).unwrap();
            assert_eq!(made[0].dense().unwrap().dims(), [3, usize::try_from(steps).unwrap()]);
        }
    }
}

#[test]
fn optional_values_are_made() {
    let (budget, threads) = (Budget::default(), Threads::default());
    let context = Context::new(&budget, &threads);
    let mut model = sums();
    let program = model.main_mut().unwrap();
    program.blocks[0].ops[0].kind = "Optional".to_owned();
    program.blocks[0].ops[0].inputs[0].args.truncate(1);
    program.blocks[0].ops[1].kind = "OptionalGetElement".to_owned();
    program.blocks[0].ops[1].inputs[0].args.truncate(1);
    program.blocks[0].outputs.push("next".to_owned());
    let executable = Executable::new(&model, &options(Mode::Fast), context).unwrap();
    let made = executable.run(vec![("x", singles(&[1], 0.0))], context).unwrap();
    assert_eq!(made[0].dense().unwrap().to_f64().unwrap(), [0.0, 0.0]);
    assert!(matches!(&made[1], Value::Optional(Some(inside)) if inside.dense().is_ok()));
}
