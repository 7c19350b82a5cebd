//! Quantization and dequantization.

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

/// Reads `output_dtype`; `None` if it is 0.
fn output_dtype(node: &Node<'_>) -> Result<Option<DType>, Finding> {
    match node.int_attribute("output_dtype") {
        None | Some(0) => Ok(None),
        Some(_) => node.dtype_attribute("output_dtype"),
    }
}

/// The element type is that of the zero point, or `output_dtype`, or `uint8`.
pub(super) fn quantize(node: &mut Node<'_>) -> Outcome {
    let zero = node.input(2).map(|zero| zero.dtype());
    let dtype = match (zero, output_dtype(node)?) {
        (Some(zero), Some(output_dtype)) if zero != output_dtype && zero != UNDEFINED => {
            return Err(Finding::from(format!(
                "expected a zero point of {output_dtype} by `output_dtype`, found {zero}"
            ))
            .about_attribute("output_dtype"));
        }
        (Some(UNDEFINED) | None, Some(output_dtype)) => output_dtype,
        (Some(zero), _) => zero,
        (None, None) => DType::Uint8,
    };
    shaped(node, dtype)
}

/// The element type is that of the scale, or `output_dtype`.
pub(super) fn dequantize(node: &mut Node<'_>) -> Outcome {
    let zero = if node.has(2) { node.same_dtype([0, 2]).map(|_| ()) } else { Ok(()) };
    zero?;
    let dtype = match output_dtype(node)? {
        Some(output_dtype) => output_dtype,
        // In older versions, scales are always `float32`.
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
