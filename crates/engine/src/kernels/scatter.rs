//! Gather and scatter by index.

use lodstone_model::DType;

use super::indexing::{check_inside, places};
use crate::call::{Call, Outputs, one};
use crate::dims::{axis, bounded, count, dim_at, long};
use crate::error::Outcome;
use crate::operator::Operator;
use crate::tensor::{
    Dense, Element, Extreme, Number, Order, bits_of, bytes_of, check_alike, elements, numbers_of,
    unsupported, wrapped,
};

/// The operators of this family.
pub(super) const OPERATORS: &[Operator] = &[
    Operator::dense("GatherND", gather_nd).working(0, 12).moves(),
    Operator::dense("ScatterElements", scatter_elements).working(40, 0).moves(),
    Operator::dense("ScatterND", scatter_nd).working(6, 16).moves(),
];

/// Returns the distance in elements between successive indices of each dim.
fn steps(shape: &[usize]) -> Vec<usize> {
    let mut steps: Vec<usize> = shape
        .iter()
        .rev()
        .scan(1, |step, dim| {
            let this = *step;
            *step *= dim;
            Some(this)
        })
        .collect();
    steps.reverse();
    steps
}

/// Returns the rows of `shape` that index tuples refer to.
fn rows(tuples: &Dense, shape: &[usize]) -> Outcome<Vec<i64>> {
    if shape.is_empty() {
        let tuples = tuples.shape();
        let [front @ .., _] = tuples.as_slice() else {
            return Err("expected index tuples".into());
        };
        return Ok(vec![0; bounded(front)?]);
    }
    let steps = steps(shape);
    let row = |tuple: &[i64]| {
        tuple.iter().zip(shape).zip(&steps).try_fold(0, |row, ((at, dim), step)| {
            let whole = long(*dim);
            if !(-whole..whole).contains(at) {
                return Err(format!("index {at} is out of range for dim {dim}").into());
            }
            let at = if *at < 0 { at + whole } else { *at };
            Ok(row + at * long(*step))
        })
    };
    tuples.to_longs()?.chunks_exact(shape.len()).map(row).collect()
}

fn gather_nd(call: &Call<'_>) -> Outputs {
    let (x, tuples) = (call.input(0)?.clone(), call.input(1)?);
    let (shape, outer) = (x.shape(), tuples.shape());
    let batch = count(call.int("batch_dims", 0))?;
    let (Some(length), Some(front)) = (outer.last(), outer.get(..outer.len().max(1) - 1)) else {
        return Err("expected index tuples".into());
    };
    let end = batch.checked_add(*length).ok_or("the index tuples are too long")?;
    let (Some(batches), Some(inner), Some(width)) =
        (shape.get(..batch), shape.get(batch..end), shape.get(end..))
    else {
        return Err(format!("expected rank {end} or more, found {shape:?}").into());
    };
    let whole = [front, width].concat();
    bounded(&whole)?;
    if front.get(..batch) != Some(batches) {
        return Err(format!("the batch dims of {outer:?} and {shape:?} differ").into());
    }
    let mut rows = rows(tuples, inner)?;
    // Each batch has its own rows.
    let (each, size) = (rows.len() / bounded(batches)?.max(1), bounded(inner)?);
    for (place, row) in rows.iter_mut().enumerate() {
        *row += long(place / each.max(1) * size);
    }
    let flat = x.reshaped(vec![bounded(batches)? * size, bounded(width)?])?;
    one(flat.selected(0, &rows)?.reshaped(whole)?)
}

/// What becomes of an element that another one is scattered to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reduction {
    Last,
    Sum,
    Product,
    Greatest,
    Least,
}

fn reduction(call: &Call<'_>) -> Outcome<Reduction> {
    let reductions = [
        ("none", Reduction::Last),
        ("add", Reduction::Sum),
        ("mul", Reduction::Product),
        ("max", Reduction::Greatest),
        ("min", Reduction::Least),
    ];
    call.choice("reduction", &reductions)
}

fn check_updates(updates: &Dense, shape: &[usize]) -> Outcome<()> {
    match updates.shape() {
        found if found == shape => Ok(()),
        found => Err(format!("expected updates of {shape:?}, found {found:?}").into()),
    }
}

fn scatter_nd(call: &Call<'_>) -> Outputs {
    let (x, tuples, updates) = (call.input(0)?, call.input(1)?, call.input(2)?);
    let (shape, outer) = (x.shape(), tuples.shape());
    let [front @ .., length] = outer.as_slice() else {
        return Err("expected index tuples".into());
    };
    let Some((inner, width)) = shape.split_at_checked(*length) else {
        let rank = shape.len();
        return Err(
            format!("expected indices of at most {rank} values each, found {length}").into()
        );
    };
    check_updates(updates, &[front, width].concat())?;
    let (targets, width) = (rows(tuples, inner)?, bounded(width)?);
    let table = x.reshaped(vec![bounded(inner)?, width])?;
    let updates = updates.reshaped(vec![targets.len(), width])?;
    one(put(&table, &targets, &updates, reduction(call)?)?.reshaped(shape)?)
}

fn scatter_elements(call: &Call<'_>) -> Outputs {
    let (x, numbers, updates) = (call.input(0)?, call.input(1)?, call.input(2)?);
    let (shape, over) = (x.shape(), numbers.shape());
    let at = axis(call.int("axis", 0), shape.len())?;
    check_inside(&over, &shape, at)?;
    check_updates(updates, &over)?;
    let along = places(numbers, dim_at(&shape, at)?)?;
    let (steps, own) = (steps(&shape), steps(&over));
    let target = |(place, along): (usize, &i64)| {
        let parts = steps.iter().zip(own.iter().zip(&over)).enumerate();
        let parts = parts.map(|(number, (step, (own, dim)))| match number == at {
            true => along.saturating_mul(long(*step)),
            false => long(place / (*own).max(1) % (*dim).max(1) * step),
        });
        parts.sum()
    };
    let targets: Vec<i64> = match shape.as_slice() {
        [_] => along,
        _ => along.iter().enumerate().map(target).collect(),
    };
    let table = x.reshaped(vec![bounded(&shape)?, 1])?;
    let updates = updates.reshaped(vec![targets.len(), 1])?;
    one(put(&table, &targets, &updates, reduction(call)?)?.reshaped(shape)?)
}

/// Scatters rows into a table, one after the other.
fn put(table: &Dense, targets: &[i64], updates: &Dense, reduction: Reduction) -> Outcome<Dense> {
    check_alike(table, updates)?;
    if targets.is_empty() || table.dims().contains(&0) {
        return Ok(table.clone());
    }
    let dtype = table.dtype();
    if reduction == Reduction::Last {
        return bits_of!(
            dtype.bits(),
            T => scattered::<T>(table, targets, updates, |_, new| new),
            Err(unsupported(dtype))
        );
    }
    if dtype == DType::Bool {
        return Err(unsupported(dtype));
    }
    // Sums of many elements are too coarse in half precision.
    let (wide, new) = (table.widened()?, updates.widened()?);
    let made = numbers_of!(
        wide.dtype(),
        T => match reduction {
            Reduction::Sum => scattered::<T>(&wide, targets, &new, Number::plus),
            Reduction::Product => scattered::<T>(&wide, targets, &new, Number::times),
            Reduction::Greatest => scattered::<T>(&wide, targets, &new, |a, b| a.extreme(b, Extreme::Greatest)),
            Reduction::Least => scattered::<T>(&wide, targets, &new, |a, b| a.extreme(b, Extreme::Least)),
            Reduction::Last => Err(unsupported(dtype)),
        },
        Err(unsupported(dtype))
    )?;
    made.cast_to(dtype)
}

fn scattered<T: Element>(
    table: &Dense,
    targets: &[i64],
    updates: &Dense,
    of: impl Fn(T, T) -> T,
) -> Outcome<Dense> {
    let mut made = elements::<T>(table, Order::RowMajor)?.into_vec();
    let new = elements::<T>(updates, Order::RowMajor)?;
    let width = dim_at(table.dims(), 1)?;
    for (target, row) in targets.iter().zip(new.chunks_exact(width)) {
        let begin = usize::try_from(*target).ok().and_then(|target| target.checked_mul(width));
        let into = begin.and_then(|begin| made.get_mut(begin..begin.checked_add(width)?));
        let into = into.ok_or_else(|| format!("row {target} is out of range"))?;
        into.iter_mut().zip(row).for_each(|(into, new)| *into = of(*into, *new));
    }
    wrapped(bytes_of(made), table.shape(), Order::RowMajor, table.dtype())
}
