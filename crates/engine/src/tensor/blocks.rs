//! The elements of a view in row-major order, some at a time: where they are in memory, or copied.

use std::ops::Range;

use lodstone_schema::Finding;
use smallvec::{SmallVec, smallvec};

use super::dense::Dense;
use super::element::Element;
use super::order::Order;
use crate::dims::{Dims, INLINE};
use crate::error::Outcome;
use crate::threads::each_chunk;

/// The number of elements that a function gets at a time: they stay in the first-level cache.
pub(crate) const BLOCK: usize = 1024;

/// The number of elements that a thread handles at a time.
pub(crate) const PART: usize = 16 * BLOCK;

/// The elements of a tensor that is broadcast to some dims.
pub(crate) struct Blocks<'a, T> {
    /// The elements of the whole storage.
    elements: &'a [T],
    /// The index of the first element.
    first: usize,
    /// Dims and strides; neighbours that a single step joins are one.
    axes: SmallVec<[(usize, isize); INLINE]>,
}

impl<'a, T: Element> Blocks<'a, T> {
    /// # Errors
    /// If the elements are of another type, or the tensor does not broadcast to the dims.
    pub(crate) fn new(tensor: &'a Dense, dims: &[usize]) -> Outcome<Self> {
        let elements = tensor.typed::<T>()?;
        let own = tensor.dims();
        if own == dims && Order::RowMajor.is_of(tensor) {
            let blocks =
                Self { elements, first: tensor.offset(), axes: smallvec![(tensor.count(), 1)] };
            return blocks.checked();
        }
        let missing = dims.len().checked_sub(own.len());
        let missing = missing.ok_or_else(|| Finding::internal("fewer dims than before"))?;
        let mut axes: SmallVec<[(usize, isize); INLINE]> = SmallVec::new();
        let sides = own.iter().zip(tensor.strides());
        let sides = std::iter::repeat_n((&1, &0), missing).chain(sides);
        for (dim, (own, stride)) in dims.iter().zip(sides) {
            let stride = match (*own, *dim) {
                (_, 1) => continue,
                (own, dim) if own == dim => *stride,
                (1, _) => 0,
                (own, dim) => {
                    return Err(Finding::internal(format!("{own} does not broadcast to {dim}")));
                }
            };
            match axes.last_mut() {
                Some((outer, apart)) if *apart == stride * dim.cast_signed() => {
                    (*outer, *apart) = (*outer * dim, stride);
                }
                _ => axes.push((*dim, stride)),
            }
        }
        Self { elements, first: tensor.offset(), axes }.checked()
    }

    /// Fails if elements are not in memory.
    fn checked(self) -> Outcome<Self> {
        let lost = || Finding::internal("elements are outside of their storage");
        if self.is_inside() { Ok(self) } else { Err(lost()) }
    }

    /// Returns whether all elements are in memory.
    fn is_inside(&self) -> bool {
        if self.axes.iter().any(|(dim, _)| *dim == 0) {
            return true;
        }
        let mut range = (self.first.cast_signed(), self.first.cast_signed());
        for (dim, stride) in &self.axes {
            let reach = (*dim - 1).cast_signed() * stride;
            range = if reach < 0 { (range.0 + reach, range.1) } else { (range.0, range.1 + reach) };
        }
        range.0 >= 0 && range.1 < self.elements.len().cast_signed()
    }

    /// Returns the number of elements.
    pub(crate) fn count(&self) -> usize {
        self.axes.iter().map(|(dim, _)| dim).product()
    }

    /// Returns the elements in these places of the row-major order.
    #[inline]
    pub(crate) fn get<'s>(&'s self, places: Range<usize>, scratch: &'s mut Vec<T>) -> &'s [T] {
        match self.axes.as_slice() {
            _ if places.is_empty() => &[],
            [] | [(_, 1)] => {
                let range = self.first + places.start..self.first + places.end;
                self.elements.get(range).unwrap_or_default()
            }
            _ => {
                self.gather(places, scratch);
                scratch
            }
        }
    }

    /// Copies the elements in these places.
    fn gather(&self, places: Range<usize>, into: &mut Vec<T>) {
        into.clear();
        let Some(((dim, stride), outer)) = self.axes.split_last() else { return };
        // The place along each axis, and the index of the element in memory, without the last axis.
        let mut left = places.start;
        let mut within = left % dim;
        left /= dim;
        let mut at: Dims = smallvec![0; outer.len()];
        let mut row = self.first.cast_signed();
        for (at, (dim, stride)) in at.iter_mut().zip(outer).rev() {
            *at = left % dim;
            left /= dim;
            row += at.cast_signed() * stride;
        }
        let mut missing = places.len();
        while missing > 0 {
            // As many whole rows as the dim before the last one has left, unless each repeats one element.
            if within == 0
                && *stride != 0
                && let (Some(((rows, 1), _)), Some((begun, _))) =
                    (outer.split_last(), at.split_last())
            {
                let rows = (rows - begun).min(missing / dim);
                if rows > 1 {
                    self.transpose(row.cast_unsigned(), *stride, [rows, *dim], into);
                    missing -= rows * dim;
                    advance(&mut at, outer, rows, &mut row);
                    continue;
                }
            }
            let len = missing.min(dim - within);
            let begin = row + within.cast_signed() * stride;
            self.line(begin.cast_unsigned(), *stride, len, into);
            missing -= len;
            within = 0;
            advance(&mut at, outer, 1, &mut row);
        }
    }

    /// Copies rows that are next to each other in memory, while their own elements are one stride apart.
    fn transpose(
        &self,
        begin: usize,
        stride: isize,
        [rows, columns]: [usize; 2],
        into: &mut Vec<T>,
    ) {
        /// The number of columns that are copied at a time: their lines of memory stay in the first-level cache.
        const COLUMNS: usize = 64;
        let before = into.len();
        into.resize(before + rows * columns, T::zeroed());
        let into = into.get_mut(before..).unwrap_or_default();
        for column in (0..columns).step_by(COLUMNS) {
            let count = COLUMNS.min(columns - column);
            let from = begin.cast_signed() + column.cast_signed() * stride;
            for (row, into) in into.chunks_exact_mut(columns).enumerate() {
                let into = into.get_mut(column..column + count).unwrap_or_default();
                self.strided(from.cast_unsigned() + row, stride, into);
            }
        }
    }

    /// Appends elements that are one stride apart.
    fn line(&self, begin: usize, stride: isize, len: usize, into: &mut Vec<T>) {
        if stride == 1 {
            into.extend_from_slice(self.elements.get(begin..begin + len).unwrap_or_default());
            return;
        }
        let before = into.len();
        into.resize(before + len, T::zeroed());
        self.strided(begin, stride, into.get_mut(before..).unwrap_or_default());
    }

    /// Copies elements that are one stride apart. All are in memory, as was checked.
    fn strided(&self, begin: usize, stride: isize, into: &mut [T]) {
        let steps = stride.unsigned_abs();
        match stride {
            0 => {
                if let Some(element) = self.elements.get(begin) {
                    into.fill(*element);
                }
            }
            1.. => {
                let from = self.elements.get(begin..).unwrap_or_default().iter().step_by(steps);
                into.iter_mut().zip(from).for_each(|(into, from)| *into = *from);
            }
            _ => {
                let from = self.elements.get(..=begin).unwrap_or_default().iter().rev();
                into.iter_mut().zip(from.step_by(steps)).for_each(|(into, from)| *into = *from);
            }
        }
    }

    /// Returns all elements in a list of their own.
    ///
    /// # Errors
    /// If memory is insufficient.
    pub(crate) fn copied(&self) -> Outcome<Vec<T>> {
        let mut made = super::storage::zeroed(self.count())?;
        each_chunk(&mut made, PART, |scratch: &mut Vec<T>, number, into| {
            let begin = number * PART;
            into.copy_from_slice(self.get(begin..begin + into.len(), scratch));
            Ok(())
        })?;
        Ok(made)
    }
}

/// Goes a number of steps along the last axis, which it does not leave but to its end, and from there on to the next place.
fn advance(at: &mut [usize], axes: &[(usize, isize)], steps: usize, offset: &mut isize) {
    let mut steps = steps;
    for (at, (dim, stride)) in at.iter_mut().zip(axes).rev() {
        *at += steps;
        *offset += steps.cast_signed() * stride;
        if *at < *dim {
            break;
        }
        *offset -= dim.cast_signed() * stride;
        *at = 0;
        steps = 1;
    }
}
