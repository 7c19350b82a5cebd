//! Operators between integers, as Glow's writer encodes its own nodes in ONNX's domain: the scale and the offset of the
//! result are attributes, and channels are last.

use lodstone_schema::glow::{ElemKind, Type};
use lodstone_schema::numbers::length;

use super::conv::{Window, window, with_channels_last};
use super::graph::{MemberValue, Value, plain};
use super::loader::inputs;
use super::op::{Cx, Fault, Outcome, Rule, one};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("AveragePool", |cx| pool(cx, "AvgPool")),
    ("ChannelwiseQuantizedConvolution", |cx| conv(cx, "ChannelwiseQuantizedConvolution", 7)),
    ("Conv", |cx| conv(cx, "Convolution", 3)),
    ("Dequantize", dequantize),
    ("IntLookupTable", lookup),
    ("MaxPool", |cx| pool(cx, "MaxPool")),
    ("Quantize", quantize),
    ("RescaleQuantized", rescale),
    ("RowwiseQuantizedFullyConnected", fully_connected),
];

/// Whether the attributes of an operator hold the scale and offset of its result, so that it computes on integers.
pub(super) fn is_quantized(op: &lodstone_model::Op) -> bool {
    let kinds = ["AveragePool", "Conv", "MaxPool"];
    let has_both = ["out_scale", "out_offset"].iter().all(|name| op.attribute(name).is_some());
    kinds.contains(&op.kind.as_str()) && has_both
}

/// Reads the scale and the offset from two attributes.
fn quantization(cx: &Cx<'_>, scale: &str, offset: &str) -> Result<(f32, i32), Fault> {
    let number = i32::try_from(cx.int(offset, 0)?);
    let number = number.map_err(|_| format!("expected a 32-bit integer as `{offset}`"))?;
    Ok((cx.float(scale, 1.0)?, number))
}

/// Returns the type of the result: integers like those of an input.
fn result(cx: &Cx<'_>, like: Value, shape: Vec<i64>) -> Result<Type, Fault> {
    let of = cx.shaped(like, shape);
    if !of.kind.is_quantized() {
        return Err("expected quantized integers, found floats".into());
    }
    Ok(Type { quantization: Some(quantization(cx, "out_scale", "out_offset")?), ..of })
}

/// Returns the number of window positions along each axis.
fn steps(image: &[i64], window: &Window) -> Result<Vec<i64>, Fault> {
    let axes = image.len();
    let step = |axis: usize| -> Option<i64> {
        let (kernel, stride) = (window.kernel.get(axis)?, window.strides.get(axis)?);
        let (before, after) = (window.pads.get(axis)?, window.pads.get(axis + axes)?);
        let reach = (kernel - 1).checked_mul(*window.dilations.get(axis)?)?.checked_add(1)?;
        let padded = image.get(axis)?.checked_add(*before)?.checked_add(*after)?;
        padded.checked_sub(reach).filter(|rest| *rest >= 0)?.checked_div(*stride)?.checked_add(1)
    };
    let steps: Option<Vec<i64>> = (0..axes).map(step).collect();
    Ok(steps.ok_or("the window does not fit the image")?)
}

/// Splits a shape with channels last into batch, dims of the image, and channels.
fn image(cx: &Cx<'_>, value: Value) -> Result<(i64, [i64; 2], i64), Fault> {
    match *cx.shape(value) {
        [batch, height, width, channels] => Ok((batch, [height, width], channels)),
        ref other => Err(format!("expected images with channels last, found {other:?}").into()),
    }
}

fn conv(cx: &mut Cx<'_>, kind: &'static str, operands: usize) -> Outcome {
    let inputs = inputs(cx, operands)?;
    let (value, filter) = (cx.input(0)?, cx.input(1)?);
    let (batch, dims, channels) = image(cx, value)?;
    let (depth, kernel, each) = image(cx, filter)?;
    let group = cx.int("group", 1)?;
    if each.checked_mul(group) != Some(channels) || group < 1 || depth % group != 0 {
        let what = format!("{depth} filters of {each} channels in {group} groups");
        return Err(format!("{what} do not fit {channels} channels").into());
    }
    let mut window = window(cx, &dims, Some(kernel.to_vec()))?;
    // Glow writes the singular `dilation`.
    if let Some(dilation) = cx.longs("dilation")? {
        if dilation.len() != dims.len() || dilation.iter().any(|n| *n < 1) {
            return Err(
                format!("expected 2 positive numbers as `dilation`, found {dilation:?}").into()
            );
        }
        window.dilations = dilation;
    }
    let small = steps(&dims, &window)?;
    let of = result(cx, value, with_channels_last(batch, &small, depth))?;
    let mut members = vec![
        ("Kernels", MemberValue::Ints(window.kernel)),
        ("Strides", MemberValue::Ints(window.strides)),
        ("Pads", MemberValue::Ints(window.pads)),
        ("Group", MemberValue::Int(group)),
        ("Dilation", MemberValue::Ints(window.dilations)),
        ("FusedActivation", MemberValue::Text("NONE".to_owned())),
        ("FusedActivationArgs", MemberValue::Floats(Vec::new())),
    ];
    if kind == "Convolution" {
        members.push(("Layout", MemberValue::Text("NHWC".to_owned())));
    }
    one(cx.node(kind, "", &inputs, members, of)?)
}

fn pool(cx: &mut Cx<'_>, kind: &'static str) -> Outcome {
    let value = cx.input(0)?;
    let (batch, dims, channels) = image(cx, value)?;
    let window = window(cx, &dims, None)?;
    let small = steps(&dims, &window)?;
    let shape = with_channels_last(batch, &small, channels);
    let of = result(cx, value, shape.clone())?;
    let mut members = vec![
        ("Kernels", MemberValue::Ints(window.kernel)),
        ("Strides", MemberValue::Ints(window.strides)),
        ("Pads", MemberValue::Ints(window.pads)),
        ("Layout", MemberValue::Int(0)),
    ];
    let mut results = vec![of];
    match kind {
        "AvgPool" => {
            let counts = cx.flag("count_include_pad", false)?;
            members.push(("CountIncludePads", MemberValue::Int(counts.into())));
        }
        _ => results.push(plain(ElemKind::Int64I, shape)),
    }
    let results = cx.nodes(kind, "", &[value], members, results)?;
    Ok(results.into_iter().map(Some).collect())
}

/// A product with weights that have a scale and an offset for each row.
fn fully_connected(cx: &mut Cx<'_>) -> Outcome {
    let inputs = inputs(cx, 5)?;
    let (value, weights) = (cx.input(0)?, cx.input(1)?);
    let (shape, matrix) = (cx.shape(value), cx.shape(weights));
    let ([rows, inner], [columns, other]) = (&*shape, &*matrix) else {
        return Err("expected two matrices".into());
    };
    if inner != other {
        return Err(format!("{inner} columns do not match weights of {other}").into());
    }
    let of = result(cx, value, vec![*rows, *columns])?;
    one(cx.node("RowwiseQuantizedFullyConnected", "", &inputs, Vec::new(), of)?)
}

/// Maps each integer by a lookup table.
fn lookup(cx: &mut Cx<'_>) -> Outcome {
    let value = cx.input(0)?;
    let values = cx.longs("values")?.ok_or("expected `values`")?;
    let of = cx.type_of(value);
    let mut bytes = Vec::with_capacity(values.len());
    let expected = match of.kind {
        ElemKind::Int8Q => {
            for number in &values {
                let narrow = i8::try_from(*number).map_err(|_| "expected 8-bit integers")?;
                bytes.push(narrow.cast_unsigned());
            }
            1 << 8
        }
        ElemKind::Int16Q => {
            for number in &values {
                let narrow = i16::try_from(*number).map_err(|_| "expected 16-bit integers")?;
                bytes.extend(narrow.to_le_bytes());
            }
            1 << 16
        }
        _ => return Err("expected quantized integers of 8 or 16 bits".into()),
    };
    if values.len() != expected {
        let found = values.len();
        return Err(format!("expected {expected} `values`, found {found}").into());
    }
    let name = format!("{}_mapping", cx.base);
    let table = cx.graph.constant_of(&name, of.kind, vec![length(expected)], bytes)?;
    let quantization = of.quantization;
    cx.graph.retype(table, Type { quantization, ..cx.type_of(table) });
    one(cx.node("IntLookupTable", "", &[value, table], Vec::new(), of)?)
}

fn quantize(cx: &mut Cx<'_>) -> Outcome {
    let value = cx.input(0)?;
    let name = cx.text("elem_kind", "Int8QTy")?;
    let kind = match name.as_str() {
        "Int8QTy" | "i8" => ElemKind::Int8Q,
        "UInt8QTy" | "ui8" => ElemKind::UInt8Q,
        "Int16QTy" | "i16" => ElemKind::Int16Q,
        "Int32QTy" | "i32" => ElemKind::Int32Q,
        other => return Err(format!("expected a quantized type, found `{other}`").into()),
    };
    let quantization = Some(quantization(cx, "scale", "offset")?);
    let of = Type { quantization, ..plain(kind, cx.shape(value)) };
    one(cx.node("Quantize", "", &[value], Vec::new(), of)?)
}

fn dequantize(cx: &mut Cx<'_>) -> Outcome {
    let value = cx.input(0)?;
    let of = plain(ElemKind::Float, cx.shape(value));
    one(cx.node("Dequantize", "", &[value], Vec::new(), of)?)
}

fn rescale(cx: &mut Cx<'_>) -> Outcome {
    let value = cx.input(0)?;
    let quantization = Some(quantization(cx, "scale", "offset")?);
    let of = Type { quantization, ..cx.type_of(value) };
    one(cx.node("RescaleQuantized", "", &[value], Vec::new(), of)?)
}
