//! The time of each kernel: the recorded node tests, and each operator of ONNX that takes floats, on 1,000 and 262,144 of
//! them. Prints a line for each: its name, the mode, and nanoseconds for a run, the least of several.
//!
//! `cargo bench --locked --package lodstone-engine --bench kernels [FILTER]`; lines of two revisions are compared by name.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a benchmark prints its figures")]
#![expect(clippy::expect_used, reason = "a benchmark")]

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use lodstone_engine::{
    Budget, Context, Executable, ExecutableOptions, Mode, Threads, Value, is_computed,
};
use lodstone_formats::{OpenOptions, onnx};
use lodstone_model::{
    Attribute, AttributeValue, Block, DType, Dialect, Model, Op, Operand, Parameter, Program,
    Tensor, Topology,
};
use lodstone_schema::onnx::{newest_opset, operators};
use lodstone_store::{Blob, Location};

/// The time that is measured at once.
const TURN: Duration = Duration::from_millis(2);

/// The number of times that it is measured.
const TURNS: usize = 7;

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/onnx_nodes")
}

/// Prints the time of a run of a model.
fn measure(name: &str, model: &Model, inputs: &[(String, Value)]) {
    let (budget, threads) = (Budget::default(), Threads::new(1));
    let context = Context::new(&budget, &threads);
    for (mode, label) in [(Mode::Reference, "reference"), (Mode::Fast, "fast")] {
        let options = ExecutableOptions::default().with_mode(mode);
        let Ok(executable) = Executable::new(model, &options, context) else { continue };
        let run = || {
            let inputs = inputs.iter().map(|(name, value)| (name.as_str(), value.clone()));
            executable.run(inputs.collect(), context)
        };
        if run().is_err() {
            continue;
        }
        let begun = Instant::now();
        let mut count = 0_u32;
        while begun.elapsed() < TURN {
            let _ = run();
            count += 1;
        }
        let turn = || {
            let begun = Instant::now();
            (0..count).for_each(|_| drop(run()));
            begun.elapsed().as_nanos() / u128::from(count)
        };
        let least = (0..TURNS).map(|_| turn()).min().expect("turns");
        println!("{name}\t{label}\t{least}");
    }
}

/// Separates the inputs of a recorded case from its program; `None` if some are no tensors.
fn case(mut model: Model) -> Option<(Model, Vec<(String, Value)>)> {
    if model.metadata.contains_key("lodstone.values") {
        return None;
    }
    let (mut inputs, mut outputs) = (Vec::new(), Vec::new());
    for Parameter { name, tensor } in std::mem::take(&mut model.parameters) {
        match name.strip_prefix("expected.") {
            Some(name) => outputs.push(name.to_owned()),
            None => inputs.push((name, Value::of(&tensor).ok()?)),
        }
    }
    let block = model.main_mut()?.blocks.first_mut()?;
    block.vars.clear();
    block.inputs = inputs.iter().map(|(name, _)| name.clone()).collect();
    block.outputs = outputs;
    Some((model, inputs))
}

fn singles(dims: &[u64]) -> Tensor {
    let count: u64 = dims.iter().product();
    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    let bytes: Vec<u8> =
        (0..count).flat_map(|at| ((at * 37 % 101) as f32 / 40.0 - 1.0).to_le_bytes()).collect();
    Tensor::dense(DType::Float32, dims.to_vec(), Blob::memory(bytes))
}

/// Returns a model of one operator, whose inputs are `a` and `b`.
fn model(kind: &str, inputs: &[&str]) -> Model {
    let operand = |names: &[&str]| Operand {
        slot: String::new(),
        args: names.iter().map(|name| (*name).to_owned()).collect(),
    };
    let size = Attribute { name: "size".to_owned(), value: AttributeValue::Long(3) };
    let op = Op {
        kind: kind.to_owned(),
        inputs: vec![operand(inputs)],
        outputs: vec![operand(&["y"])],
        attributes: if kind == "LRN" { vec![size] } else { Vec::new() },
        ..Op::default()
    };
    let block = Block {
        ops: vec![op],
        inputs: inputs.iter().map(|name| (*name).to_owned()).collect(),
        outputs: vec!["y".to_owned()],
        ..Block::default()
    };
    let topology = Topology {
        operator_versions: vec![(String::new(), newest_opset("").expect("known"))],
        blocks: vec![block],
        ..Topology::new(Dialect::Onnx)
    };
    let mut model = Model::default();
    model.set_main(Program::from(topology));
    model
}

fn main() {
    let filter = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let is_asked = |name: &str| filter.as_ref().is_none_or(|filter| name.contains(filter.as_str()));
    let listed = Location::from(golden().as_path()).list();
    let Ok(entries) = listed else { return eprintln!("no golden files") };
    let mut paths: Vec<PathBuf> = entries.iter().map(|entry| golden().join(&entry.name)).collect();
    paths.retain(|path| path.extension().is_some_and(|ending| ending == "onnx"));
    for path in paths {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if !is_asked(&name) {
            continue;
        }
        let opened = (onnx::BINARY.read)(&Location::from(&path), &OpenOptions::default());
        let Ok(mut model) = opened else { continue };
        if model.load().is_err() {
            continue;
        }
        let Some((model, inputs)) = case(model) else { continue };
        measure(&name, &model, &inputs);
    }
    for kind in operators().filter(|it| it.domain == "ai.onnx").map(|it| it.kind) {
        if !is_computed("", kind) || !is_asked(kind) {
            continue;
        }
        for dims in [[20_u64, 50], [256, 1024]] {
            for inputs in [&["a"][..], &["a", "b"]] {
                let value = || Value::of(&singles(&dims)).expect("a value");
                let given: Vec<_> =
                    inputs.iter().map(|name| ((*name).to_owned(), value())).collect();
                let name = format!("{kind} of {} x {dims:?}", inputs.len());
                measure(&name, &model(kind, inputs), &given);
            }
        }
    }
}
