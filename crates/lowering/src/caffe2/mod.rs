//! Lowering of Caffe2 nets to ONNX.
//!
//! Each kind of operator has one rule, in a table of its family (`RULES`), which serves runs and exports. A rule lowers an
//! operator for inputs of given types: all dims are known when a net runs, some when it is exported.
//!
//! | Caffe2 | ONNX | by |
//! |---|---|---|
//! | blobs that are fed | inputs, whose types follow from their readers where they are not declared | `inputs` |
//! | fills of the startup net | initializers; other operators of it are part of the program | `walk` |
//! | blobs that are written again | values with other names | `walk` |
//! | arguments | attributes and constants | `node` |
//! | nets that run for each step | `Scan`, by the frame's `control` | `recurrent` |
//! | quantized tensors | integers between `QuantizeLinear` and `DequantizeLinear` | `quantize` |
//!
//! Operators that only Glow's loader has are computed as Glow computes them. Training, control flow other than recurrent
//! networks, and the operators of distributed runs are not supported.
//!
//! Source of truth: the kernels of Caffe2 (PyTorch 1.9.1), and results that it gave.

mod arithmetic;
mod conv;
mod detections;
mod fills;
mod indexing;
pub(crate) mod inputs;
mod keypoints;
mod lengths;
mod linear;
mod node;
mod normalize;
mod partition;
mod pool;
mod proposals;
mod quantize;
mod recurrent;
mod reduce;
mod reshape;
pub(crate) mod signed;
mod sparse;
mod unary;
mod vision;
mod walk;

use lodstone_model::{Model, Op, Report};
use lodstone_schema::onnx::quoted;
use lodstone_schema::{Code, Finding, Findings, Origins, caffe2};

use crate::frame;
use crate::rules::{Rules, families};
use crate::{LowerOptions, OperatorCoverage, RuleName, no_lod};
use node::Rule;
use walk::Walk;

/// All rules.
static RULES: Rules<Rule> = Rules::new(&[families![
    arithmetic, conv, detections, fills, indexing, keypoints, lengths, linear, normalize,
    partition, pool, proposals, quantize, recurrent, reduce, reshape, sparse, unary, vision
]]);

/// Returns the names of all rules.
pub(crate) fn names() -> Vec<RuleName> {
    RULES.names().collect()
}

/// Returns the name of the rule of an operator.
pub(crate) fn name(op: &Op) -> Option<RuleName> {
    RULES.name(&op.kind)
}

/// Returns why an operator has no rule.
pub(crate) fn missing(kind: &str) -> Finding {
    let what = match caffe2::is_known(kind) {
        true => format!("the operator {} is not supported", quoted(kind)),
        false => format!("Caffe2 has no operator {}", quoted(kind)),
    };
    Finding::new(Code::NoEquivalent, what)
}

/// Translates a model to ONNX, with its parameters.
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
    walk.nets();
    walk.finish(report, Walk::output, |_, _, _| ())
}

/// Tries to translate each operator of the main net.
///
/// # Errors
/// If the model has no net.
pub(crate) fn coverage(model: &Model) -> Result<Vec<OperatorCoverage>, Finding> {
    let mut walk = Walk::of(model, true).map_err(frame::first)?;
    walk.nets();
    Ok(walk.coverage())
}
