//! Operators that move elements: transposing, slicing, repeating.

use lodstone_schema::numbers::length;
use lodstone_schema::{Finding, places};

use super::node::{Node, Outcome, Rule, no_equivalent};
use crate::onnx::indexing::{Pad, Padding};
use crate::onnx::{int, ints};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("Broadcast", broadcast),
    ("ChannelShuffle", channel_shuffle),
    ("Concat", concat),
    ("Flip", flip),
    ("InsertTensor", insert),
    ("Pad", pad),
    ("Reshape", reshape),
    ("Slice", slice),
    ("SpaceToDepth", space_to_depth),
    ("Splat", splat),
    ("Tile", tile),
    ("Touch", touch),
    ("Transpose", transpose),
];

/// Aligns the dims at an axis, then broadcasts.
fn broadcast(n: &mut Node<'_>) -> Outcome {
    let result = n.out(0)?;
    let value = n.raw_like(0, &result)?;
    let (dims, axis) = (n.dims(0)?, n.int("Axis")?);
    let Some(behind) = usize::try_from(axis)
        .ok()
        .and_then(|axis| result.shape.len().checked_sub(axis.checked_add(dims.len())?))
    else {
        let what = format!("`Axis` {axis} and rank {} do not match the result", dims.len());
        return Err(what.into());
    };
    let aligned: Vec<i64> = dims.iter().copied().chain(std::iter::repeat_n(1, behind)).collect();
    let value = n.reshape(&value, &aligned)?;
    let value = n.expand(&value, &result.shape)?;
    n.put_raw(0, &value)
}

/// The channels form `Group` groups; the first of each group come first, then the second of each.
fn channel_shuffle(n: &mut Node<'_>) -> Outcome {
    let dims = n.dims(0)?;
    let (group, axis) = (n.int("Group")?, n.axis("Kernel", 0)?);
    let at = usize::try_from(axis).map_err(|_| Finding::internal("an axis is negative"))?;
    let Some((before, [channels, behind @ ..])) = dims.split_at_checked(at) else {
        return Err(Finding::internal(format!("{dims:?} has no dim {at}")));
    };
    let Some(each) = channels.checked_div(group) else {
        return Err("expected at least 1 group, found none".into());
    };
    let split: Vec<i64> = [before, &[group, each], behind].concat();
    let mut order: Vec<i64> = (0..).take(split.len()).collect();
    order.swap(at, at + 1);
    let value = n.raw_like(0, &n.out(0)?)?;
    let value = n.reshape(&value, &split)?;
    let value = n.transpose(&value, &order)?;
    let value = n.reshape(&value, dims)?;
    n.put_raw(0, &value)
}

fn concat(n: &mut Node<'_>) -> Outcome {
    let result = n.out(0)?;
    let values = (0..n.inputs.len()).map(|index| n.raw_like(index, &result));
    let values = values.collect::<Outcome<Vec<_>>>()?;
    let axis = n.axis("Dim", 0)?;
    let value = n.concat(&values.iter().collect::<Vec<_>>(), axis)?;
    n.put_raw(0, &value)
}

fn flip(n: &mut Node<'_>) -> Outcome {
    let axis = n.axis("Axis", 0)?;
    let value = n.raw_like(0, &n.out(0)?)?;
    let value = n.reversed(&value, &[axis])?;
    n.put_raw(0, &value)
}

/// Writes `Small`, repeated `Count` times along an axis, into `Big`.
fn insert(n: &mut Node<'_>) -> Outcome {
    let result = n.out(0)?;
    let (big, small) = (n.raw_like(0, &result)?, n.raw_like(1, &result)?);
    let (start, count, axis) = (n.ints("Start")?, n.int("Count")?, n.axis("Axis", 1)?);
    let rank = n.dims(1)?.len();
    let repeats: Vec<i64> =
        (0..).take(rank).map(|place| if place == axis { count } else { 1 }).collect();
    let repeats = n.longs(&repeats);
    let small = n.call("Tile", &[&small, &repeats], [])?;
    let inner = small.dims()?;
    if start.len() != inner.len() || inner.len() != result.shape.len() {
        return Err(format!("expected {} values as `Start`", inner.len()).into());
    }
    // From the last axis: the elements before, the inserted ones, and those after.
    let mut middle = small;
    for at in (0..inner.len()).rev() {
        let axis = length(at);
        let (first, many) = (places::at(start, at)?, places::at(&inner, at)?);
        let all = places::at(&result.shape, at)?;
        let Some(end) = first.checked_add(many).filter(|end| first >= 0 && *end <= all) else {
            return Err(format!("the inserted tensor exceeds axis {axis}").into());
        };
        if first == 0 && end == all {
            continue;
        }
        // The part of `Big` at the position of the inserted tensor along the axes before.
        let mut around = big.clone();
        let in_front: Vec<i64> = (0..axis).collect();
        if !in_front.is_empty() {
            let (starts, _) = start.split_at(at);
            let ends: Vec<i64> = starts.iter().zip(&inner).map(|(start, n)| start + n).collect();
            around = n.slices(&around, &in_front, starts, &ends)?;
        }
        middle = n.replaced(&around, axis, [first, end], &middle)?;
    }
    n.put_raw(0, &middle)
}

fn pad(n: &mut Node<'_>) -> Outcome {
    let result = n.out(0)?;
    let padding = match n.int("Mode")? {
        0 => Padding::Constant,
        1 => Padding::Reflect,
        2 => Padding::Edge,
        other => return Err(format!("expected 0 to 2 as `Mode`, found {other}").into()),
    };
    let number = f64::from(n.float("Value")?);
    let value = n.raw_like(0, &result)?;
    let number = stored(n, &result, number)?;
    // The begins of all dims, and then the ends.
    let pads = n.ints("Pads")?;
    let (begins, ends) = pads.split_at(pads.len() / 2);
    if begins.len() != ends.len() {
        return Err(format!("expected pairs of `Pads`, found {pads:?}").into());
    }
    let pairs = begins.iter().zip(ends).zip(0..);
    let pads: Vec<Pad> =
        pairs.map(|((begin, end), axis)| Pad::known(axis, [*begin, *end])).collect();
    let value = n.padded(&value, &pads, padding, Some(&number))?;
    n.put_raw(0, &value)
}

/// Converts a value to an element of a type.
fn stored(
    n: &mut Node<'_>,
    ty: &lodstone_schema::glow::Type,
    number: f64,
) -> Outcome<crate::onnx::Value> {
    let steps = match ty.quantization {
        Some(_) if ty.kind.is_fused() => {
            return no_equivalent("its rows end with their own scales");
        }
        Some((scale, offset)) => number / f64::from(scale) + f64::from(offset),
        None => number,
    };
    let steps = if ty.kind.is_quantized() { steps.round_ties_even() } else { steps };
    n.number(ty.kind.dtype(), steps)
}

fn reshape(n: &mut Node<'_>) -> Outcome {
    let result = n.out(0)?;
    let value = n.raw_like(0, &result)?;
    let value = n.reshape(&value, &result.shape)?;
    n.put_raw(0, &value)
}

fn slice(n: &mut Node<'_>) -> Outcome {
    let (start, result) = (n.ints("Start")?, n.out(0)?);
    let ends: Option<Vec<i64>> =
        start.iter().zip(&result.shape).map(|(start, size)| start.checked_add(*size)).collect();
    let Some(ends) = ends.filter(|ends| ends.len() == start.len()) else {
        return Err("`Start` does not match the result".into());
    };
    let axes: Vec<i64> = (0..).take(start.len()).collect();
    let value = n.raw_like(0, &result)?;
    if axes.is_empty() {
        return n.put_raw(0, &value);
    }
    let value = n.slices(&value, &axes, start, &ends)?;
    n.put_raw(0, &value)
}

/// Blocks become channels: `[batch, height, width, channel]`.
fn space_to_depth(n: &mut Node<'_>) -> Outcome {
    let value = n.raw_like(0, &n.out(0)?)?;
    let size = n.int("BlockSize")?;
    n.ranked::<4>(0)?;
    let value = n.transpose(&value, &[0, 3, 1, 2])?;
    let value = n.call("SpaceToDepth", &[&value], [int("blocksize", size)])?;
    let value = n.transpose(&value, &[0, 2, 3, 1])?;
    n.put_raw(0, &value)
}

fn splat(n: &mut Node<'_>) -> Outcome {
    let result = n.out(0)?;
    let number = f64::from(n.float("Value")?);
    let value = stored(n, &result, number)?;
    let value = n.expand(&value, &result.shape)?;
    n.put_raw(0, &value)
}

fn tile(n: &mut Node<'_>) -> Outcome {
    let (count, axis, rank) = (n.int("Count")?, n.axis("Axis", 0)?, n.dims(0)?.len());
    let repeats: Vec<i64> =
        (0..).take(rank).map(|place| if place == axis { count } else { 1 }).collect();
    let repeats = n.longs(&repeats);
    n.moved("Tile", &[&repeats], [])
}

/// Uninitialized contents become zeros.
fn touch(n: &mut Node<'_>) -> Outcome {
    let result = n.out(0)?;
    let value = n.filled(result.kind.dtype(), 0.0, &result.shape)?;
    n.put_raw(0, &value)
}

fn transpose(n: &mut Node<'_>) -> Outcome {
    let order = ints("perm", n.ints("Shuffle")?);
    n.moved("Transpose", &[], [order])
}
