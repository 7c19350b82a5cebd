//! The left matrices of products, in blocks of rows.

use std::ops::Range;

use super::slices::part_of;

/// The number of elements after those of an unfolded row, of which as many are copied at a time.
pub(crate) const SLACK: usize = 16;

/// The left matrices of a product, one for each group.
pub(crate) trait Rows: Sync {
    /// Returns the elements of a block of rows: where they are in memory, if `is_in_place` and that is possible, or packed into
    /// `unfolded`.
    fn read<'r>(
        &'r self,
        block: &RowBlock,
        is_in_place: bool,
        unfolded: &'r mut Vec<f32>,
    ) -> RowSlices<'r>;
}

/// The elements `inner` of `count` rows of a group, from row `first` on.
pub(crate) struct RowBlock {
    pub(crate) group: usize,
    pub(crate) first: usize,
    pub(crate) count: usize,
    pub(crate) inner: Range<usize>,
}

impl RowBlock {
    /// Packs rows into `unfolded`: `write` fills one for each of `count` items.
    #[inline(always)]
    pub(crate) fn unfold<'u, T>(
        &self,
        count: usize,
        items: impl Iterator<Item = T>,
        unfolded: &'u mut Vec<f32>,
        write: impl Fn(T, &mut [f32]),
    ) -> RowSlices<'u> {
        let len = self.inner.len();
        // Rows have room for what is copied together with the last elements.
        let stride = (len + SLACK).next_multiple_of(SLACK);
        if unfolded.len() < count * stride {
            unfolded.resize(count * stride, 0.0);
        }
        let lines = unfolded.chunks_exact_mut(stride).take(count);
        items.zip(lines).for_each(|(item, into)| write(item, into));
        RowSlices::Strided { values: unfolded, stride, len }
    }
}

/// Rows of equal length.
pub(crate) enum RowSlices<'a> {
    /// The first elements of successive rows are `stride` elements apart.
    Strided {
        values: &'a [f32],
        stride: usize,
        len: usize,
    },
    Each(Vec<&'a [f32]>),
}

impl<'a> RowSlices<'a> {
    /// Returns a row.
    #[inline(always)]
    pub(crate) fn row(&self, number: usize) -> &'a [f32] {
        match self {
            Self::Strided { values, stride, len } => part_of(values, number * stride, *len),
            Self::Each(rows) => rows.get(number).copied().unwrap_or_default(),
        }
    }
}

/// Rows that are contiguous in memory: the columns of a group follow those of the group before.
pub(crate) struct StridedRows<'a> {
    /// The distance between the first elements of successive rows.
    pub(crate) stride: usize,
    /// The number of columns of a group.
    pub(crate) group_width: usize,
    pub(crate) values: &'a [f32],
}

impl Rows for StridedRows<'_> {
    fn read<'r>(
        &'r self,
        block: &RowBlock,
        is_in_place: bool,
        unfolded: &'r mut Vec<f32>,
    ) -> RowSlices<'r> {
        let RowBlock { group, first, count, ref inner } = *block;
        let (_, values) =
            self.values.split_at(first * self.stride + group * self.group_width + inner.start);
        let lines = RowSlices::Strided { values, stride: self.stride, len: inner.len() };
        if is_in_place {
            return lines;
        }
        block.unfold(count, 0..count, unfolded, |row, into| {
            let (into, _) = into.split_at_mut(inner.len());
            into.copy_from_slice(lines.row(row));
        })
    }
}
