//! PaddlePaddle networks that only compute outputs from inputs: the engine plans and runs them as a whole, as it does with
//! ONNX programs.
//!
//! Exported operators leave NaN to the runtime (`docs/paddle-to-onnx.md`). So the executor runs a network whose parameters,
//! inputs or outputs are not finite, and every network with operators that could make NaN of finite numbers, or hide NaN from
//! its outputs.

use std::collections::HashSet;

use lodstone_lowering::lower;
use lodstone_model::{
    AttributeValue, DType, Dialect, Kind, Model, Op, Parameter, Program, Report, Tensor, Var,
};
use lodstone_schema::Code;
use lodstone_schema::paddle::{Choice, Release, attributes, interface, operator};
use lodstone_store::Progress;

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
    Prepared(Box<dyn Runner>),
}

impl Planned {
    /// Returns a program that runs as a whole where it can, and else by its executor.
    pub(super) fn new(model: &Model, options: &RunOptions, executed: Box<dyn Runner>) -> Self {
        let (model, options) = (model.clone(), options.clone());
        Self { model, options, whole: Whole::Unknown, rejected: 0, executed }
    }

    /// Prepares the whole program, if its translation to ONNX has the same inputs and outputs.
    fn prepare(&self) -> Option<Box<dyn Runner>> {
        let (mut lowered, mut report) = (self.model.clone(), Report::default());
        lower(&mut lowered, Dialect::Onnx, &mut report)?.ok()?;
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
        engine::prepare(&self.model, &self.options).ok()
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
                Ok(outputs) if outputs.iter().all(|output| is_tensor(&output.value)) => {
                    self.rejected = 0;
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
}

/// Returns whether another run would not tell more: the run was cancelled, or the engine is wrong.
fn is_final(error: &Error) -> bool {
    use lodstone_engine::Error as Failure;
    match error {
        Error::Engine(Failure::Cancelled) => true,
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

/// The operators of networks whose results are finite where their inputs are, unless they overflow, and not where an input is
/// not.
const PLANNED: &[&str] = &[
    "assign",
    "batch_norm",
    "bilinear_interp",
    "bilinear_interp_v2",
    "concat",
    "conv2d",
    "conv2d_transpose",
    "cumsum",
    "depthwise_conv2d",
    "depthwise_conv2d_transpose",
    "dropout",
    "elementwise_add",
    "elementwise_mul",
    "elementwise_sub",
    "elu",
    "expand",
    "expand_as_v2",
    "expand_v2",
    "fc",
    "fill_any_like",
    "fill_constant",
    "fill_constant_batch_size_like",
    "flatten",
    "flatten2",
    "flatten_contiguous_range",
    "gelu",
    "group_norm",
    "hard_sigmoid",
    "hard_swish",
    "instance_norm",
    "layer_norm",
    "leaky_relu",
    "matmul",
    "matmul_v2",
    "mean",
    "mish",
    "mul",
    "nearest_interp",
    "nearest_interp_v2",
    "pad2d",
    "pad3d",
    "pool2d",
    "reduce_mean",
    "reduce_sum",
    "relu",
    "relu6",
    "reshape",
    "reshape2",
    "rnn",
    "scale",
    "shape",
    "sigmoid",
    "silu",
    "slice",
    "softmax",
    "split",
    "square",
    "squeeze",
    "squeeze2",
    "stack",
    "strided_slice",
    "sum",
    "swish",
    "tanh",
    "transpose",
    "transpose2",
    "unsqueeze",
    "unsqueeze2",
];

/// Operators that are planned, too, if they read no floats, which may be NaN.
const PLANNED_OF_INTEGERS: &[&str] = &[
    "cast",
    "equal",
    "greater_equal",
    "greater_than",
    "less_equal",
    "less_than",
    "logical_and",
    "logical_not",
    "logical_or",
    "not_equal",
];

/// Returns whether a program only has operators that can be planned together, and none of them has another effect.
pub(super) fn is_plannable(program: &Program, options: &RunOptions) -> bool {
    let persistable: HashSet<&str> =
        program.vars().filter(|var| var.persistable).map(|var| var.name.as_str()).collect();
    let is_integer = |var: &&Var| {
        let dtype = var.value.tensor_type().map(|tensor| tensor.dtype);
        matches!(dtype, Some(DType::Bool | DType::Int32 | DType::Int64))
    };
    let integers: HashSet<&str> =
        program.vars().filter(is_integer).map(|var| var.name.as_str()).collect();
    let release = Release::of(program);
    let is_lowered = |op: &Op| {
        let choice = operator(&op.kind).and_then(|row| row.choose(op, release));
        let is_planned = PLANNED.contains(&op.kind.as_str())
            || PLANNED_OF_INTEGERS.contains(&op.kind.as_str())
                && op.reads().all(|name| integers.contains(name));
        is_planned && matches!(choice, Some(Choice::Lowered | Choice::NativeIfSparse))
    };
    let is_test = |op: &Op| {
        attributes(&op.kind).all(|parameter| parameter.name != "is_test")
            || op.attribute("is_test") == Some(&AttributeValue::Bool(true))
    };
    // Batch normalization by given statistics does not change them.
    let keeps_statistics = |op: &Op| {
        let is_set = |name: &str| op.attribute(name) == Some(&AttributeValue::Bool(true));
        op.kind == "batch_norm" && (!is_set("trainable_statistics") || is_set("use_global_stats"))
    };
    let writes = |op: &Op| !keeps_statistics(op) && op.writes().any(|it| persistable.contains(it));
    let is_pure = |op: &Op| is_lowered(op) && is_test(op) && !writes(op);
    let is_interface = |op: &Op| matches!(op.kind.as_str(), "feed" | "fetch");
    let is_limited = options.loader.is_some() || options.max_steps.is_some();
    program.blocks.len() == 1
        && !is_limited
        && program.ops().any(|op| op.kind == "fetch")
        && program.ops().all(|op| is_interface(op) || is_pure(op))
}
