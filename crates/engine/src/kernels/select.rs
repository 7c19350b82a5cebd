//! Sorting and selection: results whose dims may depend on elements.

use std::cmp::Ordering;

use lodstone_model::DType;

use crate::call::{Call, Outputs, all, one};
use crate::dims::{around, at_mut, axis, bounded, count, dim_at, long, rows_of};
use crate::error::Outcome;
use crate::operator::Operator;
use crate::tensor::{Dense, Order, elements};

/// The operators of this family.
pub(super) const OPERATORS: &[Operator] = &[
    Operator::dense("Compress", compress).moves(),
    Operator::dense("NonZero", non_zero),
    Operator::dense("TopK", top_k).working(20, 2),
    Operator::dense("Unique", unique),
];

/// Returns the number of true elements.
fn count_of(truths: &[bool]) -> usize {
    truths.iter().filter(|is| **is).count()
}

/// Returns the flat indices of the true elements.
fn numbers_of(truths: &[bool]) -> Vec<i64> {
    let mut numbers = Vec::with_capacity(count_of(truths));
    numbers.extend((0..).zip(truths).filter(|(_, is)| **is).map(|(number, _)| number));
    numbers
}

/// Returns the size of an element in bytes.
fn size_of_element(x: &Dense) -> u64 {
    u64::from(x.bits()).div_ceil(8)
}

fn compress(call: &Call<'_>) -> Outputs {
    let (x, mask) = (call.input(0)?.clone(), call.input(1)?);
    let _mask = call.workspace(&mask.shape(), 2)?;
    let mask = mask.to_truths()?;
    let (x, at) = match call.int("axis", i64::MIN) {
        i64::MIN => {
            let whole = x.shape().iter().product();
            (x.reshaped(vec![whole])?, 0)
        }
        at => {
            let at = axis(at, x.shape().len())?;
            (x, at)
        }
    };
    let dim = dim_at(&x.shape(), at)?;
    let (mask, _) = mask.split_at(dim.min(mask.len()));
    let count = count_of(mask);
    let mut dims = x.shape();
    *at_mut(&mut dims, at)? = count;
    // Two copies of the indices, and the result.
    let _numbers = call.workspace(&[count], 16)?;
    let _result = call.workspace(&dims, size_of_element(&x))?;
    let numbers = numbers_of(mask);
    one(x.selected(at, &numbers)?)
}

/// Returns indices with a row for each dim and a column for each element.
fn non_zero(call: &Call<'_>) -> Outputs {
    let x = call.input(0)?;
    let shape = x.shape();
    let _truths = call.workspace(&shape, 2)?;
    let truths = x.to_truths()?;
    let (rank, count) = (shape.len(), count_of(&truths));
    let _table = call.workspace(&[count, rank + 1], 8)?;
    let places = numbers_of(&truths);
    let mut step = 1;
    let mut table: Vec<i64> = Vec::with_capacity(count.saturating_mul(rank));
    for dim in shape.iter().rev() {
        let dim = long(*dim).max(1);
        // The last dims first: they are reversed below.
        table.extend(places.iter().rev().map(|place| place / step % dim));
        step = step.saturating_mul(dim);
    }
    table.reverse();
    one(Dense::from_vec(table, [rank, count])?)
}

/// Selects the top elements. Of equal ones the lowest index comes first. NaN is greater than all values.
fn top_k(call: &Call<'_>) -> Outputs {
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
    let values = match dims.contains(&0) {
        true => x.zeros(&dims)?,
        false => x.gathered_along(at, &numbers, &dims)?,
    };
    all([values, Dense::from_vec(numbers, dims)?])
}

/// The memory of the key of an element, in bytes: a copy of the element, and one that is wide enough for all types.
const KEY: u64 = 8 + size_of::<i128>() as u64;

/// Returns the sort key of elements.
enum Keys {
    Numbers(Vec<f64>),
    Integers(Vec<i128>),
}

impl Keys {
    fn of(x: &Dense) -> Outcome<Self> {
        Ok(match x.dtype() {
            dtype if dtype.is_float() => Self::Numbers(x.to_doubles()?),
            DType::Uint64 => {
                let all = elements::<u64>(x, Order::RowMajor)?;
                Self::Integers(all.iter().map(|it| i128::from(*it)).collect())
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
fn unique(call: &Call<'_>) -> Outputs {
    let x = call.input(0)?;
    let shape = x.shape();
    let whole: usize = shape.iter().product();
    let (x, at) = match call.int("axis", i64::MIN) {
        i64::MIN => (x.reshaped(vec![whole])?, 0),
        at => (x.clone(), axis(at, shape.len())?),
    };
    let shape = x.shape();
    let (_, dim, behind) = around(&shape, at)?;
    let behind: usize = behind.iter().product();
    let width = rows_of(dim, whole);
    // Keys, and the values of the result; the order of slices, the runs of equal ones, and three results twice.
    let _keys = call.workspace(&shape, KEY + size_of_element(&x))?;
    let _order = call.workspace(&[dim], 16 + 32 + 48)?;
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
    // Runs of equal slices, which begin with the first of them.
    let mut groups: Vec<&[usize]> = order.chunk_by(|a, b| compare(*a, *b).is_eq()).collect();
    if call.int("sorted", 1) == 0 {
        groups.sort_by_key(|group| group.first().copied());
    }
    let mut inverse = vec![0; dim];
    for (number, group) in (0_i64..).zip(&groups) {
        for slice in *group {
            *at_mut(&mut inverse, *slice)? = number;
        }
    }
    let firsts: Vec<i64> =
        groups.iter().filter_map(|group| group.first().copied().map(long)).collect();
    let counts: Vec<i64> = groups.iter().map(|group| long(group.len())).collect();
    let values = x.selected(at, &firsts)?;
    all([values, Dense::longs(&firsts), Dense::longs(&inverse), Dense::longs(&counts)])
}
