//! Memory for numbers.

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use lodstone_schema::{Code, Finding};
use lodstone_store::Memory;
use pulp::bytemuck::{Pod, try_cast_slice, try_cast_slice_mut};

use crate::item::Outcome;

/// Numbers in memory that begins at a line of the cache.
#[derive(Debug)]
pub(super) struct Aligned<T> {
    memory: Memory,
    elements: PhantomData<T>,
}

impl<T: Pod> Aligned<T> {
    /// Allocates `count` zeros.
    ///
    /// # Errors
    /// If memory is insufficient.
    pub(super) fn zeroed(count: usize) -> Outcome<Self> {
        Self::of(Memory::zeroed(nbytes::<T>(count)))
    }

    /// Allocates `count` zeros for a constant.
    ///
    /// # Errors
    /// If memory is insufficient.
    pub(super) fn constant(count: usize) -> Outcome<Self> {
        Self::of(Memory::populated(nbytes::<T>(count)))
    }

    fn of(memory: lodstone_store::Result<Memory>) -> Outcome<Self> {
        let memory = memory.map_err(|error| Finding::new(Code::Limit, error.to_string()))?;
        Ok(Self { memory, elements: PhantomData })
    }

    /// Returns the bytes of the elements.
    pub(super) fn bytes(&self) -> &[u8] {
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
