//! Reductions: sums, means, norms, extremes, and the indices of extremes.

use burn_backend::ops::{BoolTensorOps, FloatTensorOps, IntTensorOps};
use burn_backend::{BoolStore, DType as BurnType, IntDType, Scalar};
use burn_flex::{Flex, FlexTensor};
use lodstone_schema::Finding;

use super::integers::products;
use super::tensor::{converted, long};
use super::{Call, Made, Run, axis, one};
use crate::item::{Item, Outcome};

pub(super) fn kernel(kind: &str) -> Option<Run> {
    Some(match kind {
        "ArgMax" => |call| arg(call, true),
        "ArgMin" => |call| arg(call, false),
        "ReduceL1" => |call| reduce(call, &L1),
        "ReduceL2" => |call| reduce(call, &L2),
        "ReduceLogSum" => |call| reduce(call, &LogSum),
        "ReduceLogSumExp" => |call| reduce(call, &LogSumExp),
        "ReduceMax" => |call| reduce(call, &Max),
        "ReduceMean" => |call| reduce(call, &Mean),
        "ReduceMin" => |call| reduce(call, &Min),
        "ReduceProd" => |call| reduce(call, &Product),
        "ReduceSum" => |call| reduce(call, &Sum),
        "ReduceSumSquare" => |call| reduce(call, &SumSquare),
        _ => return None,
    })
}

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

/// Reduces one axis after the other; each becomes a dim of 1.
fn reduce(call: &Call<'_>, how: &Reduction) -> Made {
    let x = call.input(0)?;
    let shape = x.shape();
    let mut axes = match call.longs(1)?.filter(|axes| !axes.is_empty()) {
        Some(axes) => axes.iter().map(|at| axis(*at, shape.len())).collect::<Outcome<Vec<_>>>()?,
        None if call.int("noop_with_empty_axes", 0) != 0 => Vec::new(),
        None => (0..shape.len()).collect(),
    };
    axes.sort_unstable();
    axes.dedup();
    let kind = x.kind()?;
    let made = if shape.contains(&0) {
        nothing(&shape, &axes, kind, *how)?
    } else {
        match x {
            Item::Float(_) => floats(&x.widened()?, &axes, *how)?.cast(kind)?,
            Item::Int(_) => ints(x, &axes, *how)?,
            Item::Bool(_) => {
                let numbers = converted(x.clone(), BurnType::U8)?;
                converted(ints(&numbers, &axes, *how)?, kind)?
            }
        }
    };
    if call.int("keepdims", 1) != 0 {
        return one(made);
    }
    let rest = made.shape().into_iter().enumerate().filter(|(at, _)| !axes.contains(at));
    let rest = rest.map(|(_, dim)| dim).collect();
    one(made.reshaped(rest))
}

/// Returns the reduction of an empty tensor: the neutral element.
fn nothing(shape: &[usize], axes: &[usize], kind: BurnType, how: Reduction) -> Outcome<Item> {
    let dims = shape.iter().enumerate().map(|(at, dim)| if axes.contains(&at) { 1 } else { *dim });
    let dims: Vec<usize> = dims.collect();
    let value = match how {
        L1 | L2 | Sum | SumSquare => 0.0,
        LogSum | LogSumExp => f64::NEG_INFINITY,
        Product => 1.0,
        Max | Min | Mean if dims.contains(&0) => 0.0,
        Max if kind.is_float() => f64::NEG_INFINITY,
        Min if kind.is_float() => f64::INFINITY,
        Mean if kind.is_float() => f64::NAN,
        Max | Min => {
            return match kind {
                BurnType::Bool(_) => Item::filled((how == Min).into(), kind, &dims),
                _ => {
                    let one = extreme_integer(kind, how == Min)?;
                    Ok(one.reshaped(vec![1; dims.len()]).expanded(&dims))
                }
            };
        }
        Mean => return Err(format!("the mean of {shape:?} has no elements").into()),
    };
    Item::filled(value, kind, &dims)
}

/// Returns the minimum or the maximum of an integer type.
fn extreme_integer(kind: BurnType, greatest: bool) -> Outcome<Item> {
    let bits = u32::try_from(kind.size() * 8).unwrap_or(64);
    let signed = !matches!(kind, BurnType::U8 | BurnType::U16 | BurnType::U32 | BurnType::U64);
    let value = match (signed, greatest) {
        (true, true) => i64::MAX >> (64 - bits),
        (true, false) => i64::MIN >> (64 - bits),
        // All bits set: the cast truncates them.
        (false, true) if bits == 64 => -1,
        (false, true) => (1 << bits) - 1,
        (false, false) => 0,
    };
    converted(Item::longs(&[value]), kind)
}

fn floats(x: &Item, axes: &[usize], how: Reduction) -> Outcome<Item> {
    let along = |x: &Item, of: fn(FlexTensor, usize) -> FlexTensor| {
        Ok::<_, Finding>(Item::Float(axes.iter().fold(x.float()?, |x, at| of(x, *at))))
    };
    Ok(match how {
        L1 => along(&x.map(Flex::float_abs)?, Flex::float_sum_dim)?,
        L2 => along(&x.times(x)?, Flex::float_sum_dim)?.map(Flex::float_sqrt)?,
        LogSum => along(x, Flex::float_sum_dim)?.map(Flex::float_log)?,
        LogSumExp => {
            // Differences from the maximum do not overflow; infinite maxima have no difference.
            let top = extreme(x, axes, true)?;
            let beyond = Flex::float_is_inf(top.float()?, BoolStore::Native);
            let top = top.map(|top| Flex::float_mask_fill(top, beyond, Scalar::Float(0.0)))?;
            let sum = along(&x.minus(&top)?.map(Flex::float_exp)?, Flex::float_sum_dim)?;
            sum.map(Flex::float_log)?.plus(&top)?
        }
        Max => extreme(x, axes, true)?,
        Mean => along(x, Flex::float_mean_dim)?,
        Min => extreme(x, axes, false)?,
        Product => along(x, Flex::float_prod_dim)?,
        Sum => along(x, Flex::float_sum_dim)?,
        SumSquare => along(&x.times(x)?, Flex::float_sum_dim)?,
    })
}

/// Returns extremes, where NaN stays NaN.
fn extreme(x: &Item, axes: &[usize], greatest: bool) -> Outcome<Item> {
    let of = if greatest { Flex::float_max_dim } else { Flex::float_min_dim };
    let best = axes.iter().fold(x.float()?, |x, at| of(x, *at));
    let none = Flex::bool_into_float(
        Flex::float_is_nan(x.float()?, BoolStore::Native),
        burn_backend::FloatDType::F32,
    );
    let none = axes.iter().fold(none, |none, at| Flex::float_max_dim(none, *at));
    let none = Flex::float_greater_elem(none, Scalar::Float(0.0), BoolStore::Native);
    Ok(Item::Float(Flex::float_mask_fill(best, none, Scalar::Float(f64::NAN))))
}

/// Sums and products of integers wrap around; other results are rounded towards 0.
fn ints(x: &Item, axes: &[usize], how: Reduction) -> Outcome<Item> {
    let along = |x: &Item, of: fn(FlexTensor, usize) -> FlexTensor| {
        Ok::<_, Finding>(Item::Int(axes.iter().fold(x.int()?, |x, at| of(x, *at))))
    };
    Ok(match how {
        L1 => along(&Item::Int(Flex::int_abs(x.int()?)), Flex::int_sum_dim)?,
        Max => along(x, Flex::int_max_dim)?,
        Min => along(x, Flex::int_min_dim)?,
        Product => axes.iter().try_fold(x.clone(), |x, at| products(&x, *at))?,
        Sum => along(x, Flex::int_sum_dim)?,
        SumSquare => along(&x.times(x)?, Flex::int_sum_dim)?,
        L2 | LogSum | LogSumExp | Mean => {
            let kind = x.kind()?;
            converted(floats(&converted(x.clone(), BurnType::F64)?, axes, how)?, kind)?
        }
    })
}

/// Returns the index of the extreme: the first of equal ones, or the last.
fn arg(call: &Call<'_>, greatest: bool) -> Made {
    let x = call.input(0)?;
    let shape = x.shape();
    let at = axis(call.int("axis", 0), shape.len().max(1))?;
    let dim = shape.get(at).copied().unwrap_or(1);
    if shape.contains(&0) && dim == 0 {
        return Err(format!("{shape:?} has no elements to select from").into());
    }
    let keep = call.int("keepdims", 1) != 0;
    let rest = shape.iter().enumerate().filter(|(place, _)| keep || *place != at);
    let rest: Vec<usize> = rest.map(|(place, dim)| if place == at { 1 } else { *dim }).collect();
    if shape.contains(&0) || shape.is_empty() {
        return one(Item::filled(0.0, BurnType::I64, &rest)?);
    }
    let last = call.int("select_last_index", 0) != 0;
    let backwards: Vec<i64> = (0..).take(dim).collect::<Vec<_>>().into_iter().rev().collect();
    let x = if last { x.clone().selected(at, &backwards)? } else { x.clone() };
    let found = match x {
        Item::Float(x) if greatest => Flex::float_argmax(x, at, IntDType::I64),
        Item::Float(x) => Flex::float_argmin(x, at, IntDType::I64),
        other if greatest => Flex::int_argmax(other.int()?, at),
        other => Flex::int_argmin(other.int()?, at),
    };
    let mut found = Flex::int_cast(found, IntDType::I64);
    if last {
        let end = long(dim) - 1;
        found = Flex::int_add_scalar(Flex::int_neg(found), Scalar::Int(end));
    }
    one(Item::Int(found).reshaped(rest))
}
