//! A pickle without the elements of its tensors, kept for writing it back.
//!
//! An unedited pickle gets its elements back. An edited one is pickled anew from the same objects, where a format
//! supports that, so that all values other than tensors survive.

use std::sync::Arc;

use bytes::Bytes;
use lodstone_model::Limits;
use lodstone_store::{Blob, Derive, Result as StoreResult, internal};

use super::opcode::Span;
use crate::error::Result;
use crate::lengths::{at_most, length};

/// A range that was cut out of a pickle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Hole {
    start: u64,
    len: u64,
    /// The number of kept bytes before the hole.
    before: u64,
}

impl Hole {
    fn end(self) -> u64 {
        self.start.saturating_add(self.len)
    }
}

/// The bytes of a pickle outside of its holes.
#[derive(Clone)]
pub(crate) struct Kept {
    /// Ascending and disjoint.
    holes: Vec<Hole>,
    bytes: Bytes,
}

impl Kept {
    /// Cuts out the elements of all tensors; those that are shared are cut once.
    pub(crate) fn new(blob: &Blob, elements: &[Span], limits: &Limits) -> Result<Self> {
        let spans = elements.iter().map(|span| (span.start, span.len));
        let mut spans: Vec<(u64, u64)> = spans.filter(|(_, len)| *len > 0).collect();
        spans.sort_unstable();
        spans.dedup();
        let cut: u64 = spans.iter().map(|(_, len)| len).sum();
        let size = blob.len().saturating_sub(cut);
        if size > limits.structure_bytes {
            let limit = limits.at_most_bytes("beside the elements of tensors");
            return Err(blob.over_limit(0, limit).into());
        }
        let mut bytes = Vec::with_capacity(length(size)?);
        let (mut holes, mut at) = (Vec::with_capacity(spans.len()), 0);
        for (start, len) in spans {
            bytes.extend_from_slice(&blob.slice(at, start.saturating_sub(at))?.read()?);
            holes.push(Hole { start, len, before: bytes.len() as u64 });
            at = start.saturating_add(len);
        }
        bytes.extend_from_slice(&blob.slice(at, blob.len().saturating_sub(at))?.read()?);
        Ok(Self { holes, bytes: bytes.into() })
    }

    /// Returns the pieces of the pickle in order: kept bytes, and holes.
    pub(crate) fn pieces(&self) -> impl Iterator<Item = Piece> {
        let mut at = 0;
        let mut pieces = Vec::with_capacity(self.holes.len() * 2 + 1);
        for hole in &self.holes {
            let before = at_most(hole.before, self.bytes.len());
            pieces.push(Piece::Bytes(self.bytes.slice(at.min(before)..before)));
            pieces.push(Piece::Hole(hole.start));
            at = before;
        }
        pieces.push(Piece::Bytes(self.bytes.slice(at..)));
        pieces.into_iter()
    }

    /// Encodes the number of holes, a pair of integers for each, and the kept bytes.
    pub(crate) fn encode(&self) -> Bytes {
        let mut encoded = Vec::with_capacity(8 + self.holes.len() * 16 + self.bytes.len());
        encoded.extend((self.holes.len() as u64).to_le_bytes());
        for hole in &self.holes {
            encoded.extend(hole.start.to_le_bytes());
            encoded.extend(hole.len.to_le_bytes());
        }
        encoded.extend_from_slice(&self.bytes);
        encoded.into()
    }

    pub(crate) fn decode(encoded: &Bytes) -> Option<Self> {
        let number = |at: usize| {
            let bytes = encoded.get(at..at.checked_add(8)?)?;
            Some(u64::from_le_bytes(bytes.try_into().ok()?))
        };
        let count = usize::try_from(number(0)?).ok()?;
        let end = count.checked_mul(16)?.checked_add(8)?;
        let (mut holes, mut cut) = (Vec::new(), 0u64);
        for index in 0..count {
            let at = 8 + index * 16;
            let (start, len) = (number(at)?, number(at + 8)?);
            holes.push(Hole { start, len, before: start.checked_sub(cut)? });
            cut = cut.checked_add(len)?;
        }
        let bytes = (end <= encoded.len()).then(|| encoded.slice(end..))?;
        let is_inside = holes.last().is_none_or(|last: &Hole| last.before <= bytes.len() as u64);
        let is_ascending = holes.is_sorted_by_key(|hole| hole.before);
        (is_inside && is_ascending).then_some(Self { holes, bytes })
    }

    /// Returns the pickle with zeros in its holes.
    pub(crate) fn blob(&self) -> Blob {
        Blob::derived(Arc::new(self.clone()))
    }
}

impl Derive for Kept {
    fn source(&self) -> Option<&Blob> {
        None
    }

    fn len(&self) -> u64 {
        let (end, before) = self.holes.last().map_or((0, 0), |last| (last.end(), last.before));
        end + (self.bytes.len() as u64).saturating_sub(before)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> StoreResult<()> {
        let (mut at, mut rest) = (offset, buffer);
        while !rest.is_empty() {
            let after = self.holes.partition_point(|hole| hole.start <= at);
            let hole = after.checked_sub(1).and_then(|last| self.holes.get(last)).copied();
            let inside = hole.filter(|hole| at < hole.end());
            let end = match inside {
                Some(hole) => hole.end(),
                // Behind the last hole, bytes go on.
                None => self.holes.get(after).map_or(u64::MAX, |next| next.start),
            };
            let size = at_most(end - at, rest.len());
            let (now, later) = rest.split_at_mut(size);
            if inside.is_some() {
                now.fill(0);
            } else {
                let start = hole.map_or(at, |hole| hole.before + (at - hole.end()));
                let rest = usize::try_from(start).ok().and_then(|start| self.bytes.get(start..));
                let from = rest.and_then(|rest| rest.get(..size));
                now.copy_from_slice(from.ok_or_else(|| internal("kept bytes are missing"))?);
            }
            at += size as u64;
            rest = later;
        }
        Ok(())
    }
}

/// A piece of a pickle.
pub(crate) enum Piece {
    Bytes(Bytes),
    /// A hole, by its offset in the pickle.
    Hole(u64),
}

/// Returns whether two blobs are the same bytes at the same location.
pub(crate) fn is_one(a: &Blob, b: &Blob) -> bool {
    if a.len() != b.len() {
        return false;
    }
    match (a.file_range(), b.file_range()) {
        (Some((file, start)), Some((other, there))) => Arc::ptr_eq(file, other) && start == there,
        (None, None) => match (a.in_memory(), b.in_memory()) {
            (Some(a), Some(b)) => a.as_ptr() == b.as_ptr(),
            _ => false,
        },
        _ => false,
    }
}
