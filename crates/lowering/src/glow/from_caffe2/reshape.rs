//! Operators that only move elements, and shapes.

use lodstone_model::AttributeValue;
use lodstone_schema::glow::ElemKind;
use lodstone_schema::numbers::length;

use super::rules::{flattened, is_nhwc, product, transposed};
use crate::glow::from_onnx::graph::Value;
use crate::glow::from_onnx::op::{Cx, Fault, Outcome, Rule, one};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("Concat", concat),
    ("ExpandDims", expand),
    ("Flatten", flatten),
    ("FlattenToVec", |cx| {
        let value = cx.input(0)?;
        let count = product(&cx.shape(value))?;
        one(cx.reshape_always(value, &[count], "")?)
    }),
    ("NCHW2NHWC", |cx| swap(cx, [0, 2, 3, 1])),
    ("NHWC2NCHW", |cx| swap(cx, [0, 3, 1, 2])),
    ("Reshape", reshape),
    ("ResizeLike", like),
    ("Shape", shape),
    ("Slice", slice),
    ("Split", split),
    ("Squeeze", squeeze),
    ("Transpose", transpose),
];

fn swap(cx: &mut Cx<'_>, order: [usize; 4]) -> Outcome {
    let value = cx.input(0)?;
    one(transposed(cx, value, &order, "")?)
}

fn transpose(cx: &mut Cx<'_>) -> Outcome {
    let value = cx.input(0)?;
    let rank = cx.rank(value);
    let order = match cx.longs_or_none("axes")? {
        Some(axes) => {
            let axes: Result<Vec<usize>, _> = axes.into_iter().map(usize::try_from).collect();
            axes.map_err(|_| "expected `axes` of at least 0")?
        }
        None => (0..rank).rev().collect(),
    };
    one(transposed(cx, value, &order, "")?)
}

fn flatten(cx: &mut Cx<'_>) -> Outcome {
    let value = cx.input(0)?;
    let shape = cx.shape(value);
    // The axis may be behind the last one.
    let axis = match cx.int("axis", 1)? {
        axis if axis == length(shape.len()) => shape.len(),
        _ => cx.axis("axis", 1, shape.len())?,
    };
    let flat = flattened(&shape, axis)?;
    one(cx.reshape_always(value, &flat, "")?)
}

fn like(cx: &mut Cx<'_>) -> Outcome {
    let (value, other) = (cx.input(0)?, cx.input(1)?);
    let shape = cx.shape(other);
    one(cx.reshape_always(value, &shape, "")?)
}

fn reshape(cx: &mut Cx<'_>) -> Outcome {
    let value = cx.input(0)?;
    let old = cx.shape(value);
    let mut dims = match cx.count() {
        1 => cx.longs_or_none("shape")?.ok_or("expected a `shape`, found none")?,
        _ => cx.ints(1)?,
    };
    for (index, dim) in dims.iter_mut().enumerate() {
        match *dim {
            0 => *dim = *old.get(index).ok_or("a dim of 0 has no counterpart")?,
            -1 => {}
            dim if dim < 0 => {
                return Err(format!("expected dims of at least -1, found {dim}").into());
            }
            _ => {}
        }
    }
    let open: Vec<usize> =
        dims.iter().enumerate().filter(|(_, dim)| **dim == -1).map(|(index, _)| index).collect();
    match *open {
        [] => {}
        [index] => {
            let known: Vec<i64> = dims.iter().copied().filter(|dim| *dim != -1).collect();
            let (total, known) = (product(&old)?, product(&known)?);
            if known == 0 || total % known != 0 {
                return Err(format!("{old:?} does not divide into {dims:?}").into());
            }
            dims.iter_mut().skip(index).take(1).for_each(|dim| *dim = total / known);
        }
        _ => return Err("expected at most one dim of -1".into()),
    }
    let result = cx.reshape_always(value, &dims, "")?;
    // The second output is the old shape.
    let before = match cx.wants(1) {
        true => Some(integers(cx, 1, &old)?),
        false => None,
    };
    Ok(vec![Some(result), before])
}

/// Adds a constant of integers for an output.
pub(super) fn integers(cx: &mut Cx<'_>, output: usize, numbers: &[i64]) -> Result<Value, Fault> {
    let bytes = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    let name = cx.output_name(output);
    Ok(cx.graph.constant_of(&name, ElemKind::Int64I, vec![length(numbers.len())], bytes)?)
}

fn shape(cx: &mut Cx<'_>) -> Outcome {
    let value = cx.input(0)?;
    let dims = cx.shape(value);
    let dims = match cx.longs_or_none("axes")? {
        Some(axes) => {
            axes.into_iter().map(|axis| cx.dim(value, axis)).collect::<Result<Vec<_>, _>>()?
        }
        None => dims,
    };
    one(integers(cx, 0, &dims)?)
}

/// Reads axes, sorted and without duplicates.
fn axes(cx: &Cx<'_>, name: &str, rank: usize) -> Result<Vec<usize>, Fault> {
    let axes = cx.longs_or_none(name)?.ok_or_else(|| format!("expected `{name}`, found none"))?;
    let axes = axes.into_iter().map(|axis| crate::glow::from_onnx::op::from_front(axis, rank));
    let mut axes = axes.collect::<Result<Vec<_>, _>>()?;
    axes.sort_unstable();
    axes.dedup();
    Ok(axes)
}

fn squeeze(cx: &mut Cx<'_>) -> Outcome {
    let value = cx.input(0)?;
    let shape = cx.shape(value);
    let axes = axes(cx, "dims", shape.len())?;
    let (removed, kept): (Vec<_>, Vec<_>) =
        shape.iter().enumerate().partition(|(axis, _)| axes.contains(axis));
    if let Some((axis, dim)) = removed.into_iter().find(|(_, dim)| **dim != 1) {
        return Err(format!("expected dim 1 at axis {axis}, found {dim}").into());
    }
    let kept: Vec<i64> = kept.into_iter().map(|(_, dim)| *dim).collect();
    one(cx.reshape_always(value, &kept, "reshape")?)
}

fn expand(cx: &mut Cx<'_>) -> Outcome {
    let value = cx.input(0)?;
    let shape = cx.shape(value);
    let mut added = cx.longs_or_none("dims")?.unwrap_or_default();
    added.sort_unstable();
    added.dedup();
    let axes = axes(cx, "dims", shape.len() + added.len())?;
    let mut dims = shape.into_iter();
    let expanded = (0..dims.len() + axes.len()).map(|axis| match axes.contains(&axis) {
        true => Some(1),
        false => dims.next(),
    });
    let expanded: Option<Vec<i64>> = expanded.collect();
    let expanded = expanded.ok_or("expected distinct axes")?;
    one(cx.reshape_always(value, &expanded, "expanddims")?)
}

fn slice(cx: &mut Cx<'_>) -> Outcome {
    let value = cx.input(0)?;
    let whole = cx.shape(value);
    let (starts, ends) = match cx.count() {
        1 => {
            let list = |name: &str| cx.longs_or_none(name).map(Option::unwrap_or_default);
            (list("starts")?, list("ends")?)
        }
        _ => (cx.ints(1)?, cx.ints(2)?),
    };
    if starts.len() != ends.len() || starts.len() > whole.len() {
        let (starts, ends) = (starts.len(), ends.len());
        return Err(format!("{starts} starts and {ends} ends do not match {whole:?}").into());
    }
    let (mut begin, mut shape) = (Vec::new(), Vec::new());
    for (axis, dim) in whole.iter().enumerate() {
        // -1 is the end, -2 the last element.
        let place = |at: Option<&i64>, default: i64| match at {
            Some(at) if *at < 0 => at + dim + 1,
            Some(at) => *at,
            None => default,
        };
        let (start, end) = (place(starts.get(axis), 0), place(ends.get(axis), *dim));
        let end = end.min(*dim);
        begin.push(start);
        shape.push(end.checked_sub(start).ok_or("the slice is too large")?);
    }
    one(cx.slice(value, begin, shape, "")?)
}

fn split(cx: &mut Cx<'_>) -> Outcome {
    let value = cx.input(0)?;
    let whole = cx.shape(value);
    let default = match cx.op.attribute("order") {
        Some(_) if is_nhwc(cx)? => length(whole.len()) - 1,
        Some(_) => 1,
        None => 0,
    };
    let axis = cx.axis("axis", default, whole.len())?;
    let dim = cx.dim(value, length(axis))?;
    let count = cx.op.output("").len();
    let given = match cx.count() {
        1 => cx.longs_or_none("split")?,
        _ => Some(cx.ints(1)?),
    };
    let parts = match given {
        Some(parts) if parts.len() == count => parts,
        Some(parts) => {
            return Err(format!("expected {count} lengths as `split`, found {parts:?}").into());
        }
        None if dim % length(count) == 0 => vec![dim / length(count); count],
        None => return Err(format!("a dim of {dim} does not divide into {count} parts").into()),
    };
    if parts.iter().try_fold(0_i64, |sum, part| sum.checked_add(*part)) != Some(dim) {
        return Err(format!("{parts:?} do not add up to {dim}").into());
    }
    let (mut results, mut start) = (Vec::new(), 0);
    for (index, part) in parts.into_iter().enumerate() {
        let mut begin = vec![0; whole.len()];
        let mut shape = whole.clone();
        begin.iter_mut().skip(axis).take(1).for_each(|at| *at = start);
        shape.iter_mut().skip(axis).take(1).for_each(|dim| *dim = part);
        results.push(Some(cx.slice(value, begin, shape, &format!("out{index}"))?));
        start += part;
    }
    Ok(results)
}

fn concat(cx: &mut Cx<'_>) -> Outcome {
    let values = (0..cx.count()).map(|index| cx.input(index)).collect::<Result<Vec<_>, _>>()?;
    let first = *values.first().ok_or("expected operands, found none")?;
    let mut shape = cx.shape(first);
    let rank = shape.len();
    let default = if is_nhwc(cx)? { length(rank) - 1 } else { 1 };
    let adds = cx.flag("add_axis", false)?;
    let axis = match (cx.int("axis", default)?, adds) {
        // The new axis may be the last one.
        (axis, true) => crate::glow::from_onnx::op::from_front(axis, rank + 1)?,
        (_, false) => cx.axis("axis", default, rank)?,
    };
    let kind = cx.type_of(first).kind;
    if values.iter().any(|value| cx.type_of(*value).kind != kind) {
        return Err("expected operands of one element type".into());
    }
    let count = length(values.len());
    let result = match adds {
        false => cx.concat(values, axis, "")?,
        true => {
            if values.iter().any(|value| cx.shape(*value) != shape) {
                return Err("expected operands of one shape".into());
            }
            shape.insert(axis, count);
            let joined = match axis < rank {
                true => cx.concat(values, axis, "")?,
                false => {
                    let flat = flattened(&cx.shape(first), rank)?;
                    let columns: Result<Vec<_>, _> = values
                        .into_iter()
                        .map(|value| cx.reshape_always(value, &flat, ""))
                        .collect();
                    cx.concat(columns?, 1, "")?
                }
            };
            cx.reshape_always(joined, &shape, "")?
        }
    };
    // The second output holds the lengths of the operands along the axis.
    let lengths = match cx.wants(1) {
        true => Some(lengths(cx, axis, adds)?),
        false => None,
    };
    Ok(vec![Some(result), lengths])
}

fn lengths(cx: &mut Cx<'_>, axis: usize, adds: bool) -> Result<Value, Fault> {
    let mut bytes = Vec::new();
    for index in 0..cx.count() {
        let value = cx.input(index)?;
        let dim = if adds { 1 } else { cx.dim(value, length(axis))? };
        let dim = i32::try_from(dim).map_err(|_| "the shape is too large")?;
        bytes.extend(dim.to_le_bytes());
    }
    let name = cx.output_name(1);
    Ok(cx.graph.constant_of(&name, ElemKind::Int32I, vec![length(cx.count())], bytes)?)
}

impl Cx<'_> {
    /// Returns a list of integers; a list without values has no type in a net.
    pub(super) fn longs_or_none(&self, name: &str) -> Result<Option<Vec<i64>>, Fault> {
        match self.op.attribute(name) {
            None => Ok(None),
            Some(AttributeValue::None) => Ok(Some(Vec::new())),
            Some(_) => Ok(self.longs(name)?),
        }
    }
}
