//! Normalization and softmax.

use burn_backend::ops::{ActivationOps, FloatTensorOps};
use burn_backend::{DType as BurnType, Scalar};
use burn_flex::{Flex, FlexTensor};
use lodstone_schema::Finding;
use lodstone_schema::onnx::dtype;

use super::{Call, Made, Run, all, at_mut, axis, count, one};
use crate::item::{Item, Outcome, burn_type};

pub(super) fn kernel(kind: &str) -> Option<Run> {
    Some(match kind {
        "BatchNormalization" => batch_normalization,
        "GroupNormalization" => group_normalization,
        "InstanceNormalization" => instance_normalization,
        "LayerNormalization" => layer_normalization,
        "LogSoftmax" => |call| shares(call, Flex::log_softmax),
        "LpNormalization" => lp_normalization,
        "LRN" => local_response,
        "MeanVarianceNormalization" => mean_variance,
        "RMSNormalization" => root_mean_square,
        "Softmax" => |call| shares(call, softmax),
        _ => return None,
    })
}

/// The maximum length of an axis whose sum in single precision is accurate, element after element.
const LONG: usize = 1024;

/// Returns the softmax along an axis. In the sum of a long axis, many small elements beside a large one would be lost:
/// the shares of a long axis are divided by their own sum, of several parts.
pub(super) fn softmax(x: FlexTensor, axis: usize) -> FlexTensor {
    let shape = Item::Float(x.clone()).shape();
    let shares = Flex::softmax(x, axis);
    let Some(last) = shape.len().checked_sub(1).filter(|_| shape.get(axis) > Some(&LONG)) else {
        return shares;
    };
    let shares = Flex::float_swap_dims(shares, axis, last);
    let sums = Flex::float_sum_dim(shares.clone(), last);
    Flex::float_swap_dims(Flex::float_div(shares, sums), axis, last)
}

fn shares(call: &Call<'_>, of: fn(FlexTensor, usize) -> FlexTensor) -> Made {
    let x = call.input(0)?;
    let shape = x.shape();
    if shape.contains(&0) {
        return one(x.clone());
    }
    if shape.is_empty() {
        // The softmax of a single number is 1.
        let list = x.clone().reshaped(vec![1]).float()?;
        return one(Item::Float(of(list, 0)).reshaped(shape));
    }
    let at = axis(call.int("axis", -1), shape.len())?;
    one(Item::Float(of(x.float()?, at)))
}

/// Reshapes a list with one element per channel so that it broadcasts to a tensor of the given rank.
fn by_channel(list: &Item, rank: usize) -> Outcome<Item> {
    let channels = list.shape().iter().product();
    let dims = (0..rank).map(|at| if at == 1 { channels } else { 1 }).collect();
    Ok(list.clone().reshaped(dims))
}

/// Subtracts the mean over axes and divides by the standard deviation; also returns both.
fn standard(x: &Item, axes: &[usize], epsilon: f64) -> Outcome<[Item; 3]> {
    let mean = x.mean(axes)?;
    let distance = x.minus(&mean)?;
    let variance = distance.times(&distance)?.mean(axes)?;
    let inverse = variance.shifted(epsilon)?.map(|x| Flex::float_recip(Flex::float_sqrt(x)))?;
    Ok([distance.times(&inverse)?, mean, inverse])
}

/// Normalizes with given statistics; batch statistics are computed in training only.
fn batch_normalization(call: &Call<'_>) -> Made {
    let x = call.input(0)?;
    let rank = x.shape().len();
    // Vectors have one channel.
    let channels = x.shape().get(1).copied().unwrap_or(1);
    let part = |number: usize| match call.input(number)? {
        list if list.shape().iter().product::<usize>() == channels => by_channel(list, rank),
        list => {
            let found = list.shape().iter().product::<usize>();
            Err(format!("expected {channels} elements of input {number}, found {found}").into())
        }
    };
    let (scale, bias, mean, variance) = (part(1)?, part(2)?, part(3)?, part(4)?);
    let epsilon = call.float("epsilon", 1e-5).into();
    let wide = x.widened()?;
    let kind = wide.kind()?;
    let apply = |mean: &Item, variance: &Item| {
        let deviation = variance.cast(kind)?.shifted(epsilon)?.map(Flex::float_sqrt)?;
        let factor = scale.cast(kind)?.over(&deviation)?;
        let moved = mean.cast(kind)?.times(&factor)?;
        let offset = bias.cast(kind)?.minus(&moved)?;
        wide.times(&factor)?.plus(&offset)?.cast(x.kind()?)
    };
    if call.int("training_mode", 0) == 0 {
        return one(apply(&mean, &variance)?);
    }
    let axes: Vec<usize> = (0..rank).filter(|at| *at != 1).collect();
    let batch_mean = wide.mean(&axes)?;
    let distance = wide.minus(&batch_mean)?;
    let batch_variance = distance.times(&distance)?.mean(&axes)?;
    let keep = f64::from(call.float("momentum", 0.9));
    let blend = |old: &Item, new: &Item, number: usize| {
        let input = call.input(number)?;
        let (old, new) = (old.cast(kind)?.scaled(keep)?, new.scaled(1.0 - keep)?);
        Ok::<_, Finding>(old.plus(&new)?.cast(input.kind()?)?.reshaped(input.shape()))
    };
    all([
        apply(&batch_mean, &batch_variance)?,
        blend(&mean, &batch_mean, 3)?,
        blend(&variance, &batch_variance, 4)?,
    ])
}

/// Normalizes each channel of each example by itself.
fn instance_normalization(call: &Call<'_>) -> Made {
    let x = call.input(0)?;
    let wide = x.widened()?;
    let rank = x.shape().len();
    let axes: Vec<usize> = (2..rank).collect();
    let [y, _, _] = standard(&wide, &axes, call.float("epsilon", 1e-5).into())?;
    let scale = by_channel(call.input(1)?, rank)?.cast(wide.kind()?)?;
    let bias = by_channel(call.input(2)?, rank)?.cast(wide.kind()?)?;
    one(y.times(&scale)?.plus(&bias)?.cast(x.kind()?)?)
}

/// Normalizes groups of channels of each example.
fn group_normalization(call: &Call<'_>) -> Made {
    let x = call.input(0)?;
    let shape = x.shape();
    let groups = count(call.int("num_groups", 0))?;
    let [examples, channels, rest @ ..] = shape.as_slice() else {
        return Err("expected batch and channel dims".into());
    };
    if groups == 0 || !channels.is_multiple_of(groups) {
        return Err(format!("expected a multiple of {groups} channels, found {channels}").into());
    }
    if shape.contains(&0) {
        return one(x.clone());
    }
    let inner = channels / groups * rest.iter().product::<usize>();
    let wide = x.widened()?;
    let apart = wide.clone().reshaped(vec![*examples, groups, inner]);
    let [y, _, _] = standard(&apart, &[2], call.float("epsilon", 1e-5).into())?;
    let scale = by_channel(call.input(1)?, shape.len())?.cast(wide.kind()?)?;
    let bias = by_channel(call.input(2)?, shape.len())?.cast(wide.kind()?)?;
    one(y.reshaped(shape).times(&scale)?.plus(&bias)?.cast(x.kind()?)?)
}

/// Returns all axes from `from` on.
fn inner_axes(call: &Call<'_>, x: &Item) -> Outcome<Vec<usize>> {
    let rank = x.shape().len();
    Ok((axis(call.int("axis", -1), rank)?..rank).collect())
}

/// Normalizes in the type that the operator declares for statistics, single precision by default.
fn stashed(x: &Item) -> Outcome<Item> {
    match x.kind()? {
        BurnType::F64 => Ok(x.clone()),
        _ => x.cast(BurnType::F32),
    }
}

fn layer_normalization(call: &Call<'_>) -> Made {
    let x = call.input(0)?;
    let axes = inner_axes(call, x)?;
    let wide = stashed(x)?;
    let [y, mean, inverse] = standard(&wide, &axes, call.float("epsilon", 1e-5).into())?;
    // The scale and the bias have the type of the input, and so does the factor.
    let fitted = |item: &Item| item.clone().fitted(&x.shape());
    let mut y = y.cast(x.kind()?)?.times(&fitted(call.input(1)?)?)?;
    if let Some(bias) = call.optional(2) {
        y = y.plus(&fitted(bias)?)?;
    }
    let stash = i32::try_from(call.int("stash_type", 1)).ok().and_then(dtype::from_code);
    let stash = burn_type(stash.ok_or("expected an element type")?)?;
    all([y, mean.cast(stash)?, inverse.cast(stash)?])
}

fn root_mean_square(call: &Call<'_>) -> Made {
    let (x, scale) = (call.input(0)?, call.input(1)?);
    let axes = inner_axes(call, x)?;
    let wide = stashed(x)?;
    let square = wide.times(&wide)?.mean(&axes)?;
    let root = square.shifted(call.float("epsilon", 1e-5).into())?.map(Flex::float_sqrt)?;
    let y = wide.over(&root)?.cast(x.kind()?)?;
    one(y.times(&scale.clone().fitted(&x.shape())?)?)
}

/// Divides by the norm along an axis; where that is 0, the result is 0.
fn lp_normalization(call: &Call<'_>) -> Made {
    let x = call.input(0)?;
    let at = axis(call.int("axis", -1), x.shape().len())?;
    let wide = x.widened()?;
    let length = match call.int("p", 2) {
        1 => wide.map(Flex::float_abs)?.total(&[at])?,
        2 => wide.times(&wide)?.total(&[at])?.map(Flex::float_sqrt)?,
        other => return Err(format!("expected 1 or 2 as `p`, found {other}").into()),
    };
    let none = Flex::float_equal_elem(
        length.float()?,
        Scalar::Float(0.0),
        burn_backend::BoolStore::Native,
    );
    let length = length.map(|length| Flex::float_mask_fill(length, none, Scalar::Float(1.0)))?;
    one(wide.over(&length)?.cast(x.kind()?)?)
}

/// Local response normalization: divides by the squares of neighbouring channels.
fn local_response(call: &Call<'_>) -> Made {
    let x = call.input(0)?;
    let shape = x.shape();
    let channels = *shape.get(1).ok_or("expected channels in the second dimension")?;
    let size = count(call.int("size", 1))?;
    if size == 0 {
        return Err("expected a positive number of channels".into());
    }
    let (before, behind) = ((size - 1) / 2, size / 2);
    let wide = x.widened()?;
    let square = wide.times(&wide)?;
    // Window sums equal differences of running sums only in exact arithmetic: they are added one by one.
    let mut sum = square.clone();
    for step in 1..=before.max(behind).min(channels.saturating_sub(1)) {
        let mut zeros = shape.clone();
        *at_mut(&mut zeros, 1)? = step;
        let zeros = Item::filled(0.0, wide.kind()?, &zeros)?;
        if step <= before {
            let part = square.clone().narrowed(1, 0, channels - step);
            sum = sum.plus(&Item::concatenated(vec![zeros.clone(), part], 1)?)?;
        }
        if step <= behind {
            let part = square.clone().narrowed(1, step, channels);
            sum = sum.plus(&Item::concatenated(vec![part, zeros], 1)?)?;
        }
    }
    let (alpha, beta) = (f64::from(call.float("alpha", 1e-4)), call.float("beta", 0.75).into());
    let base = sum.scaled(alpha / size as f64)?.shifted(call.float("bias", 1.0).into())?;
    let power = base.power(beta)?;
    one(wide.over(&power)?.cast(x.kind()?)?)
}

fn mean_variance(call: &Call<'_>) -> Made {
    let x = call.input(0)?;
    let rank = x.shape().len();
    let axes = call.ints("axes").unwrap_or(&[0, 2, 3]);
    let axes: Vec<usize> = axes.iter().map(|at| axis(*at, rank)).collect::<Outcome<_>>()?;
    let wide = x.widened()?;
    let distance = wide.minus(&wide.mean(&axes)?)?;
    let deviation = distance.times(&distance)?.mean(&axes)?.map(Flex::float_sqrt)?;
    one(distance.over(&deviation.shifted(1e-9)?)?.cast(x.kind()?)?)
}
