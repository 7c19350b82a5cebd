//! Operators on quantized tensors: they compute with real numbers, and quantize the result.
//!
//! A quantized input is three inputs: the elements, their scale and their zero point, which may be omitted.

use burn_backend::ops::{ActivationOps, FloatTensorOps};
use burn_backend::{DType as BurnType, Scalar};
use burn_flex::Flex;
use lodstone_schema::Finding;

use super::{with, with_int};
use crate::item::{Item, Outcome};
use crate::kernels::quantize::saturated;
use crate::kernels::tensor::{bounded, common};
use crate::kernels::{Call, Made, Run, axis, integer_products, one, pool};

pub(super) fn kernel(kind: &str) -> Option<Run> {
    Some(match kind {
        "QLinearAdd" => |call| pair(call, Item::plus),
        "QLinearAveragePool" => |call| pooled(call, "AveragePool"),
        "QLinearConcat" => concat,
        "QLinearConv" => conv,
        "QLinearGlobalAveragePool" => |call| pooled(call, "GlobalAveragePool"),
        "QLinearLeakyRelu" => |call| {
            let alpha = Scalar::Float(call.float("alpha", 0.01).into());
            single(call, |x| x.map(|x| Flex::leaky_relu(x, alpha)))
        },
        "QLinearMul" => |call| pair(call, Item::times),
        "QLinearReduceMean" => mean,
        "QLinearSigmoid" => |call| single(call, |x| x.map(Flex::sigmoid)),
        "QLinearSoftmax" => softmax,
        "QLinearWhere" => choose,
        _ => return None,
    })
}

/// Returns a tensor of one element without dims; it broadcasts to any tensor.
pub(super) fn single_value(x: Item) -> Item {
    match x.shape().iter().product::<usize>() {
        1 => x.reshaped(Vec::new()),
        _ => x,
    }
}

/// Subtracts the zero point of an input, if it is present: one for all, or one for each index of the last axis.
pub(super) fn centred(call: &Call<'_>, x: Item, zero: usize) -> Outcome<Item> {
    match call.optional(zero) {
        Some(zero) => x.minus(&single_value(zero.cast(x.kind()?)?).fitted(&x.shape())?),
        None => Ok(x),
    }
}

/// Returns the real numbers of the quantized input that begins at `number`, in double precision.
fn real(call: &Call<'_>, number: usize) -> Outcome<Item> {
    let x = centred(call, call.input(number)?.cast(BurnType::F64)?, number + 2)?;
    let scale = single_value(call.input(number + 1)?.cast(BurnType::F64)?);
    x.times(&scale.fitted(&x.shape())?)
}

/// Quantizes real numbers by the scale that is input `scale`, and the zero point behind it.
pub(super) fn requantized(
    call: &Call<'_>,
    y: &Item,
    scale: usize,
    kind: BurnType,
) -> Outcome<Item> {
    let by = single_value(call.input(scale)?.cast(y.kind()?)?);
    let y = y.over(&by.fitted(&y.shape())?)?.map(Flex::float_round)?;
    let y = match call.optional(scale + 1) {
        Some(zero) => y.plus(&single_value(zero.cast(y.kind()?)?).fitted(&y.shape())?)?,
        None => y,
    };
    saturated(&y, kind)
}

/// Quantizes to 8 bits by the range, which includes 0, in single precision. Returns the elements less their zero point,
/// and the scale.
pub(in crate::kernels) fn by_range(x: &Item) -> Outcome<(Item, f32)> {
    let values = x.to_singles()?;
    let least = values.iter().copied().fold(0.0, f32::min);
    let greatest = values.iter().copied().fold(0.0, f32::max);
    let scale = if least == greatest { 1.0 } else { (greatest - least) / 255.0 };
    let zero = (-least / scale).clamp(0.0, 255.0).round_ties_even();
    let code = |value: &f32| ((value / scale).round_ties_even() + zero).clamp(0.0, 255.0) - zero;
    let codes: Vec<f32> = values.iter().map(code).collect();
    Ok((Item::from_data(burn_backend::TensorData::new(codes, x.shape())), scale))
}

/// Applies a function to the real numbers of one input, in single precision.
fn single(call: &Call<'_>, of: impl FnOnce(&Item) -> Outcome<Item>) -> Made {
    let x = real(call, 0)?.cast(BurnType::F32)?;
    one(requantized(call, &of(&x)?, 3, call.input(0)?.kind()?)?)
}

/// Applies a function to the real numbers of two inputs.
fn pair(call: &Call<'_>, of: fn(&Item, &Item) -> Outcome<Item>) -> Made {
    let y = of(&real(call, 0)?, &real(call, 3)?)?;
    one(requantized(call, &y, 6, call.input(0)?.kind()?)?)
}

/// Inputs: the scale and the zero point of the result, and any number of quantized inputs.
fn concat(call: &Call<'_>) -> Made {
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
    let y = Item::concatenated(parts, at)?;
    one(requantized(call, &y, 0, call.input(2)?.kind()?)?)
}

/// Moves the last axis behind the first one, or back.
fn moved(x: Item, to_front: bool) -> Item {
    let rank = x.shape().len();
    if rank < 3 {
        return x;
    }
    match to_front {
        true => x.permuted(&[&[0, rank - 1][..], &(1..rank - 1).collect::<Vec<_>>()].concat()),
        false => x.permuted(&[&[0][..], &(2..rank).collect::<Vec<_>>(), &[1]].concat()),
    }
}

/// Pools the real numbers. Channels are the second axis, or the last one with `channels_last`.
fn pooled(call: &Call<'_>, kind: &str) -> Made {
    let is_last = call.int("channels_last", 0) != 0;
    let pads = call.text("auto_pad").filter(|pads| pads != "NOTSET" && !pads.is_empty());
    if call.int("ceil_mode", 0) != 0
        && let Some(pads) = pads
    {
        return Err(format!("`ceil_mode` with `auto_pad` `{pads}` is not supported").into());
    }
    let x = real(call, 0)?;
    let x = if is_last { moved(x, true) } else { x };
    let of = pool::kernel(kind).ok_or_else(|| Finding::internal("there is no such pooling"))?;
    let mut y = result(&of(&with(call, call.op, vec![Some(x.clone())]))?)?;
    if kind == "AveragePool"
        && ["ceil_mode", "count_include_pad"].iter().all(|it| call.int(it, 0) != 0)
    {
        y = y.times(&filling(call, &x)?)?;
    }
    let y = if is_last { moved(y, false) } else { y };
    one(requantized(call, &y, 3, call.input(0)?.kind()?)?)
}

/// Returns the share of each window that lies in the padded image. Sums over windows that exceed it are divided by the
/// size of the whole window.
fn filling(call: &Call<'_>, x: &Item) -> Outcome<Item> {
    let size = call.ints("kernel_shape").unwrap_or_default();
    let whole: f64 = size.iter().map(|dim| *dim as f64).product();
    let shape = x.shape();
    let pads = call.ints("pads").unwrap_or_default();
    let (before, behind) = pads.split_at(pads.len() / 2);
    let padded = shape.iter().skip(2).enumerate().map(|(at, dim)| {
        let sides = [before, behind].map(|side| side.get(at).copied().unwrap_or(0));
        let sides = sides.map(|side| usize::try_from(side).unwrap_or(0));
        sides.iter().fold(*dim, |dim, side| dim.saturating_add(*side))
    });
    let dims: Vec<usize> = [1, 1].into_iter().chain(padded).collect();
    bounded(&dims)?;
    let ones = Item::filled(1.0, BurnType::F64, &dims)?;
    let mut op = with_int(call.op, "p", 1);
    op.attributes.retain(|attribute| attribute.name != "pads");
    let of = pool::kernel("LpPool").ok_or_else(|| Finding::internal("there is no sum"))?;
    result(&of(&with(call, &op, vec![Some(ones)]))?)?.scaled(1.0 / whole)
}

/// Returns the first result of a kernel.
fn result(made: &[crate::value::Value]) -> Outcome<Item> {
    Item::of(made.first().ok_or_else(|| Finding::internal("there is no result"))?.dense()?)
}

/// A convolution whose channels may be the last axis of the input and of the result.
fn conv(call: &Call<'_>) -> Made {
    let of = integer_products::kernel("QLinearConv")
        .ok_or_else(|| Finding::internal("there is no convolution"))?;
    if call.all().iter().any(|item| item.shape().contains(&0)) {
        return Err("expected elements in all inputs".into());
    }
    if call.int("channels_last", 0) == 0 {
        return of(call);
    }
    let mut inputs: Vec<Option<Item>> = call.inputs.clone();
    if let Some(Some(x)) = inputs.first_mut() {
        *x = moved(x.clone(), true);
    }
    one(moved(result(&of(&with(call, call.op, inputs))?)?, false))
}

/// The mean over axes, all by default.
fn mean(call: &Call<'_>) -> Made {
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
        y = y.reshaped(left.map(|(_, dim)| *dim).collect());
    }
    one(requantized(call, &y, 3, call.input(0)?.kind()?)?)
}

/// Softmax along an axis. Up to opset 12, over all axes from it on. The scale of the result is rounded so that 1 is a
/// whole number of steps.
fn softmax(call: &Call<'_>) -> Made {
    let (x, kind) = (real(call, 0)?, call.input(0)?.kind()?);
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
    let shares =
        x.reshaped(flat).map(|x| crate::kernels::normalize::softmax(x, along))?.reshaped(shape);
    let scale = call.input(3)?.to_singles()?;
    let steps = (1.0 / scale.first().ok_or("expected a scale")?).floor();
    let y = shares.scaled(steps.into())?.map(Flex::float_round)?;
    let y = match call.optional(4) {
        Some(zero) => y.plus(&single_value(zero.cast(BurnType::F64)?).fitted(&y.shape())?)?,
        None => y,
    };
    one(saturated(&y, kind)?)
}

/// Inputs: the condition, two quantized inputs, and the scale and the zero point of the result.
fn choose(call: &Call<'_>) -> Made {
    let (mask, yes, no) = (call.input(0)?, real(call, 1)?, real(call, 4)?);
    let shape = common(&common(&mask.shape(), &yes.shape())?, &no.shape())?;
    let [mask, yes, no] = [mask.clone(), yes, no].map(|item| item.expanded(&shape));
    let y = no.masked(mask.bool()?, &yes)?;
    one(requantized(call, &y, 7, call.input(1)?.kind()?)?)
}
