//! Elements in another order of bytes or dimensions, put right when they are read.

use std::sync::{Mutex, PoisonError};

use lodstone_model::DType;
use lodstone_store::{Blob, Derive, Result};

/// How elements are stored, where it differs from row-major and little-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stored {
    /// Size in bytes of the numbers whose bytes are the other way round.
    swap: Option<usize>,
    /// Whether the first dimension varies fastest.
    fortran: bool,
}

impl Stored {
    pub(crate) fn new(swap: Option<usize>, fortran: bool, shape: &[u64]) -> Self {
        // Both orders are one where at most one dimension has more than one position.
        let matters = shape.iter().filter(|dim| **dim != 1).count() > 1 && !shape.contains(&0);
        Self { swap, fortran: fortran && matters }
    }

    /// Whether elements can be taken as they are.
    pub(crate) fn is_plain(self) -> bool {
        self.swap.is_none() && !self.fortran
    }
}

/// The elements of one array, row-major and little-endian.
pub(crate) struct Elements {
    source: Blob,
    stored: Stored,
    /// Extents without those of 1, which say nothing about order.
    shape: Vec<u64>,
    /// Size in bytes of an element.
    item: usize,
    stripe: Mutex<Stripe>,
}

/// Elements that were put in order together, because neighbours here are far apart in the source.
#[derive(Default)]
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

impl Elements {
    /// The elements of `source`, which has as many bytes as `dtype` and `shape` ask for.
    pub(crate) fn new(source: Blob, stored: Stored, dtype: DType, shape: &[u64]) -> Self {
        let item = dtype.bits().and_then(|bits| usize::try_from(bits / 8).ok()).unwrap_or(1);
        let shape = shape.iter().copied().filter(|dim| *dim != 1).collect();
        Self { source, stored, shape, item, stripe: Mutex::default() }
    }

    /// The bytes as they are stored.
    pub(crate) fn source(&self) -> &Blob {
        &self.source
    }

    /// How they are stored.
    pub(crate) fn stored(&self) -> Stored {
        self.stored
    }

    /// Fills `buffer` with whole elements from number `first` on.
    fn fill(&self, first: u64, buffer: &mut [u8]) -> Result<()> {
        if self.stored.fortran {
            self.reorder(first, buffer)?;
        } else {
            self.source.read_at(first * self.item as u64, buffer)?;
        }
        match self.stored.swap {
            Some(2) => swap::<2>(buffer),
            Some(4) => swap::<4>(buffer),
            Some(8) => swap::<8>(buffer),
            _ => {}
        }
        Ok(())
    }

    /// As [`fill`](Self::fill), bytes in the order of the source.
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
                now.copy_from_slice(cached.get(..size).unwrap_or_default());
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
    fn place(&self, mut number: u64) -> u64 {
        let mut stride: u64 = self.shape.iter().product();
        let mut place = 0;
        for dim in self.shape.iter().rev() {
            stride /= dim;
            place += number % dim * stride;
            number /= dim;
        }
        place
    }

    /// Run by run: elements that differ only in the first dimension are neighbours in the source,
    /// and `step` apart here.
    fn gather_runs<const N: usize>(&self, first: u64, out: &mut [u8]) -> Result<()> {
        let Some((length, others)) = self.shape.split_first() else { return Ok(()) };
        let step: u64 = others.iter().product();
        let (out, _) = out.as_chunks_mut::<N>();
        let end = first + out.len() as u64;
        let mut window = Window { source: &self.source, start: 0, bytes: Vec::new() };
        let mut position = vec![0; others.len()];
        for run in 0..step {
            // The run has the elements base, base + step, ..; those from `from` to `to` are asked
            // for.
            let base: u64 =
                others.iter().zip(&position).fold(0, |base, (dim, index)| base * dim + index);
            let from = first.saturating_sub(base).div_ceil(step);
            let to = end.saturating_sub(base).div_ceil(step).min(*length);
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
            // The next run: the first of the other dimensions varies fastest.
            for (index, dim) in position.iter_mut().zip(others) {
                *index += 1;
                if *index < *dim {
                    break;
                }
                *index = 0;
            }
        }
        Ok(())
    }
}

impl Derive for Elements {
    fn len(&self) -> u64 {
        self.source.len()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let item = self.item as u64;
        let skip = usize::try_from(offset % item).unwrap_or(0);
        if skip == 0 && buffer.len().is_multiple_of(self.item) {
            return self.fill(offset / item, buffer);
        }
        let mut whole = vec![0; (skip + buffer.len()).next_multiple_of(self.item)];
        self.fill(offset / item, &mut whole)?;
        if let Some(from) = whole.get(skip..skip + buffer.len()) {
            buffer.copy_from_slice(from);
        }
        Ok(())
    }

    fn check_unchanged(&self) -> Result<()> {
        self.source.check_unchanged()
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
        Ok(self.bytes.get(skip..).and_then(|rest| rest.get(..len)).unwrap_or_default())
    }
}

fn swap<const N: usize>(bytes: &mut [u8]) {
    bytes.as_chunks_mut::<N>().0.iter_mut().for_each(|number| number.reverse());
}
