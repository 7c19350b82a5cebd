//! Pools, and other operators that change the size of images.

use lodstone_schema::glow::{ElemKind, Type};
use lodstone_schema::numbers::length;

use super::conv::{Geometry, pads};
use super::rules::{channels_first, channels_last, image, is_nhwc, of_kind, quantized};
use crate::glow::from_onnx::graph::{MemberValue, Value};
use crate::glow::from_onnx::op::{Cx, Fault, Outcome, Rule, one};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("AveragePool", |cx| average(cx, false)),
    ("Int8AveragePool", |cx| average(cx, true)),
    ("Int8MaxPool", |cx| largest(cx, true)),
    ("MaxPool", |cx| largest(cx, false)),
    ("PadImage", pad),
    ("ResizeNearest", resize),
];

/// A pool over an image with channels last.
struct Pool {
    value: Value,
    window: Geometry,
    result: Type,
    is_nhwc: bool,
}

fn pool(cx: &mut Cx<'_>) -> Result<Pool, Fault> {
    let is_nhwc = is_nhwc(cx)?;
    let value = cx.input(0)?;
    let value = if is_nhwc { value } else { channels_last(cx, value)? };
    let [batch, height, width, channels] = image(cx, value)?;
    let mut window = Geometry::of(cx)?;
    if window.dilations != [1; 2] {
        return Err(format!("Glow has no dilations for pools: {:?}", window.dilations).into());
    }
    if cx.flag("global_pooling", false)? {
        window = Geometry { kernels: [height, width], strides: [1; 2], pads: [0; 4], ..window };
    }
    let kernels = window.kernels.iter().cycle();
    if let Some((pad, kernel)) = window.pads.iter().zip(kernels).find(|(pad, kernel)| pad >= kernel)
    {
        return Err(format!("expected pads below the kernel, found {pad} for {kernel}").into());
    }
    window.pad_as_before(cx, [height, width])?;
    let [rows, columns] = window.result([height, width])?;
    let result = cx.shaped(value, vec![batch, rows, columns, channels]);
    Ok(Pool { value, window, result, is_nhwc })
}

fn restored(cx: &mut Cx<'_>, value: Value, is_nhwc: bool) -> Outcome {
    one(if is_nhwc { value } else { channels_first(cx, value)? })
}

fn largest(cx: &mut Cx<'_>, is_quantized: bool) -> Outcome {
    // The quantization of the result is that of the operand.
    if is_quantized {
        quantized(cx, Vec::new())?;
    }
    let pool = pool(cx)?;
    let mut members = pool.window.members();
    members.push(("Layout", MemberValue::Int(0)));
    let places = of_kind(ElemKind::Int64I, pool.result.shape.clone());
    let results = cx.nodes("MaxPool", "", &[pool.value], members, vec![pool.result, places])?;
    let value = *results.first().ok_or("a pool has no result")?;
    restored(cx, value, pool.is_nhwc)
}

fn average(cx: &mut Cx<'_>, is_quantized: bool) -> Outcome {
    let mut pool = pool(cx)?;
    if is_quantized {
        pool.result = quantized(cx, pool.result.shape)?;
    }
    // Pools of 8-bit integers always count pads.
    let counts = is_quantized || cx.flag("count_include_pad", false)?;
    let mut members = pool.window.members();
    members.extend([
        ("Layout", MemberValue::Int(0)),
        ("CountIncludePads", MemberValue::Int(counts.into())),
    ]);
    let value = cx.node("AvgPool", "", &[pool.value], members, pool.result)?;
    restored(cx, value, pool.is_nhwc)
}

/// Pads images; `reflect` leaves out the outermost pixels.
fn pad(cx: &mut Cx<'_>) -> Outcome {
    const MODES: [&str; 3] = ["constant", "reflect", "edge"];
    let is_nhwc = is_nhwc(cx)?;
    let value = cx.input(0)?;
    let rank = cx.rank(value);
    if rank != 4 {
        return Err(format!("expected images of 4 dims, found {rank}").into());
    }
    let [top, left, bottom, right] = pads(cx)?;
    let mode = cx.text("mode", "constant")?;
    let Some(mode) = MODES.iter().position(|known| *known == mode) else {
        return Err(format!("expected one of {MODES:?} as `mode`, found `{mode}`").into());
    };
    let (begins, ends) = match is_nhwc {
        true => ([0, top, left, 0], [0, bottom, right, 0]),
        false => ([0, 0, top, left], [0, 0, bottom, right]),
    };
    let mut shape = cx.shape(value);
    let limit = i64::from(i32::MAX);
    for (dim, (before, after)) in shape.iter_mut().zip(begins.into_iter().zip(ends)) {
        let largest = if mode == 1 { *dim - 1 } else { limit };
        if !(0..=largest).contains(&before) || !(0..=largest).contains(&after) {
            return Err(format!("pads of {before} and {after} do not fit a dim of {dim}").into());
        }
        *dim += before + after;
    }
    let members = vec![
        ("Mode", MemberValue::Int(length(mode))),
        ("Pads", MemberValue::Ints([begins, ends].concat())),
        ("Value", MemberValue::Float(cx.float("value", 0.0)?)),
    ];
    let of = cx.shaped(value, shape);
    one(cx.node("Pad", "", &[value], members, of)?)
}

fn resize(cx: &mut Cx<'_>) -> Outcome {
    let is_nhwc = is_nhwc(cx)?;
    let value = cx.input(0)?;
    if cx.count() > 1 {
        return Err("expected scales as arguments, found an operand".into());
    }
    let value = if is_nhwc { value } else { channels_last(cx, value)? };
    let scales = [1.0, cx.float("height_scale", 1.0)?, cx.float("width_scale", 1.0)?, 1.0];
    if let Some(wrong) = scales.iter().find(|scale| !scale.is_finite() || **scale <= 0.0) {
        return Err(format!("expected positive scales, found {wrong}").into());
    }
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        reason = "as in Glow; values out of range saturate"
    )]
    let size = |(dim, scale): (&i64, &f32)| (*dim as f32 * scale).floor() as i64;
    let shape: Vec<i64> = cx.shape(value).iter().zip(&scales).map(size).collect();
    if shape.contains(&0) {
        return Err(format!("expected dims of at least 1, found {shape:?}").into());
    }
    let of = cx.shaped(value, shape);
    let members = vec![("Scale", MemberValue::Floats(scales.to_vec()))];
    let value = cx.node("ResizeNearest", "", &[value], members, of)?;
    restored(cx, value, is_nhwc)
}
