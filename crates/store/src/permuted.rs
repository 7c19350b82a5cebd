//! Array elements with permuted dims.

use std::sync::{Mutex, PoisonError};

use crate::blob::to_usize;
use crate::memory::zeros;
use crate::{Blob, Derive, Result, internal};

/// The elements of a row-major array with its dims in another order: a transposed matrix, or an array that is stored
/// with its first dim varying fastest.
#[derive(Debug)]
pub struct Permuted {
    source: Blob,
    /// The axes in source order, outermost first, without those of dim 1, which do not affect the order.
    axes: Vec<Axis>,
    /// The size of an element in bytes.
    item: usize,
    stripe: Mutex<Stripe>,
}

/// An axis of the source.
#[derive(Clone, Copy, Debug)]
struct Axis {
    dim: u64,
    /// The stride of the axis in the result, in elements.
    step: u64,
}

/// Result elements that were gathered together, because adjacent elements are far apart in the source.
#[derive(Debug, Default)]
struct Stripe {
    /// The index of the first element.
    first: u64,
    bytes: Vec<u8>,
    /// The index of the element after the last one that was read.
    next: u64,
    /// The number of elements of the last stripe.
    count: u64,
}

/// Maximum size of a stripe in bytes. Each stripe costs a pass over the source.
const MAX_STRIPE: u64 = 32 << 20;

/// Maximum number of elements that are read one by one.
const MAX_SINGLE: usize = 1024;

/// Runs shorter than `MIN_LONG_RUN` bytes are read together, in windows of `WINDOW` bytes.
const MIN_LONG_RUN: u64 = 2 << 10;
const WINDOW: u64 = 64 << 10;

impl Permuted {
    /// Permutes the elements of `source`, of `item` bytes each (1, 2, 4, 8 or 16) and shape `shape`: axis `order[n]`
    /// of the source becomes axis n. Returns `None` if `order` is not a permutation of all axes, or the size does not
    /// match.
    pub fn new(source: Blob, item: usize, shape: &[u64], order: &[usize]) -> Option<Self> {
        let mut sorted = order.to_vec();
        sorted.sort_unstable();
        if !sorted.into_iter().eq(0..shape.len()) || ![1, 2, 4, 8, 16].contains(&item) {
            return None;
        }
        let mut axes: Vec<_> = shape.iter().map(|dim| Axis { dim: *dim, step: 0 }).collect();
        let mut step = 1_u64;
        for axis in order.iter().rev() {
            let axis = axes.get_mut(*axis)?;
            axis.step = step;
            step = step.checked_mul(axis.dim)?;
        }
        axes.retain(|axis| axis.dim != 1);
        let fits = step.checked_mul(item as u64) == Some(source.len());
        fits.then(|| Self { source, axes, item, stripe: Mutex::default() })
    }

    /// Fills `buffer` with whole elements from index `first`.
    fn reorder(&self, mut first: u64, mut buffer: &mut [u8]) -> Result<()> {
        let item = self.item as u64;
        let total = self.source.len() / item;
        let mut stripe = self.stripe.lock().unwrap_or_else(PoisonError::into_inner);
        while !buffer.is_empty() {
            let inside = first.checked_sub(stripe.first).map(|skip| skip * item);
            let cached = inside.and_then(|skip| stripe.bytes.get(usize::try_from(skip).ok()?..));
            if let Some(cached) = cached.filter(|cached| !cached.is_empty()) {
                let size = cached.len().min(buffer.len());
                let (now, later) = buffer.split_at_mut(size);
                now.copy_from_slice(cached.split_at(size).0);
                let last = size == cached.len();
                buffer = later;
                first += size as u64 / item;
                stripe.next = first;
                if last {
                    stripe.bytes = Vec::new();
                }
                continue;
            }
            // Sequential reads get increasingly large stripes.
            let wanted = buffer.len() as u64 / item;
            let ahead = if first == stripe.next { stripe.count * 2 } else { 0 };
            let count = ahead.min(MAX_STRIPE / item).min(total - first).max(wanted);
            stripe.count = count;
            if count == wanted {
                stripe.next = first + wanted;
                stripe.bytes = Vec::new();
                return self.gather(first, buffer);
            }
            let mut bytes = zeros(to_usize(count * item))?;
            self.gather(first, &mut bytes)?;
            (stripe.first, stripe.bytes) = (first, bytes);
        }
        Ok(())
    }

    /// Gathers elements from index `first` into `out`, which is not empty.
    fn gather(&self, first: u64, out: &mut [u8]) -> Result<()> {
        if out.len() / self.item <= MAX_SINGLE {
            return self.gather_few(first, out);
        }
        match self.item {
            1 => self.gather_runs::<1>(first, out),
            2 => self.gather_runs::<2>(first, out),
            4 => self.gather_runs::<4>(first, out),
            8 => self.gather_runs::<8>(first, out),
            _ => self.gather_runs::<16>(first, out),
        }
    }

    /// Gathers elements one by one, in source order.
    fn gather_few(&self, first: u64, out: &mut [u8]) -> Result<()> {
        let mut places: Vec<_> = (first..)
            .zip(out.chunks_exact_mut(self.item))
            .map(|(number, element)| (self.place(number), element))
            .collect();
        places.sort_unstable_by_key(|(place, _)| *place);
        let item = self.item as u64;
        places.into_iter().try_for_each(|(place, to)| self.source.read_at(place * item, to))
    }

    /// Returns the source index of element `number`.
    fn place(&self, number: u64) -> u64 {
        let index = |axis: &Axis| number / axis.step % axis.dim;
        self.axes.iter().fold(0, |place, axis| place * axis.dim + index(axis))
    }

    /// Gathers elements by runs: those that differ only in the last axis of the source are adjacent there, and `step`
    /// apart in the result.
    fn gather_runs<const N: usize>(&self, first: u64, out: &mut [u8]) -> Result<()> {
        let Some((inner, others)) = self.axes.split_last() else {
            return self.source.read_at(first * N as u64, out);
        };
        let (length, step) = (inner.dim, inner.step);
        let (out, _) = out.as_chunks_mut::<N>();
        let end = first + out.len() as u64;
        let mut window = Window { source: &self.source, start: 0, bytes: Vec::new() };
        let mut position = vec![0; others.len()];
        for run in 0..others.iter().map(|axis| axis.dim).product() {
            // The run has the elements base, base + step, ..; those with indices `from` to `to` are in the requested
            // range.
            let indexed = others.iter().zip(&position);
            let base: u64 = indexed.map(|(axis, index)| axis.step * index).sum();
            let from = first.saturating_sub(base).div_ceil(step);
            let to = end.saturating_sub(base).div_ceil(step).min(length);
            if from < to {
                let offset = (run * length + from) * N as u64;
                let bytes = window.read(offset, (to - from) * N as u64)?;
                let skip = usize::try_from(base + from * step - first).unwrap_or(usize::MAX);
                let step = usize::try_from(step).unwrap_or(usize::MAX);
                let places = out.iter_mut().skip(skip).step_by(step);
                for (to, from) in places.zip(bytes.as_chunks::<N>().0) {
                    *to = *from;
                }
            }
            // The next run: the last of the other dimensions varies fastest.
            for (index, axis) in position.iter_mut().zip(others).rev() {
                *index += 1;
                if *index < axis.dim {
                    break;
                }
                *index = 0;
            }
        }
        Ok(())
    }
}

impl Derive for Permuted {
    fn len(&self) -> u64 {
        self.source.len()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let item = self.item as u64;
        let skip = usize::try_from(offset % item).unwrap_or(0);
        if skip == 0 && buffer.len().is_multiple_of(self.item) {
            return self.reorder(offset / item, buffer);
        }
        let mut whole = vec![0; (skip + buffer.len()).next_multiple_of(self.item)];
        self.reorder(offset / item, &mut whole)?;
        let from = whole.get(skip..skip + buffer.len());
        buffer.copy_from_slice(from.ok_or_else(|| internal("reordered bytes are missing"))?);
        Ok(())
    }

    fn source(&self) -> Option<&Blob> {
        Some(&self.source)
    }
}

/// A window of the source for forward reads.
struct Window<'a> {
    source: &'a Blob,
    start: u64,
    bytes: Vec<u8>,
}

impl Window<'_> {
    fn read(&mut self, offset: u64, len: u64) -> Result<&[u8]> {
        let end = self.start + self.bytes.len() as u64;
        if offset < self.start || offset + len > end {
            let size = if len < MIN_LONG_RUN { WINDOW } else { len };
            let size = size.min(self.source.len() - offset);
            self.bytes.resize(usize::try_from(size).unwrap_or(0), 0);
            self.source.read_at(offset, &mut self.bytes)?;
            self.start = offset;
        }
        let skip = usize::try_from(offset - self.start).unwrap_or(0);
        let len = usize::try_from(len).unwrap_or(0);
        let read = self.bytes.get(skip..).and_then(|rest| rest.get(..len));
        read.ok_or_else(|| internal("the bytes of a window are missing"))
    }
}
