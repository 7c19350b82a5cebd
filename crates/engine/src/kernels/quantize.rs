//! Quantization with a scale and a zero point, and products of quantized matrices.

use lodstone_model::{DType, Op};
use lodstone_schema::Finding;
use lodstone_schema::onnx::dtype;

use crate::budget::Memory;
use crate::call::{Call, Outputs, all, one};
use crate::dims::{axis, count, dim_at, long};
use crate::error::Outcome;
use crate::fast;
use crate::fast::{IntegerKind, Packing};
use crate::narrow::{Power, Rounding, is_narrow, narrowed};
use crate::operator::Operator;
use crate::tensor::{Dense, product};
use crate::value::Value;

/// The operators of this family.
pub(super) const OPERATORS: &[Operator] = &[
    Operator::values("DequantizeLinear", dequantize).fast(fast::quantize::DEQUANTIZE).working(2, 8),
    Operator::dense("DynamicQuantizeLinear", quantize_by_range)
        .fast(fast::quantize::QUANTIZE_BY_RANGE)
        .working(20, 0),
    Operator::dense("MatMulInteger", multiply)
        .packed(Packing::Integers(IntegerKind::MatMulInteger))
        .working(12, 8),
    Operator::values("QuantizeLinear", quantize).fast(fast::quantize::QUANTIZE).working(0, 24),
];

/// Returns the minimum and the maximum of an integer type; `None` for floats.
fn limits(dtype: DType) -> Outcome<Option<(f64, f64)>> {
    Ok(Some(match dtype {
        DType::Uint2 => (0.0, 3.0),
        DType::Int2 => (-2.0, 1.0),
        DType::Uint4 => (0.0, 15.0),
        DType::Int4 => (-8.0, 7.0),
        DType::Uint8 => (0.0, 255.0),
        DType::Int8 => (-128.0, 127.0),
        DType::Uint16 => (0.0, 65_535.0),
        DType::Int16 => (-32_768.0, 32_767.0),
        other if is_narrow(other) => return Ok(None),
        other => return Err(format!("quantization to {other} is not supported").into()),
    }))
}

/// Returns the element type of an attribute; `None` if it is 0.
fn output_dtype(call: &Call<'_>) -> Outcome<Option<DType>> {
    match call.int("output_dtype", 0) {
        0 => Ok(None),
        code => {
            let known = i32::try_from(code).ok().and_then(dtype::from_code);
            known.map(Some).ok_or_else(|| "expected an element type".into())
        }
    }
}

/// Broadcasts scales or zero points to a tensor: one for all, one for each index along an axis, or one for each block of
/// them.
fn spread(call: &Call<'_>, part: &Dense, shape: &[usize]) -> Outcome<Dense> {
    let own = part.dims();
    let at = || axis(call.int("axis", 1), shape.len());
    if own.iter().product::<usize>() == 1 && own.len() < 2 {
        return part.reshaped(vec![1; shape.len()]);
    }
    if let [dim] = *own {
        let at = at()?;
        if shape.get(at) != Some(&dim) {
            return Err(format!("{own:?} does not broadcast along axis {at} of {shape:?}").into());
        }
        let line = (0..shape.len()).map(|place| if place == at { dim } else { 1 });
        return part.reshaped(line.collect::<Vec<_>>());
    }
    if own.len() != shape.len() {
        return Err(format!("{own:?} does not have the rank of {shape:?}").into());
    }
    let (at, block) = (at()?, count(call.int("block_size", 0))?);
    let (dim, blocks) = (dim_at(shape, at)?, dim_at(own, at)?);
    if block == 0 || dim.div_ceil(block) != blocks {
        return Err(format!("{blocks} blocks of {block} do not cover {dim} elements").into());
    }
    let places: Vec<i64> = (0..dim).map(|place| long(place / block)).collect();
    part.selected(at, &places)
}

pub(super) fn quantize(op: &Op, inputs: &[Option<Value>], _: Memory<'_>) -> Outputs {
    let call = &Call::widened(op, inputs)?;
    let (x, scale) = (call.input(0)?, call.input(1)?);
    let shape = x.shape();
    let to = match (inputs.get(2).and_then(Option::as_ref), output_dtype(call)?) {
        (Some(zero), _) => zero.dense()?.dtype(),
        (None, to) => to.unwrap_or(DType::Uint8),
    };
    let limits = limits(to)?;
    let numbers = x.cast_to(DType::Float32)?;
    let scale = spread(call, &scale.cast_to(DType::Float32)?, &shape)?;
    let mut y = numbers.over(&scale)?;
    if limits.is_some() {
        y = y.rounded()?;
    }
    if let Some(zero) = call.optional(2) {
        y = y.plus(&spread(call, &zero.cast_to(DType::Float32)?, &shape)?)?;
    }
    if let Some((least, greatest)) = limits {
        y = y.clamped(least, greatest)?;
    }
    let rounding = Rounding { saturate: call.int("saturate", 1) != 0, power: Power::Nearest };
    Ok(vec![narrowed(&y, to, rounding)?.into()])
}

/// Rounds to 8-bit integers; values beyond the limits become the limits.
pub(super) fn saturated(x: &Dense, to: DType) -> Outcome<Dense> {
    let (least, greatest) = match to {
        DType::Int8 => (-128.0, 127.0),
        _ => (0.0, 255.0),
    };
    x.clamped(least, greatest)?.cast_to(to)
}

pub(super) fn dequantize(op: &Op, inputs: &[Option<Value>], _: Memory<'_>) -> Outputs {
    let call = &Call::widened(op, inputs)?;
    let (x, scale) = (call.input(0)?, call.input(1)?);
    let shape = x.shape();
    let to = output_dtype(call)?.unwrap_or_else(|| scale.dtype());
    // Differences of 32-bit integers are exact only in double precision.
    let wide = if x.dtype() == DType::Int32 { DType::Float64 } else { DType::Float32 };
    let mut y = x.cast_to(wide)?;
    if let Some(zero) = call.optional(2) {
        y = y.minus(&spread(call, &zero.cast_to(wide)?, &shape)?)?;
    }
    let y = y.times(&spread(call, &scale.cast_to(wide)?, &shape)?)?;
    Ok(vec![narrowed(&y, to, Rounding::default())?.into()])
}

/// Quantizes to 8 bits by the minimum and the maximum, with 0 in the range.
fn quantize_by_range(call: &Call<'_>) -> Outputs {
    let x = call.input(0)?;
    if x.dtype() != DType::Float32 {
        return Err(format!("expected single precision, found {}", x.dtype()).into());
    }
    let values = x.to_doubles()?;
    let least = values.iter().copied().fold(0.0, f64::min);
    let greatest = values.iter().copied().fold(0.0, f64::max);
    let scale = (greatest - least) / 255.0;
    let scale = if scale == 0.0 { 1.0 } else { scale };
    let zero = (-least / scale).clamp(0.0, 255.0).round_ties_even();
    let size = Dense::numbers(vec![scale], x.dtype(), &[])?;
    let y = x.over(&size)?.rounded()?.shifted(zero)?;
    all([
        saturated(&y, DType::Uint8)?,
        Dense::numbers(vec![scale], DType::Float32, &[])?,
        Dense::numbers(vec![zero], DType::Uint8, &[])?,
    ])
}

/// Subtracts the zero points of quantized matrices: by row on the left, by column on the right.
fn multiply(call: &Call<'_>) -> Outputs {
    let side = |number: usize, is_left: bool| {
        let x = call.input(number)?.cast_to(DType::Int32)?;
        let Some(zero) = call.optional(number + 2) else { return Ok::<_, Finding>(x) };
        let mut zero = zero.cast_to(DType::Int32)?;
        if let ([rows], true) = (zero.shape().as_slice(), is_left && x.shape().len() > 1) {
            zero = zero.reshaped(vec![*rows, 1])?;
        }
        x.minus(&zero.fitted(&x.shape())?)
    };
    one(product(&side(0, true)?, &side(1, false)?)?)
}

/// Quantizes to 8 bits by the range, which includes 0, in single precision. Returns the elements less their zero point,
/// and the scale.
pub(super) fn by_range(x: &Dense) -> Outcome<(Dense, f32)> {
    let values = x.to_singles()?;
    let least = values.iter().copied().fold(0.0, f32::min);
    let greatest = values.iter().copied().fold(0.0, f32::max);
    let scale = if least == greatest { 1.0 } else { (greatest - least) / 255.0 };
    let zero = (-least / scale).clamp(0.0, 255.0).round_ties_even();
    let code = |value: &f32| ((value / scale).round_ties_even() + zero).clamp(0.0, 255.0) - zero;
    let codes: Vec<f32> = values.iter().map(code).collect();
    Ok((Dense::from_vec(codes, x.shape())?, scale))
}
