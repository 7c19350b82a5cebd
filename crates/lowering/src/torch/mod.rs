//! Lowering of PyTorch programs to ONNX.
//!
//! Each operator has one rule for all its overloads, in a table of its family (`RULES`), which serves runs and exports.
//! A rule lowers an operator for inputs of given types: all dims are known when a program runs, some when it is
//! exported. Rules exist for the operators that `torch.export` traces and for those of Core ATen.
//!
//! | PyTorch | ONNX | by |
//! |---|---|---|
//! | parameters, inputs | initializers, inputs | `walk` |
//! | arguments | values and constants, with the defaults of the schema | `node`, `arguments` |
//! | type promotion, numbers among tensors | casts | `promote` |
//! | operators that write to an argument | the operator that does not, and a new value of the tensor | `walk` |
//! | views of tensors that are written | the view of the new value; a write to a view scatters into its base | `views` |
//! | a parameter, buffer or input that is written | an output `NAME.next` after those of the program | `finish` |
//! | `cond`, `while_loop`, `scan`, `map` | `If`, `Loop`, `Scan` | `control` |
//! | quantized tensors | integers between `QuantizeLinear` and `DequantizeLinear` | `families/quantized` |
//! | complex tensors | real ones with a last dim of the real and the imaginary part; not as inputs or outputs | `families/complex` |
//!
//! A run begins with the stored parameters and buffers, and leaves them as they are.
//!
//! What the program declares about dims completes what the rules infer.
//!
//! Not supported: operators that draw random numbers, sparse tensors.
//!
//! Source of truth: the operators of PyTorch 2.15, and results that it gave.

mod arguments;
mod control;
mod families;
mod finish;
mod fixed;
mod list;
mod nested;
mod node;
mod promote;
mod script;
mod views;
mod walk;

use lodstone_model::{Model, Op, Report};
use lodstone_schema::{Finding, Findings, Origins};

use crate::{LowerOptions, OperatorCoverage, RuleName, frame, no_lod};
pub(crate) use fixed::fix_inputs;
use walk::Walk;

/// Returns the names of all rules.
pub(crate) fn names() -> Vec<RuleName> {
    families::names().chain(control::names()).chain(script::names()).collect()
}

/// Returns the name of the rule of an operator.
pub(crate) fn name(op: &Op) -> Option<RuleName> {
    let mut others = control::names().chain(script::names());
    families::name(&op.kind).or_else(|| others.find(|name| name.kind == op.kind))
}

/// Translates the main program of a model to ONNX, with its parameters.
///
/// # Errors
/// All operators that have no rule or contradict themselves, with their places.
pub(crate) fn to_onnx(
    model: &Model,
    options: &LowerOptions,
    report: &mut Report,
) -> Result<(Model, Origins), Findings> {
    no_lod(options)?;
    let mut walk = Walk::of(model, false)?;
    walk.custom_domain.clone_from(&options.custom_domain);
    walk.main();
    walk.written(report)
}

/// Tries to export each operator of the main program.
///
/// # Errors
/// If the program contradicts itself as a whole.
pub(crate) fn coverage(model: &Model) -> Result<Vec<OperatorCoverage>, Finding> {
    let mut walk = Walk::of(model, true).map_err(frame::first)?;
    walk.main();
    Ok(walk.coverage())
}
