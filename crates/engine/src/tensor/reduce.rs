//! Sums, products and extremes along axes.
//!
//! Sums of floats are added in a fixed number of lanes and in blocks, whatever the processor has: results are the same
//! everywhere, and sums of many elements are accurate.

use lodstone_model::DType;
use lodstone_schema::Finding;
use num_traits::Float;

use super::dense::Dense;
use super::element::{Element, Extreme, Number, integers_of, numbers_of, unsupported};
use super::order::{Order, elements};
use super::storage::{bytes_of, zeroed};
use crate::dims::{around, dim_at, long};
use crate::error::Outcome;
use crate::threads::each_chunk;

/// What becomes of the elements along an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fold {
    Sum,
    Product,
}

/// The number of sums that are added at the same time.
const LANES: usize = 32;

/// The number of elements whose sum is added to that of others in double precision.
const BLOCK: usize = 4096;

/// The number of rows whose sums are added to those of others in double precision.
const ROWS: usize = 256;

/// The number of elements that a thread handles at a time, at least.
const PART: usize = 1 << 14;

/// A float that is summed.
pub(crate) trait Summed: Element + Float + Into<f64> {
    fn of(sum: f64) -> Self;
}

impl Summed for f32 {
    #[expect(clippy::cast_possible_truncation, reason = "the result is rounded")]
    fn of(sum: f64) -> Self {
        sum as Self
    }
}

impl Summed for f64 {
    fn of(sum: f64) -> Self {
        sum
    }
}

/// Returns the sum of elements that are neighbours in memory.
pub(crate) fn sum_of<T: Summed>(line: &[T]) -> f64 {
    let mut sum = 0.0;
    for block in line.chunks(BLOCK) {
        let mut lanes = [T::zeroed(); LANES];
        let (chunks, rest) = block.as_chunks::<LANES>();
        for chunk in chunks {
            for (lane, element) in lanes.iter_mut().zip(chunk) {
                *lane = *lane + *element;
            }
        }
        for (lane, element) in lanes.iter_mut().zip(rest) {
            *lane = *lane + *element;
        }
        sum += lanes.iter().map(|lane| (*lane).into()).sum::<f64>();
    }
    sum
}

/// Writes a line of results for each index before an axis, from the rows of elements of the same length along it.
fn lines<T: Element, U: Element>(
    x: &Dense,
    axis: usize,
    to: DType,
    line: impl Fn(&[T], &mut [U]) + Sync,
) -> Outcome<Dense> {
    let (before, dim, behind) = around(x.dims(), axis)?;
    let dims = [before, &[1], behind].concat();
    let inner = behind.iter().product::<usize>();
    let all = elements::<T>(x, Order::RowMajor)?;
    let mut made = zeroed::<U>(dims.iter().product())?;
    let each = dim * inner;
    let at_once = PART.div_ceil(each.max(1));
    each_chunk(&mut made, at_once * inner, |(): &mut (), number, into| {
        let mut from = all.get(number * at_once * each..).unwrap_or_default();
        for into in into.chunks_exact_mut(inner.max(1)) {
            let (own, rest) = from.split_at_checked(each).unwrap_or_default();
            line(own, into);
            from = rest;
        }
        Ok(())
    })?;
    Dense::of_elements(to, dims, bytes_of(made))
}

fn sums<T: Summed>(x: &Dense, axis: usize) -> Outcome<Dense> {
    /// Adds rows.
    fn add<T: Summed>(rows: &[T], into: &mut [T]) {
        for row in rows.chunks_exact(into.len()) {
            into.iter_mut().zip(row).for_each(|(sum, element)| *sum = *sum + *element);
        }
    }
    lines::<T, T>(x, axis, x.dtype(), |from, into| match into {
        [one] => *one = T::of(sum_of(from)),
        _ if from.len() / into.len() <= ROWS => add(from, into),
        _ => {
            let mut whole = vec![0.0; into.len()];
            for rows in from.chunks(ROWS * into.len()) {
                into.fill(T::zeroed());
                add(rows, into);
                whole.iter_mut().zip(&*into).for_each(|(whole, sum)| *whole += (*sum).into());
            }
            into.iter_mut().zip(whole).for_each(|(into, sum)| *into = T::of(sum));
        }
    })
}

/// Combines the elements along an axis one after the other.
fn folded<T: Element>(
    x: &Dense,
    axis: usize,
    first: T,
    of: impl Fn(T, T) -> T + Sync,
) -> Outcome<Dense> {
    lines::<T, T>(x, axis, x.dtype(), |from, into| {
        into.fill(first);
        for row in from.chunks_exact(into.len()) {
            into.iter_mut().zip(row).for_each(|(into, element)| *into = of(*into, *element));
        }
    })
}

/// Returns the extremes of the rows; NaN is one.
fn extremes<T: Element>(x: &Dense, axis: usize, how: Extreme) -> Outcome<Dense> {
    lines::<T, T>(x, axis, x.dtype(), |from, into| {
        let mut rows = from.chunks_exact(into.len());
        into.copy_from_slice(rows.next().unwrap_or_default());
        for row in rows {
            into.iter_mut().zip(row).for_each(|(best, element)| {
                if is_better(*element, *best, how) {
                    *best = *element;
                }
            });
        }
    })
}

/// Returns whether an element takes the place of the best one so far.
#[expect(clippy::eq_op, reason = "only NaN differs from itself")]
fn is_better<T: Element>(element: T, best: T, how: Extreme) -> bool {
    let is_beyond = match how {
        Extreme::Least => element < best,
        Extreme::Greatest => element > best,
    };
    is_beyond || element != element && best == best
}

/// Returns the extreme of elements that are neighbours in memory; NaN is one.
fn extreme_of<T: Element>(line: &[T], how: Extreme) -> Option<T> {
    let first = *line.first()?;
    let mut lanes = [first; LANES];
    let (chunks, rest) = line.as_chunks::<LANES>();
    for chunk in chunks {
        for (lane, element) in lanes.iter_mut().zip(chunk) {
            *lane = lane.extreme(*element, how);
        }
    }
    let joined = lanes.iter().fold(first, |best, lane| best.extreme(*lane, how));
    Some(rest.iter().fold(joined, |best, element| best.extreme(*element, how)))
}

fn places<T: Element>(x: &Dense, axis: usize, how: Extreme, is_last: bool) -> Outcome<Dense> {
    let takes_over = |element: T, best: T| {
        is_better(element, best, how) || is_last && !is_better(best, element, how)
    };
    lines::<T, i64>(x, axis, DType::Int64, |from, into| {
        if let [place] = &mut *into {
            let Some(best) = extreme_of(from, how) else { return };
            // NaN is an extreme, and the only one that differs from itself.
            #[expect(clippy::eq_op, reason = "only NaN differs from itself")]
            let is_it = |element: &T| *element == best || best != best && *element != *element;
            let found =
                if is_last { from.iter().rposition(is_it) } else { from.iter().position(is_it) };
            if let Some(found) = found {
                *place = long(found);
            }
            return;
        }
        let mut best: Vec<T> = from.iter().take(into.len()).copied().collect();
        into.fill(0);
        for (number, row) in (0_i64..).zip(from.chunks_exact(into.len())) {
            for ((best, place), element) in best.iter_mut().zip(&mut *into).zip(row) {
                if takes_over(*element, *best) {
                    (*best, *place) = (*element, number);
                }
            }
        }
    })
}

fn cumulated<T: Element>(x: &Dense, axis: usize, of: impl Fn(T, T) -> T) -> Outcome<Dense> {
    let (_, dim, behind) = around(x.dims(), axis)?;
    let inner = behind.iter().product::<usize>();
    let mut made = elements::<T>(x, Order::RowMajor)?.into_vec();
    for part in made.chunks_exact_mut((dim * inner).max(1)) {
        if inner == 1 {
            let mut elements = part.iter_mut();
            let Some(first) = elements.next() else { continue };
            elements.fold(*first, |before, element| {
                *element = of(before, *element);
                *element
            });
            continue;
        }
        let mut rows = part.chunks_exact_mut(inner.max(1));
        let Some(mut before) = rows.next() else { continue };
        for row in rows {
            row.iter_mut().zip(&*before).for_each(|(it, before)| *it = of(*before, *it));
            before = row;
        }
    }
    Dense::of_elements(x.dtype(), x.shape(), bytes_of(made))
}

impl Dense {
    /// Folds the elements along an axis, which becomes a dim of 1. Integers wrap around.
    ///
    /// # Errors
    /// If kernels do not support the element type.
    pub(crate) fn folded(&self, axis: usize, how: Fold) -> Outcome<Self> {
        match (self.dtype(), how) {
            (DType::Float64, Fold::Sum) => sums::<f64>(self, axis),
            (DType::Float32, Fold::Sum) => sums::<f32>(self, axis),
            (DType::Float64, Fold::Product) => folded::<f64>(self, axis, 1.0, Number::times),
            (DType::Float32, Fold::Product) => folded::<f32>(self, axis, 1.0, Number::times),
            (half @ (DType::Float16 | DType::BFloat16), _) => {
                self.widened()?.folded(axis, how)?.cast_to(half)
            }
            (dtype, Fold::Sum) => {
                integers_of!(dtype, T => folded::<T>(self, axis, 0, Number::plus), Err(unsupported(dtype)))
            }
            (dtype, Fold::Product) => {
                integers_of!(dtype, T => folded::<T>(self, axis, 1, Number::times), Err(unsupported(dtype)))
            }
        }
    }

    /// Returns the sums over axes, which become dims of 1. Integers wrap around.
    pub(crate) fn total(&self, axes: &[usize]) -> Outcome<Self> {
        let (mut axes, mut dims, mut joined) = (axes.to_vec(), self.shape(), self.clone());
        axes.sort_unstable();
        // Neighbours are folded together.
        for run in axes.chunk_by(|one, next| one + 1 == *next).rev() {
            let (Some(&first), Some(&last)) = (run.first(), run.last()) else {
                return Err(Finding::internal("no axes"));
            };
            let (before, ..) = around(&dims, first)?;
            let (until, dim, behind) = around(&dims, last)?;
            let product = |dims: &[usize]| dims.iter().product::<usize>();
            let inside = until.iter().skip(first).product::<usize>() * dim;
            let flat = joined.reshaped([product(before), inside, product(behind)])?;
            let sums = flat.folded(1, Fold::Sum)?;
            dims.iter_mut().take(last + 1).skip(first).for_each(|dim| *dim = 1);
            joined = sums.reshaped(&dims)?;
        }
        Ok(joined)
    }

    /// Returns the means of floats over axes, which become dims of 1.
    pub(crate) fn mean(&self, axes: &[usize]) -> Outcome<Self> {
        if axes.is_empty() {
            return Ok(self.clone());
        }
        let count: usize = axes.iter().filter_map(|axis| self.dims().get(*axis)).product();
        let half = self.dtype();
        let sum = self.widened()?.total(axes)?;
        let count = Self::filled(count as f64, sum.dtype(), &vec![1; sum.dims().len()])?;
        sum.over(&count)?.cast_to(half)
    }

    /// Returns the extremes along an axis, which becomes a dim of 1. NaN is one.
    ///
    /// # Errors
    /// If the axis has no elements.
    pub(crate) fn extremes(&self, axis: usize, how: Extreme) -> Outcome<Self> {
        if dim_at(self.dims(), axis)? == 0 {
            return Err(Finding::internal("no elements"));
        }
        let dtype = self.dtype();
        numbers_of!(dtype, T => extremes::<T>(self, axis, how), Err(unsupported(dtype)))
    }

    /// Returns the index of an extreme along an axis, which becomes a dim of 1: of equal ones the first or the last.
    ///
    /// # Errors
    /// If kernels do not support the element type.
    pub(crate) fn places_of_extremes(
        &self,
        axis: usize,
        how: Extreme,
        is_last: bool,
    ) -> Outcome<Self> {
        let dtype = self.dtype();
        numbers_of!(dtype, T => places::<T>(self, axis, how, is_last), Err(unsupported(dtype)))
    }

    /// Folds each element along an axis with all before it.
    ///
    /// # Errors
    /// If kernels do not support the element type.
    pub(crate) fn cumulated(&self, axis: usize, how: Fold) -> Outcome<Self> {
        match (self.dtype(), how) {
            (DType::Float64, Fold::Sum) => cumulated::<f64>(self, axis, Number::plus),
            (DType::Float32, Fold::Sum) => cumulated::<f32>(self, axis, Number::plus),
            (DType::Float64, Fold::Product) => cumulated::<f64>(self, axis, Number::times),
            (DType::Float32, Fold::Product) => cumulated::<f32>(self, axis, Number::times),
            (half @ (DType::Float16 | DType::BFloat16), _) => {
                self.widened()?.cumulated(axis, how)?.cast_to(half)
            }
            (dtype, Fold::Sum) => {
                integers_of!(dtype, T => cumulated::<T>(self, axis, Number::plus), Err(unsupported(dtype)))
            }
            (dtype, Fold::Product) => {
                integers_of!(dtype, T => cumulated::<T>(self, axis, Number::times), Err(unsupported(dtype)))
            }
        }
    }
}
