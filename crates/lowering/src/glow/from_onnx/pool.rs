//! Max and average pooling.

use lodstone_schema::glow::ElemKind;
use lodstone_schema::places::{at, at_mut};

use super::conv::{Window, as_image, channels_first, orders, parts, window, with_channels_last};
use super::graph::{MemberValue, Value, plain};
use super::op::{Cx, Fault, Outcome, Rule, one};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("AveragePool", average),
    ("GlobalAveragePool", global_average),
    ("GlobalMaxPool", global_max),
    ("MaxPool", largest),
];

/// A pool's operand with channels last, its window, and the shape of its result.
struct Pool {
    value: Value,
    rank: usize,
    channels: i64,
    window: Window,
    shape: Vec<i64>,
}

fn pool(cx: &mut Cx<'_>) -> Result<Pool, Fault> {
    let value = cx.input(0)?;
    let shape = cx.shape(value);
    let (batch, channels, image) = parts(&shape)?;
    if image.len() > 2 {
        return Err(format!("Glow pools at most 2 spatial dims, found {}", image.len()).into());
    }
    let mut window = window(cx, image, None)?;
    if window.dilations.iter().any(|dilation| *dilation != 1) {
        return Err(format!("Glow has no dilations for pools: {:?}", window.dilations).into());
    }
    let result = cx.shape_out(0)?;
    let (_, _, small) = parts(&result)?;
    if cx.flag("ceil_mode", false)? {
        reach_the_end(&mut window, image, small)?;
    }
    let mut small = small.to_vec();
    if image.len() == 1 {
        small.insert(0, 1);
    }
    let window = window.over_image();
    let value = as_image(cx, value, "expanddims")?;
    let (forth, layout, ..) = orders(2)?;
    let value = cx.transpose(value, &forth, layout, "in")?;
    let shape = with_channels_last(batch, &small, channels);
    Ok(Pool { value, rank: shape.len() - usize::from(image.len() == 1), channels, window, shape })
}

/// Pads the end of the image so that the last, overhanging window is complete.
fn reach_the_end(window: &mut Window, image: &[i64], small: &[i64]) -> Result<(), Fault> {
    let axes = image.len();
    for (axis, (dim, steps)) in image.iter().zip(small).enumerate() {
        let (kernel, stride) = (at(&window.kernel, axis)?, at(&window.strides, axis)?);
        let end = (steps - 1).checked_mul(stride).and_then(|start| start.checked_add(kernel));
        let before = at(&window.pads, axis)?;
        let needed = end.and_then(|end| end.checked_sub(dim.checked_add(before)?));
        let needed = needed.ok_or("the window is too large")?;
        let after = at_mut(&mut window.pads, axes + axis)?;
        *after = needed.max(*after);
    }
    Ok(())
}

fn members(window: Window) -> Vec<(&'static str, MemberValue)> {
    vec![
        ("Kernels", MemberValue::Ints(window.kernel)),
        ("Strides", MemberValue::Ints(window.strides)),
        ("Pads", MemberValue::Ints(window.pads)),
        ("Layout", MemberValue::Int(0)),
    ]
}

fn largest(cx: &mut Cx<'_>) -> Outcome {
    let Pool { value, rank, channels, window, shape } = pool(cx)?;
    if cx.wants(1) && cx.int("storage_order", 0)? != 0 {
        return Err("expected row-major indices, found `storage_order`".into());
    }
    let of = cx.shaped(value, shape.clone());
    let positions = plain(ElemKind::Int64I, shape);
    let results = cx.nodes("MaxPool", "", &[value], members(window), vec![of, positions])?;
    let [result, positions] = *results else { return Err("expected two results".into()) };
    let result = channels_first(cx, result, rank)?;
    if !cx.wants(1) {
        return one(result);
    }
    if channels != 1 {
        let what = "returns indices into images with channels last, as Glow does";
        cx.graph.notes.push(format!("`{}` {what}", cx.base));
    }
    let positions = channels_first(cx, positions, rank)?;
    Ok(vec![Some(result), Some(positions)])
}

fn average(cx: &mut Cx<'_>) -> Outcome {
    let counts = cx.flag("count_include_pad", false)?;
    let plain_ceil = cx.flag("ceil_mode", false)?;
    let Pool { value, rank, window, shape, .. } = pool(cx)?;
    if counts && plain_ceil {
        return Err("Glow counts the overhang of windows as padding, found `ceil_mode`".into());
    }
    let of = cx.shaped(value, shape);
    let mut members = members(window);
    members.push(("CountIncludePads", MemberValue::Int(counts.into())));
    let result = cx.node("AvgPool", "", &[value], members, of)?;
    one(channels_first(cx, result, rank)?)
}

fn global_average(cx: &mut Cx<'_>) -> Outcome {
    let value = cx.input(0)?;
    let shape = cx.shape(value);
    let (batch, channels, image) = parts(&shape)?;
    if image.len() != 2 {
        return whole(cx, "BatchedReduceMean");
    }
    let (forth, layout, ..) = orders(2)?;
    let value = cx.transpose(value, &forth, layout, "in")?;
    let window = Window {
        kernel: image.to_vec(),
        strides: vec![1; 2],
        dilations: vec![1; 2],
        pads: vec![0; 4],
    };
    let of = cx.shaped(value, with_channels_last(batch, &[1, 1], channels));
    let mut members = members(window);
    members.push(("CountIncludePads", MemberValue::Int(1)));
    let result = cx.node("AvgPool", "", &[value], members, of)?;
    one(channels_first(cx, result, 4)?)
}

fn global_max(cx: &mut Cx<'_>) -> Outcome {
    whole(cx, "BatchedReduceMax")
}

/// Reduces each image to one value.
fn whole(cx: &mut Cx<'_>, kind: &'static str) -> Outcome {
    let value = cx.input(0)?;
    let shape = cx.shape(value);
    let (batch, channels, image) = parts(&shape)?;
    let axes = (2..).zip(image).map(|(axis, _)| axis).collect();
    let of = cx.shaped(value, vec![batch, channels]);
    let result = cx.node(kind, "", &[value], vec![("Axes", MemberValue::Ints(axes))], of)?;
    let shape = cx.shape_out(0)?;
    one(cx.reshape_always(result, &shape, "keepdims")?)
}
