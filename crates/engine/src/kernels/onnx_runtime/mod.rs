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

use crate::operator::Operator;

/// The rows of each family.
pub(super) static FAMILIES: &[&[Operator]] = &[
    attention::OPERATORS,
    embedding::OPERATORS,
    gelu::OPERATORS,
    nbits::OPERATORS,
    normalize::OPERATORS,
    products::OPERATORS,
    quantized::OPERATORS,
    recurrent::OPERATORS,
    rotary::OPERATORS,
];
