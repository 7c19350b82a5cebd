//! Taking tensors apart and putting them together.

use lodstone_model::{DType, ValueType};
use lodstone_schema::numbers::length;

use crate::onnx::indexing::{Bounds, Pad, Padding, Sections, Span};
use crate::onnx::{Value, int};
use crate::torch::arguments::{Item, Number, Size, wrong};
use crate::torch::node::{
    BEYOND, Node, Outcome, Rule, axes_of, axis_of, dim_of, place_in, rank, required_dim,
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
    match value.rank()?.count() {
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
    let (start, end) = (node.arguments.size("start")?, node.arguments.size("end")?);
    let step = node.arguments.size("step")?.unwrap_or(Size::Known(1));
    if let Size::Known(step) = step
        && step < 1
    {
        return Err(wrong("step", "a positive number", &step.to_string()));
    }
    let start = Some(start.unwrap_or(Size::Known(0)));
    // An end of `None` is behind the last element.
    let end = Some(end.unwrap_or(Size::Known(BEYOND)));
    spanned(node, &x, Span { axis, start, end, step })
}

/// Slices elements between bounds.
pub(super) fn sliced(
    node: &mut Node<'_>,
    x: &Value,
    axis: i64,
    [start, end]: [Option<Size>; 2],
) -> Outcome {
    spanned(node, x, Span { start, end, ..Span::all(axis) })
}

fn spanned(node: &mut Node<'_>, x: &Value, span: Span) -> Outcome {
    if rank(x)? == 0 {
        return Err("a scalar has no slices".into());
    }
    let is_first = span.start.as_ref().is_none_or(|start| start.known() == Some(0));
    let is_last = span.end.as_ref().is_none_or(|end| {
        let dim = dim_of(x, span.axis).unwrap_or(BEYOND);
        end.known().is_some_and(|end| end >= dim)
    });
    if is_first && is_last && span.step.known() == Some(1) {
        return Ok(x.clone());
    }
    let spans = node.spans(&[span])?;
    node.sliced(x, &spans, Bounds::Clamped)
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
    // A start below 0 counts from the end.
    let start = match start {
        Size::Known(start @ ..0) => {
            let dim = node.size_of(&x, axis)?;
            node.sum_of(&dim, &Size::Known(start))?
        }
        start => start,
    };
    node.cut(&x, axis, &start, &length)
}

fn split(node: &mut Node<'_>) -> Outcome<Vec<Value>> {
    let x = node.tensor("self")?;
    let axis = axis_of(&x, node.arguments.int("dim")?)?;
    if node.arguments.has("split_sizes") || node.arguments.overload() == "sizes" {
        let name = if node.arguments.has("split_sizes") { "split_sizes" } else { "split_size" };
        let sizes = node.arguments.sizes(name)?;
        return node.split(&x, axis, Sections::Lengths(sizes));
    }
    let size = node.arguments.size("split_size")?.ok_or("the argument `split_size` is missing")?;
    let outputs: usize = node.op.outputs.iter().map(|operand| operand.args.len()).sum();
    node.split(&x, axis, Sections::Of(size, outputs))
}

fn chunk(node: &mut Node<'_>) -> Outcome<Vec<Value>> {
    let x = node.tensor("self")?;
    let axis = axis_of(&x, node.arguments.int("dim")?)?;
    let count = node.arguments.int("chunks")?;
    node.split(&x, axis, Sections::AtMost(count))
}

fn tensor_split(node: &mut Node<'_>) -> Outcome<Vec<Value>> {
    let x = node.tensor("self")?;
    let axis = axis_of(&x, node.arguments.int("dim")?)?;
    match node.arguments.overload() {
        "sections" => {
            let count = node.arguments.int("sections")?;
            node.split(&x, axis, Sections::FirstLonger(count))
        }
        "indices" => {
            let places = node.arguments.ints("indices")?;
            node.split_at(&x, axis, &places)
        }
        _ => Err("splitting at indices in a tensor is not supported".into()),
    }
}

fn unbind(node: &mut Node<'_>) -> Outcome<Vec<Value>> {
    let x = node.tensor("self")?;
    let axis = axis_of(&x, node.arguments.int("dim")?)?;
    match required_dim(&x, axis)? {
        0 => Ok(Vec::new()),
        count => node.unstacked(&x, axis, count),
    }
}

fn flip(node: &mut Node<'_>) -> Outcome {
    let x = node.tensor("self")?;
    let dims = node.arguments.ints("dims")?;
    let axes = if dims.is_empty() { Vec::new() } else { axes_of(&x, &dims)? };
    node.reversed(&x, &axes)
}

fn flipped_at(node: &mut Node<'_>, axis: i64) -> Outcome {
    let x = node.tensor("self")?;
    let axis = place_in(rank(&x)?, axis)?;
    node.reversed(&x, &[axis])
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
        2 => node.reversed(&x, &[*first, *second]),
        1 => {
            let flipped = node.reversed(&x, &[*second])?;
            super::reshape::swapped(node, &flipped, *first, *second)
        }
        _ => {
            let turned = super::reshape::swapped(node, &x, *first, *second)?;
            node.reversed(&turned, &[*second])
        }
    }
}

/// Rotates along axes; without axes, the flattened tensor.
fn roll(node: &mut Node<'_>) -> Outcome {
    let x = node.tensor("self")?;
    let (shifts, dims) = (node.arguments.sizes("shifts")?, node.arguments.ints("dims")?);
    let (mut y, axes) = match dims.is_empty() {
        true => (node.reshape(&x, &[-1])?, vec![0]),
        false => {
            let axes = dims.iter().map(|axis| axis_of(&x, *axis)).collect::<Outcome<Vec<_>>>()?;
            (x.clone(), axes)
        }
    };
    if shifts.len() != axes.len() {
        return Err(wrong("shifts", "a number for each axis", &shifts.len().to_string()));
    }
    for (axis, shift) in axes.into_iter().zip(shifts) {
        y = node.rolled(&y, axis, &shift)?;
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
    let padding = match mode.as_str() {
        "constant" => Padding::Constant,
        "reflect" => Padding::Reflect,
        "replicate" => Padding::Edge,
        "circular" => Padding::Wrap,
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
    let pair = |(axis, pair): (i64, &[Size; 2])| {
        let [begin, end] = pair.clone();
        Pad { axis, begin, end }
    };
    let axes = (0..count).map(|pair| rank - 1 - pair);
    let pads: Vec<Pad> = axes.zip(pads.as_chunks::<2>().0).map(pair).collect();
    for Pad { axis, begin, end } in &pads {
        let most = [begin, end].into_iter().filter_map(Size::known).max();
        if padding == Padding::Wrap && most > dim_of(&x, *axis) && dim_of(&x, *axis).is_some() {
            return Err(wrong(name, "at most the dims", &format!("{begin} and {end}")));
        }
    }
    let wide = if x.dtype() == DType::Bool { DType::Uint8 } else { x.dtype() };
    let source = node.cast(&x, wide)?;
    let number = node.number_of(wide, number)?;
    let padded = node.padded(&source, &pads, padding, Some(&number))?;
    node.cast(&padded, x.dtype())
}
