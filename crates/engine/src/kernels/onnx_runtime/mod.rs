//! Kernels of the operators of ONNX Runtime, domain `com.microsoft`: those that its graph optimizations, its quantizer
//! and its transformer optimizer write.
//!
//! Source of truth: `docs/ContribOperators.md` of ONNX Runtime 1.31, and its CPU kernels where that is silent.

mod attention;
mod embedding;
mod gelu;
mod nbits;
mod normalize;
mod products;
mod quantized;
mod recurrent;
mod rotary;

pub(super) use quantized::by_range;

use lodstone_model::{Attribute, AttributeValue, Op};

use crate::kernels::{Run, RunValues, quantize};

/// Returns the kernel of an operator on values of any kind.
pub(super) fn values(kind: &str) -> Option<RunValues> {
    match kind {
        "DequantizeLinear" | "QuantizeLinear" => quantize::values(kind),
        _ => None,
    }
}

/// Returns the kernel of an operator on dense tensors.
pub(super) fn kernel(kind: &str) -> Option<Run> {
    attention::kernel(kind)
        .or_else(|| embedding::kernel(kind))
        .or_else(|| gelu::kernel(kind))
        .or_else(|| nbits::kernel(kind))
        .or_else(|| normalize::kernel(kind))
        .or_else(|| products::kernel(kind))
        .or_else(|| quantized::kernel(kind))
        .or_else(|| recurrent::kernel(kind))
        .or_else(|| rotary::kernel(kind))
}

/// Returns the kernel of an operator that ONNX Runtime writes into ONNX's own domain although no opset has it.
pub(super) fn own(kind: &str) -> Option<Run> {
    normalize::own(kind)
}

/// Returns an operator with another integer attribute.
fn with_int(op: &Op, name: &str, value: i64) -> Op {
    let mut op = op.clone();
    op.attributes.retain(|attribute| attribute.name != name);
    op.attributes.push(Attribute { name: name.to_owned(), value: AttributeValue::Long(value) });
    op
}
