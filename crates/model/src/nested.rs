//! Values inside values, to a bounded depth.
//!
//! Dropping, comparing, cloning and printing a nested value recurse as deep as it is nested. So that no input can make
//! them overflow the stack, the depth is checked when a value is built, and nothing can deepen it afterwards.

use std::fmt;
use std::ops::Deref;

/// Levels of [`Nested`] values in each other. Real types and constants have up to four; 64 frames of the deepest
/// recursion over them are a few KiB of stack.
pub const MAX_DEPTH: usize = 64;

/// A boxed value inside another one, at most [`MAX_DEPTH`] levels deep.
///
/// It dereferences to the value, but not mutably: what is inside is taken out with [`into_inner`](Self::into_inner)
/// and nested again, which checks the depth.
#[derive(Clone, PartialEq)]
pub struct Nested<T> {
    value: Box<T>,
    /// Levels, this one included.
    depth: usize,
}

/// A value would be nested deeper than [`MAX_DEPTH`] levels.
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
    /// How many levels of [`Nested`](super::Nested) values are in a value.
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
    /// Puts a value inside another one.
    ///
    /// # Errors
    /// [`TooDeep`] if there are [`MAX_DEPTH`] levels in it already.
    pub fn new(value: T) -> Result<Self, TooDeep> {
        match value.depth() {
            depth if depth < MAX_DEPTH => Ok(Self { value: Box::new(value), depth: depth + 1 }),
            _ => Err(TooDeep),
        }
    }
}

impl<T> Nested<T> {
    /// The value by itself.
    pub fn into_inner(self) -> T {
        *self.value
    }

    /// How many levels there are, this one included.
    pub(crate) fn depth(&self) -> usize {
        self.depth
    }

    /// The value, for edits inside this crate that keep its depth.
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
