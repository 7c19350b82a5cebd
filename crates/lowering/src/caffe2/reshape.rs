//! Operators that only move elements, and shapes.

use lodstone_model::DType;
use lodstone_schema::numbers::{Rank, length};

use super::node::{Node, Outcome, Rule, expect_rank, places_in, required_dim};
use crate::onnx::indexing::{Bounds, Sections, Span, Spans};
use crate::onnx::layout::Layout;
use crate::onnx::required::dim_of;
use crate::onnx::{Size, Value, int};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("Concat", Rule::Many(concat)),
    ("ExpandDims", Rule::One(expand)),
    ("Flatten", Rule::One(flatten)),
    (
        "FlattenToVec",
        Rule::One(|node| {
            let x = node.input(0)?;
            node.reshape(&x, &[-1])
        }),
    ),
    (
        "NCHW2NHWC",
        Rule::One(|node| {
            let x = node.input(0)?;
            node.channels_to_back(&x)
        }),
    ),
    (
        "NHWC2NCHW",
        Rule::One(|node| {
            let x = node.input(0)?;
            node.channels_to_front(&x)
        }),
    ),
    ("Reshape", Rule::Many(reshape)),
    (
        "ResizeLike",
        Rule::One(|node| {
            let [x, like] = node.exactly()?;
            node.reshape_as(&x, &like)
        }),
    ),
    ("Shape", Rule::One(shape)),
    ("Slice", Rule::One(slice)),
    ("Split", Rule::Many(split)),
    ("Squeeze", Rule::One(squeeze)),
    ("Transpose", Rule::One(transpose)),
];

fn transpose(node: &mut Node<'_>) -> Outcome {
    let x = node.input(0)?;
    let rank = x.rank()?;
    let order: Vec<i64> = match node.ints("axes")? {
        Some(axes) => axes,
        None => rank.numbers().rev().collect(),
    };
    let mut sorted = order.clone();
    sorted.sort_unstable();
    match sorted.into_iter().eq(rank.numbers()) {
        true => node.graph.transpose(&x, &order),
        false => Err(format!("expected a permutation of {rank} dims, found {order:?}").into()),
    }
}

/// The axis may be behind the last one.
fn flatten(node: &mut Node<'_>) -> Outcome {
    let x = node.input(0)?;
    let axis = node.axis_or_end("axis", 1, x.rank()?)?;
    node.call("Flatten", &[&x], [int("axis", axis)])
}

/// A dim of 0 is that of the input, and one of -1 has what is left. The second output is the old shape.
fn reshape(node: &mut Node<'_>) -> Outcome<Vec<Value>> {
    let x = node.input(0)?;
    let dims = match node.count() {
        1 => {
            let dims = node.required_ints("shape")?;
            if let Some(dim) = dims.iter().find(|dim| **dim < -1) {
                return Err(format!("expected dims of at least -1, found {dim}").into());
            }
            node.longs(&dims)
        }
        _ => {
            let dims = node.input(1)?;
            node.cast(&dims, DType::Int64)?
        }
    };
    // In ONNX, dims of 0 are those of the input, too.
    let y = node.call("Reshape", &[&x, &dims], [])?;
    let mut results = vec![y];
    if node.outputs() > 1 {
        results.push(node.call("Shape", &[&x], [])?);
    }
    Ok(results)
}

fn shape(node: &mut Node<'_>) -> Outcome {
    let x = node.input(0)?;
    let shape = node.call("Shape", &[&x], [])?;
    let Some(axes) = node.ints("axes")? else { return Ok(shape) };
    let axes = places_in(x.rank()?, &axes)?;
    let axes = node.longs(&axes);
    node.gather(&shape, &axes, 0)
}

/// Reads axes, sorted and without duplicates.
fn axes(node: &Node<'_>, rank: Rank) -> Outcome<Vec<i64>> {
    let mut axes = places_in(rank, &node.required_ints("dims")?)?;
    axes.sort_unstable();
    axes.dedup();
    Ok(axes)
}

fn squeeze(node: &mut Node<'_>) -> Outcome {
    let x = node.input(0)?;
    let axes = axes(node, x.rank()?)?;
    for axis in &axes {
        if let Some(dim) = x.size(*axis)?.filter(|dim| *dim != 1) {
            return Err(format!("expected dim 1 at axis {axis}, found {dim}").into());
        }
    }
    let axes = node.longs(&axes);
    node.call("Squeeze", &[&x, &axes], [])
}

fn expand(node: &mut Node<'_>) -> Outcome {
    let x = node.input(0)?;
    let mut added = node.required_ints("dims")?;
    added.sort_unstable();
    added.dedup();
    let axes = axes(node, Rank::new(x.rank()?.count() + added.len()))?;
    node.unsqueeze(&x, &axes)
}

/// Ends below 0 count from behind the last element: -1 is the end.
fn slice(node: &mut Node<'_>) -> Outcome {
    let x = node.input(0)?;
    let rank = x.rank()?;
    let list = |node: &Node<'_>, name: &str, index: usize| match node.count() {
        1 => Ok(Some(node.required_ints(name)?)),
        _ => node.known_ints(index),
    };
    let (starts, ends) = (list(node, "starts", 1)?, list(node, "ends", 2)?);
    let (Some(starts), Some(ends)) = (starts, ends) else {
        let mut list = |index| {
            let list = node.input(index)?;
            expect_rank(&list, 1, "ends")?;
            node.cast(&list, DType::Int64)
        };
        let (starts, ends) = (list(1)?, list(2)?);
        let count = required_dim(&starts, 0)?;
        let spans = Spans { axes: (0..count).collect(), starts, ends, steps: None };
        return node.sliced(&x, &spans, Bounds::BehindLast);
    };
    if starts.len() != ends.len() || starts.len() > rank.count() {
        let (starts, ends) = (starts.len(), ends.len());
        return Err(format!("{starts} starts and {ends} ends do not match {rank} dims").into());
    }
    let mut y = x;
    for (axis, (start, end)) in (0..).zip(starts.into_iter().zip(ends)) {
        let is_all = start == 0 && (end == -1 || dim_of(&y, axis).is_some_and(|dim| end >= dim));
        if !is_all {
            let (start, end) = (Some(Size::Known(start)), Some(Size::Known(end)));
            let spans = node.spans(&[Span { start, end, ..Span::all(axis) }])?;
            y = node.sliced(&y, &spans, Bounds::BehindLast)?;
        }
    }
    Ok(y)
}

fn split(node: &mut Node<'_>) -> Outcome<Vec<Value>> {
    let x = node.input(0)?;
    let rank = x.rank()?;
    let default = match node.has("order") {
        true if node.layout()? == Layout::Last => -1,
        true => 1,
        false => 0,
    };
    let axis = node.axis("axis", default, rank)?;
    let count = node.outputs();
    let parts = match node.count() {
        1 => node.ints("split")?,
        _ => match node.known_ints(1)? {
            Some(parts) => Some(parts),
            None => {
                let parts = node.input(1)?;
                let parts = node.cast(&parts, DType::Int64)?;
                return node.emit("Split", &[Some(&x), Some(&parts)], [int("axis", axis)], count);
            }
        },
    };
    let how = match parts {
        Some(parts) if parts.len() == count => {
            Sections::Lengths(parts.into_iter().map(Size::Known).collect())
        }
        Some(parts) => {
            return Err(format!("expected {count} lengths as `split`, found {parts:?}").into());
        }
        None => Sections::Equal(length(count)),
    };
    node.graph.split(&x, axis, how)
}

/// The second output holds the lengths of the operands along the axis.
fn concat(node: &mut Node<'_>) -> Outcome<Vec<Value>> {
    let mut values = node.all()?;
    let first = node.input(0)?;
    let rank = first.rank()?;
    let default = if node.layout()? == Layout::Last { -1 } else { 1 };
    let adds = node.flag("add_axis", false)?;
    // The new axis may be the last one.
    let rank = if adds { Rank::new(rank.count() + 1) } else { rank };
    let axis = node.axis("axis", default, rank)?;
    if adds {
        for value in &mut values {
            *value = node.unsqueeze(value, &[axis])?;
        }
    }
    let y = node.graph.concat(&values.iter().collect::<Vec<_>>(), axis)?;
    let mut results = vec![y];
    if node.outputs() > 1 {
        let mut sizes = Vec::new();
        for value in &values {
            sizes.push(node.size_of(value, axis)?);
        }
        let lengths = node.list_of(&sizes)?;
        results.push(node.cast(&lengths, DType::Int32)?);
    }
    Ok(results)
}
