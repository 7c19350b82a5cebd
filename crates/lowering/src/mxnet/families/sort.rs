//! Sorting.

use lodstone_model::DType;

use crate::mxnet::attributes::wrong;
use crate::mxnet::node::{Node, Outcome, Rule, axis_of};
use crate::onnx::{Size, Value, int};

pub(super) const RULES: &[(&str, Rule)] =
    &[("argsort", Rule::One(argsort)), ("sort", Rule::One(sort)), ("topk", Rule::Many(top_k))];

/// Returns the input and its axis. Without an axis, the flattened input is sorted.
fn operand(node: &mut Node<'_>) -> Outcome<(Value, i64)> {
    let [x] = node.exactly()?;
    match node.attributes.find("axis")? {
        Some("None") => Ok((node.recoded(&x, &[-1])?, 0)),
        _ => {
            let axis = axis_of(&x, node.attributes.int("axis", -1)?)?;
            Ok((x, axis))
        }
    }
}

/// Returns the first elements in order and their indices.
fn ordered(
    node: &mut Node<'_>,
    x: &Value,
    axis: i64,
    count: &Size,
    ascends: bool,
) -> Outcome<[Value; 2]> {
    let count = node.list_of(std::slice::from_ref(count))?;
    let attributes = [int("axis", axis), int("largest", i64::from(!ascends))];
    node.emit_all("TopK", &[Some(x), Some(&count)], attributes)
}

fn sort(node: &mut Node<'_>) -> Outcome {
    let (x, axis) = operand(node)?;
    let ascends = node.attributes.flag("is_ascend", true)?;
    let count = node.size_of(&x, axis)?;
    let [values, _] = ordered(node, &x, axis, &count, ascends)?;
    Ok(values)
}

fn argsort(node: &mut Node<'_>) -> Outcome {
    let (x, axis) = operand(node)?;
    let ascends = node.attributes.flag("is_ascend", true)?;
    let dtype = node.attributes.dtype("dtype")?.unwrap_or(DType::Float32);
    let count = node.size_of(&x, axis)?;
    let [_, places] = ordered(node, &x, axis, &count, ascends)?;
    node.cast(&places, dtype)
}

fn top_k(node: &mut Node<'_>) -> Outcome<Vec<Value>> {
    let shaped = node.input(0)?;
    let (x, axis) = operand(node)?;
    let ascends = node.attributes.flag("is_ascend", false)?;
    let kinds = ["indices", "value", "mask", "both"];
    let kind = node.attributes.word("ret_typ", &kinds, "indices")?;
    let dtype = node.attributes.dtype("dtype")?.unwrap_or(DType::Float32);
    let (all, count) = (node.size_of(&x, axis)?, node.attributes.int("k", 1)?);
    if all.known().is_some_and(|all| count > all) {
        return Err(wrong("k", &format!("at most {all}"), &count.to_string()));
    }
    let count = if count < 1 { all } else { Size::Known(count) };
    let [values, places] = ordered(node, &x, axis, &count, ascends)?;
    Ok(match kind {
        "value" => vec![values],
        "both" => vec![values, node.cast(&places, dtype)?],
        "mask" => {
            let zeros = node.constant_like(&x, x.dtype(), 0.0)?;
            let ones = node.constant_like(&places, x.dtype(), 1.0)?;
            let mask = node.put_elements(&zeros, &places, &ones, axis, "none")?;
            vec![node.reshape_as(&mask, &shaped)?]
        }
        _ => vec![node.cast(&places, dtype)?],
    })
}
