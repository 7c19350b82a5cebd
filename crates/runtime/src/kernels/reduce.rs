//! Sums, means, extremes, and the greatest of them.

use burn_backend::ops::{FloatTensorOps, IntTensorOps};
use burn_backend::{Backend, IntDType};

use super::{Call, Run, axis, count};
use crate::item::{Item, Outcome};

type One<B> = Outcome<Vec<Item<B>>>;

pub(super) fn kernel<B: Backend>(kind: &str) -> Option<Run<B>> {
    Some(match kind {
        "ArgMax" => |call| arg(call, true),
        "ArgMin" => |call| arg(call, false),
        "ReduceMax" => |call| reduce(call, B::float_max_dim, B::int_max_dim),
        "ReduceMean" => |call| reduce(call, B::float_mean_dim, B::int_mean_dim),
        "ReduceMin" => |call| reduce(call, B::float_min_dim, B::int_min_dim),
        "ReduceProd" => |call| reduce(call, B::float_prod_dim, B::int_prod_dim),
        "ReduceSum" => |call| reduce(call, B::float_sum_dim, B::int_sum_dim),
        "TopK" => top_k,
        _ => return None,
    })
}

/// Along one axis after the other, each of which becomes an extent of 1.
fn reduce<B: Backend>(
    call: &Call<'_, B>,
    floats: fn(B::FloatTensorPrimitive, usize) -> B::FloatTensorPrimitive,
    ints: fn(B::IntTensorPrimitive, usize) -> B::IntTensorPrimitive,
) -> One<B> {
    let mut x = call.input(0)?.clone();
    let shape = x.shape();
    let axes = match call.longs(1)?.filter(|axes| !axes.is_empty()) {
        Some(axes) => axes.iter().map(|at| axis(*at, shape.len())).collect::<Outcome<Vec<_>>>()?,
        None if call.int("noop_with_empty_axes", 0) != 0 => return Ok(vec![x]),
        None => (0..shape.len()).collect(),
    };
    if axes.iter().any(|at| shape.get(*at) == Some(&0)) {
        return Err(format!("{shape:?} has no elements to reduce"));
    }
    for at in &axes {
        x = match x {
            Item::Float(x) => Item::Float(floats(x, *at)),
            other => Item::Int(ints(other.int()?, *at)),
        };
    }
    if call.int("keepdims", 1) == 0 {
        let rest = shape.iter().enumerate().filter(|(at, _)| !axes.contains(at));
        x = x.reshaped(rest.map(|(_, dim)| *dim).collect());
    }
    Ok(vec![x])
}

/// The first of equal ones.
fn arg<B: Backend>(call: &Call<'_, B>, greatest: bool) -> One<B> {
    let x = call.input(0)?;
    let shape = x.shape();
    let at = axis(call.int("axis", 0), shape.len())?;
    if shape.contains(&0) {
        return Err(format!("{shape:?} has no elements to choose of"));
    }
    let found = match x {
        Item::Float(x) if greatest => B::float_argmax(x.clone(), at, IntDType::I64),
        Item::Float(x) => B::float_argmin(x.clone(), at, IntDType::I64),
        other if greatest => B::int_argmax(other.int()?, at),
        other => B::int_argmin(other.int()?, at),
    };
    let found = Item::Int(B::int_cast(found, IntDType::I64));
    let keep = call.int("keepdims", 1) != 0;
    let rest = shape.iter().enumerate().filter(|(place, _)| keep || *place != at);
    let rest = rest.map(|(place, dim)| if place == at { 1 } else { *dim }).collect();
    Ok(vec![found.reshaped(rest)])
}

fn top_k<B: Backend>(call: &Call<'_, B>) -> One<B> {
    let x = call.input(0)?;
    let shape = x.shape();
    let at = axis(call.int("axis", -1), shape.len())?;
    let k = call.longs(1)?.and_then(|k| k.first().copied()).ok_or("it has no number")?;
    let (k, dim) = (count(k)?, shape.get(at).copied().unwrap_or(0));
    if k > dim {
        return Err(format!("expected at most {dim} elements, found {k}"));
    }
    let greatest = call.int("largest", 1) != 0;
    let (values, numbers) = match x {
        Item::Float(x) => {
            let (values, numbers) =
                B::float_sort_with_indices(x.clone(), at, greatest, IntDType::I64);
            (Item::Float(values), numbers)
        }
        other => {
            let (values, numbers) = B::int_sort_with_indices(other.int()?, at, greatest);
            (Item::Int(values), numbers)
        }
    };
    let numbers = Item::Int(B::int_cast(numbers, IntDType::I64));
    Ok(vec![values.narrowed(at, 0, k), numbers.narrowed(at, 0, k)])
}
