//! A tensor in rectangular chunks, assembled on read.

use lodstone_store::{Blob, Derive, Result};

/// Maximum number of chunks of a tensor.
const MAX_CHUNKS: usize = 1 << 16;

/// Maximum number of comparisons of chunks with each other.
const MAX_COMPARISONS: usize = 1 << 26;

/// A chunk: its place in the tensor, and its elements.
#[derive(Debug)]
pub(super) struct Chunk {
    pub(super) offsets: Vec<u64>,
    pub(super) sizes: Vec<u64>,
    pub(super) data: Blob,
}

/// The elements of a tensor.
#[derive(Debug)]
pub(super) struct Assembled {
    shape: Vec<u64>,
    /// The size of an element in bytes.
    item: u64,
    chunks: Vec<Chunk>,
    len: u64,
    /// All chunks, for what the elements are computed from.
    source: Blob,
}

impl Chunk {
    fn contains(&self, place: &[u64]) -> bool {
        let mut axes = self.offsets.iter().zip(&self.sizes).zip(place);
        axes.all(|((offset, size), index)| (*offset..offset + size).contains(index))
    }

    fn overlaps(&self, other: &Self) -> bool {
        let of = |chunk: &Self, axis: usize| {
            let offset = chunk.offsets.get(axis).copied().unwrap_or(0);
            (offset, offset + chunk.sizes.get(axis).copied().unwrap_or(0))
        };
        (0..self.offsets.len()).all(|axis| {
            let ((start, end), (other_start, other_end)) = (of(self, axis), of(other, axis));
            start < other_end && other_start < end
        })
    }
}

impl Assembled {
    /// Assembles chunks, whose data have the size that their dims imply.
    ///
    /// # Errors
    /// Fails with what was expected unless the chunks cover the tensor without overlaps.
    pub(super) fn new(shape: Vec<u64>, item: u64, chunks: Vec<Chunk>) -> Result<Self, String> {
        let volume = |dims: &[u64]| dims.iter().try_fold(1_u64, |size, dim| size.checked_mul(*dim));
        let count = volume(&shape).ok_or("a size that fits 64 bits")?;
        let len = count.checked_mul(item).ok_or("a size that fits 64 bits")?;
        if chunks.len() > MAX_CHUNKS {
            return Err(format!("at most {MAX_CHUNKS} chunks, not {}", chunks.len()));
        }
        let mut chunks = chunks;
        let mut covered = 0_u64;
        for Chunk { offsets, sizes, data } in &chunks {
            let mut axes = offsets.iter().zip(sizes).zip(&shape);
            let is_inside = offsets.len() == shape.len()
                && sizes.len() == shape.len()
                && axes.all(|((offset, size), dim)| {
                    offset.checked_add(*size).is_some_and(|end| end <= *dim)
                });
            let size = volume(sizes).filter(|_| is_inside);
            let bytes = size.and_then(|size| size.checked_mul(item));
            if bytes != Some(data.len()) {
                let found = format!("offsets {offsets:?}, sizes {sizes:?}, {} bytes", data.len());
                return Err(format!("chunks inside the dims {shape:?}, not {found}"));
            }
            covered = covered.saturating_add(size.unwrap_or(0));
        }
        if covered != count {
            return Err(format!("chunks of {count} elements in all, not {covered}"));
        }
        chunks.retain(|chunk| !chunk.data.is_empty());
        check_overlaps(&mut chunks)?;
        let source = Blob::concat(chunks.iter().map(|chunk| chunk.data.clone()).collect());
        Ok(Self { shape, item, chunks, len, source })
    }

    /// Returns the number of adjacent elements from `place` on that are adjacent in a chunk, too, and the index of the
    /// first one in the chunk.
    fn run(&self, chunk: &Chunk, place: &[u64]) -> (u64, u64) {
        let (mut inner, mut skipped, mut run) = (1_u64, 0_u64, None);
        let (mut index, mut size) = (0_u64, 1_u64);
        let axes = place.iter().zip(&chunk.offsets).zip(&chunk.sizes).zip(&self.shape).rev();
        for (((place, offset), length), dim) in axes {
            let within = place - offset;
            index += within * size;
            size *= length;
            if run.is_none() {
                if length == dim {
                    skipped += within * inner;
                    inner *= dim;
                } else {
                    run = Some((length - within) * inner - skipped);
                }
            }
        }
        (run.unwrap_or(inner - skipped), index)
    }
}

/// Fails if two chunks overlap. Chunks are sorted along the axis on which most of them differ.
fn check_overlaps(chunks: &mut [Chunk]) -> Result<(), String> {
    let rank = chunks.first().map_or(0, |chunk| chunk.offsets.len());
    let start = |chunk: &Chunk, axis: usize| chunk.offsets.get(axis).copied().unwrap_or(0);
    let distinct = |axis: &usize| {
        let starts: std::collections::HashSet<u64> =
            chunks.iter().map(|chunk| start(chunk, *axis)).collect();
        starts.len()
    };
    let axis = (0..rank).max_by_key(distinct).unwrap_or(0);
    chunks.sort_by_key(|chunk| start(chunk, axis));
    let mut compared = 0_usize;
    for (number, chunk) in chunks.iter().enumerate() {
        let end = start(chunk, axis) + chunk.sizes.get(axis).copied().unwrap_or(1);
        let later = chunks.iter().skip(number + 1);
        for other in later.take_while(|other| rank == 0 || start(other, axis) < end) {
            compared += 1;
            if compared > MAX_COMPARISONS {
                return Err("chunks in the order of an axis".to_owned());
            }
            if chunk.overlaps(other) {
                let (one, two) = (&chunk.offsets, &other.offsets);
                return Err(format!("chunks without overlaps, not those at {one:?} and {two:?}"));
            }
        }
    }
    Ok(())
}

impl Derive for Assembled {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let (mut at, mut rest) = (offset, buffer);
        let mut hint = 0;
        while !rest.is_empty() {
            let (number, within) = (at / self.item, at % self.item);
            let mut left = number;
            let mut place: Vec<u64> = self
                .shape
                .iter()
                .rev()
                .map(|dim| {
                    let index = left % dim;
                    left /= dim;
                    index
                })
                .collect();
            place.reverse();
            // Mostly the same chunk as before, or the next one.
            let candidates = (hint..self.chunks.len()).chain(0..hint);
            let mut found = candidates.filter_map(|index| Some((index, self.chunks.get(index)?)));
            let Some((index, chunk)) = found.find(|(_, chunk)| chunk.contains(&place)) else {
                return Err(lodstone_store::internal("an element is in no chunk"));
            };
            hint = index;
            let (run, start) = self.run(chunk, &place);
            let left = usize::try_from(run * self.item - within).unwrap_or(usize::MAX);
            let (now, later) = rest.split_at_mut(left.min(rest.len()));
            chunk.data.read_at(start * self.item + within, now)?;
            at += now.len() as u64;
            rest = later;
        }
        Ok(())
    }

    fn source(&self) -> Option<&Blob> {
        Some(&self.source)
    }
}
