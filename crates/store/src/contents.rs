//! What was written to a file, for stores that cannot read it back before it is published.
//!
//! Copied blobs are referred to, not copied, so a model that is streamed from one store to another takes no memory here.

use bytes::Bytes;

use crate::{Blob, Result};

/// Maximum size of bytes in memory for each file. Headers, indices and programs fit; tensors are copied as blobs.
const MAX_IN_MEMORY: usize = 64 << 20;

/// The contents of a file as blobs.
#[derive(Debug, Default)]
pub(crate) struct Contents {
    parts: Vec<Blob>,
    /// Bytes after the parts.
    last: Vec<u8>,
    /// The size of all bytes that were not copied as blobs.
    in_memory: usize,
}

impl Contents {
    /// Appends bytes.
    pub(crate) fn put(&mut self, bytes: &[u8]) {
        self.in_memory = self.in_memory.saturating_add(bytes.len());
        if self.fits() {
            self.last.extend_from_slice(bytes);
        } else {
            (self.parts, self.last) = Default::default();
        }
    }

    /// Appends a blob.
    pub(crate) fn copy(&mut self, blob: &Blob) {
        if self.fits() {
            self.close_last();
            self.parts.push(blob.clone());
        }
    }

    /// Replaces bytes that were written before.
    ///
    /// # Errors
    /// Fails if the range was not written.
    pub(crate) fn patch(&mut self, offset: u64, bytes: &[u8]) -> Result<()> {
        if !self.fits() {
            return Ok(());
        }
        self.close_last();
        let all = Blob::concat(std::mem::take(&mut self.parts));
        let end = offset.saturating_add(bytes.len() as u64);
        self.parts.push(all.slice(0, offset)?);
        self.parts.push(Blob::memory(Bytes::copy_from_slice(bytes)));
        self.parts.push(all.slice(end, all.len().saturating_sub(end))?);
        Ok(())
    }

    /// Returns everything, if it fits.
    pub(crate) fn finish(mut self) -> Option<Blob> {
        self.close_last();
        self.fits().then(|| Blob::concat(self.parts))
    }

    fn fits(&self) -> bool {
        self.in_memory <= MAX_IN_MEMORY
    }

    fn close_last(&mut self) {
        if !self.last.is_empty() {
            self.parts.push(Blob::memory(std::mem::take(&mut self.last)));
        }
    }
}
