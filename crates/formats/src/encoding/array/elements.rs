//! Elements with another byte order or order of axes, converted on read.

use std::sync::Arc;

use lodstone_model::DType;
use lodstone_store::{Blob, Derive, Permuted, Result, internal};

use crate::lengths::{at_most, item, length};

/// The storage of elements, where it differs from row-major and little-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stored {
    /// The size in bytes of the values whose byte order is reversed.
    swap: Option<usize>,
    /// Whether the first axis varies fastest.
    fortran: bool,
}

impl Stored {
    pub(crate) fn new(swap: Option<usize>, fortran: bool, shape: &[u64]) -> Self {
        // Both orders are the same if at most one dim is larger than 1.
        let matters = shape.iter().filter(|dim| **dim != 1).count() > 1 && !shape.contains(&0);
        Self { swap, fortran: fortran && matters }
    }

    /// Returns whether elements are row-major and little-endian.
    pub(crate) fn is_plain(self) -> bool {
        self.swap.is_none() && !self.fortran
    }
}

/// The elements of an array, converted to row-major and little-endian.
pub(crate) struct Elements {
    source: Blob,
    stored: Stored,
    /// The elements in row-major order, in the byte order of the source.
    ordered: Blob,
    /// The size of an element in bytes.
    item: usize,
}

impl Elements {
    /// Converts the elements of `source`, whose size matches `dtype` and `shape`.
    ///
    /// # Errors
    /// An internal one if their size does not match.
    pub(crate) fn new(source: Blob, stored: Stored, dtype: DType, shape: &[u64]) -> Result<Self> {
        let item = length(item(dtype)?)?;
        let mut ordered = source.clone();
        if stored.fortran {
            // Reversed, since the last axis of a row-major array varies fastest.
            let reversed: Vec<u64> = shape.iter().rev().copied().collect();
            let order: Vec<usize> = (0..shape.len()).rev().collect();
            let permuted = Permuted::new(source.clone(), item, &reversed, &order);
            let permuted = permuted.ok_or_else(|| internal("an array does not have its dims"))?;
            ordered = Blob::derived(Arc::new(permuted));
        }
        Ok(Self { source, stored, ordered, item })
    }

    /// Returns the stored bytes.
    pub(crate) fn source(&self) -> &Blob {
        &self.source
    }

    /// Returns how the elements are stored.
    pub(crate) fn stored(&self) -> Stored {
        self.stored
    }

    /// Fills `buffer` with whole elements from byte `offset`.
    fn fill(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.ordered.read_at(offset, buffer)?;
        match self.stored.swap {
            Some(2) => swap::<2>(buffer),
            Some(4) => swap::<4>(buffer),
            Some(8) => swap::<8>(buffer),
            _ => {}
        }
        Ok(())
    }
}

impl Derive for Elements {
    fn len(&self) -> u64 {
        self.source.len()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let skip = at_most(offset % self.item as u64, self.item);
        if skip == 0 && buffer.len().is_multiple_of(self.item) {
            return self.fill(offset, buffer);
        }
        let mut whole = vec![0; (skip + buffer.len()).next_multiple_of(self.item)];
        self.fill(offset - skip as u64, &mut whole)?;
        if let Some(from) = whole.get(skip..skip + buffer.len()) {
            buffer.copy_from_slice(from);
        }
        Ok(())
    }

    fn source(&self) -> Option<&Blob> {
        Some(&self.source)
    }
}

fn swap<const N: usize>(bytes: &mut [u8]) {
    bytes.as_chunks_mut::<N>().0.iter_mut().for_each(|number| number.reverse());
}
