//! Lowering of MXNet programs to ONNX.
//!
//! Each kind of operator has one rule, in a table of its family (`RULES`), which serves runs and exports. A rule lowers
//! a node for inputs of given types: all dims are known when a program runs, some when it is exported. Inference is
//! meant: dropout, losses and gradients compute nothing, and normalization uses the stored statistics.
//!
//! | MXNet | ONNX | by |
//! |---|---|---|
//! | variables | initializers, or inputs; labels are neither | `walk` |
//! | dims of fills that are not declared | those of values that they meet | `equal` |
//! | attributes, which are strings | attributes and constants | `attributes` |
//! | `_foreach`, `_while_loop`, `_cond` | `Scan`, `Loop`, `If` | `control` |
//! | `_CachedOp`, `_sg_mkldnn_*`, `_sg_onednn_*` | the operators of their subgraph | `control`, `fused` |
//! | `CTCLoss`, projected and quantized `RNN` | `Scan` | `scans` |
//! | quantized operators | computation on dequantized numbers, and rounding | `quantized` |
//!
//! Not supported: operators that call Python code (`Custom`, `_Native`, `_NDArray`), optimizers and gradients.
//!
//! Source of truth: the operators of MXNet 1.9.1, and results that it gave.

mod attributes;
mod control;
mod equal;
mod families;
mod node;
mod ranks;
mod scans;
mod walk;

use lodstone_model::{Model, Op, Report};
use lodstone_schema::mxnet::real_name;
use lodstone_schema::{Finding, Findings, Origins};

use crate::{LowerOptions, OperatorCoverage, RuleName, frame, no_lod};
use walk::Walk;

/// Returns the names of all rules.
pub(crate) fn names() -> Vec<RuleName> {
    families::names().chain(control::names()).collect()
}

/// Returns the name of the rule of an operator.
pub(crate) fn name(op: &Op) -> Option<RuleName> {
    let kind = real_name(&op.kind);
    families::name(kind).or_else(|| control::names().find(|name| name.kind == kind))
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
    walk.finish(report, Walk::output, |walk, _, _| walk.check_parameters())
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
