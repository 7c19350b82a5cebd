//! Tensors that are split, sliced, concatenated and padded.

use lodstone_schema::glow::{ElemKind, Type};
use lodstone_schema::numbers::length;
use lodstone_schema::places::at_mut;

use super::graph::{MemberValue, Value};
use super::op::{Cx, Fault, Outcome, Rule, dim_of, from_front, one};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("Concat", concat),
    ("Pad", pad),
    ("ReverseSequence", |_| Err("Glow has no node for `ReverseSequence`".into())),
    ("Slice", slice),
    ("Split", split),
    ("Trilu", trilu),
];

fn concat(cx: &mut Cx<'_>) -> Outcome {
    let mut values = Vec::new();
    for index in 0..cx.count() {
        values.push(cx.input(index)?);
    }
    let first = *values.first().ok_or("expected operands, found none")?;
    let axis = cx.axis("axis", 1, cx.rank(first))?;
    // Tensors without elements are no operands of Glow.
    let filled = |value: &Value| !cx.graph.shape(*value).contains(&0);
    if values.iter().any(filled) {
        values.retain(|value| !cx.graph.shape(*value).contains(&0));
    }
    one(cx.concat(values, axis, "")?)
}

fn split(cx: &mut Cx<'_>) -> Outcome {
    let value = cx.input(0)?;
    let shape = cx.shape(value);
    let axis = cx.axis("axis", 0, shape.len())?;
    let mut results = Vec::new();
    let mut start = 0_i64;
    for index in 0..cx.op.output("").len() {
        let part = cx.shape_out(index)?;
        let dim = dim_of(&part, length(axis))?;
        let mut from = vec![0; shape.len()];
        *at_mut(&mut from, axis)? = start;
        results.push(Some(cx.slice(value, from, part, "out")?));
        start = start.checked_add(dim).ok_or("the sizes do not match the dim")?;
    }
    Ok(results)
}

/// Slices with steps: negative steps become a flip, larger ones skip the rest of each step.
fn slice(cx: &mut Cx<'_>) -> Outcome {
    let value = cx.input(0)?;
    let shape = cx.shape(value);
    let (starts, ends) = (cx.ints(1)?, cx.ints(2)?);
    let axes = match cx.has(3) {
        true => cx.ints(3)?,
        false => (0..length(starts.len())).collect(),
    };
    let steps = if cx.has(4) { cx.ints(4)? } else { vec![1; starts.len()] };
    if ends.len() != starts.len() || axes.len() != starts.len() || steps.len() != starts.len() {
        return Err("expected equally many starts, ends, axes and steps".into());
    }
    let mut from = vec![0; shape.len()];
    let mut to = shape.clone();
    let mut by = vec![1_i64; shape.len()];
    for ((start, end), (axis, step)) in starts.iter().zip(&ends).zip(axes.iter().zip(&steps)) {
        // The last entry of a repeated axis applies, as in Glow.
        let axis = from_front(*axis, shape.len())?;
        let dim = cx.dim(value, length(axis))?;
        let (first, last) = bounds(*start, *end, *step, dim)?;
        for (all, one) in [(&mut from, first), (&mut to, last), (&mut by, *step)] {
            *at_mut(all, axis)? = one;
        }
    }
    let mut value = value;
    if by.iter().any(|step| *step != 1) {
        value = stepped(cx, value, &mut from, &mut to, &by)?;
        return one(value);
    }
    let dims: Vec<i64> = to.iter().zip(&from).map(|(to, from)| (to - from).max(0)).collect();
    if dims.contains(&0) {
        return Err("the slice is empty, and Glow has no empty tensors".into());
    }
    one(cx.slice(value, from, dims, "")?)
}

/// Returns the first position and the end of a slice; for negative steps, on the flipped axis.
fn bounds(start: i64, end: i64, step: i64, dim: i64) -> Result<(i64, i64), Fault> {
    let from_front = |place: i64| if place < 0 { place.saturating_add(dim) } else { place };
    match step {
        1.. => Ok((from_front(start).clamp(0, dim), from_front(end).clamp(0, dim))),
        0 => Err("expected a step other than 0".into()),
        _ => {
            let start = from_front(start).clamp(-1, dim - 1);
            let end = from_front(end).clamp(-1, dim - 1);
            Ok((dim - 1 - start, dim - 1 - end))
        }
    }
}

fn stepped(
    cx: &mut Cx<'_>,
    value: Value,
    from: &mut [i64],
    to: &mut [i64],
    by: &[i64],
) -> Result<Value, Fault> {
    let mut value = value;
    for (axis, _) in by.iter().enumerate().filter(|(_, step)| **step < 0) {
        let of = cx.shaped(value, cx.shape(value));
        let members = vec![("Axis", MemberValue::Int(length(axis)))];
        value = cx.node("Flip", "flip", &[value], members, of)?;
    }
    let dims: Vec<i64> = to.iter().zip(&*from).map(|(to, from)| (to - from).max(0)).collect();
    if dims.contains(&0) {
        return Err("the slice is empty, and Glow has no empty tensors".into());
    }
    value = cx.slice(value, from.to_vec(), dims, "slice")?;
    for (axis, step) in by.iter().enumerate().map(|(axis, step)| (axis, step.saturating_abs())) {
        if step > 1 {
            value = every(cx, value, axis, step)?;
        }
    }
    Ok(value)
}

/// Takes every `step`th element along an axis: pads the axis to a multiple of the step, reshapes it into steps, and takes
/// the first element of each.
fn every(cx: &mut Cx<'_>, value: Value, axis: usize, step: i64) -> Result<Value, Fault> {
    let shape = cx.shape(value);
    let dim = cx.dim(value, length(axis))?;
    let count = dim / step + i64::from(dim % step != 0);
    if count <= 1 {
        let mut first = shape.clone();
        *at_mut(&mut first, axis)? = 1;
        return cx.slice(value, vec![0; shape.len()], first, "first");
    }
    let whole = count.checked_mul(step).ok_or("the steps are too wide")?;
    let value = padded_after(cx, value, axis, whole - dim)?;
    let split_at = |dims: [i64; 2]| {
        let mut split = shape.clone();
        split.splice(axis..axis + 1, dims);
        split
    };
    let split = cx.reshape(value, &split_at([count, step]), "steps")?;
    let first = cx.slice(split, vec![0; shape.len() + 1], split_at([count, 1]), "firsts")?;
    let mut shape = shape;
    *at_mut(&mut shape, axis)? = count;
    cx.reshape(first, &shape, "")
}

/// Appends elements along an axis; their values do not matter.
fn padded_after(cx: &mut Cx<'_>, value: Value, axis: usize, more: i64) -> Result<Value, Fault> {
    if more == 0 {
        return Ok(value);
    }
    let mut shape = cx.shape(value);
    *at_mut(&mut shape, axis)? = more;
    let of = cx.shaped(value, shape);
    let rest = cx.splat(0.0, of, "rest")?;
    cx.concat(vec![value, rest], axis, "padded")
}

fn pad(cx: &mut Cx<'_>) -> Outcome {
    let mode = cx.text("mode", "constant")?;
    if mode != "constant" {
        return Err(format!("Glow pads only with a constant, found `{mode}` as `mode`").into());
    }
    let value = cx.input(0)?;
    let given = cx.ints(1)?;
    let rank = cx.rank(value);
    let axes: Vec<usize> = match cx.has(3) {
        true => {
            let axes = cx.ints(3)?;
            axes.iter().map(|axis| from_front(*axis, rank)).collect::<Result<_, _>>()?
        }
        false => (0..rank).collect(),
    };
    if given.len() != axes.len().saturating_mul(2) {
        return Err(format!("expected {} pads, found {}", axes.len() * 2, given.len()).into());
    }
    let (before, after) = given.split_at(axes.len());
    let mut pads = vec![0; rank * 2];
    for (axis, (before, after)) in axes.iter().zip(before.iter().zip(after)) {
        for (place, number) in [(*axis, before), (axis + rank, after)] {
            i32::try_from(*number).map_err(|_| format!("a pad of {number} is too large"))?;
            *at_mut(&mut pads, place)? = *number;
        }
    }
    let number = cx.number(2, 0.0)?;
    let of = cx.shaped(value, cx.shape_out(0)?);
    let members = vec![
        ("Mode", MemberValue::Int(0)),
        ("Pads", MemberValue::Ints(pads)),
        ("Value", MemberValue::Float(number)),
    ];
    one(cx.node("Pad", "", &[value], members, of)?)
}

/// The maximum number of elements of a triangle mask that is stored.
const MAX_TRIANGLE: i64 = 1 << 20;

/// Keeps a triangle of a matrix and zeros the rest.
fn trilu(cx: &mut Cx<'_>) -> Outcome {
    let value = cx.input(0)?;
    let shape = cx.shape(value);
    let [.., rows, columns] = *shape else { return Err("expected matrices".into()) };
    let diagonal = match cx.has(1) {
        true => cx.integer(1)?,
        false => 0,
    };
    if super::graph::count(&[rows, columns])? > MAX_TRIANGLE {
        return Err(format!("a triangle mask of {rows} by {columns} is too large").into());
    }
    let is_upper = cx.flag("upper", true)?;
    let is_in = |row: i64, column: i64| {
        let edge = row.saturating_add(diagonal);
        if is_upper { column >= edge } else { column <= edge }
    };
    let rows_of = |row| (0..columns).map(move |column| u8::from(is_in(row, column)));
    let bytes = (0..rows).flat_map(rows_of).collect();
    let name = format!("{}_triangle", cx.base);
    let triangle = cx.graph.constant_of(&name, ElemKind::Bool, vec![rows, columns], bytes)?;
    let triangle = cx.broadcast(triangle, &shape, "broadcast")?;
    let of = Type { quantization: None, ..cx.shaped(value, shape.clone()) };
    let zeros = cx.splat(0.0, of, "zero")?;
    let of = cx.shaped(value, shape);
    one(cx.node("Select", "", &[triangle, value, zeros], Vec::new(), of)?)
}
