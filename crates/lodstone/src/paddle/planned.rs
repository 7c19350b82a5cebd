//! PaddlePaddle networks that only compute outputs from inputs: the engine plans and runs them as a whole, as it does with
//! ONNX programs.
//!
//! Exported operators leave NaN and indices out of range to the runtime (`docs/paddle-to-onnx.md`). So the executor runs a
//! network whose parameters, inputs or outputs are not finite, and runs one again in which a guard (`guards.rs`) finds that an
//! operator read a negative index, or hid NaN. `docs/numerics.md` lists what the executor runs in any case.

use std::collections::HashSet;

use lodstone_lowering::lower;
use lodstone_model::{
    AttributeValue, DType, Dialect, Kind, Model, Op, Parameter, Program, Report, Tensor,
};
use lodstone_schema::Code;
use lodstone_schema::paddle::{
    Choice, Computation, Operator, Plan, Release, attributes, interface, operator,
};
use lodstone_store::Progress;

use crate::paddle::guards::guard;
use crate::run::{Output, RunOptions, Runner, Value, engine};
use crate::{Error, Result};

/// A program with two implementations.
pub(super) struct Planned {
    model: Model,
    options: RunOptions,
    /// The whole program, which is prepared for the first run.
    whole: Whole,
    /// The number of runs in succession whose results were not finite.
    rejected: u32,
    /// The executor of its operators.
    executed: Box<dyn Runner>,
}

/// The number of runs in succession with results that are not finite after which only the executor runs.
const MAX_REJECTED: u32 = 3;

enum Whole {
    Unknown,
    Absent,
    Prepared(Prepared),
}

/// A translated program.
struct Prepared {
    runner: Box<dyn Runner>,
    /// Whether a guard is its last output.
    is_guarded: bool,
}

impl Planned {
    /// Returns a program that runs as a whole where it can, and else by its executor.
    pub(super) fn new(model: &Model, options: &RunOptions, executed: Box<dyn Runner>) -> Self {
        let (model, options) = (model.clone(), options.clone());
        Self { model, options, whole: Whole::Unknown, rejected: 0, executed }
    }

    /// Prepares the whole program, if its translation to ONNX has the same inputs and outputs.
    fn prepare(&self) -> Option<Prepared> {
        let (mut lowered, mut report) = (self.model.clone(), Report::default());
        let origins = lower(&mut lowered, Dialect::Onnx, &mut report)?.ok()?;
        let (program, translated) = (self.model.main()?, lowered.main()?);
        let main = translated.blocks.first()?;
        let own = interface(program);
        let inputs: HashSet<&str> = own.inputs.iter().copied().collect();
        let is_same = main.inputs.iter().all(|name| inputs.contains(name.as_str()))
            && main.inputs.len() == inputs.len()
            && own.outputs.iter().copied().eq(main.outputs.iter().map(String::as_str));
        let variances: HashSet<&str> =
            program.ops().flat_map(|op| op.input("Variance")).map(String::as_str).collect();
        let is_usual = |parameter: &Parameter| {
            let least = if variances.contains(parameter.name.as_str()) { 0.0 } else { f32::MIN };
            is_plain(&parameter.tensor, least)
        };
        if !is_same || !report.warnings.is_empty() || !self.model.parameters.iter().all(is_usual) {
            return None;
        }
        let fetched = engine::fetched(&self.model, &lowered, Some(&origins), &self.options);
        let mut fetched = fetched.ok()?;
        if fetched.is_empty() {
            fetched.clone_from(&lowered.main()?.blocks.first()?.outputs);
        }
        let guard = guard(&mut lowered).ok()?;
        fetched.extend(guard.map(str::to_owned));
        let options = self.options.clone().with_fetch(fetched);
        let runner = engine::prepare(&lowered, &options).ok()?;
        Some(Prepared { runner, is_guarded: guard.is_some() })
    }
}

impl Runner for Planned {
    fn run(&mut self, inputs: Vec<(String, Value)>, progress: &Progress) -> Result<Vec<Output>> {
        if matches!(self.whole, Whole::Unknown) {
            self.whole = self.prepare().map_or(Whole::Absent, Whole::Prepared);
        }
        let is_tensor =
            |value: &Value| matches!(value, Value::Tensor(it) if is_plain(it, f32::MIN));
        if let Whole::Prepared(whole) = &mut self.whole
            && inputs.iter().all(|(_, value)| is_tensor(value))
        {
            match whole.run(inputs.clone(), progress) {
                Ok(Some(mut outputs)) if outputs.iter().all(|it| is_tensor(&it.value)) => {
                    self.rejected = 0;
                    let names = self.options.fetch.iter();
                    outputs.iter_mut().zip(names).for_each(|(it, name)| it.name.clone_from(name));
                    return Ok(outputs);
                }
                Ok(_) => self.rejected += 1,
                Err(error) if is_final(&error) => return Err(error),
                Err(_) => {}
            }
            if self.rejected == MAX_REJECTED {
                self.whole = Whole::Absent;
            }
        }
        // The executor knows LoD; its errors speak of the operators of the program.
        self.executed.run(inputs, progress)
    }

    fn outputs(&self) -> Vec<String> {
        self.executed.outputs()
    }
}

impl Prepared {
    /// Computes the outputs; `None` if a guard does not hold.
    fn run(
        &mut self,
        inputs: Vec<(String, Value)>,
        progress: &Progress,
    ) -> Result<Option<Vec<Output>>> {
        let mut outputs = self.runner.run(inputs, progress)?;
        if !self.is_guarded {
            return Ok(Some(outputs));
        }
        let holds = |guard: Output| match guard.value {
            Value::Tensor(tensor) => Ok::<_, Error>(*tensor.data.bytes()? == [1]),
            _ => Ok(false),
        };
        let holds = outputs.pop().map_or(Ok(false), holds)?;
        Ok(holds.then_some(outputs))
    }
}

/// Returns whether another run would not tell more: the run was cancelled, or the engine is wrong.
fn is_final(error: &Error) -> bool {
    use lodstone_engine::Error as Failure;
    match error {
        Error::Internal(_) | Error::Engine(Failure::Cancelled) => true,
        Error::Engine(Failure::Program(finding)) => finding.code == Code::Internal,
        Error::Engine(Failure::Op(error)) => error.finding.code == Code::Internal,
        _ => false,
    }
}

/// Returns whether a tensor is dense, without LoD, and all its floats are finite and at least `least`.
fn is_plain(tensor: &Tensor, least: f32) -> bool {
    let is_usual = |bits: &[u8; 4]| {
        let value = f32::from_le_bytes(*bits);
        value.is_finite() && value >= least
    };
    let are_usual = || {
        let bytes = tensor.data.bytes()?;
        Ok::<_, lodstone_store::Error>(bytes.as_chunks::<4>().0.iter().all(is_usual))
    };
    let is_number = match tensor.dtype {
        DType::Bool | DType::Int32 | DType::Int64 | DType::Uint8 => true,
        DType::Float32 => are_usual().unwrap_or(false),
        _ => false,
    };
    is_number && tensor.lod.is_empty() && matches!(tensor.kind, Kind::Dense)
}

/// Returns whether a program only has operators that can be planned together, and none of them has another effect.
pub(super) fn is_plannable(program: &Program, options: &RunOptions) -> bool {
    let persistable: HashSet<&str> =
        program.vars().filter(|var| var.persistable).map(|var| var.name.as_str()).collect();
    // Rounding to half precision depends on the release.
    let is_checked = program.vars().all(|var| {
        let dtype = var.value.tensor_type().map(|tensor| tensor.dtype);
        !matches!(dtype, Some(DType::Float16 | DType::BFloat16))
    });
    let release = Release::of(program);
    // An operator without a lowering, such as a branch, is planned in the form that an export gives it.
    let is_native = |row: &Operator| row.computation == Computation::Native;
    let is_whole = |op: &Op, row: &Operator| {
        let is_exported = match row.choose(op, release) {
            Some(Choice::Lowered | Choice::NativeIfSparse | Choice::NativeIfNan) => true,
            Some(Choice::Native) => is_native(row),
            None => false,
        };
        is_exported && row.plan == Some(Plan::Whole)
    };
    // Branches and loops that train keep values for gradients, which nothing reads here.
    let is_test = |op: &Op, row: &Operator| {
        is_native(row)
            || attributes(&op.kind).all(|parameter| parameter.name != "is_test")
            || op.attribute("is_test") == Some(&AttributeValue::Bool(true))
    };
    // Batch normalization by given statistics does not change them.
    let keeps_statistics = |op: &Op| {
        let is_set = |name: &str| op.attribute(name) == Some(&AttributeValue::Bool(true));
        op.kind == "batch_norm" && (!is_set("trainable_statistics") || is_set("use_global_stats"))
    };
    let writes = |op: &Op| !keeps_statistics(op) && op.writes().any(|it| persistable.contains(it));
    let is_pure = |op: &Op, row: &Operator| is_whole(op, row) && is_test(op, row) && !writes(op);
    let is_planned = |op: &Op| {
        operator(&op.kind).is_some_and(|row| row.plan == Some(Plan::Interface) || is_pure(op, row))
    };
    let is_limited = options.loader.is_some() || options.max_steps.is_some();
    is_checked
        && !is_limited
        && program.ops().any(|op| op.kind == "fetch")
        && program.ops().all(is_planned)
}
