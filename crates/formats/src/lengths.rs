//! Sizes in files as lengths in memory.

use std::io;

use lodstone_model::DType;
use lodstone_store::{Error, Result, internal};

/// Returns a size as a length in memory.
///
/// # Errors
/// If this machine has less address space.
pub(crate) fn length(size: u64) -> Result<usize> {
    let source = io::Error::from(io::ErrorKind::OutOfMemory);
    usize::try_from(size).map_err(|_| Error::Memory { len: usize::MAX, source })
}

/// Returns the smaller of a size and a length in memory.
pub(crate) fn at_most(size: u64, most: usize) -> usize {
    usize::try_from(size).map_or(most, |size| size.min(most))
}

/// Returns the size in bytes of an element, of a type that has one; 0 if several share a byte.
///
/// # Errors
/// An internal one for other types.
pub(crate) fn item(dtype: DType) -> Result<u64> {
    let bits = dtype.bits().ok_or_else(|| internal("elements of this type have no size"))?;
    Ok(u64::from(bits / 8))
}
