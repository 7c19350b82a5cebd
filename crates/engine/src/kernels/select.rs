//! Sorting and selection: results whose dims may depend on elements.

use std::cmp::Ordering;

use super::tensor::{bounded, long};
use super::{Call, Made, Run, all, around, at_mut, axis, count, dim_at, one};
use crate::item::{Item, Outcome};

pub(super) fn kernel(kind: &str) -> Option<Run> {
    Some(match kind {
        "Compress" => compress,
        "NonZero" => non_zero,
        "TopK" => top_k,
        "Unique" => unique,
        _ => return None,
    })
}

/// Returns the flat indices of the true elements.
fn numbers_of(truths: &[bool]) -> Vec<i64> {
    (0..).zip(truths).filter(|(_, is)| **is).map(|(number, _)| number).collect()
}

fn compress(call: &Call<'_>) -> Made {
    let (x, mask) = (call.input(0)?.clone(), call.input(1)?.to_truths()?);
    let (x, at) = match call.int("axis", i64::MIN) {
        i64::MIN => {
            let whole = x.shape().iter().product();
            (x.reshaped(vec![whole]), 0)
        }
        at => {
            let at = axis(at, x.shape().len())?;
            (x, at)
        }
    };
    let dim = dim_at(&x.shape(), at)?;
    let (mask, _) = mask.split_at(dim.min(mask.len()));
    let numbers = numbers_of(mask);
    one(x.selected(at, &numbers)?)
}

/// Returns indices with a row for each dim and a column for each element.
fn non_zero(call: &Call<'_>) -> Made {
    let x = call.input(0)?;
    let shape = x.shape();
    let places = numbers_of(&x.to_truths()?);
    let mut step = 1;
    let mut table: Vec<i64> = Vec::new();
    for dim in shape.iter().rev() {
        let dim = long(*dim).max(1);
        // The last dims first: they are reversed below.
        table.extend(places.iter().rev().map(|place| place / step % dim));
        step = step.saturating_mul(dim);
    }
    table.reverse();
    let rank = shape.len();
    one(Item::longs(&table).reshaped(vec![rank, places.len()]))
}

/// Selects the top elements. Of equal ones the lowest index comes first. NaN is greater than all values.
fn top_k(call: &Call<'_>) -> Made {
    let x = call.input(0)?;
    let shape = x.shape();
    let at = axis(call.int("axis", -1), shape.len())?;
    let k = call.longs(1)?.and_then(|k| k.first().copied()).ok_or("`k` is missing")?;
    // [before, axis, after]
    let (before, dim, behind) = around(&shape, at)?;
    let (before, behind): (usize, usize) = (before.iter().product(), behind.iter().product());
    let k = count(k)?;
    if k > dim {
        return Err(format!("expected at most {dim} in `k`, found {k}").into());
    }
    let greatest = call.int("largest", 1) != 0;
    let mut dims = shape.clone();
    *at_mut(&mut dims, at)? = k;
    let keys = Keys::of(x)?;
    let mut numbers = vec![0; bounded(&dims)?];
    let mut line: Vec<usize> = Vec::with_capacity(dim);
    for outer in 0..if k == 0 { 0 } else { before } {
        for inner in 0..behind {
            let place = |number: usize| (outer * dim + number) * behind + inner;
            line.clear();
            line.extend(0..dim);
            let order = |a: &usize, b: &usize| {
                let order = keys.compare(place(*a), place(*b));
                (if greatest { order.reverse() } else { order }).then(a.cmp(b))
            };
            if k < dim {
                line.select_nth_unstable_by(k, order);
                line.truncate(k);
            }
            line.sort_unstable_by(order);
            for (rank, number) in line.iter().take(k).enumerate() {
                *at_mut(&mut numbers, (outer * k + rank) * behind + inner)? = long(*number);
            }
        }
    }
    let numbers = Item::longs(&numbers).reshaped(dims.clone());
    if dims.contains(&0) {
        return all([Item::filled(0.0, x.kind()?, &dims)?, numbers]);
    }
    let values = x.clone().gathered(at, numbers.int()?)?;
    all([values, numbers])
}

/// Returns the sort key of elements.
enum Keys {
    Numbers(Vec<f64>),
    Integers(Vec<i128>),
}

impl Keys {
    fn of(x: &Item) -> Outcome<Self> {
        Ok(match x {
            Item::Float(_) => Self::Numbers(x.to_doubles()?),
            _ if x.kind()? == burn_backend::DType::U64 => {
                Self::Integers(x.clone().into_data()?.iter::<u64>().map(i128::from).collect())
            }
            _ => Self::Integers(x.to_longs()?.into_iter().map(i128::from).collect()),
        })
    }

    fn compare(&self, a: usize, b: usize) -> Ordering {
        match self {
            Self::Numbers(keys) => match (keys.get(a), keys.get(b)) {
                (Some(a), Some(b)) => a.partial_cmp(b).unwrap_or(a.is_nan().cmp(&b.is_nan())),
                _ => Ordering::Equal,
            },
            Self::Integers(keys) => keys.get(a).cmp(&keys.get(b)),
        }
    }
}

/// Returns the distinct slices along an axis (elements of the flattened tensor without one): the index of the first
/// occurrence of each, the index of each slice among them, and the counts.
fn unique(call: &Call<'_>) -> Made {
    let x = call.input(0)?;
    let shape = x.shape();
    let whole: usize = shape.iter().product();
    let (x, at) = match call.int("axis", i64::MIN) {
        i64::MIN => (x.clone().reshaped(vec![whole]), 0),
        at => (x.clone(), axis(at, shape.len())?),
    };
    let shape = x.shape();
    let (_, dim, behind) = around(&shape, at)?;
    let behind: usize = behind.iter().product();
    let width = whole.checked_div(dim).unwrap_or(0);
    let keys = Keys::of(&x)?;
    let place = |slice: usize, number: usize| {
        let (outer, inner) = (number / behind.max(1), number % behind.max(1));
        (outer * dim + slice) * behind + inner
    };
    let compare = |a: usize, b: usize| {
        let mut parts = (0..width).map(|number| keys.compare(place(a, number), place(b, number)));
        parts.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    };
    let mut order: Vec<usize> = (0..dim).collect();
    order.sort_by(|a, b| compare(*a, *b));
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for slice in order {
        match groups.last_mut() {
            Some(group) if group.first().is_some_and(|first| compare(*first, slice).is_eq()) => {
                group.push(slice);
            }
            _ => groups.push(vec![slice]),
        }
    }
    if call.int("sorted", 1) == 0 {
        groups.sort_by_key(|group| group.first().copied());
    }
    let mut inverse = vec![0; dim];
    for (number, group) in (0_i64..).zip(&groups) {
        for slice in group {
            *at_mut(&mut inverse, *slice)? = number;
        }
    }
    let firsts: Vec<i64> =
        groups.iter().filter_map(|group| group.first().copied().map(long)).collect();
    let counts: Vec<i64> = groups.iter().map(|group| long(group.len())).collect();
    let values = x.selected(at, &firsts)?;
    all([values, Item::longs(&firsts), Item::longs(&inverse), Item::longs(&counts)])
}
