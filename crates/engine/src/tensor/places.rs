//! Slices, elements by index, and joined tensors.

use lodstone_schema::Finding;
use pulp::bytemuck::Zeroable;

use super::blocks::Blocks;
use super::dense::Dense;
use super::element::{bits_of, unsupported};
use super::numbers::check_alike;
use super::order::{Order, elements};
use super::storage::{bytes_of, zeroed};
use crate::dims::{Dims, Strides, at_mut, bounded, dim_at};
use crate::error::Outcome;
use crate::threads::each_chunk;

/// The number of bytes that a thread copies at a time, at least.
const PART: usize = 1 << 16;

/// Some elements of an axis: the index of the first one, their number, and the distance between their indices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slice {
    pub(crate) start: usize,
    pub(crate) count: usize,
    pub(crate) step: isize,
}

impl Slice {
    /// Returns all elements of a dim.
    pub(crate) fn whole(dim: usize) -> Self {
        Self { start: 0, count: dim, step: 1 }
    }
}

impl Dense {
    /// Returns the tensor broadcast to dims, which it can be created with; nothing is copied.
    ///
    /// # Errors
    /// If it does not broadcast to them, or they have too many elements.
    pub(crate) fn fitted(&self, dims: &[usize]) -> Outcome<Self> {
        bounded(dims)?;
        self.expanded(dims)
    }

    /// Slices each dim; nothing is copied.
    ///
    /// # Errors
    /// If a slice is out of bounds.
    pub(crate) fn sliced(&self, slices: &[Slice]) -> Outcome<Self> {
        let wrong = || Finding::internal(format!("{slices:?} of {:?}", self.dims()));
        if slices.len() != self.dims().len() {
            return Err(wrong());
        }
        let mut first = self.offset().cast_signed();
        let mut strides = Strides::from_slice(self.strides());
        for ((slice, dim), stride) in slices.iter().zip(self.dims()).zip(&mut strides) {
            let Slice { start, count, step } = *slice;
            if count > 0 {
                let reach = step.saturating_mul(count.cast_signed() - 1);
                let last = start.cast_signed().saturating_add(reach);
                if start >= *dim || last < 0 || last >= dim.cast_signed() {
                    return Err(wrong());
                }
                first += *stride * start.cast_signed();
            }
            *stride = stride.saturating_mul(step);
        }
        let dims: Dims = slices.iter().map(|slice| slice.count).collect();
        // Without elements, the first one is not read.
        let first = if dims.contains(&0) { self.offset().cast_signed() } else { first };
        Ok(self.with_view(dims, strides, usize::try_from(first).map_err(|_| wrong())?))
    }

    /// Selects elements of an axis by index.
    ///
    /// # Errors
    /// If an index is out of range.
    pub(crate) fn selected(&self, axis: usize, places: &[i64]) -> Outcome<Self> {
        let mut dims = self.shape();
        let missing = || Finding::internal(format!("axis {axis} of {:?}", self.dims()));
        let dim = dims.get_mut(axis).ok_or_else(missing)?;
        let whole = std::mem::replace(dim, places.len());
        let inside = |place: &i64| {
            let found = usize::try_from(*place).ok().filter(|place| *place < whole);
            found.ok_or_else(|| format!("index {place} is out of range for dim {whole}"))
        };
        let mut rows = Vec::with_capacity(places.len());
        for place in places {
            rows.push(inside(place)?);
        }
        let places: Vec<usize> = rows;
        let inner: usize = dims.iter().skip(axis + 1).product();
        let count = bounded(&dims)?;
        bits_of!(
            self.dtype().bits(),
            T => {
                let all = elements::<T>(self, Order::RowMajor)?;
                let mut made = zeroed::<T>(count)?;
                let each = PART.div_ceil(inner.max(1) * size_of::<T>());
                each_chunk(&mut made, each * inner, |(): &mut (), number, into| {
                    for (row, into) in (number * each..).zip(into.chunks_exact_mut(inner.max(1))) {
                        let (outer, at) = (row / places.len(), row % places.len());
                        let place = dim_at(&places, at)?;
                        let from = (outer * whole + place) * inner;
                        let from = all.get(from..from + inner);
                        into.copy_from_slice(from.ok_or_else(|| Finding::internal("a row"))?);
                    }
                    Ok(())
                })?;
                Self::of_elements(self.dtype(), dims, bytes_of(made))
            },
            Err(unsupported(self.dtype()))
        )
    }

    /// Gathers an element of each row along an axis for each index; other dims are at least those of the indices.
    ///
    /// # Errors
    /// If an index is out of range.
    pub(crate) fn gathered_along(
        &self,
        axis: usize,
        places: &[i64],
        dims: &[usize],
    ) -> Outcome<Self> {
        let wrong = || Finding::internal(format!("indices {dims:?} of {:?}", self.dims()));
        let whole = *self.dims().get(axis).ok_or_else(wrong)?;
        // Elements beyond the indices are not read.
        let sides = self.dims().iter().zip(dims).enumerate();
        let slices: Vec<Slice> = sides
            .map(|(at, (dim, over))| Slice::whole(if at == axis { *dim } else { *over }))
            .collect();
        let part = self.sliced(&slices)?;
        let outside = || format!("an index is out of range for dim {whole}");
        let over = *dims.get(axis).ok_or_else(wrong)?;
        let inner: usize = dims.iter().skip(axis + 1).product();
        if places.len() != bounded(dims)? {
            return Err(wrong());
        }
        bits_of!(
            self.dtype().bits(),
            T => {
                let all = elements::<T>(&part, Order::RowMajor)?;
                let mut made = zeroed::<T>(places.len())?;
                // Rows of indices whose elements are in one part of the data: as many as their axis has indices.
                let each = (over * inner).max(1);
                let parts = made.chunks_exact_mut(each).zip(places.chunks_exact(each)).enumerate();
                for (outer, (into, places)) in parts {
                    let from = all.get(outer * whole * inner..(outer + 1) * whole * inner);
                    let from = from.ok_or_else(wrong)?;
                    let rows = into.chunks_exact_mut(inner).zip(places.chunks_exact(inner));
                    for (into, places) in rows {
                        for (at, (into, place)) in into.iter_mut().zip(places).enumerate() {
                            let place = usize::try_from(*place).ok().filter(|place| *place < whole);
                            let element = place.and_then(|place| from.get(place * inner + at));
                            *into = *element.ok_or_else(outside)?;
                        }
                    }
                }
                Self::of_elements(self.dtype(), dims, bytes_of(made))
            },
            Err(unsupported(self.dtype()))
        )
    }

    /// Joins tensors along an axis.
    ///
    /// # Errors
    /// If there are none, or their types or other dims differ.
    pub(crate) fn joined(parts: &[Self], axis: usize) -> Outcome<Self> {
        let first = parts.first().ok_or("the inputs are missing")?;
        let mut dims = first.shape();
        let missing = || Finding::internal(format!("axis {axis} of {:?}", first.dims()));
        *dims.get_mut(axis).ok_or_else(missing)? = 0;
        for part in parts {
            check_alike(first, part)?;
            let is_same = |at: usize| at == axis || part.dims().get(at) == first.dims().get(at);
            if part.dims().len() != dims.len() || !(0..dims.len()).all(is_same) {
                let both = format!("{:?} and {:?}", first.dims(), part.dims());
                return Err(format!("expected equal dims beside axis {axis}, found {both}").into());
            }
            *at_mut(&mut dims, axis)? += dim_at(part.dims(), axis)?;
        }
        let count = bounded(&dims)?;
        let outer: usize = dims.iter().take(axis).product();
        bits_of!(
            first.dtype().bits(),
            T => {
                let mut made: Vec<T> = Vec::new();
                crate::budget::probe(count.saturating_mul(size_of::<T>()) as u64)?;
                made.reserve_exact(count);
                let parts = parts.iter().map(|part| {
                    let dims = part.dims();
                    let line = dims.iter().skip(axis).product::<usize>();
                    Ok((Blocks::<T>::new(part, dims)?, line))
                });
                let parts = parts.collect::<Outcome<Vec<_>>>()?;
                let mut scratch = Vec::new();
                for row in 0..outer {
                    for (blocks, line) in &parts {
                        made.extend_from_slice(blocks.get(row * line..(row + 1) * line, &mut scratch));
                    }
                }
                Self::of_elements(first.dtype(), dims, bytes_of(made))
            },
            Err(unsupported(first.dtype()))
        )
    }

    /// Returns zeros of the same type.
    pub(crate) fn zeros(&self, dims: &[usize]) -> Outcome<Self> {
        let one = bits_of!(
            self.dtype().bits(),
            T => bytes_of(vec![<T as Zeroable>::zeroed()]),
            return Err(unsupported(self.dtype()))
        );
        Self::of_elements(self.dtype(), [], one)?.expanded(dims)
    }
}
