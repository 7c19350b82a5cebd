//! Pooling.

use lodstone_model::DType;

use super::Run;
use super::planes::{Order, Planes};
use super::windows::{Windows, spatial};
use crate::call::{Call, Outputs, all, one};
use crate::dims::{count, dim_at, long};
use crate::error::Outcome;
use crate::tensor::{Comparison, Dense, Extreme, Slice, bounded};

/// The maximum number of elements of a window; each is one step of the computation.
const MAX_STEPS: usize = 1 << 16;

pub(super) fn kernel(kind: &str) -> Option<Run> {
    Some(match kind {
        "AveragePool" => average_pool,
        "GlobalAveragePool" => |call| one(global(call, Dense::mean)?),
        "GlobalLpPool" => global_norm,
        "GlobalMaxPool" => global_max,
        "LpPool" => lp_pool,
        "MaxPool" => max_pool,
        _ => return None,
    })
}

/// Pools each feature map.
fn global(call: &Call<'_>, of: fn(&Dense, &[usize]) -> Outcome<Dense>) -> Outcome<Dense> {
    let x = call.input(0)?;
    if x.dims().contains(&0) {
        return Err(format!("{:?} has no elements to pool", x.dims()).into());
    }
    let axes: Vec<usize> = (2..x.dims().len()).collect();
    of(&x.widened()?, &axes)?.cast_to(x.dtype())
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

/// Returns the windows of a pooling operator, and their numbers along each dim.
///
/// # Errors
/// If the windows do not fit the input.
pub(crate) fn pooled_windows(call: &Call<'_>) -> Outcome<(Windows, Vec<usize>)> {
    let plan = Plan::of(call)?;
    Ok((plan.windows, plan.steps))
}

/// Windows over a padded tensor.
struct Plan {
    windows: Windows,
    /// The attributes of the operator, before the last windows were completed.
    given: Vec<(usize, usize)>,
    /// The dims of the batch and channels.
    front: Vec<usize>,
    dims: Vec<usize>,
    /// The number of windows along each dim.
    steps: Vec<usize>,
}

impl Plan {
    fn of(call: &Call<'_>) -> Outcome<Self> {
        let shape = call.input(0)?.shape();
        let dims = spatial(&shape)?.to_vec();
        let (front, _) = shape.split_at(shape.len() - dims.len());
        let size = call.ints("kernel_shape").ok_or("expected a `kernel_shape`, found none")?;
        let size: Vec<usize> = size.iter().map(|one| count(*one)).collect::<Outcome<_>>()?;
        let mut windows = Windows::of(call, &size, &dims)?;
        let given = windows.pads.clone();
        if call.int("ceil_mode", 0) != 0 {
            windows.round_up(&dims);
        }
        let mut steps = Vec::new();
        for (((dim, pad), reach), stride) in
            dims.iter().zip(&windows.pads).zip(windows.reach()).zip(&windows.strides)
        {
            let whole = dim + pad.0 + pad.1;
            let rest = whole.checked_sub(reach).filter(|_| *dim > 0);
            steps.push(
                rest.ok_or_else(|| format!("window {reach} exceeds dim {whole}"))? / stride + 1,
            );
        }
        bounded(&[front, &steps].concat())?;
        let whole = dims.iter().zip(&windows.pads).map(|(dim, pad)| dim + pad.0 + pad.1);
        bounded(&[front, &whole.collect::<Vec<_>>()].concat())?;
        if windows
            .size
            .iter()
            .try_fold(1_usize, |all, one| all.checked_mul(*one))
            .is_none_or(|all| all > MAX_STEPS)
        {
            return Err(format!("windows of {:?} are too large", windows.size).into());
        }
        let front = front.to_vec();
        Ok(Self { windows, given, front, dims, steps })
    }

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

fn average_pool(call: &Call<'_>) -> Outputs {
    let (x, plan) = (call.input(0)?, Plan::of(call)?);
    if x.shape().contains(&0) {
        let whole = [&plan.front[..], &plan.steps].concat();
        return one(Dense::filled(0.0, x.dtype(), &whole)?);
    }
    let sum = plan.sum(&Plan::padded(&x.widened()?, &plan.windows.pads, 0.0)?)?;
    // The number of elements that count in each window.
    let alone = [&[1, 1], plan.dims.as_slice()].concat();
    let ones = Dense::filled(1.0, sum.dtype(), &alone)?;
    let beyond = plan.windows.pads.iter().zip(&plan.given);
    let beyond: Vec<_> = beyond.map(|(all, given)| (0, all.1.saturating_sub(given.1))).collect();
    let inside = match call.int("count_include_pad", 0) != 0 {
        true => Plan::padded(&Plan::padded(&ones, &plan.given, 1.0)?, &beyond, 0.0)?,
        false => Plan::padded(&ones, &plan.windows.pads, 0.0)?,
    };
    one(sum.over(&plan.sum(&inside)?)?.cast_to(x.dtype())?)
}

fn max_pool(call: &Call<'_>) -> Outputs {
    let (x, plan) = (call.input(0)?, Plan::of(call)?);
    let (kind, shape) = (x.dtype(), x.shape());
    if shape.contains(&0) {
        let whole = [&plan.front[..], &plan.steps].concat();
        let values = Dense::filled(0.0, kind, &whole)?;
        return all([values, Dense::filled(0.0, DType::Int64, &whole)?]);
    }
    let (wants_places, columns) = (call.outputs() > 1, call.int("storage_order", 0) != 0);
    let numbers = if kind.is_float() { x.widened()? } else { x.cast_to(DType::Float32)? };
    if let ([height, width], [down, across]) = (plan.dims.as_slice(), plan.steps.as_slice()) {
        let (dims, steps) = ([*height, *width], [*down, *across]);
        let order = if columns { Order::ColumnMajor } else { Order::RowMajor };
        let places = wants_places.then_some(order);
        let planes = Planes { windows: &plan.windows, dims, steps, places };
        if let Some((values, places)) = planes.greatest(&numbers)? {
            return all([Some(values.cast_to(kind)?), places].into_iter().flatten());
        }
    }
    let padded = Plan::padded(&numbers, &plan.windows.pads, f64::NEG_INFINITY)?;
    let mut values = plan.pieces(padded);
    let mut best = values.next().ok_or("windows have no elements")??;
    let mut numbers = match wants_places {
        true => {
            let inner = places_of(&shape, columns)?;
            Some(plan.pieces(Plan::padded(&inner, &plan.windows.pads, -1.0)?))
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
        return Ok(Dense::longs(&all).reshaped(shape.to_vec())?);
    }
    // The order of batch and channels does not change.
    let order: Vec<usize> = (0..shape.len().min(2)).chain((2..shape.len()).rev()).collect();
    let turned: Vec<usize> = order.iter().map(|at| dim_at(shape, *at)).collect::<Outcome<_>>()?;
    Dense::longs(&all).reshaped(turned)?.permuted(&order)
}

fn lp_pool(call: &Call<'_>) -> Outputs {
    let (x, plan) = (call.input(0)?, Plan::of(call)?);
    if x.shape().contains(&0) {
        return Err(format!("{:?} has no elements to pool", x.shape()).into());
    }
    let p = call.int("p", 2) as f64;
    if p < 1.0 {
        return Err(format!("expected a norm of at least 1, found {p}").into());
    }
    let power = x.widened()?.absolute()?.power(p)?;
    let sum = plan.sum(&Plan::padded(&power, &plan.windows.pads, 0.0)?)?;
    let root = sum.power(1.0 / p)?;
    one(root.cast_to(x.dtype())?)
}
