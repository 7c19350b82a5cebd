//! The elements of an array with its dimensions in another order.

use std::sync::{Mutex, PoisonError};

use crate::{Blob, Derive, Result, internal};

/// The elements of an array, row-major, as those of the array with its dimensions in another order:
/// a transposed matrix, or what is stored with the first dimension varying fastest.
#[derive(Debug)]
pub struct Permuted {
    source: Blob,
    /// The dimensions as they are in the source, outermost first, without those of extent 1, which
    /// say nothing about order.
    axes: Vec<Axis>,
    /// Size in bytes of an element.
    item: usize,
    stripe: Mutex<Stripe>,
}

/// A dimension of the source.
#[derive(Clone, Copy, Debug)]
struct Axis {
    extent: u64,
    /// How many elements apart its neighbours are here.
    step: u64,
}

/// Elements that were put in order together, because neighbours here are far apart in the source.
#[derive(Debug, Default)]
struct Stripe {
    /// Number of the first of them.
    first: u64,
    bytes: Vec<u8>,
    /// Number of the element after the last one that was read.
    next: u64,
    /// How many elements the last stripe had.
    count: u64,
}

/// Size in bytes of the largest stripe. Each costs a pass over the source.
const STRIPE: u64 = 32 << 20;

/// Up to so many elements are fetched one by one.
const FEW: usize = 1024;

/// Runs shorter than `LONG` bytes are read many at once, in pieces of `WINDOW` bytes.
const LONG: u64 = 2 << 10;
const WINDOW: u64 = 64 << 10;

impl Permuted {
    /// The elements of `source`, of `item` bytes each (1, 2, 4, 8 or 16) and of the shape `shape`,
    /// with dimension number `order[n]` as dimension number n. Nothing if `order` is no order of all
    /// dimensions, or the size is another.
    pub fn new(source: Blob, item: usize, shape: &[u64], order: &[usize]) -> Option<Self> {
        let mut sorted = order.to_vec();
        sorted.sort_unstable();
        if !sorted.into_iter().eq(0..shape.len()) || ![1, 2, 4, 8, 16].contains(&item) {
            return None;
        }
        let mut axes: Vec<_> =
            shape.iter().map(|extent| Axis { extent: *extent, step: 0 }).collect();
        let mut step = 1_u64;
        for axis in order.iter().rev() {
            let axis = axes.get_mut(*axis)?;
            axis.step = step;
            step = step.checked_mul(axis.extent)?;
        }
        axes.retain(|axis| axis.extent != 1);
        let fits = step.checked_mul(item as u64) == Some(source.len());
        fits.then(|| Self { source, axes, item, stripe: Mutex::default() })
    }

    /// Fills `buffer` with whole elements from number `first` on.
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
            // Whoever reads on from where they stopped gets ever larger stripes.
            let wanted = buffer.len() as u64 / item;
            let ahead = if first == stripe.next { stripe.count * 2 } else { 0 };
            let count = ahead.min(STRIPE / item).min(total - first).max(wanted);
            stripe.count = count;
            if count == wanted {
                stripe.next = first + wanted;
                stripe.bytes = Vec::new();
                return self.gather(first, buffer);
            }
            let mut bytes = vec![0; usize::try_from(count * item).unwrap_or(0)];
            self.gather(first, &mut bytes)?;
            (stripe.first, stripe.bytes) = (first, bytes);
        }
        Ok(())
    }

    /// Puts the elements from number `first` on into `out`, which is not empty.
    fn gather(&self, first: u64, out: &mut [u8]) -> Result<()> {
        if out.len() / self.item <= FEW {
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

    /// One by one, in the order of the source.
    fn gather_few(&self, first: u64, out: &mut [u8]) -> Result<()> {
        let mut places: Vec<_> = (first..)
            .zip(out.chunks_exact_mut(self.item))
            .map(|(number, element)| (self.place(number), element))
            .collect();
        places.sort_unstable_by_key(|(place, _)| *place);
        let item = self.item as u64;
        places.into_iter().try_for_each(|(place, to)| self.source.read_at(place * item, to))
    }

    /// Where element `number` is in the source.
    fn place(&self, number: u64) -> u64 {
        let index = |axis: &Axis| number / axis.step % axis.extent;
        self.axes.iter().fold(0, |place, axis| place * axis.extent + index(axis))
    }

    /// Run by run: elements that differ only in the last dimension of the source are neighbours
    /// there, and `step` apart here.
    fn gather_runs<const N: usize>(&self, first: u64, out: &mut [u8]) -> Result<()> {
        let Some((inner, others)) = self.axes.split_last() else {
            return self.source.read_at(first * N as u64, out);
        };
        let (length, step) = (inner.extent, inner.step);
        let (out, _) = out.as_chunks_mut::<N>();
        let end = first + out.len() as u64;
        let mut window = Window { source: &self.source, start: 0, bytes: Vec::new() };
        let mut position = vec![0; others.len()];
        for run in 0..others.iter().map(|axis| axis.extent).product() {
            // The run has the elements base, base + step, ..; those from `from` to `to` are asked
            // for.
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
                if *index < axis.extent {
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

/// A piece of the source, for reads that go forward.
struct Window<'a> {
    source: &'a Blob,
    start: u64,
    bytes: Vec<u8>,
}

impl Window<'_> {
    fn read(&mut self, offset: u64, len: u64) -> Result<&[u8]> {
        let end = self.start + self.bytes.len() as u64;
        if offset < self.start || offset + len > end {
            let size = if len < LONG { WINDOW } else { len };
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
