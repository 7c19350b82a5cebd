//! Bytes of objects in memory, by the identity of their content. Content that changes has another identity, so nothing
//! here is ever out of date.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Range;

use bytes::Bytes;
use lodstone_store::FileId;

/// Extents of objects, of which the oldest are dropped.
#[derive(Debug)]
pub(crate) struct Cache {
    extents: HashMap<FileId, BTreeMap<u64, Bytes>>,
    order: VecDeque<(FileId, u64)>,
    size: u64,
    max: u64,
}

impl Cache {
    pub(crate) fn new(max: u64) -> Self {
        Self { extents: HashMap::new(), order: VecDeque::new(), size: 0, max }
    }

    /// Keeps bytes, unless they would take more than half of the cache.
    pub(crate) fn insert(&mut self, id: FileId, start: u64, bytes: Bytes) {
        let len = bytes.len() as u64;
        if len == 0 || len > self.max / 2 {
            return;
        }
        let before = self.extents.entry(id).or_default().insert(start, bytes);
        self.size += len;
        match before {
            Some(before) => self.size -= before.len() as u64,
            None => self.order.push_back((id, start)),
        }
        while self.size > self.max {
            let Some((id, start)) = self.order.pop_front() else { break };
            let Some(extents) = self.extents.get_mut(&id) else { continue };
            self.size -= extents.remove(&start).map_or(0, |bytes| bytes.len() as u64);
            if extents.is_empty() {
                self.extents.remove(&id);
            }
        }
    }

    /// Returns the bytes of a range, if a single extent has them.
    pub(crate) fn shared(&self, id: FileId, range: &Range<u64>) -> Option<Bytes> {
        let (start, bytes) = self.extents.get(&id)?.range(..=range.start).next_back()?;
        let from = usize::try_from(range.start - start).ok()?;
        let len = usize::try_from(range.end - range.start).ok()?;
        let end = from.checked_add(len).filter(|end| *end <= bytes.len())?;
        Some(bytes.slice(from..end))
    }

    /// Calls `found` with each known stretch of a range, and returns the other ones.
    pub(crate) fn read(
        &self,
        id: FileId,
        range: &Range<u64>,
        mut found: impl FnMut(u64, &[u8]),
    ) -> Vec<Range<u64>> {
        let mut missing = Vec::new();
        let mut position = range.start;
        let none = BTreeMap::new();
        let extents = self.extents.get(&id).unwrap_or(&none);
        let first = extents.range(..=range.start).next_back();
        let later = extents.range(range.start.saturating_add(1)..range.end.max(range.start + 1));
        for (start, bytes) in first.into_iter().chain(later) {
            let end = start.saturating_add(bytes.len() as u64).min(range.end);
            let begin = position.max(*start);
            if end <= begin {
                continue;
            }
            if position < begin {
                missing.push(position..begin);
            }
            let [from, to] =
                [begin, end].map(|at| usize::try_from(at - start).unwrap_or(usize::MAX));
            if let Some(part) = bytes.get(from..to) {
                found(begin, part);
            }
            position = end;
        }
        if position < range.end {
            missing.push(position..range.end);
        }
        missing
    }
}
