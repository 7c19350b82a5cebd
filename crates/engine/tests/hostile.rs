//! Models with damaged bytes cause an error or a result: no panic, no internal error, no endless run.

#![expect(clippy::expect_used, clippy::panic, clippy::disallowed_methods, reason = "tests fail so")]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use lodstone_engine::{
    Budget, Context, Error, Executable, ExecutableOptions, Mode, Steps, Threads, Value,
};
use lodstone_formats::{OpenOptions, onnx};
use lodstone_model::{DType, Dim, Model, Tensor, ValueType};
use lodstone_schema::Code;
use lodstone_store::Location;

/// Reproducible pseudo-random numbers.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 16).expect("a number") % end.max(1)
    }
}

/// Returns a value of a declared tensor type: small integers, which are valid numbers and indices.
fn value_of(declared: &ValueType, n: u64) -> Option<Value> {
    let tensor = declared.tensor_type()?;
    let known = |dim: &Dim| match dim {
        Dim::Known(known) => *known,
        _ => n,
    };
    let shape: Vec<u64> = tensor.shape.as_ref()?.iter().map(known).collect();
    let size = tensor.dtype.size_of(&shape).filter(|size| *size < 1 << 16)?;
    let mut bytes = vec![0; usize::try_from(size).ok()?];
    if matches!(tensor.dtype, DType::Int64 | DType::Int32 | DType::Bool) {
        let each = usize::try_from(size / shape.iter().product::<u64>().max(1)).ok()?;
        bytes.iter_mut().step_by(each.max(1)).for_each(|byte| *byte = 1);
    }
    Value::of(&Tensor::dense(tensor.dtype, shape, bytes.into())).ok()
}

/// Returns whether the model ran.
fn run(model: &Model, mode: Mode) -> Result<bool, Error> {
    let threads = Threads::new(1);
    let (budget, steps) = (Budget::new(64 << 20), Steps::new(2000));
    let context = Context::new(&budget, &threads).with_steps(&steps);
    let options = ExecutableOptions::default().with_mode(mode);
    let executable = Executable::new(model, &options, context)?;
    let main = model.main().and_then(|program| program.blocks.first());
    let vars = main.map_or(&[][..], |main| &main.vars);
    let mut inputs = Vec::new();
    for name in executable.inputs() {
        let declared = vars.iter().find(|var| var.name == name);
        match declared.and_then(|var| value_of(&var.value, 2)) {
            Some(value) => inputs.push((name, value)),
            None => return Ok(false),
        }
    }
    executable.run(inputs, context).map(|_| true)
}

fn is_internal(error: &Error) -> bool {
    match error {
        Error::Program(finding) | Error::Input(_, finding) => finding.code == Code::Internal,
        Error::Op(error) => error.finding.code == Code::Internal,
        Error::Operators(findings) => findings.has(Code::Internal),
        _ => false,
    }
}

#[test]
fn a_damaged_model_is_run_or_refused() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let (mut ran, mut refused) = (0, 0);
    let room = tempfile::tempdir().expect("made");
    let path = room.path().join("model.onnx");
    for (folder, each) in [("onnx_models", 400), ("onnx_nodes", 6)] {
        let entries = std::fs::read_dir(golden.join(folder)).expect("there");
        let mut files: Vec<_> = entries.map(|entry| entry.expect("there").path()).collect();
        files.retain(|file| file.extension().is_some_and(|end| end == "onnx"));
        files.sort();
        for file in files {
            let whole = std::fs::read(&file).expect("read");
            let mut numbers = Numbers(whole.len() as u64 * 0x9E37_79B9 + 1);
            for round in 0..each {
                let mut bytes = whole.clone();
                for _ in 0..=numbers.below(3) {
                    let at = numbers.below(bytes.len());
                    let byte = u8::try_from(numbers.below(256)).expect("a byte");
                    match (numbers.below(4), bytes.get_mut(at)) {
                        (0, Some(found)) => *found ^= 1 << (byte % 8),
                        (1, Some(found)) => *found = byte,
                        (2, Some(found)) => *found = found.wrapping_add(1),
                        _ => bytes.truncate(at.max(1)),
                    }
                }
                std::fs::write(&path, &bytes).expect("written");
                let read = (onnx::BINARY.read)(&Location::from(&path), &OpenOptions::default());
                let Ok(mut model) = read else { continue };
                if model.load().is_err() {
                    continue;
                }
                let mode = if round % 2 == 0 { Mode::Fast } else { Mode::Reference };
                let made = catch_unwind(AssertUnwindSafe(|| run(&model, mode)));
                let what = || {
                    let kept = std::env::temp_dir().join("hostile.onnx");
                    std::fs::write(&kept, &bytes).expect("written");
                    format!("{}, round {round}, {mode:?}: see {}", file.display(), kept.display())
                };
                match made {
                    Ok(Ok(true)) => ran += 1,
                    Ok(Ok(false)) => {}
                    Ok(Err(error)) if is_internal(&error) => panic!("{}: {error}", what()),
                    Ok(Err(_)) => refused += 1,
                    Err(_) => panic!("{}: a panic", what()),
                }
            }
        }
    }
    assert!(ran > 300 && refused > 300, "{ran} ran, {refused} were refused");
}
