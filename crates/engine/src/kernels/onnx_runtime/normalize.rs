//! Normalization of layers, with an addition before it, and of groups.

use lodstone_model::DType;
use lodstone_schema::Finding;

use crate::call::with_int;
use crate::call::{Call, Outputs, all, one};
use crate::dims::axis;
use crate::error::Outcome;
use crate::kernels::normalize;
use crate::operator::{Operator, RUNTIME};
use crate::tensor::{Dense, floats};

/// The operators of this family.
pub(super) const OPERATORS: &[Operator] = &[
    Operator::dense("GroupNorm", group).domain(RUNTIME).working(0, 12),
    Operator::dense("LayerNormalization", normalize::layer_normalization)
        .domain(RUNTIME)
        .working(8, 2),
    Operator::dense("SimplifiedLayerNormalization", simplified).working(0, 4),
    Operator::dense("SimplifiedLayerNormalization", simplified).domain(RUNTIME).working(0, 4),
    Operator::dense("SkipLayerNormalization", |call| skip(call, 4, true))
        .domain(RUNTIME)
        .working(4, 6),
    Operator::dense("SkipSimplifiedLayerNormalization", |call| skip(call, 3, false))
        .domain(RUNTIME)
        .working(4, 2),
];

/// A normalized tensor, its mean and the inverse of its deviation.
type Normalized = [Dense; 3];

/// Divides by the root of the mean square over axes, after subtracting the mean if `is_centred`.
fn normalized(x: &Dense, axes: &[usize], epsilon: f64, is_centred: bool) -> Outcome<Normalized> {
    let mean = x.mean(axes)?;
    let distance = if is_centred { x.minus(&mean)? } else { x.clone() };
    let square = distance.times(&distance)?.mean(axes)?;
    let inverse = floats!(&square.shifted(epsilon)?.root()?, T => |x| 1.0 / x)?;
    Ok([distance.times(&inverse)?, mean, inverse])
}

/// Returns the tensor in the precision of the statistics: single, unless it is double.
fn wide(x: &Dense) -> Outcome<Dense> {
    match x.dtype() {
        DType::Float64 => Ok(x.clone()),
        _ => x.cast_to(DType::Float32),
    }
}

/// Normalizes without a mean; the second output is the inverse of the deviation.
fn simplified(call: &Call<'_>) -> Outputs {
    let x = call.input(0)?;
    let rank = x.shape().len();
    let axes: Vec<usize> = (axis(call.int("axis", -1), rank)?..rank).collect();
    if x.shape().contains(&0) {
        return Err("expected elements to normalize".into());
    }
    let epsilon = call.float("epsilon", 1e-5).into();
    let [y, _, inverse] = normalized(&wide(x)?, &axes, epsilon, false)?;
    let scale = call.input(1)?;
    all([y.times(&wide(scale)?)?.cast_to(scale.dtype())?, inverse])
}

/// Adds the second input and a bias, input `bias`, and normalizes the last axis. Outputs: the result, the mean, the
/// inverse of the deviation, and the sum.
fn skip(call: &Call<'_>, bias: usize, is_centred: bool) -> Outputs {
    let x = call.input(0)?;
    let (shape, kind) = (x.shape(), x.dtype());
    let last = shape.len().checked_sub(1).ok_or("expected at least one dim")?;
    if shape.contains(&0) {
        return Err("expected elements to normalize".into());
    }
    let mut sum = wide(x)?.plus(&wide(call.input(1)?)?)?;
    if let Some(bias) = call.optional(bias) {
        sum = sum.plus(&wide(bias)?)?;
    }
    if sum.shape() != shape {
        return Err(Finding::from(format!("{:?} is larger than {shape:?}", sum.shape())));
    }
    let epsilon = call.float("epsilon", 1e-12).into();
    let [y, mean, inverse] = normalized(&sum, &[last], epsilon, is_centred)?;
    let mut y = y.times(&wide(call.input(2)?)?)?;
    if let Some(beta) = call.optional(3).filter(|_| is_centred) {
        y = y.plus(&wide(beta)?)?;
    }
    all([y.cast_to(kind)?, mean, inverse, sum.cast_to(kind)?])
}

/// Normalizes groups of channels, which are the last axis unless `channels_last` is 0.
fn group(call: &Call<'_>) -> Outputs {
    let x = call.input(0)?;
    let is_last = call.int("channels_last", 1) != 0;
    let rank = x.shape().len();
    if rank < 3 {
        return Err("expected batch, channel and spatial dims".into());
    }
    let front: Vec<usize> = [0, rank - 1].into_iter().chain(1..rank - 1).collect();
    let back: Vec<usize> = [0].into_iter().chain(2..rank).chain([1]).collect();
    let turned = |x: &Dense, order: &[usize]| match is_last {
        true => x.permuted(order),
        false => Ok(x.clone()),
    };
    let op = with_int(call.op, "num_groups", call.int("groups", 0));
    let mut inputs = vec![Some(turned(x, &front)?)];
    inputs.extend([1, 2].map(|number| call.optional(number).cloned()));
    let made = normalize::group_normalization(&call.with(&op, inputs))?;
    let y = made.first().ok_or_else(|| Finding::internal("there is no result"))?;
    let y = turned(y.dense()?, &back)?;
    match call.int("activation", 0) {
        0 => one(y),
        _ => one(y.times(&y.sigmoid()?)?),
    }
}
