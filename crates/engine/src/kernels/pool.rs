//! Pooling.

use lodstone_model::DType;

use super::planes::{Order, Planes};
use crate::call::{Call, Outputs, all, one};
use crate::dims::{bounded, dim_at, long};
use crate::error::Outcome;
use crate::fast;
use crate::geometry::{Pooling, Windows};
use crate::operator::Operator;
use crate::tensor::{Comparison, Dense, Extreme, Slice};

/// The operators of this family.
pub(super) const OPERATORS: &[Operator] = &[
    Operator::dense("AveragePool", average_pool)
        .fast(fast::pool::AVERAGE_POOL)
        .error(1e-6)
        .working(4, 28)
        .channels_last()
        .threaded(),
    Operator::dense("GlobalAveragePool", global_average_pool)
        .fast(fast::pool::GLOBAL_AVERAGE_POOL)
        .error(1e-6)
        .working(0, 4)
        .channels_last()
        .threaded(),
    Operator::dense("GlobalLpPool", global_norm),
    Operator::dense("GlobalMaxPool", global_max).threaded(),
    Operator::dense("LpPool", lp_pool).working(6, 2).threaded(),
    Operator::dense("MaxPool", max_pool)
        .fast(fast::pool::MAX_POOL)
        .working(6, 6)
        .channels_last()
        .threaded(),
];

/// Pools each feature map.
fn global(call: &Call<'_>, of: fn(&Dense, &[usize]) -> Outcome<Dense>) -> Outcome<Dense> {
    let x = call.input(0)?;
    // An empty batch has an empty result.
    if x.dims().iter().skip(2).any(|dim| *dim == 0) {
        return Err(format!("{:?} has no elements to pool", x.dims()).into());
    }
    let axes: Vec<usize> = (2..x.dims().len()).collect();
    of(&x.widened()?, &axes)?.cast_to(x.dtype())
}

pub(super) fn global_average_pool(call: &Call<'_>) -> Outputs {
    one(global(call, Dense::mean)?)
}

/// Returns the norm of each feature map.
fn global_norm(call: &Call<'_>) -> Outputs {
    let x = call.input(0)?;
    let p = call.int("p", 2) as f64;
    if p < 1.0 || x.shape().contains(&0) {
        return Err(format!("{:?} has no norm of {p}", x.shape()).into());
    }
    let axes: Vec<usize> = (2..x.shape().len()).collect();
    let sum = x.widened()?.absolute()?.power(p)?.total(&axes)?;
    one(sum.power(1.0 / p)?.cast_to(x.dtype())?)
}

/// Returns the maximum of each feature map. If it has NaNs, only the elements after the last NaN count; if there are
/// none, the result is NaN.
fn global_max(call: &Call<'_>) -> Outputs {
    let pooled = global(call, |x, axes| {
        axes.iter().try_fold(x.clone(), |x, axis| x.extremes(*axis, Extreme::Greatest))
    })?;
    if !pooled.to_doubles()?.iter().any(|value| value.is_nan()) {
        return one(pooled);
    }
    let x = call.input(0)?;
    let size = x.shape().iter().skip(2).product::<usize>();
    let values = x.to_doubles()?;
    let greatest = |plane: &[f64]| {
        let next = |best: f64, value: &f64| if best >= *value { best } else { *value };
        plane.iter().fold(f64::NAN, next)
    };
    let tops = values.chunks_exact(size.max(1)).map(greatest).collect();
    one(Dense::numbers(tops, pooled.dtype(), &pooled.shape())?)
}

impl Pooling {
    /// Pads a tensor for the windows.
    fn padded(x: &Dense, pads: &[(usize, usize)], with: f64) -> Outcome<Dense> {
        let long = |pad: usize| long(pad);
        let mut all = vec![(0, 0); 2];
        all.extend(pads.iter().map(|(begin, end)| (long(*begin), long(*end))));
        x.padded(&all, &Dense::filled(with, x.dtype(), &[])?)
    }

    /// Returns the first elements of all windows of a padded tensor, then the second ones, and so on.
    fn pieces(&self, x: Dense) -> impl Iterator<Item = Outcome<Dense>> {
        let Windows { size, strides, dilations, .. } = &self.windows;
        let total: usize = size.iter().product();
        let piece = move |mut number: usize| {
            let mut slices: Vec<Slice> = Vec::new();
            let sides = size.iter().zip(strides).zip(dilations).zip(&self.steps);
            for (((size, stride), dilation), steps) in sides.rev() {
                let start = number % size * dilation;
                number /= size;
                slices.push(Slice { start, count: *steps, step: stride.cast_signed() });
            }
            slices.extend(x.dims().iter().take(2).rev().map(|dim| Slice::whole(*dim)));
            slices.reverse();
            x.sliced(&slices)
        };
        (0..total).map(piece)
    }

    /// Returns the sum of each window.
    fn sum(&self, x: &Dense) -> Outcome<Dense> {
        let mut pieces = self.pieces(x.clone());
        let first = pieces.next().ok_or("windows have no elements")??;
        pieces.try_fold(first, |sum, piece| sum.plus(&piece?))
    }
}

pub(super) fn average_pool(call: &Call<'_>) -> Outputs {
    let (x, pooling) = (call.input(0)?, Pooling::of(call)?);
    if x.shape().contains(&0) {
        let whole = [&pooling.front[..], &pooling.steps].concat();
        return one(Dense::filled(0.0, x.dtype(), &whole)?);
    }
    let sum = pooling.sum(&Pooling::padded(&x.widened()?, &pooling.windows.pads, 0.0)?)?;
    // The number of elements that count in each window.
    let alone = [&[1, 1], pooling.dims.as_slice()].concat();
    let ones = Dense::filled(1.0, sum.dtype(), &alone)?;
    let beyond = pooling.windows.pads.iter().zip(&pooling.given);
    let beyond: Vec<_> = beyond.map(|(all, given)| (0, all.1.saturating_sub(given.1))).collect();
    let inside = match call.int("count_include_pad", 0) != 0 {
        true => Pooling::padded(&Pooling::padded(&ones, &pooling.given, 1.0)?, &beyond, 0.0)?,
        false => Pooling::padded(&ones, &pooling.windows.pads, 0.0)?,
    };
    one(sum.over(&pooling.sum(&inside)?)?.cast_to(x.dtype())?)
}

fn max_pool(call: &Call<'_>) -> Outputs {
    let (x, pooling) = (call.input(0)?, Pooling::of(call)?);
    let (kind, shape) = (x.dtype(), x.shape());
    if shape.contains(&0) {
        let whole = [&pooling.front[..], &pooling.steps].concat();
        let values = Dense::filled(0.0, kind, &whole)?;
        return all([values, Dense::filled(0.0, DType::Int64, &whole)?]);
    }
    let (wants_places, columns) = (call.outputs() > 1, call.int("storage_order", 0) != 0);
    let numbers = if kind.is_float() { x.widened()? } else { x.cast_to(DType::Float32)? };
    if let ([height, width], [down, across]) = (pooling.dims.as_slice(), pooling.steps.as_slice()) {
        let (dims, steps) = ([*height, *width], [*down, *across]);
        let order = if columns { Order::ColumnMajor } else { Order::RowMajor };
        let places = wants_places.then_some(order);
        let planes = Planes { windows: &pooling.windows, dims, steps, places };
        if let Some((values, places)) = planes.greatest(&numbers)? {
            return all([Some(values.cast_to(kind)?), places].into_iter().flatten());
        }
    }
    let padded = Pooling::padded(&numbers, &pooling.windows.pads, f64::NEG_INFINITY)?;
    let mut values = pooling.pieces(padded);
    let mut best = values.next().ok_or("windows have no elements")??;
    let mut numbers = match wants_places {
        true => {
            let inner = places_of(&shape, columns)?;
            Some(pooling.pieces(Pooling::padded(&inner, &pooling.windows.pads, -1.0)?))
        }
        false => None,
    };
    let mut next = || numbers.as_mut().and_then(Iterator::next).transpose();
    let mut places = next()?;
    for value in values {
        let value = value?;
        // A NaN is taken, and replaced by the next element.
        let takes = value.compared(&best, Comparison::LessOrEqual)?.inverted()?;
        best = best.masked(&takes, &value)?;
        if let (Some(old), Some(new)) = (places.take(), next()?) {
            places = Some(old.masked(&takes, &new)?);
        }
    }
    all([Some(best.cast_to(kind)?), places].into_iter().flatten())
}

/// Returns the flat index of each element; with `columns`, in column-major order within each image.
fn places_of(shape: &[usize], columns: bool) -> Outcome<Dense> {
    let whole = bounded(shape)?;
    let all: Vec<i64> = (0_i64..).take(whole).collect();
    if !columns {
        return Dense::longs(&all).reshaped(shape);
    }
    // The order of batch and channels does not change.
    let order: Vec<usize> = (0..shape.len().min(2)).chain((2..shape.len()).rev()).collect();
    let turned: Vec<usize> = order.iter().map(|at| dim_at(shape, *at)).collect::<Outcome<_>>()?;
    Dense::longs(&all).reshaped(turned)?.permuted(&order)
}

pub(super) fn lp_pool(call: &Call<'_>) -> Outputs {
    let (x, pooling) = (call.input(0)?, Pooling::of(call)?);
    if x.shape().contains(&0) {
        return Err(format!("{:?} has no elements to pool", x.shape()).into());
    }
    let p = call.int("p", 2) as f64;
    if p < 1.0 {
        return Err(format!("expected a norm of at least 1, found {p}").into());
    }
    let power = x.widened()?.absolute()?.power(p)?;
    let sum = pooling.sum(&Pooling::padded(&power, &pooling.windows.pads, 0.0)?)?;
    let root = sum.power(1.0 / p)?;
    one(root.cast_to(x.dtype())?)
}
