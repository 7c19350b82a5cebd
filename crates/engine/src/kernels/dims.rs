//! Dims, indices and counts.

use super::count;
use crate::error::Outcome;
use crate::tensor::Dense;

pub(super) use crate::tensor::{MAX_ELEMENTS, bounded};

/// Converts a dim, an index or a count to an integer.
pub(super) fn long(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Converts a float to an integer: large values saturate, and NaN becomes 0.
#[expect(clippy::cast_possible_truncation, reason = "it saturates")]
pub(super) fn whole(number: f64) -> i64 {
    number as i64
}

/// Converts a float to a number of elements.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates")]
pub(super) fn elements(number: f64) -> usize {
    number as usize
}

/// Converts integers to dims, if a tensor of them can be created.
pub(super) fn dims_from(dims: &[i64]) -> Outcome<Vec<usize>> {
    let dims: Vec<usize> = dims.iter().map(|dim| count(*dim)).collect::<Outcome<_>>()?;
    bounded(&dims)?;
    Ok(dims)
}

impl Dense {
    /// Broadcasts to dims.
    ///
    /// # Errors
    /// If it does not broadcast to them.
    pub(super) fn fitted(&self, shape: &[usize]) -> Outcome<Self> {
        bounded(shape)?;
        self.expanded(shape)
    }
}
