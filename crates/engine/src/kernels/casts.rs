//! Casts between element types, those of fewer than 8 bits and 8-bit floats among them.

use lodstone_model::{AttributeValue, DType, Op};
use lodstone_schema::onnx::dtype;

use super::sequence::{attribute, value};
use super::text_casts;
use crate::budget::Memory;
use crate::call::{Call, Outputs};
use crate::error::Outcome;
use crate::fused::Rule;
use crate::narrow::{Power, Rounding, narrowed, widened};
use crate::operator::Operator;
use crate::tensor::Dense;
use crate::value::Value;

/// The operators of this family.
pub(super) const OPERATORS: &[Operator] = &[
    Operator::values("BitCast", bit_cast),
    Operator::values("Cast", |op, inputs, memory| cast(op, inputs, target(op)?, memory))
        .fused(fused_cast)
        .working(0, 24),
    Operator::values("CastLike", cast_like).working(0, 24),
];

/// A boolean becomes a number in single precision; other casts are not fused.
fn fused_cast(call: &Call<'_>) -> Option<Rule> {
    let to = i32::try_from(call.maybe_int("to")?).ok()?;
    (dtype::from_code(to) == Some(DType::Float32)).then(Rule::number)
}

fn cast_like(op: &Op, inputs: &[Option<Value>], memory: Memory<'_>) -> Outputs {
    cast(op, inputs, value(inputs, 1)?.info()?.dtype(), memory)
}

/// Returns the element type that the attribute `to` names.
fn target(op: &Op) -> Outcome<DType> {
    let to = i32::try_from(attribute(op, "to", 0)).ok().and_then(dtype::from_code);
    to.ok_or_else(|| "expected an element type".into())
}

fn cast(op: &Op, inputs: &[Option<Value>], to: DType, memory: Memory<'_>) -> Outputs {
    let x = value(inputs, 0)?;
    if to == DType::String || matches!(x, Value::Strings(_)) {
        return Ok(vec![text_casts::cast(x, to, memory)?]);
    }
    let power = match op.attribute("round_mode") {
        Some(AttributeValue::String(mode)) => match mode.to_string().as_str() {
            "up" => Power::Up,
            "down" => Power::Down,
            "nearest" => Power::Nearest,
            other => return Err(format!("rounding mode `{other}` is not supported").into()),
        },
        _ => Power::Up,
    };
    let rounding = Rounding { saturate: attribute(op, "saturate", 1) != 0, power };
    Ok(vec![narrowed(&widened(x.dense()?)?, to, rounding)?.into()])
}

/// Reinterprets the bits of each element as another type of the same size.
fn bit_cast(op: &Op, inputs: &[Option<Value>], _: Memory<'_>) -> Outputs {
    let (x, to) = (value(inputs, 0)?.dense()?, target(op)?);
    if x.dtype().bits().is_none() || x.dtype().bits() != to.bits() {
        return Err(format!("{} and {to} have elements of different sizes", x.dtype()).into());
    }
    Ok(vec![Dense::new(to, x.dims(), x.bytes()?)?.into()])
}
