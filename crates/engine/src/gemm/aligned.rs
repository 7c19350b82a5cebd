//! Memory for numbers.

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use lodstone_schema::{Code, Finding};
use lodstone_store::Memory;
use pulp::bytemuck::{Pod, try_cast_slice, try_cast_slice_mut};

use crate::error::Outcome;
use crate::threads::each;

/// Numbers in memory that begins at a line of the cache.
#[derive(Debug)]
pub(crate) struct Aligned<T> {
    memory: Memory,
    elements: PhantomData<T>,
}

/// The size in bytes from which a result has a mapping of its own. Smaller ones are freed and allocated again in each step of a
/// training: the heap keeps their pages.
const MIN_MAPPED: u64 = 2 << 20;

/// The size in bytes of what a thread requests from the system at a time.
const POPULATED: usize = 1 << 20;

impl<T: Pod> Aligned<T> {
    /// Allocates `count` zeros for a result.
    ///
    /// # Errors
    /// If memory is insufficient.
    pub(crate) fn zeroed(count: usize) -> Outcome<Self> {
        match nbytes::<T>(count) {
            nbytes if nbytes < MIN_MAPPED => Self::of(Memory::zeroed(nbytes)),
            _ => Self::paged(count),
        }
    }

    /// Allocates `count` zeros for a constant, or for a large result, in pages that all threads request from the system.
    ///
    /// # Errors
    /// If memory is insufficient.
    pub(crate) fn paged(count: usize) -> Outcome<Self> {
        let made = Self::of(Memory::paged(nbytes::<T>(count)))?;
        let len = made.memory.len();
        let parts =
            (0..len).step_by(POPULATED).map(|begin| begin..len.min(begin + POPULATED)).collect();
        each(parts, |(): &mut (), _, part| {
            made.memory.populate(part);
            Ok(())
        })?;
        Ok(made)
    }

    fn of(memory: lodstone_store::Result<Memory>) -> Outcome<Self> {
        let memory = memory.map_err(|error| Finding::new(Code::Limit, error.to_string()))?;
        Ok(Self { memory, elements: PhantomData })
    }

    /// Returns the bytes of the elements.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.memory
    }
}

/// Returns the size of some elements in bytes.
fn nbytes<T>(count: usize) -> u64 {
    count.saturating_mul(size_of::<T>()) as u64
}

impl<T> Default for Aligned<T> {
    fn default() -> Self {
        Self { memory: Memory::default(), elements: PhantomData }
    }
}

impl<T: Pod> Deref for Aligned<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        try_cast_slice(&self.memory).unwrap_or_default()
    }
}

impl<T: Pod> DerefMut for Aligned<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        try_cast_slice_mut(&mut self.memory).unwrap_or_default()
    }
}
