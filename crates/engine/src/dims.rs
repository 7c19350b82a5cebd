//! Dims, indices and counts.

pub(crate) use lodstone_schema::numbers::length as long;
pub(crate) use lodstone_schema::places::at_mut;

use lodstone_schema::Finding;
use lodstone_schema::numbers::Rank;
use smallvec::SmallVec;

use crate::error::Outcome;

/// The number of dims that take no memory of their own.
pub(crate) const INLINE: usize = 4;

/// The dims of a tensor, outermost first.
pub(crate) type Dims = SmallVec<[usize; INLINE]>;

/// The distance in elements between successive indices of each dim.
pub(crate) type Strides = SmallVec<[isize; INLINE]>;

/// The maximum number of elements of a tensor that is generated from dims alone.
pub(crate) const MAX_ELEMENTS: usize = 1 << 31;

/// Returns the number of elements of dims, if a tensor of them can be created.
pub(crate) fn bounded(dims: &[usize]) -> Outcome<usize> {
    // Dims beside a zero are limited too: their products are computed elsewhere.
    let some = dims.iter().filter(|dim| **dim > 0);
    let whole = some.into_iter().try_fold(1_usize, |all, dim| all.checked_mul(*dim));
    match whole.filter(|all| *all <= MAX_ELEMENTS) {
        Some(whole) => Ok(if dims.contains(&0) { 0 } else { whole }),
        None => Err(format!("{dims:?} exceed the limit of {MAX_ELEMENTS} elements").into()),
    }
}

/// Returns the broadcast dims of both.
pub(crate) fn common(a: &[usize], b: &[usize]) -> Outcome<Dims> {
    let rank = a.len().max(b.len());
    // Dims that are missing at the front are 1.
    let whole = |shape: &[usize]| {
        let missing = std::iter::repeat_n(1, rank - shape.len());
        missing.chain(shape.iter().copied()).collect::<Dims>()
    };
    let dim = |(one, other): (usize, usize)| match (one, other) {
        (one, other) if one == other => Ok(one),
        (1, other) => Ok(other),
        (one, 1) => Ok(one),
        _ => Err(format!("expected shapes that broadcast, found {a:?} and {b:?}").into()),
    };
    let dims = whole(a).into_iter().zip(whole(b)).map(dim).collect::<Outcome<Dims>>()?;
    bounded(&dims)?;
    Ok(dims)
}

/// Converts a float to an integer: large values saturate, and NaN becomes 0.
#[expect(clippy::cast_possible_truncation, reason = "it saturates")]
pub(crate) fn whole(number: f64) -> i64 {
    number as i64
}

/// Converts a float to a number of elements.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates")]
pub(crate) fn elements(number: f64) -> usize {
    number as usize
}

/// Converts integers to dims, if a tensor of them can be created.
pub(crate) fn dims_from(dims: &[i64]) -> Outcome<Vec<usize>> {
    let dims: Vec<usize> = dims.iter().map(|dim| count(*dim)).collect::<Outcome<_>>()?;
    bounded(&dims)?;
    Ok(dims)
}

/// Resolves an axis; negative ones count from the end.
pub(crate) fn axis(axis: i64, rank: usize) -> Outcome<usize> {
    Ok(Rank::new(rank).axis(axis)?.index())
}

/// Returns the number of rows of a width in as many elements; there are none without a width.
pub(crate) fn rows_of(width: usize, count: usize) -> usize {
    match width {
        0 => 0,
        _ => count / width,
    }
}

/// Returns the dim of a valid axis.
pub(crate) fn dim_at(shape: &[usize], at: usize) -> Outcome<usize> {
    lodstone_schema::places::at(shape, at)
}

/// Returns the product of the dims before a valid axis, its own dim, and the product of those after it.
pub(crate) fn around(shape: &[usize], axis: usize) -> Outcome<(&[usize], usize, &[usize])> {
    match shape.split_at_checked(axis) {
        Some((before, [dim, behind @ ..])) => Ok((before, *dim, behind)),
        _ => Err(Finding::internal(format!("axis {axis} is out of range for {shape:?}"))),
    }
}

/// Returns the permutation that undoes one.
pub(crate) fn inverse(axes: &[usize]) -> Vec<usize> {
    let mut back: Vec<usize> = (0..axes.len()).collect();
    back.sort_by_key(|at| axes.get(*at).copied());
    back
}

/// Converts an integer to a number of elements.
pub(crate) fn count(number: i64) -> Outcome<usize> {
    usize::try_from(number)
        .map_err(|_| format!("expected a number of elements, found {number}").into())
}
