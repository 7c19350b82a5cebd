//! Products of rows with a packed matrix.
//!
//! Rows of the left matrix are read in blocks that stay in the second-level cache; a panel of the packed matrix stays in
//! the first-level cache if that is large enough (`tile.rs`), and a tile of the result in registers. Every element is summed
//! in the order of the inner dim, by one thread: results do not depend on the number of threads.

use std::ops::Range;

use pulp::{Simd, WithSimd};

use super::micro_kernel::{Epilogue, ROW_PANELS, TileColumns, multiply_row};
use super::pack::{PackedMatrix, Panel, TileLoop};
use super::prefetch::Prefetch;
use super::rows::{RowBlock, RowSlices, Rows};
use super::slices::part_of;
use crate::dims::rows_of;
use crate::error::Outcome;
use crate::simd::dispatch;
use crate::threads::{each_chunk, sharing};

/// The minimum number of tiles of a thread for which whole tiles take less time than equal numbers of rows.
const MIN_TILES: usize = 8;

/// The minimum number of multiplications of a thread: fewer take less time than asking another one.
const MIN_MULTIPLICATIONS: usize = 1 << 16;

/// The maximum number of rows that are unfolded at a time.
const MAX_ROWS: usize = 132;

impl PackedMatrix {
    /// Multiplies rows with the matrices into `out`, which holds the rows one after another. `finish_block` is called with the
    /// offset of each finished part of it.
    pub(crate) fn multiply(
        &self,
        rows: &impl Rows,
        epilogue: Epilogue<'_>,
        out: &mut [f32],
        finish_block: impl Fn(usize, &mut [f32]) -> Outcome<()> + Sync,
    ) -> Outcome<()> {
        let width = self.width();
        let count = rows_of(width, out.len());
        let panels = self.columns.div_ceil(self.tile.columns);
        let threads =
            sharing().min(count.saturating_mul(self.panels.len()) / MIN_MULTIPLICATIONS).max(1);
        if count == 1 && self.groups == 1 && threads > 1 {
            // A single row is split by its columns.
            let each = panels.div_ceil(threads);
            let columns = each * self.tile.columns;
            return each_chunk(out, columns, |unfolded, number, out| {
                let panels = number * each..panels.min(number * each + each);
                let epilogue = epilogue.within(number * columns, out.len());
                let groups = 0..self.groups;
                let first = 0;
                let part =
                    Band { packed: self, rows, first, groups, panels, epilogue, unfolded, out };
                dispatch(part);
                finish_block(number * columns, out)
            });
        }
        // As many parts for each thread, all of the same size: of whole tiles, if there are many.
        let parts = count.div_ceil(MAX_ROWS).next_multiple_of(threads).max(1);
        let each = count.div_ceil(parts).max(1);
        let has_many_tiles = each >= MIN_TILES * self.tile.rows;
        let each = if has_many_tiles { each.next_multiple_of(self.tile.rows) } else { each };
        each_chunk(out, each * width, |unfolded, number, out| {
            let first = number * each;
            let epilogue = epilogue.within(first * width, out.len());
            let (groups, panels) = (0..self.groups, 0..panels);
            let part = Band { packed: self, rows, first, groups, panels, epilogue, unfolded, out };
            dispatch(part);
            finish_block(first * width, out)
        })
    }

    /// Multiplies rows from `first` on with the matrices, on this thread.
    pub(crate) fn multiply_alone(
        &self,
        rows: &impl Rows,
        first: usize,
        epilogue: Epilogue<'_>,
        unfolded: &mut Vec<f32>,
        out: &mut [f32],
    ) {
        self.multiply_groups(0..self.groups, rows, (first, epilogue), unfolded, out);
    }

    /// Multiplies rows with the matrix of a group alone, on this thread.
    pub(crate) fn multiply_group(
        &self,
        group: usize,
        rows: &impl Rows,
        unfolded: &mut Vec<f32>,
        out: &mut [f32],
    ) {
        self.multiply_groups(group..group + 1, rows, (0, Epilogue::default()), unfolded, out);
    }

    fn multiply_groups(
        &self,
        groups: Range<usize>,
        rows: &impl Rows,
        (first, epilogue): (usize, Epilogue<'_>),
        unfolded: &mut Vec<f32>,
        out: &mut [f32],
    ) {
        let all = self.columns.div_ceil(self.tile.columns);
        let size = (MAX_ROWS * groups.len() * self.columns).max(1);
        for (number, out) in out.chunks_mut(size).enumerate() {
            let (first, panels) = (first + number * MAX_ROWS, 0..all);
            let epilogue = epilogue.within(number * size, out.len());
            let (groups, unfolded) = (groups.clone(), &mut *unfolded);
            let part = Band { packed: self, rows, first, groups, panels, epilogue, unfolded, out };
            dispatch(part);
        }
    }
}

/// A band of a product: consecutive rows, or some of the columns of a single row.
struct Band<'a, R> {
    packed: &'a PackedMatrix,
    rows: &'a R,
    first: usize,
    groups: Range<usize>,
    panels: Range<usize>,
    epilogue: Epilogue<'a>,
    unfolded: &'a mut Vec<f32>,
    out: &'a mut [f32],
}

impl<R: Rows> WithSimd for Band<'_, R> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        self.packed.run_tiled(simd, self);
    }
}

impl<R: Rows> TileLoop for Band<'_, R> {
    #[inline(always)]
    fn run<
        S: Simd,
        const LANES: usize,
        const VECTORS: usize,
        const ROWS: usize,
        const EDGE_ROWS: usize,
        const SMALL_ROWS: usize,
    >(
        self,
        simd: S,
    ) {
        let Self { packed, rows, first, groups, panels, epilogue, unfolded, out } = self;
        let (width, per) = (groups.len() * packed.columns, VECTORS * LANES);
        let count = out.len().div_ceil(width);
        for group in groups.clone() {
            for inner in &packed.blocks {
                let place = RowBlock { group, first, count, inner: inner.clone() };
                let lines = rows.read(&place, packed.is_in_place, unfolded);
                let tiles = tiles::<ROWS>(&lines, count);
                let (all, size) = (packed.columns.div_ceil(per), inner.len() * per);
                let begin = (group * packed.inner + inner.start) * all * per;
                let panel = |number: usize| -> &Panel<LANES, VECTORS> {
                    let panel = part_of(&packed.panels, begin + number * size, size);
                    panel.as_chunks::<LANES>().0.as_chunks::<VECTORS>().0
                };
                let at = |number: usize| {
                    let column = (group - groups.start) * packed.columns + number * per;
                    let columns = per.min(packed.columns - number * per);
                    let epilogue =
                        (inner.end == packed.inner).then(|| epilogue.for_columns(column, columns));
                    let (is_first, column) = (inner.start == 0, column - panels.start * per);
                    TileColumns { width, column, columns, is_first, epilogue }
                };
                let mut numbers = panels.clone();
                if count == 1 {
                    while numbers.len() >= ROW_PANELS {
                        let several: [usize; ROW_PANELS] =
                            std::array::from_fn(|number| numbers.start + number);
                        multiply_row(simd, lines.row(0), several.map(panel), several.map(at), out);
                        numbers.start += ROW_PANELS;
                    }
                }
                for number in numbers {
                    let (panel, at) = (panel(number), at(number));
                    let later = packed.panels.get(begin + (number + 1) * size..);
                    let ahead = Prefetch::new(later.unwrap_or_default(), size, tiles.len());
                    for (number, (row, used, lines)) in tiles.iter().enumerate() {
                        let (row, next) = (*row, ahead.part(number));
                        macro_rules! tile {
                            ($used:expr) => {
                                at.tile::<S, LANES, VECTORS, ROWS, $used>(
                                    simd, lines, panel, next, row, out,
                                )
                            };
                        }
                        match *used {
                            1 => tile!(1),
                            used if used <= SMALL_ROWS => tile!(SMALL_ROWS),
                            used if used <= EDGE_ROWS => tile!(EDGE_ROWS),
                            _ => tile!(ROWS),
                        }
                    }
                }
            }
        }
    }
}

/// Divides `count` rows into tiles of `ROWS` rows or one fewer, or else the last ones into a smaller tile. Returns the first
/// row of each tile, how many rows it has, and these; what it has beyond them is the last row.
fn tiles<'r, const ROWS: usize>(
    lines: &RowSlices<'r>,
    count: usize,
) -> Vec<(usize, usize, [&'r [f32]; ROWS])> {
    let tiles = count.div_ceil(ROWS);
    let missing = tiles * ROWS - count;
    let full = if missing <= tiles { tiles - missing } else { tiles };
    let tile = |number: usize| {
        let first = number * ROWS - number.saturating_sub(full);
        let used = if number < full { ROWS } else { ROWS - 1 }.min(count - first);
        (first, used, std::array::from_fn(|at| lines.row((first + at).min(count - 1))))
    };
    (0..tiles).map(tile).collect()
}
