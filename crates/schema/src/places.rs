//! Access to list elements at indices that were checked before.
//!
//! An index out of range is a defect of this program and becomes an internal error: no default takes the place of the
//! element.

use crate::Finding;

/// Returns the element at an index.
///
/// # Errors
/// An internal error if the index is out of range.
pub fn at<T: Copy>(list: &[T], place: usize) -> Result<T, Finding> {
    list.get(place).copied().ok_or_else(|| absent(list.len(), place))
}

/// Returns a mutable reference to the element at an index.
///
/// # Errors
/// Like [`at`].
pub fn at_mut<T>(list: &mut [T], place: usize) -> Result<&mut T, Finding> {
    let len = list.len();
    list.get_mut(place).ok_or_else(|| absent(len, place))
}

#[track_caller]
fn absent(len: usize, place: usize) -> Finding {
    Finding::internal(format!("index {place} is out of range of a list of {len} elements"))
}
