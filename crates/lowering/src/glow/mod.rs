//! Translation between Glow's own operators and ONNX's.
//!
//! Both directions are static: Glow fixes every dim and inference propagates them, so there are no `Shape` operators,
//! and the types of all results can be compared with the declared ones. Values that only determine shapes are evaluated
//! and become no nodes.

pub(crate) mod elements;
mod from_caffe2;
pub(crate) mod from_onnx;
mod kinds;
mod to_onnx;

pub(crate) use from_caffe2::from_caffe2;
pub(crate) use from_onnx::from_onnx;
pub(crate) use to_onnx::to_onnx;

use lodstone_model::Op;

use crate::RuleName;

/// Returns the names of the rules for ONNX's operators.
pub(crate) fn from_onnx_names() -> Vec<RuleName> {
    from_onnx::rules::names().collect()
}

/// Returns the name of the rule of an ONNX operator.
pub(crate) fn from_onnx_name(op: &Op) -> Option<RuleName> {
    let domain = if op.domain.is_empty() { "ai.onnx" } else { &op.domain };
    from_onnx::rules::name(domain, &op.kind)
}

/// Returns the names of the rules for Glow's nodes.
pub(crate) fn to_onnx_names() -> Vec<RuleName> {
    to_onnx::table::names().collect()
}

/// Returns the name of the rule of a node.
pub(crate) fn to_onnx_name(op: &Op) -> Option<RuleName> {
    to_onnx::table::name(&op.kind)
}

/// Returns the kinds of nodes without an ONNX equivalent.
pub fn nodes_without_equivalent() -> Vec<&'static str> {
    to_onnx::table::without_equivalent().collect()
}
