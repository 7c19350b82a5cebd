//! Tensors that are stored in rectangular boxes, as the processes of a distributed run save them.
//!
//! A blob joins the boxes of a tensor when it is read. Boxes of whole rows are ranges of files, as any other tensor is.

use std::sync::Arc;

use lodstone_store::{Blob, Derive, Result, internal};

use crate::lengths::{at_most, length};

/// Maximum number of boxes of a tensor.
const MAX_BOXES: usize = 1 << 16;

/// Maximum number of comparisons of boxes with each other.
const MAX_COMPARISONS: usize = 1 << 26;

/// A box of a tensor: its place, and its elements, row-major.
#[derive(Debug)]
pub(crate) struct Boxed {
    pub(crate) offsets: Vec<u64>,
    pub(crate) sizes: Vec<u64>,
    pub(crate) data: Blob,
}

/// The elements of a tensor, assembled from its boxes when they are read.
#[derive(Debug)]
struct Assembled {
    shape: Vec<u64>,
    /// The size of an element in bytes.
    item: u64,
    boxes: Vec<Boxed>,
    len: u64,
    /// The data of all boxes, from which the elements are computed.
    source: Blob,
}

/// Returns the elements of a tensor of dims `shape`, whose elements have `item` bytes. Nothing is read.
///
/// # Errors
/// Fails with what was expected unless the boxes are inside the tensor, have data of the size that their dims imply, and
/// cover the tensor without overlaps.
pub(crate) fn assemble(shape: &[u64], item: u64, mut boxes: Vec<Boxed>) -> Result<Blob, String> {
    // A dim of 0 makes it empty, even if the product of the others overflows.
    let volume = |dims: &[u64]| match dims.contains(&0) {
        true => Some(0),
        false => dims.iter().try_fold(1_u64, |size, dim| size.checked_mul(*dim)),
    };
    let count = volume(shape).ok_or("a size that fits 64 bits")?;
    let len = count.checked_mul(item).ok_or("a size that fits 64 bits")?;
    if boxes.len() > MAX_BOXES {
        return Err(format!("at most {MAX_BOXES} chunks, not {}", boxes.len()));
    }
    let mut covered = 0_u64;
    for Boxed { offsets, sizes, data } in &boxes {
        let mut axes = offsets.iter().zip(sizes).zip(shape);
        let is_inside = offsets.len() == shape.len()
            && sizes.len() == shape.len()
            && axes.all(|((offset, size), dim)| {
                offset.checked_add(*size).is_some_and(|end| end <= *dim)
            });
        let size = volume(sizes).filter(|_| is_inside);
        let Some(size) = size.filter(|size| size.checked_mul(item) == Some(data.len())) else {
            let found = format!("offsets {offsets:?}, sizes {sizes:?}, {} bytes", data.len());
            return Err(format!("chunks inside the dims {shape:?}, not {found}"));
        };
        covered = covered.saturating_add(size);
    }
    if covered != count {
        return Err(format!("chunks of {count} elements in all, not {covered}"));
    }
    boxes.retain(|chunk| !chunk.data.is_empty());
    check_overlaps(&mut boxes)?;
    // Boxes of whole rows are adjacent in the tensor, too: they are ranges of files, which need no computation.
    let rows = boxes.iter().all(|chunk| chunk.sizes.iter().skip(1).eq(shape.iter().skip(1)));
    boxes.sort_by(|one, two| one.offsets.cmp(&two.offsets));
    let source = Blob::concat(boxes.iter().map(|chunk| chunk.data.clone()).collect());
    let assembled =
        || Assembled { shape: shape.to_vec(), item, boxes, len, source: source.clone() };
    Ok(if rows { source.clone() } else { Blob::derived(Arc::new(assembled())) })
}

/// Returns the dims of the tensor that boxes make up, from their offsets and sizes; `None` if they overflow.
pub(crate) fn extent<'a>(
    boxes: impl IntoIterator<Item = (&'a [u64], &'a [u64])>,
) -> Option<Vec<u64>> {
    let mut shape = Vec::new();
    for (offsets, sizes) in boxes {
        // All have the rank of the first.
        if shape.is_empty() {
            shape.resize(sizes.len(), 0);
        }
        for ((dim, offset), size) in shape.iter_mut().zip(offsets).zip(sizes) {
            *dim = offset.checked_add(*size)?.max(*dim);
        }
    }
    Some(shape)
}

impl Boxed {
    fn contains(&self, place: &[u64]) -> bool {
        let mut axes = self.offsets.iter().zip(&self.sizes).zip(place);
        axes.all(|((offset, size), index)| (*offset..offset + size).contains(index))
    }

    /// Returns the start and the end along each axis.
    fn sides(&self) -> impl Iterator<Item = (u64, u64)> {
        self.offsets.iter().zip(&self.sizes).map(|(offset, size)| (*offset, offset + size))
    }

    fn overlaps(&self, other: &Self) -> bool {
        let mut axes = self.sides().zip(other.sides());
        axes.all(|((start, end), (other_start, other_end))| start < other_end && other_start < end)
    }
}

impl Assembled {
    /// Returns the number of adjacent elements from `place` on that are adjacent in a chunk, too, and the index of the
    /// first one in the chunk.
    fn run(&self, chunk: &Boxed, place: &[u64]) -> (u64, u64) {
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
fn check_overlaps(boxes: &mut [Boxed]) -> Result<(), String> {
    let Some(first) = boxes.first() else { return Ok(()) };
    let distinct = |axis: &usize| {
        let starts = boxes.iter().map(|chunk| chunk.offsets.get(*axis));
        starts.collect::<std::collections::HashSet<_>>().len()
    };
    // A scalar has no axes: its chunks are all at the same place.
    let axis = (0..first.offsets.len()).max_by_key(distinct);
    let side = |chunk: &Boxed| chunk.sides().nth(axis?);
    boxes.sort_by_key(|chunk| side(chunk).map(|(start, _)| start));
    let mut compared = 0_usize;
    for (number, chunk) in boxes.iter().enumerate() {
        let later = boxes.iter().skip(number + 1);
        let is_near = |other: &&Boxed| {
            side(chunk).zip(side(other)).is_none_or(|((_, end), (start, _))| start < end)
        };
        for other in later.take_while(is_near) {
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

/// The elements of a box of a tensor, gathered when they are read.
#[derive(Debug)]
struct Cut {
    source: Blob,
    /// The size of a run in bytes: adjacent elements of the box that are adjacent in the tensor, too.
    run: u64,
    /// The offset of the first run in the tensor, in bytes.
    first: u64,
    /// The axes along which runs repeat, outermost first: the number of runs, and their distance in bytes.
    axes: Vec<(u64, u64)>,
    len: u64,
}

/// Runs shorter than `SHORT_RUN` bytes are read with the bytes between them, up to `WINDOW` bytes at once, if these are at
/// most `SPARSE` times as many.
const SHORT_RUN: u64 = 16 << 10;
const WINDOW: u64 = 1 << 20;
const SPARSE: u64 = 64;

/// Returns the elements of a box of a tensor of dims `shape`, whose elements have `item` bytes; `None` if the box is not
/// inside the tensor. Nothing is read.
pub(crate) fn cut(
    tensor: &Blob,
    (shape, item): (&[u64], u64),
    (offsets, sizes): (&[u64], &[u64]),
) -> Option<Blob> {
    if offsets.len() != shape.len() || sizes.len() != shape.len() {
        return None;
    }
    let (mut run, mut first, mut step, mut axes) = (item, 0_u64, item, Vec::new());
    for ((dim, offset), size) in shape.iter().zip(offsets).zip(sizes).rev() {
        offset.checked_add(*size).filter(|end| end <= dim)?;
        if axes.is_empty() && run == step {
            run = run.checked_mul(*size)?;
        } else if *size != 1 {
            axes.push((*size, step));
        }
        first = first.checked_add(offset.checked_mul(step)?)?;
        step = step.checked_mul(*dim)?;
    }
    if step != tensor.len() {
        return None;
    }
    axes.reverse();
    let len = axes.iter().try_fold(run, |len, (count, _)| len.checked_mul(*count))?;
    if axes.is_empty() || len == 0 {
        return tensor.slice(if len == 0 { 0 } else { first }, len).ok();
    }
    Some(Blob::derived(Arc::new(Cut { source: tensor.clone(), run, first, axes, len })))
}

impl Cut {
    /// Returns the offset of a run in the tensor.
    fn start(&self, number: u64) -> u64 {
        let mut left = number;
        let axes = self.axes.iter().rev();
        axes.fold(self.first, |start, (count, step)| {
            let index = left % count;
            left /= count;
            start + index * step
        })
    }

    /// Returns the number of bytes to be read at the start of a run, of which `wanted` bytes of the box are needed.
    fn window(&self, number: u64, wanted: u64) -> u64 {
        let (count, step) = self.axes.last().copied().unwrap_or((1, self.run));
        let is_dense = self.run < SHORT_RUN && step / self.run <= SPARSE;
        let runs = wanted.div_ceil(self.run).min(count - number % count).min(WINDOW / step.max(1));
        if is_dense && runs > 1 { (runs - 1) * step + self.run } else { self.run }
    }
}

impl Derive for Cut {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let (mut at, mut rest) = (offset, buffer);
        let (mut begin, mut window) = (0_u64, Vec::new());
        while !rest.is_empty() {
            let (number, within) = (at / self.run, at % self.run);
            let (start, wanted) = (self.start(number), within + rest.len() as u64);
            let len = at_most(self.run - within, rest.len());
            let (now, later) = rest.split_at_mut(len);
            let size = self.window(number, wanted);
            let held = |begin: u64, window: &[u8]| {
                let skip = usize::try_from((start + within).checked_sub(begin)?).ok()?;
                (skip + len <= window.len()).then_some(skip)
            };
            let mut skip = held(begin, &window);
            if skip.is_none() && size > self.run {
                begin = start;
                window.resize(length(size)?, 0);
                self.source.read_at(start, &mut window)?;
                skip = held(begin, &window);
            }
            match skip.and_then(|skip| window.get(skip..)?.get(..len)) {
                Some(read) => now.copy_from_slice(read),
                None => self.source.read_at(start + within, now)?,
            }
            at += len as u64;
            rest = later;
        }
        Ok(())
    }

    fn source(&self) -> Option<&Blob> {
        Some(&self.source)
    }
}

impl Derive for Assembled {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let (mut at, mut rest) = (offset, buffer);
        let mut hint = 0_usize;
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
            // Chunks are in the order of their places: the next one is the same as before, or near it.
            let nearby = |step: usize| [hint.checked_add(step), hint.checked_sub(step)];
            let mut found = (0..self.boxes.len())
                .flat_map(nearby)
                .filter_map(|index| Some((index?, self.boxes.get(index?)?)));
            let Some((index, chunk)) = found.find(|(_, chunk)| chunk.contains(&place)) else {
                return Err(internal("an element is in no chunk"));
            };
            hint = index;
            let (run, start) = self.run(chunk, &place);
            let (now, later) = rest.split_at_mut(at_most(run * self.item - within, rest.len()));
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

#[cfg(test)]
mod tests {
    use lodstone_store::Blob;

    use super::{at_most, cut};

    /// The elements of a box, one by one; elements are two bytes.
    fn expected(data: &[u8], shape: &[u64], offsets: &[u64], sizes: &[u64]) -> Vec<u8> {
        let mut found = Vec::new();
        for number in 0..sizes.iter().product::<u64>() {
            let (mut left, mut at, mut step) = (number, 0, 1);
            for ((dim, offset), size) in shape.iter().zip(offsets).zip(sizes).rev() {
                at += (offset + left % size) * step;
                left /= size;
                step *= dim;
            }
            let at = at_most(2 * at, data.len());
            found.extend(data.get(at..at + 2).into_iter().flatten());
        }
        found
    }

    #[test]
    fn boxes_of_all_places_and_sizes_have_their_elements() {
        let mut seed = 7_u64;
        let mut next = |end: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) % end
        };
        for round in 0..3000_u64 {
            let rank = next(5);
            let most = if round % 10 == 0 && rank <= 2 { 200 } else { 7 };
            let shape: Vec<u64> = (0..rank).map(|_| next(most) + 1).collect();
            let count = shape.iter().product::<u64>();
            let data: Vec<u8> = (0..2 * count).map(|at| (at * 31 % 251).to_le_bytes()[0]).collect();
            let (offsets, sizes): (Vec<u64>, Vec<u64>) = shape
                .iter()
                .map(|dim| {
                    let offset = next(*dim);
                    (offset, next(dim - offset + 1))
                })
                .unzip();
            let found = cut(&Blob::memory(data.clone()), (&shape, 2), (&offsets, &sizes));
            let found = found.unwrap_or_default();
            let expected = expected(&data, &shape, &offsets, &sizes);
            assert_eq!(found.len(), expected.len() as u64);
            let start = next(found.len() + 1);
            let len = next(found.len() - start + 1);
            let mut read = vec![0; at_most(len, data.len())];
            let range = found.slice(start, len).and_then(|it| it.read_at(0, &mut read));
            assert!(range.is_ok());
            let start = at_most(start, data.len());
            assert_eq!(
                Some(&*read),
                expected.get(start..start + read.len()),
                "{shape:?} {offsets:?} {sizes:?}"
            );
        }
        for (offsets, sizes) in
            [(vec![3], vec![2]), (vec![u64::MAX], vec![2]), (vec![0, 0], vec![1, 1])]
        {
            assert!(cut(&Blob::memory(vec![0; 8]), (&[4], 2), (&offsets, &sizes)).is_none());
        }
    }
}
