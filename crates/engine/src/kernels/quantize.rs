//! Quantization with a scale and a zero point, and products of quantized matrices.

use burn_backend::ops::FloatTensorOps;
use burn_backend::{DType as BurnType, Scalar};
use burn_flex::Flex;
use lodstone_schema::Finding;
use lodstone_schema::onnx::dtype;

use super::linear::product;
use super::tensor::long;
use super::{Call, Made, Run, all, axis, count, dim_at, one};
use crate::item::{Item, Outcome, burn_type};

pub(super) fn kernel(kind: &str) -> Option<Run> {
    Some(match kind {
        "DequantizeLinear" => dequantize,
        "DynamicQuantizeLinear" => quantize_by_range,
        "MatMulInteger" => multiply,
        "QuantizeLinear" => quantize,
        _ => return None,
    })
}

/// Returns the minimum and the maximum of an integer type.
fn limits(kind: BurnType) -> Outcome<(f64, f64)> {
    Ok(match kind {
        BurnType::U8 => (0.0, 255.0),
        BurnType::I8 => (-128.0, 127.0),
        BurnType::U16 => (0.0, 65_535.0),
        BurnType::I16 => (-32_768.0, 32_767.0),
        other => return Err(format!("quantization to {other:?} is not supported").into()),
    })
}

/// Broadcasts scales or zero points to a tensor: one for all, one for each index along an axis, or one for each block of
/// them.
fn spread(call: &Call<'_>, part: &Item, shape: &[usize]) -> Outcome<Item> {
    let own = part.shape();
    let at = || axis(call.int("axis", 1), shape.len());
    if own.iter().product::<usize>() == 1 && own.len() < 2 {
        return Ok(part.clone().reshaped(vec![1; shape.len()]));
    }
    if own.len() == 1 {
        let at = at()?;
        let dim = own.first().copied().unwrap_or(1);
        if shape.get(at) != Some(&dim) {
            return Err(format!("{own:?} does not broadcast along axis {at} of {shape:?}").into());
        }
        let line = (0..shape.len()).map(|place| if place == at { dim } else { 1 }).collect();
        return Ok(part.clone().reshaped(line));
    }
    let (at, block) = (at()?, count(call.int("block_size", 0))?);
    let (dim, blocks) = (dim_at(shape, at)?, dim_at(&own, at)?);
    if block == 0 || dim.div_ceil(block) != blocks {
        return Err(format!("{blocks} blocks of {block} do not cover {dim} elements").into());
    }
    let places: Vec<i64> = (0..dim).map(|place| long(place / block)).collect();
    part.clone().selected(at, &places)
}

fn quantize(call: &Call<'_>) -> Made {
    let (x, scale) = (call.input(0)?, call.input(1)?);
    let shape = x.shape();
    let to = match (call.optional(2), call.int("output_dtype", 0)) {
        (Some(zero), _) => zero.kind()?,
        (None, 0) => BurnType::U8,
        (None, code) => {
            let to = i32::try_from(code).ok().and_then(dtype::from_code);
            burn_type(to.ok_or("expected an element type")?)?
        }
    };
    let numbers = x.cast(BurnType::F32)?;
    let scale = spread(call, &scale.cast(BurnType::F32)?, &shape)?;
    let mut y = numbers.over(&scale)?.map(Flex::float_round)?;
    if let Some(zero) = call.optional(2) {
        y = y.plus(&spread(call, &zero.cast(BurnType::F32)?, &shape)?)?;
    }
    one(saturated(&y, to)?)
}

fn saturated(x: &Item, to: BurnType) -> Outcome<Item> {
    let (least, greatest) = limits(to)?;
    x.map(|x| Flex::float_clamp(x, Scalar::Float(least), Scalar::Float(greatest)))?.cast(to)
}

fn dequantize(call: &Call<'_>) -> Made {
    let (x, scale) = (call.input(0)?, call.input(1)?);
    let (shape, to) = (x.shape(), scale.kind()?);
    // Differences of 32-bit integers are exact only in double precision.
    let wide = if x.kind()? == BurnType::I32 { BurnType::F64 } else { BurnType::F32 };
    let mut y = x.cast(wide)?;
    if let Some(zero) = call.optional(2) {
        y = y.minus(&spread(call, &zero.cast(wide)?, &shape)?)?;
    }
    one(y.times(&spread(call, &scale.cast(wide)?, &shape)?)?.cast(to)?)
}

/// Quantizes to 8 bits by the minimum and the maximum, with 0 in the range.
fn quantize_by_range(call: &Call<'_>) -> Made {
    let x = call.input(0)?;
    if x.kind()? != BurnType::F32 {
        return Err(format!("expected single precision, found {}", x.dtype()?).into());
    }
    let values = x.to_doubles()?;
    let least = values.iter().copied().fold(0.0, f64::min);
    let greatest = values.iter().copied().fold(0.0, f64::max);
    let scale = (greatest - least) / 255.0;
    let scale = if scale == 0.0 { 1.0 } else { scale };
    let zero = (-least / scale).clamp(0.0, 255.0).round_ties_even();
    let size = Item::numbers(vec![scale], x.kind()?, &[])?;
    let y = x.over(&size)?.map(Flex::float_round)?.shifted(zero)?;
    all([
        saturated(&y, BurnType::U8)?,
        Item::numbers(vec![scale], BurnType::F32, &[])?,
        Item::numbers(vec![zero], BurnType::U8, &[])?,
    ])
}

/// Subtracts the zero points of quantized matrices: by row on the left, by column on the right.
fn multiply(call: &Call<'_>) -> Made {
    let side = |number: usize, is_left: bool| {
        let x = call.input(number)?.cast(BurnType::I32)?;
        let Some(zero) = call.optional(number + 2) else { return Ok::<_, Finding>(x) };
        let mut zero = zero.cast(BurnType::I32)?;
        if let ([rows], true) = (zero.shape().as_slice(), is_left && x.shape().len() > 1) {
            zero = zero.reshaped(vec![*rows, 1]);
        }
        x.minus(&zero)
    };
    one(product(side(0, true)?, side(1, false)?)?)
}
