//! Gather and scatter by index.

use super::indexing::{check_inside, places};
use super::tensor::{bounded, long};
use super::{Call, Made, Run, axis, count, dim_at, one};
use crate::item::{Item, Outcome};
use burn_backend::ops::FloatTensorOps;
use burn_backend::tensor::IndexingUpdateOp;
use burn_backend::{DType as BurnType, TensorData};
use burn_flex::Flex;

pub(super) fn kernel(kind: &str) -> Option<Run> {
    Some(match kind {
        "GatherND" => gather_nd,
        "ScatterElements" => scatter_elements,
        "ScatterND" => scatter_nd,
        _ => return None,
    })
}

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
fn rows(tuples: &Item, shape: &[usize]) -> Outcome<Vec<i64>> {
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

fn gather_nd(call: &Call<'_>) -> Made {
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
    let flat = x.reshaped(vec![bounded(batches)? * size, bounded(width)?]);
    one(flat.selected(0, &rows)?.reshaped(whole))
}

/// The reduction of an element and the value that is scattered to it.
fn reduction(call: &Call<'_>) -> Outcome<Reduction> {
    Ok(match call.text("reduction").as_deref() {
        None | Some("none") => Reduction::Last,
        Some("add") => Reduction::Sum,
        Some("mul") => Reduction::Combined(|a, b| a.times(b)),
        Some("max") => Reduction::Combined(|a, b| a.extreme(b, true)),
        Some("min") => Reduction::Combined(|a, b| a.extreme(b, false)),
        Some(other) => return Err(format!("reduction `{other}` is not supported").into()),
    })
}

/// The handling of several rows for the same target.
enum Reduction {
    /// The last one wins.
    Last,
    /// They are added to the existing row.
    Sum,
    /// They are combined with the existing row.
    Combined(Combine),
}

type Combine = fn(&Item, &Item) -> Outcome<Item>;

fn check_updates(updates: &Item, shape: &[usize]) -> Outcome<()> {
    match updates.shape() {
        found if found == shape => Ok(()),
        found => Err(format!("expected updates of {shape:?}, found {found:?}").into()),
    }
}

fn scatter_nd(call: &Call<'_>) -> Made {
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
    let table = x.clone().reshaped(vec![bounded(inner)?, width]);
    let updates = updates.clone().reshaped(vec![targets.len(), width]);
    one(put(table, &targets, updates, reduction(call)?)?.reshaped(shape))
}

fn scatter_elements(call: &Call<'_>) -> Made {
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
    let table = x.clone().reshaped(vec![bounded(&shape)?, 1]);
    let updates = updates.clone().reshaped(vec![targets.len(), 1]);
    one(put(table, &targets, updates, reduction(call)?)?.reshaped(shape))
}

/// Fails if a row is out of range.
fn check_rows(targets: &[i64], rows: usize) -> Outcome<()> {
    match targets.iter().find(|target| !(0..long(rows)).contains(target)) {
        None => Ok(()),
        Some(target) => Err(format!("row {target} is out of range").into()),
    }
}

/// Scatters rows into a table. Of several for the same target the last one wins, or all are combined.
fn put(mut table: Item, targets: &[i64], updates: Item, reduction: Reduction) -> Outcome<Item> {
    let rows = dim_at(&table.shape(), 0)?;
    if targets.is_empty() || table.shape().contains(&0) {
        return Ok(table);
    }
    if matches!(reduction, Reduction::Sum)
        && table.shape() == [rows, 1]
        && table.kind()? == BurnType::F32
        && updates.kind()? == BurnType::F32
    {
        return added(&table, targets, &updates);
    }
    let (mut targets, mut updates) = (targets.to_vec(), updates);
    let combine: Option<Combine> = match reduction {
        Reduction::Last => None,
        Reduction::Combined(combine) => Some(combine),
        Reduction::Sum => match (table, updates) {
            // burn implements this in one pass.
            (Item::Float(table), Item::Float(updates)) => {
                check_rows(&targets, rows)?;
                let (to, add) = (Item::longs(&targets).int()?, IndexingUpdateOp::Add);
                return Ok(Item::Float(Flex::float_select_assign(table, 0, to, updates, add)));
            }
            (other, rest) => {
                (table, updates) = (other, rest);
                Some(|a, b| a.plus(b))
            }
        },
    };
    if let Some(combine) = combine {
        (targets, updates) = combined(&targets, updates, combine)?;
        updates = combine(&table.clone().selected(0, &targets)?, &updates)?;
    }
    // Every row comes from the table or from the updates after it.
    let behind = long(rows);
    let mut sources: Vec<i64> = (0..behind).collect();
    for (number, target) in (behind..).zip(&targets) {
        let slot = usize::try_from(*target).ok().and_then(|target| sources.get_mut(target));
        *slot.ok_or_else(|| format!("row {target} is out of range"))? = number;
    }
    Item::concatenated(vec![table, updates], 0)?.selected(0, &sources)
}

/// Adds single numbers to a table, in order.
fn added(table: &Item, targets: &[i64], updates: &Item) -> Outcome<Item> {
    let (mut sums, values) = (table.to_singles()?, updates.to_singles()?);
    for (target, value) in targets.iter().zip(values) {
        let sum = usize::try_from(*target).ok().and_then(|target| sums.get_mut(target));
        *sum.ok_or_else(|| format!("row {target} is out of range"))? += value;
    }
    Ok(Item::from_data(TensorData::new(sums, table.shape())))
}

/// Combines rows with the same target pairwise, until each target has one row.
fn combined(targets: &[i64], updates: Item, combine: Combine) -> Outcome<(Vec<i64>, Item)> {
    let mut order: Vec<(i64, i64)> = targets.iter().copied().zip(0..).collect();
    order.sort_unstable();
    let (mut targets, order): (Vec<i64>, Vec<i64>) = order.into_iter().unzip();
    let mut updates = updates.selected(0, &order)?;
    loop {
        let (mut firsts, mut seconds, mut alone) = (Vec::new(), Vec::new(), Vec::new());
        let mut rest = targets.iter().zip(0_i64..).peekable();
        while let Some((target, row)) = rest.next() {
            match rest.next_if(|(next, _)| *next == target) {
                Some((_, second)) => {
                    firsts.push((*target, row));
                    seconds.push(second);
                }
                None => alone.push((*target, row)),
            }
        }
        if seconds.is_empty() {
            return Ok((targets, updates));
        }
        let numbers = |list: &[(i64, i64)]| list.iter().map(|(_, row)| *row).collect::<Vec<_>>();
        let first = updates.clone().selected(0, &numbers(&firsts))?;
        let made = combine(&first, &updates.clone().selected(0, &seconds)?)?;
        let joined = match alone.is_empty() {
            true => made,
            false => Item::concatenated(vec![made, updates.selected(0, &numbers(&alone))?], 0)?,
        };
        let all = firsts.iter().chain(&alone).map(|(target, _)| *target);
        let mut order: Vec<(i64, i64)> = all.zip(0..).collect();
        order.sort_unstable();
        let (next, order): (Vec<i64>, Vec<i64>) = order.into_iter().unzip();
        (targets, updates) = (next, joined.selected(0, &order)?);
    }
}
