//! Operators on quantized tensors: they compute with real numbers, and quantize the result.
//!
//! A quantized input is three inputs: the elements, their scale and their zero point, which may be omitted.

use lodstone_model::DType;
use lodstone_schema::Finding;

use crate::call::with_int;
use crate::call::{Call, Outputs, one};
use crate::dims::{axis, bounded, count};
use crate::error::Outcome;
use crate::fast;
use crate::kernels::integer_products::quantized_conv;
use crate::kernels::quantize::saturated;
use crate::kernels::{pool, quantize};
use crate::operator::{DenseKernel, Operator, RUNTIME};
use crate::tensor::Dense;

/// The operators of this family.
pub(super) const OPERATORS: &[Operator] = &[
    Operator::values("DequantizeLinear", quantize::dequantize).domain(RUNTIME).working(2, 8),
    Operator::dense("QLinearAdd", |call| pair(call, Dense::plus))
        .domain(RUNTIME)
        .fast(fast::quantize::SUM)
        .working(0, 40),
    Operator::dense("QLinearAveragePool", |call| pooled(call, pool::average_pool, true))
        .domain(RUNTIME)
        .working(40, 0),
    Operator::dense("QLinearConcat", concat).domain(RUNTIME).working(40, 0),
    Operator::dense("QLinearConv", conv).domain(RUNTIME).working(0, 40).threaded(),
    Operator::dense("QLinearGlobalAveragePool", |call| {
        pooled(call, pool::global_average_pool, false)
    })
    .domain(RUNTIME)
    .working(20, 0),
    Operator::dense("QLinearLeakyRelu", q_linear_leaky_relu).domain(RUNTIME).working(0, 24),
    Operator::dense("QLinearMul", |call| pair(call, Dense::times))
        .domain(RUNTIME)
        .fast(fast::quantize::PRODUCT)
        .working(0, 40),
    Operator::dense("QLinearReduceMean", mean).domain(RUNTIME).working(24, 0),
    Operator::dense("QLinearSigmoid", |call| single(call, Dense::sigmoid))
        .domain(RUNTIME)
        .working(0, 24),
    Operator::dense("QLinearSoftmax", softmax).domain(RUNTIME).working(0, 40),
    Operator::dense("QLinearWhere", choose).domain(RUNTIME).working(48, 0),
    Operator::values("QuantizeLinear", quantize::quantize).domain(RUNTIME).working(0, 24),
];

fn q_linear_leaky_relu(call: &Call<'_>) -> Outputs {
    let alpha = call.float("alpha", 0.01);
    single(call, |x| x.leaky(alpha))
}

/// Returns a tensor of one element without dims; it broadcasts to any tensor.
pub(super) fn single_value(x: Dense) -> Outcome<Dense> {
    match x.count() {
        1 => x.reshaped([]),
        _ => Ok(x),
    }
}

/// Subtracts the zero point of an input, if it is present: one for all, or one for each index of the last axis.
pub(super) fn centred(call: &Call<'_>, x: Dense, zero: usize) -> Outcome<Dense> {
    match call.optional(zero) {
        Some(zero) => x.minus(&single_value(zero.cast_to(x.dtype())?)?.fitted(&x.shape())?),
        None => Ok(x),
    }
}

/// Returns the real numbers of the quantized input that begins at `number`, in double precision.
fn real(call: &Call<'_>, number: usize) -> Outcome<Dense> {
    let x = centred(call, call.input(number)?.cast_to(DType::Float64)?, number + 2)?;
    let scale = single_value(call.input(number + 1)?.cast_to(DType::Float64)?)?;
    x.times(&scale.fitted(&x.shape())?)
}

/// Quantizes real numbers by the scale that is input `scale`, and the zero point behind it.
pub(super) fn requantized(call: &Call<'_>, y: &Dense, scale: usize, kind: DType) -> Outcome<Dense> {
    let by = single_value(call.input(scale)?.cast_to(y.dtype())?)?;
    let y = y.over(&by.fitted(&y.shape())?)?.rounded()?;
    let y = match call.optional(scale + 1) {
        Some(zero) => y.plus(&single_value(zero.cast_to(y.dtype())?)?.fitted(&y.shape())?)?,
        None => y,
    };
    saturated(&y, kind)
}

/// Applies a function to the real numbers of one input, in single precision.
fn single(call: &Call<'_>, of: impl FnOnce(&Dense) -> Outcome<Dense>) -> Outputs {
    let x = real(call, 0)?.cast_to(DType::Float32)?;
    one(requantized(call, &of(&x)?, 3, call.input(0)?.dtype())?)
}

/// Applies a function to the real numbers of two inputs.
fn pair(call: &Call<'_>, of: fn(&Dense, &Dense) -> Outcome<Dense>) -> Outputs {
    let y = of(&real(call, 0)?, &real(call, 3)?)?;
    one(requantized(call, &y, 6, call.input(0)?.dtype())?)
}

/// Inputs: the scale and the zero point of the result, and any number of quantized inputs.
fn concat(call: &Call<'_>) -> Outputs {
    let mut parts = Vec::new();
    let mut number = 2;
    while call.optional(number).is_some() {
        parts.push(real(call, number)?);
        number += 3;
    }
    let first = parts.first().ok_or("the inputs are missing")?.shape();
    let at = axis(call.int("axis", 0), first.len())?;
    let others = |shape: &[usize]| -> Vec<usize> {
        shape.iter().enumerate().map(|(axis, dim)| if axis == at { 0 } else { *dim }).collect()
    };
    if parts.iter().any(|part| others(&part.shape()) != others(&first)) {
        return Err("the inputs have different dims on other axes".into());
    }
    let y = Dense::joined(&parts, at)?;
    one(requantized(call, &y, 0, call.input(2)?.dtype())?)
}

/// Moves the last axis behind the first one, or back.
fn moved(x: &Dense, to_front: bool) -> Outcome<Dense> {
    let rank = x.dims().len();
    if rank < 3 {
        return Ok(x.clone());
    }
    match to_front {
        true => x.permuted(&[&[0, rank - 1][..], &(1..rank - 1).collect::<Vec<_>>()].concat()),
        false => x.permuted(&[&[0][..], &(2..rank).collect::<Vec<_>>(), &[1]].concat()),
    }
}

/// Pools the real numbers. Channels are the second axis, or the last one with `channels_last`.
fn pooled(call: &Call<'_>, of: DenseKernel, has_windows: bool) -> Outputs {
    let is_last = call.int("channels_last", 0) != 0;
    let pads = call.text("auto_pad").filter(|pads| pads != "NOTSET" && !pads.is_empty());
    if call.int("ceil_mode", 0) != 0
        && let Some(pads) = pads
    {
        return Err(format!("`ceil_mode` with `auto_pad` `{pads}` is not supported").into());
    }
    let x = real(call, 0)?;
    let x = if is_last { moved(&x, true)? } else { x };
    let mut y = result(&of(&call.with(call.op, vec![Some(x.clone())]))?)?;
    if has_windows && ["ceil_mode", "count_include_pad"].iter().all(|it| call.int(it, 0) != 0) {
        y = y.times(&filling(call, &x)?)?;
    }
    let y = if is_last { moved(&y, false)? } else { y };
    one(requantized(call, &y, 3, call.input(0)?.dtype())?)
}

/// Returns the share of each window that lies in the padded image. Sums over windows that exceed it are divided by the
/// size of the whole window.
fn filling(call: &Call<'_>, x: &Dense) -> Outcome<Dense> {
    let size = call.ints("kernel_shape").unwrap_or_default();
    let whole: f64 = size.iter().map(|dim| *dim as f64).product();
    let pads = call.ints("pads").unwrap_or_default();
    let (before, behind) = pads.split_at(pads.len() / 2);
    let mut dims: Vec<usize> = [1, 1].into_iter().chain(x.dims().iter().skip(2).copied()).collect();
    for sides in [before, behind] {
        for (dim, side) in dims.iter_mut().skip(2).zip(sides) {
            *dim = dim.saturating_add(count(*side)?);
        }
    }
    bounded(&dims)?;
    let ones = Dense::filled(1.0, DType::Float64, &dims)?;
    let mut op = with_int(call.op, "p", 1);
    op.attributes.retain(|attribute| attribute.name != "pads");
    result(&pool::lp_pool(&call.with(&op, vec![Some(ones)]))?)?.scaled(1.0 / whole)
}

/// Returns the first result of a kernel.
fn result(made: &[crate::value::Value]) -> Outcome<Dense> {
    made.first().ok_or_else(|| Finding::internal("there is no result"))?.dense().cloned()
}

/// A convolution whose channels may be the last axis of the input and of the result.
fn conv(call: &Call<'_>) -> Outputs {
    if call.all().iter().any(|item| item.shape().contains(&0)) {
        return Err("expected elements in all inputs".into());
    }
    if call.int("channels_last", 0) == 0 {
        return quantized_conv(call);
    }
    let mut inputs = call.inputs();
    if let Some(Some(x)) = inputs.first_mut() {
        *x = moved(x, true)?;
    }
    one(moved(&result(&quantized_conv(&call.with(call.op, inputs))?)?, false)?)
}

/// The mean over axes, all by default.
fn mean(call: &Call<'_>) -> Outputs {
    let x = real(call, 0)?;
    let shape = x.shape();
    if shape.contains(&0) {
        return Err("expected elements, found none".into());
    }
    let axes = call
        .ints("axes")
        .map(|axes| axes.iter().map(|at| axis(*at, shape.len())).collect::<Outcome<Vec<_>>>());
    let axes = axes.unwrap_or_else(|| Ok((0..shape.len()).collect()))?;
    let mut y = x.mean(&axes)?;
    if call.int("keepdims", 1) == 0 {
        let left = shape.iter().enumerate().filter(|(at, _)| !axes.contains(at));
        y = y.reshaped(left.map(|(_, dim)| *dim).collect::<Vec<_>>())?;
    }
    one(requantized(call, &y, 3, call.input(0)?.dtype())?)
}

/// Softmax along an axis. Up to opset 12, over all axes from it on. The scale of the result is rounded so that 1 is a
/// whole number of steps.
fn softmax(call: &Call<'_>) -> Outputs {
    let (x, kind) = (real(call, 0)?, call.input(0)?.dtype());
    let shape = x.shape();
    if shape.contains(&0) {
        return one(call.input(0)?.clone());
    }
    let is_old = call.int("opset", 13) < 13;
    let at = axis(call.int("axis", if is_old { 1 } else { -1 }), shape.len())?;
    let flat = match is_old {
        true => {
            let (front, back) = shape.split_at(at);
            vec![front.iter().product(), back.iter().product()]
        }
        false => shape.clone(),
    };
    let along = if is_old { 1 } else { at };
    let shares = crate::kernels::normalize::softmax(&x.reshaped(flat)?, along)?.reshaped(shape)?;
    let scale = call.input(3)?.to_singles()?;
    let steps = (1.0 / scale.first().ok_or("expected a scale")?).floor();
    let y = shares.scaled(steps.into())?.rounded()?;
    let y = match call.optional(4) {
        Some(zero) => y.plus(&single_value(zero.cast_to(DType::Float64)?)?.fitted(&y.shape())?)?,
        None => y,
    };
    one(saturated(&y, kind)?)
}

/// Inputs: the condition, two quantized inputs, and the scale and the zero point of the result.
fn choose(call: &Call<'_>) -> Outputs {
    let (mask, yes, no) = (call.input(0)?, real(call, 1)?, real(call, 4)?);
    let y = no.masked(mask, &yes)?;
    one(requantized(call, &y, 7, call.input(1)?.dtype())?)
}
