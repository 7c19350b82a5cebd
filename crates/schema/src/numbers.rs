//! Numbers that count and index, checked once, where they are made.
//!
//! A number of a file or of an operator is an `i64`, a length in memory a `usize`, a dim a `u64`. Between them,
//! [`exact`] converts without loss or fails, and [`length`] cannot fail. No conversion has a default.
//!
//! ```
//! use lodstone_schema::numbers::{Axis, Rank, exact};
//!
//! let rank = Rank::of(&[2, 3, 4]);
//! assert_eq!(rank.axis(-1).map(Axis::index), Ok(2));
//! assert!(rank.axis(3).is_err());
//! assert_eq!(exact::<usize, i64>(7), Ok(7));
//! assert!(exact::<usize, i64>(-1).is_err());
//! ```

use std::any::type_name;
use std::fmt;
use std::ops::Range;

use lodstone_model::Dim;

use crate::{Code, Finding};

/// Converts a number to another integer type.
///
/// # Errors
/// If that type does not have the number.
pub fn exact<T, N>(number: N) -> Result<T, Finding>
where
    T: TryFrom<N>,
    N: Copy + fmt::Display,
{
    T::try_from(number)
        .map_err(|_| format!("{number} is out of the range of {}", type_name::<T>()).into())
}

/// Returns a length in memory, which is at most `isize::MAX`.
#[expect(clippy::cast_possible_wrap, reason = "see above")]
pub const fn length(length: usize) -> i64 {
    length as i64
}

/// Returns a dim, if it is known.
///
/// # Errors
/// If it is known, and 2^63 or more.
pub fn known(dim: &Dim) -> Result<Option<i64>, Finding> {
    match dim {
        Dim::Known(size) => exact(*size).map(Some),
        _ => Ok(None),
    }
}

/// Returns a dim, which must be known; `what` names it in the error.
///
/// # Errors
/// If it is unknown, or 2^63 or more.
pub fn required(dim: &Dim, what: impl fmt::Display) -> Result<i64, Finding> {
    known(dim)?.ok_or_else(|| Finding::new(Code::UnknownDims, format!("{what} must be known")))
}

/// Returns all dims, if each of them is known and below 2^63.
pub fn known_dims(dims: &[Dim]) -> Option<Vec<i64>> {
    dims.iter().map(|dim| known(dim).ok().flatten()).collect()
}

/// The number of dims of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rank(usize);

/// An axis of a tensor, counted from the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Axis(usize);

impl Rank {
    /// Returns the rank of a tensor with these dims.
    pub const fn of<T>(dims: &[T]) -> Self {
        Self(dims.len())
    }

    /// Returns the rank with this number of dims.
    pub const fn new(count: usize) -> Self {
        Self(count)
    }

    /// Returns the number of dims.
    pub const fn count(self) -> usize {
        self.0
    }

    /// Returns the number of dims, as attributes of operators have it.
    pub const fn number(self) -> i64 {
        length(self.0)
    }

    /// Returns the axes as attributes of operators have them, in order.
    pub const fn numbers(self) -> Range<i64> {
        0..self.number()
    }

    /// Returns an axis; negative ones count from the end.
    ///
    /// # Errors
    /// If the tensor does not have it.
    pub fn axis(self, axis: i64) -> Result<Axis, Finding> {
        let place = if axis < 0 { axis.checked_add(self.number()) } else { Some(axis) };
        let place = place.and_then(|place| usize::try_from(place).ok());
        place.filter(|place| *place < self.0).map(Axis).ok_or_else(|| match self.0 {
            0 => format!("expected no axis of a scalar, found {axis}").into(),
            rank => format!("expected an axis from -{rank} to {}, found {axis}", rank - 1).into(),
        })
    }

    /// Returns a place before, between or behind the axes; negative ones count from the end, and those beyond an end are
    /// at that end.
    pub fn place(self, place: i64) -> usize {
        let place = if place < 0 { place.saturating_add(self.number()) } else { place };
        usize::try_from(place.max(0)).map_or(self.0, |place| place.min(self.0))
    }

    /// Returns the last axis.
    ///
    /// # Errors
    /// If the tensor is a scalar.
    pub fn last(self) -> Result<Axis, Finding> {
        self.axis(-1)
    }

    /// Returns all axes, in order.
    pub fn axes(self) -> impl DoubleEndedIterator<Item = Axis> + ExactSizeIterator + Clone {
        (0..self.0).map(Axis)
    }
}

impl Axis {
    /// Returns the index in a list of dims.
    pub const fn index(self) -> usize {
        self.0
    }

    /// Returns the axis, as attributes of operators have it.
    pub const fn number(self) -> i64 {
        length(self.0)
    }
}

impl PartialEq<usize> for Rank {
    fn eq(&self, other: &usize) -> bool {
        self.0 == *other
    }
}

impl PartialEq<Rank> for usize {
    fn eq(&self, other: &Rank) -> bool {
        *self == other.0
    }
}

impl PartialOrd<usize> for Rank {
    fn partial_cmp(&self, other: &usize) -> Option<std::cmp::Ordering> {
        self.0.partial_cmp(other)
    }
}

impl fmt::Display for Rank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Axis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
