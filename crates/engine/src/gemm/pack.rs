//! Matrices that are packed in panels.

use std::ops::Range;

use pulp::Simd;

use super::buffers::Buffer;
use super::micro_kernel::{Epilogue, TileColumns};
use super::tile::{Tile, blocks, is_read_in_place};
use crate::error::Outcome;

/// Matrices in panels that are as wide as a tile, one for each group.
#[derive(Debug)]
pub(crate) struct PackedMatrix {
    pub(super) groups: usize,
    /// The number of rows of each matrix.
    pub(super) inner: usize,
    /// The number of columns of each matrix.
    pub(super) columns: usize,
    pub(super) tile: Tile,
    /// Whether rows are read in place: what is read a few times only is not worth a copy.
    pub(super) is_in_place: bool,
    /// The parts of the inner dim that are summed one after the other.
    pub(super) blocks: Vec<Range<usize>>,
    /// `[group][block][panel][row of the block][width]`, in the order of the sums: a matrix beyond the caches is read as one
    /// stream. The last panel is filled with zeros.
    pub(super) panels: Buffer,
}

impl PackedMatrix {
    /// Packs matrices of `inner` rows and `columns` columns. `read` is called with a group, a row and the first of some
    /// columns, and sets a slice to their elements. `contiguous` elements at a time follow one another in the rows that are
    /// multiplied with them. `allocate` returns memory for the panels.
    ///
    /// # Errors
    /// If memory is insufficient.
    pub(crate) fn new(
        size: [usize; 3],
        contiguous: usize,
        allocate: impl Fn(usize) -> Outcome<Buffer>,
        mut read: impl FnMut([usize; 3], &mut [f32]),
    ) -> Outcome<Self> {
        Self::with_groups(size, contiguous, allocate, |[row, first], groups| {
            let groups = groups.iter_mut().enumerate();
            groups.for_each(|(group, into)| read([group, row, first], into));
        })
    }

    /// Packs matrices as [`new`](Self::new) does. `read` is called with a row and the first of some columns, and sets a slice for each group.
    ///
    /// # Errors
    /// If memory is insufficient.
    pub(crate) fn with_groups(
        [groups, inner, columns]: [usize; 3],
        contiguous: usize,
        allocate: impl Fn(usize) -> Outcome<Buffer>,
        mut read: impl FnMut([usize; 2], &mut [&mut [f32]]),
    ) -> Outcome<Self> {
        let tile = Tile::of(columns);
        let width = tile.columns;
        let is_in_place = is_read_in_place([inner, columns], contiguous);
        let blocks = blocks(inner, if is_in_place { contiguous } else { inner });
        let mut panels = allocate(tile.elements([groups, inner, columns]))?;
        let size = inner * columns.next_multiple_of(width);
        let each = panels.chunks_exact_mut(size.max(1));
        let mut each: Vec<_> = each.map(|group| group.chunks_exact_mut(width)).collect();
        let mut lines: Vec<&mut [f32]> = Vec::with_capacity(groups);
        for block in &blocks {
            for first in (0..columns).step_by(width) {
                for row in block.clone() {
                    lines.clear();
                    lines.extend(each.iter_mut().filter_map(Iterator::next).map(|line| {
                        let (line, rest) = line.split_at_mut(width.min(columns - first));
                        rest.fill(0.0);
                        line
                    }));
                    read([row, first], &mut lines);
                }
            }
        }
        Ok(Self { groups, inner, columns, tile, is_in_place, blocks, panels })
    }

    /// Returns the matrices for rows that are always read in place.
    pub(crate) fn in_place(self) -> Self {
        Self { is_in_place: true, ..self }
    }

    /// Returns the number of columns of all groups.
    pub(crate) fn width(&self) -> usize {
        self.groups * self.columns
    }

    /// Returns the size of packed matrices in bytes.
    pub(crate) fn nbytes_of(size: [usize; 3]) -> usize {
        let [_, _, columns] = size;
        Tile::of(columns).elements(size).saturating_mul(size_of::<f32>())
    }

    /// Returns the size of the panels in bytes.
    pub(crate) fn nbytes(&self) -> u64 {
        size_of_val::<[f32]>(&self.panels) as u64
    }
}

/// A loop over tiles of `ROWS` rows, and over smaller ones of `EDGE_ROWS`, of `SMALL_ROWS` or of one row at the end.
pub(crate) trait TileLoop {
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
    );
}

impl PackedMatrix {
    /// Runs a loop over the tiles of these matrices.
    #[inline(always)]
    pub(crate) fn run_tiled<S: Simd>(&self, simd: S, tile_loop: impl TileLoop) {
        match (S::F32_LANES, self.tile.vectors) {
            // Larger tiles would fit the registers, too, but are compiled to code that keeps them in memory.
            (16, 1) => tile_loop.run::<S, 16, 1, 8, 7, 4>(simd),
            (16, 2) => tile_loop.run::<S, 16, 2, 6, 5, 3>(simd),
            (16, 3) => tile_loop.run::<S, 16, 3, 4, 3, 2>(simd),
            (16, _) => tile_loop.run::<S, 16, 4, 4, 3, 2>(simd),
            (8, 1) => tile_loop.run::<S, 8, 1, 8, 7, 4>(simd),
            (8, 2) => tile_loop.run::<S, 8, 2, 6, 5, 3>(simd),
            (8, _) => tile_loop.run::<S, 8, 3, 3, 2, 2>(simd),
            (4, 1) => tile_loop.run::<S, 4, 1, 8, 7, 4>(simd),
            (4, 2) => tile_loop.run::<S, 4, 2, 6, 5, 3>(simd),
            (4, _) => tile_loop.run::<S, 4, 3, 3, 2, 2>(simd),
            (_, 1) => tile_loop.run::<S, 1, 1, 8, 7, 4>(simd),
            (_, 2) => tile_loop.run::<S, 1, 2, 6, 5, 3>(simd),
            _ => tile_loop.run::<S, 1, 3, 3, 2, 2>(simd),
        }
    }

    /// Returns whether all of the inner dim is summed at once, for one group.
    pub(crate) fn is_one_block(&self) -> bool {
        self.groups == 1 && self.blocks.len() == 1
    }

    /// Returns the panels of whole matrices, with their columns in the result.
    #[inline(always)]
    pub(crate) fn one_block_panels<'p, const LANES: usize, const VECTORS: usize>(
        &'p self,
        epilogue: Epilogue<'p>,
    ) -> impl Iterator<Item = (&'p Panel<LANES, VECTORS>, TileColumns<'p>)> {
        let (width, per) = (self.width(), VECTORS * LANES);
        let columns = (0..self.columns).step_by(per);
        let panels = self.panels.chunks_exact((self.inner * per).max(1));
        columns.zip(panels).map(move |(column, panel)| {
            let columns = per.min(self.columns - column);
            let epilogue = Some(epilogue.for_columns(column, columns));
            let panel = panel.as_chunks::<LANES>().0.as_chunks::<VECTORS>().0;
            (panel, TileColumns { width, column, columns, is_first: true, epilogue })
        })
    }
}

/// A panel of a matrix: for each row, the vectors of a tile.
pub(crate) type Panel<const LANES: usize, const VECTORS: usize> = [[[f32; LANES]; VECTORS]];
