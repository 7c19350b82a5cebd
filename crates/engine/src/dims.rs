//! Dims, indices and counts.

pub(crate) use lodstone_schema::places::at_mut;

use lodstone_schema::Finding;

use crate::error::Outcome;
use crate::tensor::bounded;

/// Converts a dim, an index or a count to an integer.
pub(crate) fn long(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
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
    let whole = long(rank);
    let place = if axis < 0 { axis.saturating_add(whole) } else { axis };
    usize::try_from(place).ok().filter(|place| *place < rank).ok_or_else(|| match rank {
        0 => format!("expected no axis of a scalar, found {axis}").into(),
        _ => format!("expected an axis from -{rank} to {}, found {axis}", rank - 1).into(),
    })
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

/// Converts an integer to a number of elements.
pub(crate) fn count(number: i64) -> Outcome<usize> {
    usize::try_from(number)
        .map_err(|_| format!("expected a number of elements, found {number}").into())
}
