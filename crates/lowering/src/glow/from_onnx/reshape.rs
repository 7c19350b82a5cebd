//! Operators that change shape or order, and generated tensors.

use lodstone_schema::Finding;
use lodstone_schema::glow::ElemKind;
use lodstone_schema::numbers::length;
use lodstone_schema::onnx::infer::ValueInfo;

use super::graph::{MemberValue, Value, kind_of, plain};
use super::known::dims_from;
use super::op::{Cx, Fault, Outcome, Rule, narrow, one};
use crate::glow::elements::floats_of;

pub(super) const RULES: &[(&str, Rule)] = &[
    ("ConstantOfShape", constant_of_shape),
    ("DepthToSpace", depth_to_space),
    ("Expand", expand),
    ("Flatten", to_shape),
    ("Identity", |cx| {
        let value = cx.input(0)?;
        one(value)
    }),
    ("Range", range),
    ("Reshape", to_shape),
    ("SpaceToDepth", space_to_depth),
    ("Squeeze", to_shape),
    ("Tile", tile),
    ("Transpose", transpose),
    ("Unsqueeze", to_shape),
];

/// Reshapes to the inferred shape.
fn to_shape(cx: &mut Cx<'_>) -> Outcome {
    let value = cx.input(0)?;
    let shape = cx.shape_out(0)?;
    one(cx.reshape_always(value, &shape, "")?)
}

fn transpose(cx: &mut Cx<'_>) -> Outcome {
    let value = cx.input(0)?;
    let rank = cx.rank(value);
    let order: Vec<usize> = match cx.longs("perm")? {
        Some(order) => {
            let place = |axis: &i64| super::op::from_front(*axis, rank);
            order.iter().map(place).collect::<Result<_, _>>()?
        }
        None => (0..rank).rev().collect(),
    };
    one(cx.transpose(value, &order, layout_of(&order), "")?)
}

/// Returns the name of the layout that a permutation of dims results in.
fn layout_of(order: &[usize]) -> &'static str {
    match order {
        [0, 2, 3, 1] => "NHWC",
        [0, 3, 1, 2] => "NCHW",
        [0, 2, 3, 4, 1] => "NTHWC",
        [0, 4, 1, 2, 3] => "NCTHW",
        _ => "*",
    }
}

fn tile(cx: &mut Cx<'_>) -> Outcome {
    let value = cx.input(0)?;
    let counts = cx.ints(1)?;
    one(tiled(cx, value, &counts)?)
}

/// Repeats a tensor along each axis, by one node for each.
pub(super) fn tiled(cx: &mut Cx<'_>, value: Value, counts: &[i64]) -> Result<Value, Fault> {
    if counts.len() != cx.rank(value) {
        return Err(format!("expected {} repeats, found {}", cx.rank(value), counts.len()).into());
    }
    let mut result = value;
    for (axis, count) in counts.iter().enumerate().filter(|(_, count)| **count != 1) {
        let mut shape = cx.shape(result);
        if let Some(dim) = shape.get_mut(axis) {
            *dim = dim.checked_mul(*count).ok_or("the shape is too large")?;
        }
        if *count < 1 {
            return Err(format!("expected repeats of at least 1, found {count}").into());
        }
        let of = cx.shaped(result, shape);
        let members =
            vec![("Count", MemberValue::Int(*count)), ("Axis", MemberValue::Int(length(axis)))];
        result = cx.node("Tile", &axis.to_string(), &[result], members, of)?;
    }
    Ok(result)
}

fn expand(cx: &mut Cx<'_>) -> Outcome {
    let value = cx.input(0)?;
    let shape = cx.shape_out(0)?;
    if cx.was("Broadcast") {
        return one(repeated(cx, value, &shape)?);
    }
    if let (Ok([number]), ElemKind::Float) = (cx.floats(0).as_deref(), cx.type_of(value).kind) {
        return one(cx.splat(*number, plain(ElemKind::Float, shape), "")?);
    }
    let known = cx.info(0).and_then(ValueInfo::floats);
    if let (Some([number]), true) = (known.as_deref(), cx.was("Splat")) {
        let of = cx.shaped(value, shape);
        return one(cx.splat(narrow(*number), of, "")?);
    }
    let own = cx.shape(value);
    let lead =
        shape.len().checked_sub(own.len()).ok_or("expected a shape of at least the same rank")?;
    let own: Vec<i64> = std::iter::repeat_n(1, lead).chain(own).collect();
    let value = cx.reshape(value, &own, "expanddims")?;
    let count = |(to, from): (&i64, &i64)| if to == from { 1 } else { *to };
    let counts: Vec<i64> = shape.iter().zip(&own).map(count).collect();
    one(tiled(cx, value, &counts)?)
}

/// Broadcasts by Glow's node, which itself aligns dims to which a reshape only appended dims of 1.
fn repeated(cx: &mut Cx<'_>, value: Value, shape: &[i64]) -> Result<Value, Fault> {
    // The prefix of the name of a reshape that belongs to the operator.
    let part = format!("{}_Reshape", cx.base);
    let aligned = cx.graph.maker(value);
    let aligned =
        aligned.filter(|(node, _)| node.kind.kind == "Reshape" && node.name.starts_with(&part));
    if let Some(before) = aligned.and_then(|(node, _)| node.inputs.first().copied()) {
        let (from, to) = (cx.graph.shape(before), cx.graph.shape(value));
        let behind = to.strip_prefix(from).filter(|ones| ones.iter().all(|dim| *dim == 1));
        let axis = behind.and_then(|ones| shape.len().checked_sub(from.len() + ones.len()));
        if let Some(axis) = axis {
            return cx.broadcast_at(before, shape, axis, "");
        }
    }
    let axis = shape
        .len()
        .checked_sub(cx.rank(value))
        .ok_or("expected a shape of at least the same rank")?;
    cx.broadcast_at(value, shape, axis, "")
}

/// Returns the dims `[n, c, h, w]` of a value.
fn image(cx: &Cx<'_>, value: Value) -> Result<[i64; 4], Fault> {
    let shape = cx.shape(value);
    let found = shape.len();
    shape.try_into().map_err(|_| format!("expected rank 4, found {found}").into())
}

fn depth_to_space(cx: &mut Cx<'_>) -> Outcome {
    let value = cx.input(0)?;
    let block = cx.int("blocksize", 0)?;
    let [n, c, h, w] = image(cx, value)?;
    let parts = block.checked_mul(block).filter(|parts| *parts > 0 && c % parts == 0);
    let depth = parts
        .map(|parts| c / parts)
        .ok_or("the number of channels is no multiple of the block size")?;
    let last = cx.transpose(value, &[0, 2, 3, 1], "NHWC", "nhwc")?;
    let (split, order) = match cx.text("mode", "DCR")?.as_str() {
        "DCR" => ([n, h, w, block, block, depth], [0, 1, 3, 2, 4, 5]),
        "CRD" => ([n, h, w, depth, block, block], [0, 1, 4, 2, 5, 3]),
        other => return Err(format!("expected `DCR` or `CRD` as `mode`, found `{other}`").into()),
    };
    let split = cx.reshape_always(last, &split, "reshape_in")?;
    let moved = cx.transpose(split, &order, "*", "transpose")?;
    let longer = |dim: i64| dim.checked_mul(block).ok_or("the shape is too large");
    let whole = cx.reshape_always(moved, &[n, longer(h)?, longer(w)?, depth], "reshape_out")?;
    one(cx.transpose(whole, &[0, 3, 1, 2], "NCHW", "")?)
}

fn space_to_depth(cx: &mut Cx<'_>) -> Outcome {
    let value = cx.input(0)?;
    let block = cx.int("blocksize", 0)?;
    let [n, c, h, w] = image(cx, value)?;
    if block <= 0 || h % block != 0 || w % block != 0 {
        return Err("the dims of the image are no multiples of the block size".into());
    }
    let depth = block.checked_mul(block).and_then(|parts| parts.checked_mul(c));
    let depth = depth.ok_or("the shape is too large")?;
    if cx.text("mode", "DCR")? == "CRD" {
        // Channels before the positions in a block.
        let split = [n, c, h / block, block, w / block, block];
        let split = cx.reshape_always(value, &split, "blocks")?;
        let moved = cx.transpose(split, &[0, 1, 3, 5, 2, 4], "*", "transpose")?;
        return one(cx.reshape_always(moved, &[n, depth, h / block, w / block], "")?);
    }
    let last = cx.transpose(value, &[0, 2, 3, 1], "NHWC", "nhwc")?;
    let of = cx.shaped(last, vec![n, h / block, w / block, depth]);
    let deep =
        cx.node("SpaceToDepth", "", &[last], vec![("BlockSize", MemberValue::Int(block))], of)?;
    one(cx.transpose(deep, &[0, 3, 1, 2], "NCHW", "nchw")?)
}

/// The bound up to which `f32` holds all integers exactly.
const EXACT: i64 = 1 << 24;

fn constant_of_shape(cx: &mut Cx<'_>) -> Outcome {
    let shape = cx.ints(0)?;
    let value = cx.op.attribute("value").and_then(|value| value.tensors().next());
    let kind = match value {
        Some(tensor) => kind_of(tensor.dtype)
            .ok_or_else(|| format!("Glow has no element type {}", tensor.dtype))?,
        None => ElemKind::Float,
    };
    let number = match value.map(|tensor| (ValueInfo::of(tensor).ints(), floats_of(tensor))) {
        None => 0.0,
        Some((Some(numbers), _)) => match numbers.as_slice() {
            [number] if number.abs() <= EXACT => narrow(approximate(*number)),
            [number] => {
                let what = "is not a `float32`, the type with which Glow fills tensors";
                return Err(format!("{number} {what}").into());
            }
            _ => return Err("expected one element as `value`".into()),
        },
        Some((None, Some(numbers))) => match numbers.as_slice() {
            [number] => *number,
            _ => return Err("expected one element as `value`".into()),
        },
        Some((None, None)) => return Err("expected a known value as `value`".into()),
    };
    one(cx.splat(number, plain(kind, shape), "")?)
}

/// The maximum number of elements of a range that is stored.
const MAX_RANGED: i64 = 1 << 20;

/// Folds a range to a constant.
fn range(cx: &mut Cx<'_>) -> Outcome {
    let name = cx.output_name(0);
    let kind = cx.kind_out(0)?;
    if kind != ElemKind::Float {
        let (from, step) = (cx.integer(0)?, cx.integer(2)?);
        let shape = cx.shape_out(0)?;
        let count = counted(&shape)?;
        let mut bytes = Vec::new();
        for index in 0..count {
            let number = step.checked_mul(index).and_then(|more| from.checked_add(more));
            let number = number.ok_or("the range overflows")?;
            match kind {
                ElemKind::Int64I => bytes.extend(number.to_le_bytes()),
                ElemKind::Int32I => {
                    let number = i32::try_from(number).map_err(|_| "the range overflows")?;
                    bytes.extend(number.to_le_bytes());
                }
                _ => return Err("expected 32-bit or 64-bit integers".into()),
            }
        }
        return one(cx.graph.constant_of(&name, kind, shape, bytes)?);
    }
    let (from, step) = (cx.number(0, 0.0)?, cx.number(2, 1.0)?);
    let to = cx.number(1, 0.0)?;
    let shape = match cx.outputs.first().and_then(dims_from) {
        Some(shape) => shape,
        None => vec![steps(from, to, step)?],
    };
    let count = counted(&shape)?;
    let mut bytes = Vec::new();
    let mut number = from;
    for _ in 0..count {
        bytes.extend(number.to_le_bytes());
        number += step;
    }
    one(cx.graph.constant_of(&name, kind, shape, bytes)?)
}

#[expect(clippy::cast_possible_truncation, reason = "the bounds are compared first")]
fn steps(from: f32, to: f32, step: f32) -> Result<i64, Finding> {
    let count = ((f64::from(to) - f64::from(from)) / f64::from(step)).ceil().max(0.0);
    let fits = count.is_finite() && count <= 1_048_576.0;
    fits.then_some(count as i64).ok_or_else(|| "the range is too long".into())
}

fn counted(shape: &[i64]) -> Result<i64, Finding> {
    let count = super::graph::count(shape)?;
    match count <= MAX_RANGED {
        true => Ok(count),
        false => Err(format!("a range of {count} elements is too long").into()),
    }
}

/// Returns the nearest `f64`; the values in use are exact.
#[expect(clippy::cast_precision_loss, reason = "rounding is intended")]
fn approximate(number: i64) -> f64 {
    number as f64
}
