//! Taking tensors apart and putting them together.

use lodstone_model::{DType, ValueType};
use lodstone_schema::numbers::{exact, length};

use crate::onnx::{Value, int, text};
use crate::torch::arguments::{Item, Number, Size, wrong};
use crate::torch::node::{
    BEYOND, MAX_PARTS, Node, Outcome, Rule, axes_of, axis_of, dim_of, known_sizes, place_in, rank,
    rank_of, required_dim,
};
use crate::torch::promote::{Operand, promoted};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("aten::cat", Rule::One(cat)),
    ("aten::chunk", Rule::Many(chunk)),
    ("aten::concat", Rule::One(cat)),
    ("aten::concatenate", Rule::One(cat)),
    ("aten::constant_pad_nd", Rule::One(pad)),
    ("aten::flip", Rule::One(flip)),
    ("aten::fliplr", Rule::One(|node| flipped_at(node, 1))),
    ("aten::flipud", Rule::One(|node| flipped_at(node, 0))),
    ("aten::hstack", Rule::One(hstack)),
    ("aten::narrow", Rule::One(narrow)),
    ("aten::narrow_copy", Rule::One(narrow)),
    ("aten::pad", Rule::One(pad)),
    ("aten::reflection_pad1d", Rule::One(pad)),
    ("aten::reflection_pad2d", Rule::One(pad)),
    ("aten::reflection_pad3d", Rule::One(pad)),
    ("aten::replication_pad1d", Rule::One(pad)),
    ("aten::replication_pad2d", Rule::One(pad)),
    ("aten::replication_pad3d", Rule::One(pad)),
    ("aten::roll", Rule::One(roll)),
    ("aten::rot90", Rule::One(rot90)),
    ("aten::select", Rule::One(select)),
    ("aten::select_copy", Rule::One(select)),
    ("aten::slice", Rule::One(slice)),
    ("aten::slice_copy", Rule::One(slice)),
    ("aten::split", Rule::Many(split)),
    ("aten::split_copy", Rule::Many(split)),
    ("aten::split_with_sizes", Rule::Many(split)),
    ("aten::split_with_sizes_copy", Rule::Many(split)),
    ("aten::stack", Rule::One(stack)),
    ("aten::tensor_split", Rule::Many(tensor_split)),
    ("aten::unbind", Rule::Many(unbind)),
    ("aten::unbind_copy", Rule::Many(unbind)),
    ("aten::unsafe_chunk", Rule::Many(chunk)),
    ("aten::unsafe_split", Rule::Many(split)),
    ("aten::unsafe_split_with_sizes", Rule::Many(split)),
    ("aten::vstack", Rule::One(vstack)),
];

/// Returns tensors in their common type.
fn promoted_all(node: &mut Node<'_>, all: &[Value]) -> Outcome<Vec<Value>> {
    let operands: Vec<Operand> = all.iter().cloned().map(Operand::Tensor).collect();
    let dtype = promoted(&operands)?;
    all.iter().map(|value| node.cast(value, dtype)).collect()
}

pub(super) fn concat_all(node: &mut Node<'_>, all: &[Value], axis: i64) -> Outcome {
    match all {
        [] => Err("expected tensors, found none".into()),
        [only] => Ok(only.clone()),
        _ => node.concat(&all.iter().collect::<Vec<_>>(), axis),
    }
}

/// Concatenates; vectors without elements among tensors of other ranks are skipped.
/// Joins a list of tensors that the program computes.
fn of_sequence(node: &mut Node<'_>, new_axis: i64) -> Outcome<Option<Value>> {
    let list = match node.arguments.items("tensors") {
        Some([Item::Tensor(list)]) if matches!(list.value_type(), ValueType::List(_)) => {
            list.clone()
        }
        _ => return Ok(None),
    };
    let axis = node.arguments.int("dim")?;
    let attributes = [int("axis", axis), int("new_axis", new_axis)];
    node.call("ConcatFromSequence", &[&list], attributes).map(Some)
}

fn cat(node: &mut Node<'_>) -> Outcome {
    if let Some(joined) = of_sequence(node, 0)? {
        return Ok(joined);
    }
    let all = node.tensors("tensors")?;
    let all = promoted_all(node, &all)?;
    let is_empty = |value: &Value| value.known_dims().as_deref() == Some(&[0]);
    let has_dims = all.iter().any(|value| !is_empty(value));
    let kept: Vec<Value> =
        all.iter().filter(|value| !has_dims || !is_empty(value)).cloned().collect();
    let first = kept.first().ok_or("expected tensors, found none")?;
    let axis = axis_of(first, node.arguments.int("dim")?)?;
    concat_all(node, &kept, axis)
}

fn stacked(node: &mut Node<'_>, all: &[Value], dim: i64) -> Outcome {
    let all = promoted_all(node, all)?;
    let first = all.first().ok_or("expected tensors, found none")?;
    let axis = place_in(rank(first)?.saturating_add(1), dim)?;
    let all =
        all.iter().map(|value| node.unsqueeze(value, &[axis])).collect::<Outcome<Vec<_>>>()?;
    concat_all(node, &all, axis)
}

fn stack(node: &mut Node<'_>) -> Outcome {
    if let Some(joined) = of_sequence(node, 1)? {
        return Ok(joined);
    }
    let all = node.tensors("tensors")?;
    let dim = node.arguments.int("dim")?;
    stacked(node, &all, dim)
}

fn at_least(node: &mut Node<'_>, value: &Value, wanted: usize) -> Outcome {
    match rank_of(value)?.count() {
        found if found >= wanted => Ok(value.clone()),
        0 => node.reshape(value, &vec![1; wanted]),
        _ => node.unsqueeze(value, &[0]),
    }
}

fn hstack(node: &mut Node<'_>) -> Outcome {
    let all = node.tensors("tensors")?;
    let all = promoted_all(node, &all)?;
    let all = all.iter().map(|it| at_least(node, it, 1)).collect::<Outcome<Vec<_>>>()?;
    let first = all.first().ok_or("expected tensors, found none")?;
    let axis = if rank(first)? == 1 { 0 } else { 1 };
    concat_all(node, &all, axis)
}

fn vstack(node: &mut Node<'_>) -> Outcome {
    let all = node.tensors("tensors")?;
    let all = promoted_all(node, &all)?;
    let all = all.iter().map(|it| at_least(node, it, 2)).collect::<Outcome<Vec<_>>>()?;
    concat_all(node, &all, 0)
}

/// Slices `start..end` with a step; bounds beyond the dim are clamped.
fn slice(node: &mut Node<'_>) -> Outcome {
    let x = node.tensor("self")?;
    let axis = axis_of(&x, node.arguments.int("dim")?)?;
    let start = node.arguments.size("start")?.unwrap_or(Size::Known(0));
    // An end of `None` is behind the last element.
    let end = node.arguments.size("end")?.unwrap_or(Size::Known(i64::MAX));
    let step = node.arguments.size("step")?.unwrap_or(Size::Known(1));
    if let Size::Known(step) = step
        && step < 1
    {
        return Err(wrong("step", "a positive number", &step.to_string()));
    }
    sliced(node, &x, axis, [start, end], step)
}

pub(super) fn sliced(
    node: &mut Node<'_>,
    x: &Value,
    axis: i64,
    [start, end]: [Size; 2],
    step: Size,
) -> Outcome {
    if rank(x)? == 0 {
        return Err("a scalar has no slices".into());
    }
    let clamped = |size: Size| match size {
        Size::Known(size) => Size::Known(size.clamp(-BEYOND, BEYOND)),
        other => other,
    };
    let (start, end) = (clamped(start), clamped(end));
    if let (Size::Known(0), Size::Known(last), Size::Known(1)) = (&start, &end, &step)
        && (*last == BEYOND || dim_of(x, axis).is_some_and(|dim| *last >= dim))
    {
        return Ok(x.clone());
    }
    let (start, end) = (node.list_of(&[start])?, node.list_of(&[end])?);
    let (axes, steps) = (node.longs(&[axis]), node.list_of(&[step])?);
    node.call("Slice", &[x, &start, &end, &axes, &steps], [])
}

fn select(node: &mut Node<'_>) -> Outcome {
    let x = node.tensor("self")?;
    if rank(&x)? == 0 {
        return Err("a scalar has no slices".into());
    }
    let axis = axis_of(&x, node.arguments.int("dim")?)?;
    let index = node.arguments.size("index")?.ok_or("the argument `index` is missing")?;
    if let (Size::Known(index), Some(dim)) = (&index, dim_of(&x, axis))
        && !(-dim..dim).contains(index)
    {
        return Err(wrong("index", &format!("an index of a dim of {dim}"), &index.to_string()));
    }
    let index = node.scalar_of(&index)?;
    node.gather(&x, &index, axis)
}

fn narrow(node: &mut Node<'_>) -> Outcome {
    let x = node.tensor("self")?;
    let axis = axis_of(&x, node.arguments.int("dim")?)?;
    let start = node.arguments.size("start")?.ok_or("the argument `start` is missing")?;
    let length = node.arguments.size("length")?.ok_or("the argument `length` is missing")?;
    let start = match (start, dim_of(&x, axis)) {
        (Size::Known(start), Some(dim)) if start < 0 => Size::Known(start.saturating_add(dim)),
        (start, _) => start,
    };
    let end = match (&start, &length) {
        (Size::Known(start), Size::Known(length)) => Size::Known(start.saturating_add(*length)),
        _ => {
            let (start, length) = (node.scalar_of(&start)?, node.scalar_of(&length)?);
            Size::Value(node.add(&start, &length)?)
        }
    };
    sliced(node, &x, axis, [start, end], Size::Known(1))
}

/// Returns slices of sizes along an axis.
fn parts(node: &mut Node<'_>, x: &Value, axis: i64, sizes: &[Size]) -> Outcome<Vec<Value>> {
    if length(sizes.len()) > MAX_PARTS {
        return Err(format!("expected fewer parts, found {}", sizes.len()).into());
    }
    if let [_] = sizes {
        return Ok(vec![x.clone()]);
    }
    if let (Some(known), Some(dim)) = (known_sizes(sizes), dim_of(x, axis)) {
        let all = known.iter().try_fold(0_i64, |all, size| all.checked_add(*size));
        if all != Some(dim) || known.iter().any(|size| *size < 0) {
            return Err(format!("expected sizes with the sum {dim}, found {known:?}").into());
        }
    }
    let list = node.list_of(sizes)?;
    node.emit("Split", &[Some(x), Some(&list)], [int("axis", axis)], sizes.len())
}

/// Returns the sizes of parts of which the last may be smaller.
fn even(dim: i64, size: i64) -> Outcome<Vec<Size>> {
    if size < 1 {
        // A dim of 0 has one part.
        return match dim {
            0 => Ok(vec![Size::Known(0)]),
            _ => Err(wrong("split_size", "a positive number", &size.to_string())),
        };
    }
    let count = if dim == 0 { 1 } else { (dim - 1) / size + 1 };
    if count > MAX_PARTS {
        return Err(format!("expected fewer parts, found {count}").into());
    }
    Ok((0..count).map(|part| Size::Known(size.min(dim - part * size))).collect())
}

fn split(node: &mut Node<'_>) -> Outcome<Vec<Value>> {
    let x = node.tensor("self")?;
    let axis = axis_of(&x, node.arguments.int("dim")?)?;
    if node.arguments.has("split_sizes") || node.arguments.overload() == "sizes" {
        let name = if node.arguments.has("split_sizes") { "split_sizes" } else { "split_size" };
        let sizes = node.arguments.sizes(name)?;
        return parts(node, &x, axis, &sizes);
    }
    let size = node.arguments.size("split_size")?.ok_or("the argument `split_size` is missing")?;
    let outputs: usize = node.op.outputs.iter().map(|operand| operand.args.len()).sum();
    let sizes = match (size, dim_of(&x, axis)) {
        (Size::Known(size), Some(dim)) => even(dim, size)?,
        (size, _) => last_smaller(node, &x, axis, size, outputs)?,
    };
    parts(node, &x, axis, &sizes)
}

/// Returns the sizes of a given number of parts of an unknown dim.
fn last_smaller(
    node: &mut Node<'_>,
    x: &Value,
    axis: i64,
    size: Size,
    count: usize,
) -> Outcome<Vec<Size>> {
    let all = node.extent(x, axis)?;
    let size_value = node.scalar_of(&size)?;
    let before = node.long(length(count) - 1);
    let taken = node.mul(&size_value, &before)?;
    let last = node.sub(&all, &taken)?;
    let mut sizes = vec![size; count.saturating_sub(1)];
    sizes.push(Size::Value(last));
    Ok(sizes)
}

fn chunk(node: &mut Node<'_>) -> Outcome<Vec<Value>> {
    let x = node.tensor("self")?;
    let axis = axis_of(&x, node.arguments.int("dim")?)?;
    let count = node.arguments.int("chunks")?;
    if !(1..=MAX_PARTS).contains(&count) {
        return Err(wrong("chunks", "a number of parts", &count.to_string()));
    }
    match dim_of(&x, axis) {
        Some(dim) => {
            let size = if dim == 0 { 0 } else { (dim - 1) / count + 1 };
            let sizes = match size {
                0 => vec![Size::Known(0); exact(count)?],
                _ => even(dim, size)?,
            };
            parts(node, &x, axis, &sizes)
        }
        None => {
            let count: usize = exact(count)?;
            let all = node.extent(&x, axis)?;
            let whole = node.long(length(count));
            let minus = node.long(-1);
            let less = node.add(&all, &minus)?;
            let size = node.div(&less, &whole)?;
            let one = node.long(1);
            let size = node.add(&size, &one)?;
            let sizes = last_smaller(node, &x, axis, Size::Value(size), count)?;
            parts(node, &x, axis, &sizes)
        }
    }
}

/// Splits into sections of which the first are larger, or at indices.
fn tensor_split(node: &mut Node<'_>) -> Outcome<Vec<Value>> {
    let x = node.tensor("self")?;
    let axis = axis_of(&x, node.arguments.int("dim")?)?;
    let dim = required_dim(&x, axis)?;
    let sizes: Vec<Size> = match node.arguments.overload() {
        "sections" => {
            let count = node.arguments.int("sections")?;
            if !(1..=MAX_PARTS).contains(&count) {
                return Err(wrong("sections", "a number of parts", &count.to_string()));
            }
            (0..count)
                .map(|part| Size::Known(dim / count + i64::from(part < dim % count)))
                .collect()
        }
        "indices" => {
            let bounds = node.arguments.ints("indices")?;
            let place =
                |at: &i64| (if *at < 0 { at.saturating_add(dim) } else { *at }).clamp(0, dim);
            let mut start = 0;
            let mut parts = Vec::new();
            for end in bounds.iter().map(place).chain([dim]) {
                let end = end.max(start);
                let (from, to) = (Size::Known(start), Size::Known(end));
                parts.push(sliced(node, &x, axis, [from, to], Size::Known(1))?);
                start = end;
            }
            return Ok(parts);
        }
        _ => return Err("splitting at indices in a tensor is not supported".into()),
    };
    parts(node, &x, axis, &sizes)
}

fn unbind(node: &mut Node<'_>) -> Outcome<Vec<Value>> {
    let x = node.tensor("self")?;
    let axis = axis_of(&x, node.arguments.int("dim")?)?;
    let count = required_dim(&x, axis)?;
    let sizes = vec![Size::Known(1); exact(count.min(MAX_PARTS + 1))?];
    let all = parts(node, &x, axis, &sizes)?;
    let axes = node.longs(&[axis]);
    all.iter().map(|part| node.call("Squeeze", &[part, &axes], [])).collect()
}

/// Reverses axes.
pub(super) fn reversed(node: &mut Node<'_>, x: &Value, axes: &[i64]) -> Outcome {
    if axes.is_empty() {
        return Ok(x.clone());
    }
    let all = |number: i64| vec![number; axes.len()];
    let (starts, ends) = (node.longs(&all(-1)), node.longs(&all(-BEYOND)));
    let (axes, steps) = (node.longs(axes), node.longs(&all(-1)));
    node.call("Slice", &[x, &starts, &ends, &axes, &steps], [])
}

fn flip(node: &mut Node<'_>) -> Outcome {
    let x = node.tensor("self")?;
    let dims = node.arguments.ints("dims")?;
    let axes = if dims.is_empty() { Vec::new() } else { axes_of(&x, &dims)? };
    reversed(node, &x, &axes)
}

fn flipped_at(node: &mut Node<'_>, axis: i64) -> Outcome {
    let x = node.tensor("self")?;
    let axis = place_in(rank(&x)?, axis)?;
    reversed(node, &x, &[axis])
}

fn rot90(node: &mut Node<'_>) -> Outcome {
    let x = node.tensor("self")?;
    let dims = node.arguments.ints("dims")?;
    let turns = node.arguments.int("k")?.rem_euclid(4);
    let dims = dims.iter().map(|axis| axis_of(&x, *axis)).collect::<Outcome<Vec<_>>>()?;
    let [first, second] = dims.as_slice() else {
        return Err(wrong("dims", "two axes", &format!("{dims:?}")));
    };
    match turns {
        0 => Ok(x),
        2 => reversed(node, &x, &[*first, *second]),
        1 => {
            let flipped = reversed(node, &x, &[*second])?;
            super::reshape::swapped(node, &flipped, *first, *second)
        }
        _ => {
            let turned = super::reshape::swapped(node, &x, *first, *second)?;
            reversed(node, &turned, &[*second])
        }
    }
}

/// Rotates along axes; without axes, the flattened tensor.
fn roll(node: &mut Node<'_>) -> Outcome {
    let x = node.tensor("self")?;
    let (shifts, dims) = (node.arguments.ints("shifts")?, node.arguments.ints("dims")?);
    let (mut y, axes) = match dims.is_empty() {
        true => (node.reshape(&x, &[-1])?, vec![0]),
        false => {
            let axes = dims.iter().map(|axis| axis_of(&x, *axis)).collect::<Outcome<Vec<_>>>()?;
            (x.clone(), axes)
        }
    };
    if shifts.len() != axes.len() {
        return Err(wrong("shifts", "a number for each axis", &format!("{shifts:?}")));
    }
    for (axis, shift) in axes.into_iter().zip(shifts) {
        // The last `shift` elements come first.
        let shift = match dim_of(&y, axis) {
            Some(0) => 0,
            Some(dim) => shift.rem_euclid(dim),
            None => shift,
        };
        if shift == 0 {
            continue;
        }
        let back = node.slice(&y, axis, 0, -shift)?;
        let front = node.slice(&y, axis, -shift, BEYOND)?;
        y = node.concat(&[&front, &back], axis)?;
    }
    if dims.is_empty() { node.reshape_as(&y, &x) } else { Ok(y) }
}

/// Pads by pairs of numbers, of the last dim first; negative ones cut off.
fn pad(node: &mut Node<'_>) -> Outcome {
    let x = node.tensor("self")?;
    let (name, mode) = match node.name() {
        "constant_pad_nd" => ("pad", "constant".to_owned()),
        "pad" => ("pad", node.arguments.text("mode")?.unwrap_or_else(|| "constant".to_owned())),
        reflects if reflects.starts_with("reflection") => ("padding", "reflect".to_owned()),
        _ => ("padding", "replicate".to_owned()),
    };
    let mode = match mode.as_str() {
        "constant" => "constant",
        "reflect" => "reflect",
        "replicate" => "edge",
        "circular" => "wrap",
        other => return Err(wrong("mode", "a known mode", other)),
    };
    let pads = node.arguments.sizes(name)?;
    let (count, rank) = (length(pads.len() / 2), rank(&x)?);
    if pads.len() % 2 != 0 || count > rank {
        return Err(wrong(name, "pairs for the last dims", &format!("{} numbers", pads.len())));
    }
    let number = match node.arguments.has("value") {
        true => node.arguments.number("value")?.unwrap_or(Number::Int(0)),
        false => Number::Int(0),
    };
    let axes: Vec<i64> = (0..count).map(|pair| rank - 1 - pair).collect();
    if let Some(known) = known_sizes(&pads)
        && (mode == "reflect" || mode == "wrap")
    {
        for (axis, [begin, end]) in axes.iter().zip(known.as_chunks::<2>().0) {
            let most = *begin.max(end);
            let limit = if mode == "wrap" { 1 } else { 0 };
            if dim_of(&x, *axis).is_some_and(|dim| most >= dim + limit && most > 0) {
                return Err(wrong(name, "less than the dims", &format!("{known:?}")));
            }
        }
    }
    if pads.is_empty() {
        return Ok(x);
    }
    let begins: Vec<Size> = pads.iter().step_by(2).cloned().collect();
    let ends: Vec<Size> = pads.iter().skip(1).step_by(2).cloned().collect();
    let list = node.list_of(&[begins, ends].concat())?;
    let axes = node.longs(&axes);
    let mode = text("mode", mode);
    let wide = if x.dtype() == DType::Bool { DType::Uint8 } else { x.dtype() };
    let source = node.cast(&x, wide)?;
    let number = node.number_of(wide, number)?;
    let padded = node.call("Pad", &[&source, &list, &number, &axes], [mode])?;
    node.cast(&padded, x.dtype())
}
