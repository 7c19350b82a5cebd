//! To quantized numbers and back.

use lodstone_model::DType;

use super::Rule;
use super::node::{Node, Outcome};
use super::value::UNDEFINED;
use crate::Finding;

pub(super) const RULES: &[(&str, Rule)] = &[
    ("DequantizeLinear", dequantize),
    ("DynamicQuantizeLinear", dynamic),
    ("QuantizeLinear", quantize),
];

fn shaped(node: &mut Node<'_>, dtype: DType) -> Outcome {
    let shape = node.shape(0).map(<[_]>::to_vec);
    node.tensor(0, dtype, shape);
    Ok(())
}

/// The type that an attribute says; 0 says none.
fn said(node: &Node<'_>) -> Result<Option<DType>, Finding> {
    match node.int_attribute("output_dtype") {
        None | Some(0) => Ok(None),
        Some(_) => node.dtype_attribute("output_dtype"),
    }
}

/// The type is that of the zero point, or what is said, or `uint8`.
fn quantize(node: &mut Node<'_>) -> Outcome {
    let zero = node.input(2).map(|zero| zero.dtype());
    let dtype = match (zero, said(node)?) {
        (Some(zero), Some(said)) if zero != said && zero != UNDEFINED => {
            return Err(Finding::from(format!(
                "expected a zero point of {said} by `output_dtype`, found {zero}"
            ))
            .about_attribute("output_dtype"));
        }
        (Some(UNDEFINED) | None, Some(said)) => said,
        (Some(zero), _) => zero,
        (None, None) => DType::Uint8,
    };
    shaped(node, dtype)
}

/// The type is that of the scale, or what is said.
fn dequantize(node: &mut Node<'_>) -> Outcome {
    let zero = if node.has(2) { node.alike([0, 2]).map(|_| ()) } else { Ok(()) };
    zero?;
    let dtype = match said(node)? {
        Some(said) => said,
        // Scales were of `float32` alone.
        None if node.opset < 19 => DType::Float32,
        None => node.dtype(1),
    };
    shaped(node, dtype)
}

fn dynamic(node: &mut Node<'_>) -> Outcome {
    node.known(1, DType::Float32, &[]);
    node.known(2, DType::Uint8, &[]);
    shaped(node, DType::Uint8)
}
