//! Nested values of bounded depth.
//!
//! Dropping, comparing, cloning and printing a nested value recurse to its depth. To keep input from overflowing the
//! stack, the depth is checked when a value is built, and nothing can increase it afterwards.

use std::fmt;
use std::ops::Deref;

/// Maximum levels of [`Nested`] values. Real types and constants have up to four; 64 frames of the deepest
/// recursion over them need a few KiB of stack.
pub const MAX_DEPTH: usize = 64;

/// A boxed value that nests at most [`MAX_DEPTH`] levels deep.
///
/// It dereferences to the value, but not mutably: to change the value, take it out with
/// [`into_inner`](Self::into_inner) and nest it again, which checks the depth.
#[derive(Clone, PartialEq)]
pub struct Nested<T> {
    value: Box<T>,
    /// The number of levels, including this one.
    depth: usize,
}

/// The error for a value nested deeper than [`MAX_DEPTH`] levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TooDeep;

impl fmt::Display for TooDeep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "expected values nested at most {MAX_DEPTH} levels deep, found more")
    }
}

impl std::error::Error for TooDeep {}

pub(crate) mod sealed {
    /// Returns the number of [`Nested`](super::Nested) levels in a value.
    pub trait Depth {
        fn depth(&self) -> usize;
    }

    impl<T: Depth> Depth for Vec<T> {
        fn depth(&self) -> usize {
            self.iter().map(Depth::depth).max().unwrap_or(0)
        }
    }
}

impl<T: sealed::Depth> Nested<T> {
    /// Nests a value.
    ///
    /// # Errors
    /// [`TooDeep`] if the value already has [`MAX_DEPTH`] levels.
    pub fn new(value: T) -> Result<Self, TooDeep> {
        match value.depth() {
            depth if depth < MAX_DEPTH => Ok(Self { value: Box::new(value), depth: depth + 1 }),
            _ => Err(TooDeep),
        }
    }
}

impl<T> Nested<T> {
    /// Returns the value.
    pub fn into_inner(self) -> T {
        *self.value
    }

    /// Returns the number of levels, including this one.
    pub(crate) fn depth(&self) -> usize {
        self.depth
    }

    /// Returns the value for edits inside this crate that keep its depth.
    pub(crate) fn value_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

impl<T> Deref for Nested<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T: fmt::Debug> fmt::Debug for Nested<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value.fmt(f)
    }
}
