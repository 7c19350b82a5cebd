//! Elements of lists at places that were checked before.
//!
//! A place that a list has not is a defect of this program, and an internal error: no default takes the place of the
//! element.

use crate::Finding;

/// The element at a place.
///
/// # Errors
/// If there is none, which is a defect.
pub fn at<T: Copy>(list: &[T], place: usize) -> Result<T, Finding> {
    list.get(place).copied().ok_or_else(|| absent(list.len(), place))
}

/// The element at a place, to be changed.
///
/// # Errors
/// As [`at`].
pub fn at_mut<T>(list: &mut [T], place: usize) -> Result<&mut T, Finding> {
    let len = list.len();
    list.get_mut(place).ok_or_else(|| absent(len, place))
}

#[track_caller]
fn absent(len: usize, place: usize) -> Finding {
    Finding::internal(format!("a list of {len} elements has none at {place}"))
}
