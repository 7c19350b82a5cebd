//! Reductions: sums, means, norms, extremes, and the indices of extremes.

use lodstone_model::DType;

use crate::call::{Call, Outputs, one};
use crate::dims::axis;
use crate::error::Outcome;
use crate::operator::Operator;
use crate::tensor::element::bits;
use crate::tensor::{Dense, Extreme, Fold, floats};

/// The operators of this family.
pub(super) const OPERATORS: &[Operator] = &[
    Operator::dense("ArgMax", |call| arg(call, Extreme::Greatest)).working(4, 0),
    Operator::dense("ArgMin", |call| arg(call, Extreme::Least)).working(4, 0),
    Operator::dense("ReduceL1", |call| reduce(call, &L1)),
    Operator::dense("ReduceL2", |call| reduce(call, &L2)),
    Operator::dense("ReduceLogSum", |call| reduce(call, &LogSum)).working(4, 0),
    Operator::dense("ReduceLogSumExp", |call| reduce(call, &LogSumExp)).working(20, 0),
    Operator::dense("ReduceMax", |call| reduce(call, &Max)).working(6, 0),
    Operator::dense("ReduceMean", |call| reduce(call, &Mean)).working(2, 0),
    Operator::dense("ReduceMin", |call| reduce(call, &Min)).working(6, 0),
    Operator::dense("ReduceProd", |call| reduce(call, &Product)).working(2, 0),
    Operator::dense("ReduceSum", |call| reduce(call, &Sum)),
    Operator::dense("ReduceSumSquare", |call| reduce(call, &SumSquare)),
];

use Reduction::{L1, L2, LogSum, LogSumExp, Max, Mean, Min, Product, Sum, SumSquare};

/// The reduction of the elements along axes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reduction {
    L1,
    L2,
    LogSum,
    LogSumExp,
    Max,
    Mean,
    Min,
    Product,
    Sum,
    SumSquare,
}

/// Reduces the axes; each becomes a dim of 1.
fn reduce(call: &Call<'_>, how: &Reduction) -> Outputs {
    let x = call.input(0)?;
    let shape = x.shape();
    let mut axes = match call.longs(1)?.filter(|axes| !axes.is_empty()) {
        Some(axes) => axes.iter().map(|at| axis(*at, shape.len())).collect::<Outcome<Vec<_>>>()?,
        None if call.int("noop_with_empty_axes", 0) != 0 => Vec::new(),
        None => (0..shape.len()).collect(),
    };
    axes.sort_unstable();
    axes.dedup();
    let dtype = x.dtype();
    let made = if shape.contains(&0) {
        nothing(&shape, &axes, dtype, *how)?
    } else if dtype.is_float() {
        of_floats(&x.widened()?, &axes, *how)?.cast_to(dtype)?
    } else if dtype == DType::Bool {
        integers(&x.cast_to(DType::Uint8)?, &axes, *how)?.cast_to(dtype)?
    } else {
        integers(x, &axes, *how)?
    };
    if call.int("keepdims", 1) != 0 {
        return one(made);
    }
    let rest = made.dims().iter().enumerate().filter(|(at, _)| !axes.contains(at));
    let rest: Vec<usize> = rest.map(|(_, dim)| *dim).collect();
    one(made.reshaped(rest)?)
}

/// Returns the reduction of an empty tensor: the neutral element.
fn nothing(shape: &[usize], axes: &[usize], dtype: DType, how: Reduction) -> Outcome<Dense> {
    let dims = shape.iter().enumerate().map(|(at, dim)| if axes.contains(&at) { 1 } else { *dim });
    let dims: Vec<usize> = dims.collect();
    let value = match how {
        L1 | L2 | Sum | SumSquare => 0.0,
        LogSum | LogSumExp => f64::NEG_INFINITY,
        Product => 1.0,
        Max | Min | Mean if dims.contains(&0) => 0.0,
        Max if dtype.is_float() => f64::NEG_INFINITY,
        Min if dtype.is_float() => f64::INFINITY,
        Mean if dtype.is_float() => f64::NAN,
        Max | Min => {
            return match dtype {
                DType::Bool => Dense::filled((how == Min).into(), dtype, &dims),
                _ => extreme_integer(
                    dtype,
                    if how == Min { Extreme::Greatest } else { Extreme::Least },
                )?
                .expanded(&dims),
            };
        }
        Mean => return Err(format!("the mean of {shape:?} has no elements").into()),
    };
    Dense::filled(value, dtype, &dims)
}

/// Returns the minimum or the maximum of an integer type.
fn extreme_integer(dtype: DType, which: Extreme) -> Outcome<Dense> {
    let bits = bits(dtype)?;
    let signed = matches!(dtype, DType::Int8 | DType::Int16 | DType::Int32 | DType::Int64);
    let value = match (signed, which) {
        (true, Extreme::Greatest) => i64::MAX >> (64 - bits),
        (true, Extreme::Least) => i64::MIN >> (64 - bits),
        // All bits set: the cast truncates them.
        (false, Extreme::Greatest) if bits == 64 => -1,
        (false, Extreme::Greatest) => (1 << bits) - 1,
        (false, Extreme::Least) => 0,
    };
    Dense::longs(&[value]).reshaped([])?.cast_to(dtype)
}

fn of_floats(x: &Dense, axes: &[usize], how: Reduction) -> Outcome<Dense> {
    match how {
        L1 => x.absolute()?.total(axes),
        L2 => x.times(x)?.total(axes)?.root(),
        LogSum => logarithm(&x.total(axes)?),
        LogSumExp => {
            // Differences from the maximum do not overflow; infinite maxima have no difference.
            let top = extreme(x, axes, Extreme::Greatest)?;
            let top = floats!(&top, T => |top| if top.is_infinite() { 0.0 } else { top })?;
            let sum = floats!(&x.minus(&top)?, T => |x| x.exp())?.total(axes)?;
            logarithm(&sum)?.plus(&top)
        }
        Max => extreme(x, axes, Extreme::Greatest),
        Mean => x.mean(axes),
        Min => extreme(x, axes, Extreme::Least),
        Product => axes.iter().try_fold(x.clone(), |x, at| x.folded(*at, Fold::Product)),
        Sum => x.total(axes),
        SumSquare => x.times(x)?.total(axes),
    }
}

fn logarithm(x: &Dense) -> Outcome<Dense> {
    floats!(x, T => |x| x.ln())
}

/// Returns extremes, where NaN stays NaN.
fn extreme(x: &Dense, axes: &[usize], how: Extreme) -> Outcome<Dense> {
    axes.iter().try_fold(x.clone(), |x, at| x.extremes(*at, how))
}

/// Sums and products of integers wrap around; other results are rounded towards 0.
fn integers(x: &Dense, axes: &[usize], how: Reduction) -> Outcome<Dense> {
    match how {
        L1 => x.absolute_integers()?.total(axes),
        Max => extreme(x, axes, Extreme::Greatest),
        Min => extreme(x, axes, Extreme::Least),
        Product => axes.iter().try_fold(x.clone(), |x, at| x.folded(*at, Fold::Product)),
        Sum => x.total(axes),
        SumSquare => x.times(x)?.total(axes),
        L2 | LogSum | LogSumExp | Mean => {
            of_floats(&x.cast_to(DType::Float64)?, axes, how)?.cast_to(x.dtype())
        }
    }
}

/// Returns the index of the extreme: the first of equal ones, or the last.
fn arg(call: &Call<'_>, how: Extreme) -> Outputs {
    let x = call.input(0)?;
    let shape = x.shape();
    // A scalar has one axis here.
    let at = axis(call.int("axis", 0), shape.len().max(1))?;
    if shape.get(at) == Some(&0) {
        return Err(format!("{shape:?} has no elements to select from").into());
    }
    let keep = call.int("keepdims", 1) != 0;
    let rest = shape.iter().enumerate().filter(|(place, _)| keep || *place != at);
    let rest: Vec<usize> = rest.map(|(place, dim)| if place == at { 1 } else { *dim }).collect();
    if shape.contains(&0) || shape.is_empty() {
        return one(Dense::filled(0.0, DType::Int64, &rest)?);
    }
    let last = call.int("select_last_index", 0) != 0;
    one(x.places_of_extremes(at, how, last)?.reshaped(rest)?)
}
