//! Elements at regular intervals, gathered on read.

use lodstone_store::{Blob, Derive, Result, internal};

use crate::lengths::{at_most, length};

/// Elements of a storage that are `strides` apart along each axis. Strides may be 0.
#[derive(Debug)]
pub(super) struct Strided {
    source: Blob,
    /// The size of an element in bytes.
    item: u64,
    /// Dims and strides in elements, outermost first; neighbors that form a single axis are merged.
    axes: Vec<(u64, u64)>,
    /// The index of the first element.
    offset: u64,
    len: u64,
}

/// Elements of a run that are at most this many bytes apart are read together, in windows of this size.
const WINDOW: u64 = 16 << 10;

/// Returns the number of elements from the first to the last one of a view; `None` if it overflows. A view without
/// elements has none.
pub(super) fn extent(shape: &[u64], strides: &[u64]) -> Option<u64> {
    if shape.contains(&0) {
        return Some(0);
    }
    shape.iter().zip(strides).try_fold(1_u64, |extent, (dim, stride)| {
        extent.checked_add(dim.checked_sub(1)?.checked_mul(*stride)?)
    })
}

impl Strided {
    /// Creates the view; `None` if it exceeds the source.
    pub(super) fn new(
        source: Blob,
        item: u64,
        shape: &[u64],
        strides: &[u64],
        offset: u64,
    ) -> Option<Self> {
        let count = shape.iter().try_fold(1_u64, |count, dim| count.checked_mul(*dim))?;
        let end = extent(shape, strides)?.checked_add(offset)?.checked_mul(item)?;
        let len = count.checked_mul(item)?;
        if end > source.len() || shape.len() != strides.len() || item == 0 {
            return None;
        }
        let mut axes: Vec<(u64, u64)> = Vec::new();
        for (dim, stride) in shape.iter().zip(strides).filter(|(dim, _)| **dim != 1) {
            match axes.last_mut() {
                Some((outer, before)) if stride.checked_mul(*dim) == Some(*before) => {
                    (*outer, *before) = (outer.checked_mul(*dim)?, *stride);
                }
                _ => axes.push((*dim, *stride)),
            }
        }
        Some(Self { source, item, axes, offset, len })
    }

    /// Returns the index in the source of element `number`, its index along the last axis, and that axis.
    fn place(&self, number: u64) -> (u64, u64, (u64, u64)) {
        let (mut rest, mut place) = (number, self.offset);
        let mut last = (0, (1, 1));
        for (position, (dim, stride)) in self.axes.iter().rev().enumerate() {
            let index = rest % dim;
            rest /= dim;
            place += index * stride;
            if position == 0 {
                last = (index, (*dim, *stride));
            }
        }
        (place, last.0, last.1)
    }

    /// Fills `out` with whole elements from index `first`.
    fn gather(&self, mut first: u64, out: &mut [u8]) -> Result<()> {
        let item = length(self.item)?;
        let mut rest = out;
        let mut window = Vec::new();
        while rest.len() >= item {
            let (place, index, (dim, stride)) = self.place(first);
            let run = (dim - index).min(rest.len() as u64 / self.item).max(1);
            let step = stride * self.item;
            // The number of elements in a window.
            let count = match stride {
                0 | 1 => run,
                _ if step >= WINDOW => 1,
                _ => run.min(WINDOW / step + 1),
            };
            let size = at_most(count.saturating_mul(self.item), rest.len());
            let (now, later) = rest.split_at_mut(size);
            let start = place * self.item;
            if stride == 1 || count == 1 {
                self.source.read_at(start, now)?;
            } else {
                let span = (count - 1) * step + self.item;
                window.resize(length(span)?, 0);
                self.source.read_at(start, &mut window)?;
                let step = length(step)?;
                for (number, element) in now.chunks_exact_mut(item).enumerate() {
                    let from = window.get(number * step..number * step + item);
                    let lost = || internal("an element is outside of its window");
                    element.copy_from_slice(from.ok_or_else(lost)?);
                }
            }
            first += count;
            rest = later;
        }
        Ok(())
    }
}

impl Derive for Strided {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let item = length(self.item)?;
        let (first, skip) = (offset / self.item, at_most(offset % self.item, item));
        if skip == 0 && buffer.len().is_multiple_of(item) {
            return self.gather(first, buffer);
        }
        let mut whole = vec![0; (skip + buffer.len()).next_multiple_of(item)];
        self.gather(first, &mut whole)?;
        if let Some(from) = whole.get(skip..skip + buffer.len()) {
            buffer.copy_from_slice(from);
        }
        Ok(())
    }

    fn source(&self) -> Option<&Blob> {
        Some(&self.source)
    }
}
