//! Choices by element: `where`, `masked_fill`, `clamp`, and operators that only copy.

use lodstone_model::DType;

use super::binary::{extreme, extreme_of};
use super::reduce;
use crate::onnx::Value;
use crate::torch::node::{Node, Outcome, Rule, rank};
use crate::torch::promote::promoted;

pub(super) const RULES: &[(&str, Rule)] = &[
    ("aten::clamp", Rule::One(clamp)),
    ("aten::clamp_max", Rule::One(clamp)),
    ("aten::clamp_min", Rule::One(clamp)),
    ("aten::clip", Rule::One(clamp)),
    ("aten::masked_fill", Rule::One(masked_fill)),
    ("aten::max", Rule::Many(|node| maximum(node, "Max"))),
    ("aten::min", Rule::Many(|node| maximum(node, "Min"))),
    ("aten::where", Rule::Many(where_)),
];

/// Clamps between two bounds, each a number, a tensor or absent.
fn clamp(node: &mut Node<'_>) -> Outcome {
    let mut operands = vec![node.operand("self")?];
    let mut bounds = Vec::new();
    for (name, kind) in [("min", "Max"), ("max", "Min")] {
        if node.arguments.has(name) {
            let operand = node.operand(name)?;
            operands.push(operand.clone());
            bounds.push((operand, kind));
        }
    }
    let dtype = promoted(&operands)?;
    let x = node.tensor("self")?;
    let mut x = node.cast(&x, dtype)?;
    for (bound, kind) in bounds {
        let bound = node.in_type(&bound, dtype)?;
        x = extreme_of(node, kind, &x, &bound)?;
    }
    Ok(x)
}

/// The maximum of two tensors, of a tensor, or of slices.
fn maximum(node: &mut Node<'_>, kind: &str) -> Outcome<Vec<Value>> {
    match node.arguments.overload() {
        "other" => Ok(vec![extreme(node, kind)?]),
        "" => {
            let x = node.tensor("self")?;
            Ok(vec![reduce::extreme_of_all(node, &x, kind)?])
        }
        _ => reduce::extreme_along(node, kind),
    }
}

fn masked_fill(node: &mut Node<'_>) -> Outcome {
    let (x, mask) = (node.tensor("self")?, node.tensor("mask")?);
    let value = node.operand("value")?;
    let value = node.in_type(&value, x.dtype())?;
    let mask = node.cast(&mask, DType::Bool)?;
    node.choose(&mask, &value, &x)
}

/// Chooses between two operands; with a condition only, returns the places of its elements that are true, for each dim.
fn where_(node: &mut Node<'_>) -> Outcome<Vec<Value>> {
    let condition = node.tensor("condition")?;
    if node.arguments.overload() == "" {
        return places(node, &condition);
    }
    let condition = node.cast(&condition, DType::Bool)?;
    let (left, right, _) = node.pair("self", "other")?;
    Ok(vec![node.choose(&condition, &left, &right)?])
}

fn places(node: &mut Node<'_>, condition: &Value) -> Outcome<Vec<Value>> {
    let rank = rank(condition)?;
    let all = node.call("NonZero", &[condition], [])?;
    let mut places = Vec::new();
    for axis in 0..rank {
        let one = node.slice(&all, 0, axis, axis + 1)?;
        places.push(node.reshape(&one, &[-1])?);
    }
    Ok(places)
}
