//! Operators that fill a blob.

use half::f16;
use lodstone_model::AttributeValue;
use lodstone_schema::Finding;
use lodstone_schema::glow::{ElemKind, Type};
use lodstone_schema::numbers::length;

use super::rules::{of_kind, product};
use crate::glow::from_onnx::graph::{MemberValue, Value};
use crate::glow::from_onnx::op::{Cx, Fault, Outcome, Rule, narrow, one};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("ConstantFill", constant),
    ("GaussianFill", gaussian),
    ("GivenTensorBoolFill", |cx| given(cx, ElemKind::Bool)),
    ("GivenTensorFill", |cx| given(cx, ElemKind::Float)),
    ("GivenTensorFp16Fill", |cx| given(cx, ElemKind::Float16)),
    ("GivenTensorInt64Fill", |cx| given(cx, ElemKind::Int64I)),
    ("GivenTensorIntFill", |cx| given(cx, ElemKind::Int32I)),
    ("UniformFill", uniform),
];

/// Returns the dims of a fill: an argument, the shape of an operand, or its elements. Also returns the operand whose
/// shape it is.
fn dims(cx: &mut Cx<'_>) -> Result<(Vec<i64>, Option<Value>), Fault> {
    if let Some(dims) = cx.longs_or_none("shape")?
        && (cx.count() == 0 || !dims.is_empty())
    {
        return Ok((checked(dims)?, None));
    }
    if cx.count() == 0 {
        return Err("expected a `shape` or an operand, found neither".into());
    }
    let extra = cx.longs_or_none("extra_shape")?.unwrap_or_default();
    let (mut dims, like) = match cx.flag("input_as_shape", false)? {
        true => (cx.ints(0)?, None),
        false => {
            let like = cx.input(0)?;
            (cx.shape(like), Some(like))
        }
    };
    let like = like.filter(|_| extra.is_empty());
    dims.extend(extra);
    Ok((checked(dims)?, like))
}

fn checked(dims: Vec<i64>) -> Result<Vec<i64>, Fault> {
    if dims.iter().any(|dim| *dim < 0) {
        return Err(format!("expected dims of at least 0, found {dims:?}").into());
    }
    product(&dims)?;
    Ok(dims)
}

fn constant(cx: &mut Cx<'_>) -> Outcome {
    let (dims, _) = dims(cx)?;
    let kind = match cx.int("dtype", 1)? {
        1 => ElemKind::Float,
        2 => ElemKind::Int32I,
        // Glow has Boolean constants as integers.
        5 | 10 => ElemKind::Int64I,
        other => return Err(format!("Glow fills no elements of type {other}").into()),
    };
    let value = match (kind, cx.op.attribute("value")) {
        (ElemKind::Float, Some(AttributeValue::Float(value))) => *value,
        (ElemKind::Int32I | ElemKind::Int64I, Some(AttributeValue::Long(value))) => exact(*value)?,
        _ => 0.0,
    };
    one(cx.splat(value, of_kind(kind, dims), "")?)
}

/// Converts an integer to a float, which a splat holds.
fn exact(value: i64) -> Result<f32, Fault> {
    #[expect(clippy::cast_precision_loss, reason = "large values are rejected")]
    let float = value as f32;
    match value.unsigned_abs() <= 1 << 24 {
        true => Ok(float),
        false => Err(format!("Glow fills integers up to 2^24, found {value}").into()),
    }
}

/// Adds a constant of the values in the argument.
fn given(cx: &mut Cx<'_>, kind: ElemKind) -> Outcome {
    let dims = checked(cx.longs_or_none("shape")?.ok_or("expected a `shape`, found none")?)?;
    let none = AttributeValue::None;
    let bytes: Vec<u8> = match (kind, cx.op.attribute("values").unwrap_or(&none)) {
        (_, AttributeValue::None) => Vec::new(),
        (ElemKind::Float, AttributeValue::Floats(all)) => {
            all.iter().flat_map(|value| value.to_le_bytes()).collect()
        }
        (ElemKind::Float16, AttributeValue::Floats(all)) => {
            all.iter().flat_map(|value| f16::from_f32(*value).to_le_bytes()).collect()
        }
        (ElemKind::Int64I, AttributeValue::Longs(all)) => {
            all.iter().flat_map(|value| value.to_le_bytes()).collect()
        }
        (ElemKind::Int32I, AttributeValue::Longs(all)) => {
            let narrow = all.iter().map(|value| i32::try_from(*value));
            let narrow: Result<Vec<_>, _> = narrow.collect();
            let narrow = narrow.map_err(|_| "expected 32-bit integers as `values`")?;
            narrow.into_iter().flat_map(i32::to_le_bytes).collect()
        }
        (ElemKind::Bool, AttributeValue::Longs(all)) => {
            all.iter().map(|value| u8::from(*value != 0)).collect()
        }
        _ => {
            return Err(Finding::from("expected a list of numbers")
                .about_attribute("values")
                .into());
        }
    };
    let bits = kind.dtype().bits().ok_or_else(|| format!("the size of {kind:?} is unknown"))?;
    let size = product(&dims)?.checked_mul(i64::from(bits / 8));
    if size != Some(length(bytes.len())) {
        return Err(format!("the number of `values` does not match {dims:?}").into());
    }
    let name = cx.output_name(0);
    one(cx.graph.constant_of(&name, kind, dims, bytes)?)
}

fn gaussian(cx: &mut Cx<'_>) -> Outcome {
    let (dims, like) = dims(cx)?;
    let like = match like {
        Some(like) => like,
        None => cx.splat(0.0, of_kind(ElemKind::Float, dims.clone()), "in")?,
    };
    let members = vec![
        ("Mean", MemberValue::Float(cx.float("mean", 0.0)?)),
        ("Scale", MemberValue::Float(cx.float("std", 1.0)?)),
        ("Seed", MemberValue::Float(0.0)),
    ];
    let of: Type = of_kind(ElemKind::Float16, dims);
    let numbers = cx.node("GaussianFill", "", &[like], members, of)?;
    one(cx.convert(numbers, ElemKind::Float, "ConvertOutput")?)
}

/// Adds a constant of random numbers, as Glow's loader does. They are the same for each net.
fn uniform(cx: &mut Cx<'_>) -> Outcome {
    let (dims, _) = dims(cx)?;
    let (least, most) = (cx.float("min", 0.0)?, cx.float("max", 1.0)?);
    if !(least.is_finite() && most.is_finite() && least <= most) {
        return Err(format!("expected `min` of at most `max`, found {least} and {most}").into());
    }
    let count = usize::try_from(product(&dims)?).map_err(|_| "the shape is too large")?;
    let size = count.checked_mul(4).ok_or("the shape is too large")?;
    // Before the memory is allocated; the constant is charged again.
    let room = cx.graph.room.is_some_and(|room| size <= room);
    if !room {
        return Err("the constants become too large".into());
    }
    let (mut state, mut bytes) = (0x9e37_79b9_7f4a_7c15_u64, Vec::with_capacity(size));
    for _ in 0..count {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        #[expect(clippy::cast_precision_loss, reason = "53 bits are exact")]
        let unit = (state >> 11) as f64 / (1_u64 << 53) as f64;
        let number = f64::from(least) + unit * (f64::from(most) - f64::from(least));
        bytes.extend(narrow(number).to_le_bytes());
    }
    cx.graph.notes.push("random numbers of `UniformFill` became constants".to_owned());
    let name = cx.output_name(0);
    one(cx.graph.constant_of(&name, ElemKind::Float, dims, bytes)?)
}
