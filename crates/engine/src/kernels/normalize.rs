//! Normalization and softmax.

use lodstone_model::DType;
use lodstone_schema::Finding;
use lodstone_schema::onnx::dtype;

use crate::call::{Call, Outputs, all, one};
use crate::dims::{at_mut, axis, count};
use crate::error::Outcome;
use crate::fast;
use crate::operator::Operator;
use crate::tensor::{Dense, Order, Summed, bytes_of, elements, floats, sum_of, wrapped, zeroed};
use crate::threads::each_chunk;

/// The operators of this family.
pub(super) const OPERATORS: &[Operator] = &[
    Operator::dense("BatchNormalization", batch_normalization).folded().error(1e-6).working(0, 8),
    Operator::dense("GroupNormalization", group_normalization).working(0, 8),
    Operator::dense("InstanceNormalization", instance_normalization).working(4, 8),
    Operator::dense("LRN", local_response).working(2, 8),
    Operator::dense("LayerNormalization", layer_normalization)
        .fast(fast::rows::LAYER_NORMALIZATION)
        .error(1e-6)
        .working(8, 2),
    Operator::dense("LogSoftmax", |call| shares(call, log_softmax)).working(0, 8),
    Operator::dense("LpNormalization", lp_normalization).working(0, 2),
    Operator::dense("MeanVarianceNormalization", mean_variance).working(0, 8),
    Operator::dense("RMSNormalization", root_mean_square).working(0, 6),
    Operator::dense("Softmax", |call| shares(call, softmax))
        .fast(fast::rows::SOFTMAX)
        .error(1e-6)
        .working(0, 4),
];

/// The number of elements that a thread handles at a time, at least.
const PART: usize = 1 << 12;

/// What becomes of the elements of a row, their maximum, and the sum of the exponentials of the differences from it.
trait Shares {
    fn row<T: Summed>(from: &[T], top: T, sum: T, into: &mut [T]);
}

struct Softmax;

impl Shares for Softmax {
    fn row<T: Summed>(_: &[T], _: T, sum: T, into: &mut [T]) {
        into.iter_mut().for_each(|share| *share = *share / sum);
    }
}

struct LogSoftmax;

impl Shares for LogSoftmax {
    fn row<T: Summed>(from: &[T], top: T, sum: T, into: &mut [T]) {
        let sum = sum.ln();
        into.iter_mut().zip(from).for_each(|(into, from)| *into = (*from - top) - sum);
    }
}

/// Returns the softmax along an axis.
pub(super) fn softmax(x: &Dense, axis: usize) -> Outcome<Dense> {
    along::<Softmax>(x, axis)
}

/// Returns the logarithm of the softmax along an axis.
pub(super) fn log_softmax(x: &Dense, axis: usize) -> Outcome<Dense> {
    along::<LogSoftmax>(x, axis)
}

fn along<S: Shares>(x: &Dense, axis: usize) -> Outcome<Dense> {
    let mut axes: Vec<usize> = (0..x.dims().len()).collect();
    let last = axes.len().saturating_sub(1);
    if axis > last {
        return Err(Finding::internal(format!("axis {axis} of {:?}", x.dims())));
    }
    axes.swap(axis, last);
    let turned = x.widened()?.permuted(&axes)?;
    let made = match turned.dtype() {
        DType::Float64 => rows::<S, f64>(&turned)?,
        DType::Float32 => rows::<S, f32>(&turned)?,
        other => return Err(format!("expected floats, found {other}").into()),
    };
    made.permuted(&axes)?.cast_to(x.dtype())
}

fn rows<S: Shares, T: Summed>(x: &Dense) -> Outcome<Dense> {
    let all = elements::<T>(x, Order::RowMajor)?;
    let mut made = zeroed::<T>(all.len())?;
    let last = x.dims().last().ok_or_else(|| Finding::internal("a scalar has no rows"))?;
    let width = (*last).max(1);
    let at_once = PART.div_ceil(width) * width;
    each_chunk(&mut made, at_once, |(): &mut (), number, into| {
        let from = all.get(number * at_once..).unwrap_or_default().chunks_exact(width);
        for (from, into) in from.zip(into.chunks_exact_mut(width)) {
            let top = from.iter().copied().fold(T::neg_infinity(), T::max);
            into.iter_mut().zip(from).for_each(|(into, from)| *into = (*from - top).exp());
            let sum = T::of(sum_of(into));
            S::row(from, top, sum, into);
        }
        Ok(())
    })?;
    wrapped(bytes_of(made), x.shape(), Order::RowMajor, x.dtype())
}

fn shares(call: &Call<'_>, of: fn(&Dense, usize) -> Outcome<Dense>) -> Outputs {
    let x = call.input(0)?;
    if x.dims().contains(&0) {
        return one(x.clone());
    }
    if x.dims().is_empty() {
        // The softmax of a single number is 1.
        return one(of(&x.reshaped([1])?, 0)?.reshaped([])?);
    }
    one(of(x, axis(call.int("axis", -1), x.dims().len())?)?)
}

/// Reshapes a list with one element per channel so that it broadcasts to a tensor of the given rank.
fn by_channel(list: &Dense, rank: usize) -> Outcome<Dense> {
    let dim = |at: usize| if at == 1 { list.count() } else { 1 };
    list.reshaped((0..rank).map(dim).collect::<Vec<_>>())
}

/// Subtracts the mean over axes and divides by the standard deviation; also returns both.
fn standard(x: &Dense, axes: &[usize], epsilon: f64) -> Outcome<[Dense; 3]> {
    let mean = x.mean(axes)?;
    let distance = x.minus(&mean)?;
    let variance = distance.times(&distance)?.mean(axes)?;
    let inverse = floats!(&variance.shifted(epsilon)?.root()?, T => |x| 1.0 / x)?;
    Ok([distance.times(&inverse)?, mean, inverse])
}

/// Normalizes with given statistics; batch statistics are computed in training only.
fn batch_normalization(call: &Call<'_>) -> Outputs {
    let x = call.input(0)?;
    let rank = x.shape().len();
    let channels = match *x.dims() {
        [_, channels, ..] => channels,
        // Vectors have one channel.
        _ => 1,
    };
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
    let kind = wide.dtype();
    let apply = |mean: &Dense, variance: &Dense| {
        let deviation = variance.cast_to(kind)?.shifted(epsilon)?.root()?;
        let factor = scale.cast_to(kind)?.over(&deviation)?;
        let moved = mean.cast_to(kind)?.times(&factor)?;
        let offset = bias.cast_to(kind)?.minus(&moved)?;
        wide.times(&factor)?.plus(&offset)?.cast_to(x.dtype())
    };
    if call.int("training_mode", 0) == 0 {
        return one(apply(&mean, &variance)?);
    }
    let axes: Vec<usize> = (0..rank).filter(|at| *at != 1).collect();
    let batch_mean = wide.mean(&axes)?;
    let distance = wide.minus(&batch_mean)?;
    let batch_variance = distance.times(&distance)?.mean(&axes)?;
    let keep = f64::from(call.float("momentum", 0.9));
    let blend = |old: &Dense, new: &Dense, number: usize| {
        let input = call.input(number)?;
        let (old, new) = (old.cast_to(kind)?.scaled(keep)?, new.scaled(1.0 - keep)?);
        old.plus(&new)?.cast_to(input.dtype())?.reshaped(input.shape())
    };
    all([
        apply(&batch_mean, &batch_variance)?,
        blend(&mean, &batch_mean, 3)?,
        blend(&variance, &batch_variance, 4)?,
    ])
}

/// Normalizes each channel of each example by itself.
fn instance_normalization(call: &Call<'_>) -> Outputs {
    let x = call.input(0)?;
    let wide = x.widened()?;
    let rank = x.shape().len();
    let axes: Vec<usize> = (2..rank).collect();
    let [y, _, _] = standard(&wide, &axes, call.float("epsilon", 1e-5).into())?;
    let scale = by_channel(call.input(1)?, rank)?.cast_to(wide.dtype())?;
    let bias = by_channel(call.input(2)?, rank)?.cast_to(wide.dtype())?;
    one(y.times(&scale)?.plus(&bias)?.cast_to(x.dtype())?)
}

/// Normalizes groups of channels of each example.
pub(super) fn group_normalization(call: &Call<'_>) -> Outputs {
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
    let apart = wide.reshaped(vec![*examples, groups, inner])?;
    let [y, _, _] = standard(&apart, &[2], call.float("epsilon", 1e-5).into())?;
    let scale = by_channel(call.input(1)?, shape.len())?.cast_to(wide.dtype())?;
    let bias = by_channel(call.input(2)?, shape.len())?.cast_to(wide.dtype())?;
    one(y.reshaped(shape)?.times(&scale)?.plus(&bias)?.cast_to(x.dtype())?)
}

/// Returns all axes from `from` on.
fn inner_axes(call: &Call<'_>, x: &Dense) -> Outcome<Vec<usize>> {
    let rank = x.shape().len();
    Ok((axis(call.int("axis", -1), rank)?..rank).collect())
}

/// Normalizes in the type that the operator declares for statistics, single precision by default.
fn stashed(x: &Dense) -> Outcome<Dense> {
    match x.dtype() {
        DType::Float64 => Ok(x.clone()),
        _ => x.cast_to(DType::Float32),
    }
}

pub(super) fn layer_normalization(call: &Call<'_>) -> Outputs {
    let x = call.input(0)?;
    let axes = inner_axes(call, x)?;
    let wide = stashed(x)?;
    let [y, mean, inverse] = standard(&wide, &axes, call.float("epsilon", 1e-5).into())?;
    // The scale and the bias have the type of the input, and so does the factor.
    let fitted = |item: &Dense| item.fitted(&x.shape());
    let mut y = y.cast_to(x.dtype())?.times(&fitted(call.input(1)?)?)?;
    if let Some(bias) = call.optional(2) {
        y = y.plus(&fitted(bias)?)?;
    }
    let stash = i32::try_from(call.int("stash_type", 1)).ok().and_then(dtype::from_code);
    let stash = stash.ok_or("expected an element type")?;
    all([y, mean.cast_to(stash)?, inverse.cast_to(stash)?])
}

fn root_mean_square(call: &Call<'_>) -> Outputs {
    let (x, scale) = (call.input(0)?, call.input(1)?);
    let axes = inner_axes(call, x)?;
    let wide = stashed(x)?;
    let square = wide.times(&wide)?.mean(&axes)?;
    let root = square.shifted(call.float("epsilon", 1e-5).into())?.root()?;
    let y = wide.over(&root)?.cast_to(x.dtype())?;
    one(y.times(&scale.fitted(&x.shape())?)?)
}

/// Divides by the norm along an axis; where that is 0, the result is 0.
fn lp_normalization(call: &Call<'_>) -> Outputs {
    let x = call.input(0)?;
    let at = axis(call.int("axis", -1), x.shape().len())?;
    let wide = x.widened()?;
    let length = match call.int("p", 2) {
        1 => wide.absolute()?.total(&[at])?,
        2 => wide.times(&wide)?.total(&[at])?.root()?,
        other => return Err(format!("expected 1 or 2 as `p`, found {other}").into()),
    };
    let length = floats!(&length, T => |length| if length == 0.0 { 1.0 } else { length })?;
    one(wide.over(&length)?.cast_to(x.dtype())?)
}

/// Local response normalization: divides by the squares of neighbouring channels.
fn local_response(call: &Call<'_>) -> Outputs {
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
        let zeros = Dense::filled(0.0, wide.dtype(), &zeros)?;
        if step <= before {
            let part = square.cut(1, 0, channels - step)?;
            sum = sum.plus(&Dense::joined(&[zeros.clone(), part], 1)?)?;
        }
        if step <= behind {
            let part = square.cut(1, step, channels)?;
            sum = sum.plus(&Dense::joined(&[part, zeros], 1)?)?;
        }
    }
    let (alpha, beta) = (f64::from(call.float("alpha", 1e-4)), call.float("beta", 0.75).into());
    let base = sum.scaled(alpha / size as f64)?.shifted(call.float("bias", 1.0).into())?;
    let power = base.power(beta)?;
    one(wide.over(&power)?.cast_to(x.dtype())?)
}

fn mean_variance(call: &Call<'_>) -> Outputs {
    let x = call.input(0)?;
    let rank = x.shape().len();
    let axes = call.ints("axes").unwrap_or(&[0, 2, 3]);
    let axes: Vec<usize> = axes.iter().map(|at| axis(*at, rank)).collect::<Outcome<_>>()?;
    let wide = x.widened()?;
    let distance = wide.minus(&wide.mean(&axes)?)?;
    let deviation = distance.times(&distance)?.mean(&axes)?.root()?;
    one(distance.over(&deviation.shifted(1e-9)?)?.cast_to(x.dtype())?)
}
