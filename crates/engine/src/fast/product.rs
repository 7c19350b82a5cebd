//! Products with a constant matrix that is packed once.
//!
//! Rows of the left matrix are unfolded in blocks that stay in the second-level cache; a panel of the constant matrix stays
//! in the first-level cache, and a tile of the result in registers. Every element is summed in the order of the inner dim,
//! by one thread: results do not depend on the number of threads.

use std::ops::Range;
use std::sync::LazyLock;

use pulp::{Arch, Simd, WithSimd};
use rayon::prelude::*;

use crate::item::Outcome;

/// The number of products that are summed before a tile returns to memory.
pub(super) const DEPTH: usize = 256;

/// The maximum number of rows that are unfolded at a time.
const UNFOLDED: usize = 126;

/// The number of vectors in a row of a tile.
const VECTORS: usize = 2;

/// The left matrices of a product, one for each group.
pub(super) trait Rows: Sync {
    /// Writes the elements `inner` of rows of a group, from row `first` on, each to the begin of a line.
    fn unfold(&self, group: usize, first: usize, inner: Range<usize>, into: &mut [[f32; DEPTH]]);
}

/// Constant matrices in panels that are as wide as a tile, one for each group.
#[derive(Debug)]
pub(super) struct Packed {
    groups: usize,
    /// The number of rows of each matrix.
    inner: usize,
    /// The number of columns of each matrix.
    columns: usize,
    /// `[group][panel][inner][width]`; the last panel of a group is filled with zeros.
    panels: Vec<f32>,
}

/// What happens to the sums of a column.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Finish<'a> {
    /// What is added to each column, over all groups.
    pub(super) bias: Option<&'a [f32]>,
    /// The minimum and maximum of the results.
    pub(super) clamp: Option<[f32; 2]>,
}

/// The number of rows and columns of a tile.
#[derive(Clone, Copy, Debug)]
struct Tile {
    rows: usize,
    columns: usize,
}

/// The tile for this processor.
static TILE: LazyLock<Tile> = LazyLock::new(|| {
    struct Best;
    impl WithSimd for Best {
        type Output = Tile;
        fn with_simd<S: Simd>(self, _: S) -> Tile {
            let rows = if S::F32_LANES == 16 { 14 } else { 6 };
            Tile { rows, columns: VECTORS * S::F32_LANES }
        }
    }
    Arch::new().dispatch(Best)
});

impl Packed {
    /// Packs matrices of `inner` rows and `columns` columns, whose elements `at` returns by group, row and column.
    pub(super) fn new(
        groups: usize,
        inner: usize,
        columns: usize,
        at: impl Fn(usize, usize, usize) -> f32,
    ) -> Self {
        let width = TILE.columns;
        let mut panels = Vec::with_capacity(groups * inner * columns.next_multiple_of(width));
        for group in 0..groups {
            for first in (0..columns).step_by(width) {
                for row in 0..inner {
                    let column =
                        |column| if column < columns { at(group, row, column) } else { 0.0 };
                    panels.extend((first..first + width).map(column));
                }
            }
        }
        Self { groups, inner, columns, panels }
    }

    /// Returns the number of columns of all groups.
    pub(super) fn width(&self) -> usize {
        self.groups * self.columns
    }

    /// Returns the size of the panels in bytes.
    pub(super) fn nbytes(&self) -> u64 {
        size_of_val(self.panels.as_slice()) as u64
    }

    /// Multiplies rows with the matrices into `out`, which holds the rows one after another. `then` is called with the
    /// offset of each finished part of it.
    pub(super) fn multiply(
        &self,
        rows: &impl Rows,
        finish: Finish<'_>,
        out: &mut [f32],
        then: impl Fn(usize, &mut [f32]) -> Outcome<()> + Sync,
    ) -> Outcome<()> {
        let width = self.width();
        let count = out.len().checked_div(width).unwrap_or(0);
        let tiles = count.div_ceil(TILE.rows).div_ceil(rayon::current_num_threads());
        let each = TILE.rows * tiles.clamp(1, UNFOLDED / TILE.rows);
        let parts = out.par_chunks_mut((each * width).max(1)).enumerate();
        parts.try_for_each_init(Vec::new, |unfolded, (number, out)| {
            let first = number * each;
            let part = Part { packed: self, rows, first, finish, unfolded, out };
            Arch::new().dispatch(part);
            then(first * width, out)
        })
    }
}

/// Consecutive rows of a product.
struct Part<'a, R> {
    packed: &'a Packed,
    rows: &'a R,
    first: usize,
    finish: Finish<'a>,
    unfolded: &'a mut Vec<[f32; DEPTH]>,
    out: &'a mut [f32],
}

impl<R: Rows> WithSimd for Part<'_, R> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        match S::F32_LANES {
            16 => self.run::<S, 16, 14, 7>(simd),
            8 => self.run::<S, 8, 6, 3>(simd),
            4 => self.run::<S, 4, 6, 3>(simd),
            _ => self.run::<S, 1, 6, 3>(simd),
        }
    }
}

/// A panel of a matrix: for each row, the vectors of a tile.
type Panel<const LANES: usize> = [[[f32; LANES]; VECTORS]];

impl<R: Rows> Part<'_, R> {
    /// Computes all rows in tiles of `ROWS` rows; the last rows in tiles of `FEW` or of one.
    #[inline(always)]
    fn run<S: Simd, const LANES: usize, const ROWS: usize, const FEW: usize>(self, simd: S) {
        let Self { packed, rows, first, finish, unfolded, out } = self;
        let (width, per) = (packed.width(), VECTORS * LANES);
        let count = out.len().checked_div(width).unwrap_or(0);
        let blocks = packed.inner.div_ceil(DEPTH).max(1);
        let depth = packed.inner.div_ceil(blocks);
        unfolded.resize(count.next_multiple_of(ROWS), [0.0; DEPTH]);
        for group in 0..packed.groups {
            for block in 0..blocks {
                let inner = block * depth..packed.inner.min((block + 1) * depth);
                let (into, _) = unfolded.split_at_mut(count);
                rows.unfold(group, first, inner.clone(), into);
                let (tiles, _) = unfolded.as_chunks::<ROWS>();
                let panels = packed.columns.div_ceil(per);
                for number in 0..panels {
                    let begin = ((group * panels + number) * packed.inner + inner.start) * per;
                    let panel = part_of(&packed.panels, begin, inner.len() * per);
                    let (panel, _) = panel.as_chunks::<LANES>();
                    let (panel, _) = panel.as_chunks::<VECTORS>();
                    let column = group * packed.columns + number * per;
                    let columns = per.min(packed.columns - number * per);
                    let finish = (block + 1 == blocks).then(|| finish.of(column, columns));
                    let at = At { width, column, columns, is_first: block == 0, finish };
                    for (number, lines) in tiles.iter().enumerate() {
                        let row = number * ROWS;
                        match count - row {
                            1 => at.tile::<S, LANES, ROWS, 1>(simd, lines, panel, row, out),
                            left if left <= FEW => {
                                at.tile::<S, LANES, ROWS, FEW>(simd, lines, panel, row, out);
                            }
                            _ => at.tile::<S, LANES, ROWS, ROWS>(simd, lines, panel, row, out),
                        }
                    }
                }
            }
        }
    }
}

impl<'a> Finish<'a> {
    /// Returns the part for some columns.
    fn of(self, first: usize, count: usize) -> Self {
        Self { bias: self.bias.map(|bias| part_of(bias, first, count)), ..self }
    }
}

/// The columns of a panel in the result.
struct At<'a> {
    /// The number of columns of the result.
    width: usize,
    column: usize,
    columns: usize,
    /// Whether nothing has been summed yet.
    is_first: bool,
    /// Set when all is summed.
    finish: Option<Finish<'a>>,
}

impl At<'_> {
    /// Adds the products of the first `USED` unfolded rows of a tile with a panel to the result. Those beyond the end of the
    /// result do not count.
    #[inline(always)]
    #[expect(
        clippy::indexing_slicing,
        clippy::needless_range_loop,
        reason = "constant bounds: what is indexed stays in registers"
    )]
    fn tile<S: Simd, const LANES: usize, const ROWS: usize, const USED: usize>(
        &self,
        simd: S,
        lines: &[[f32; DEPTH]; ROWS],
        panel: &Panel<LANES>,
        row: usize,
        out: &mut [f32],
    ) {
        let zero = simd.splat_f32s(0.0);
        let mut sums = [[zero; VECTORS]; USED];
        let begin = row * self.width + self.column;
        if !self.is_first {
            for row in 0..USED {
                let Some(known) = out.get(begin + row * self.width..) else { break };
                let (first, second) = self.split::<LANES>(known);
                sums[row] = [load(simd, first), load(simd, second)];
            }
        }
        for (depth, columns) in (0..DEPTH).zip(panel) {
            let columns = [load(simd, &columns[0]), load(simd, &columns[1])];
            for row in 0..USED {
                let value = simd.splat_f32s(lines[row][depth]);
                for vector in 0..VECTORS {
                    sums[row][vector] =
                        simd.mul_add_e_f32s(columns[vector], value, sums[row][vector]);
                }
            }
        }
        if let Some(finish) = self.finish {
            if let Some(bias) = finish.bias {
                let (first, second) = self.split::<LANES>(bias);
                let bias = [load(simd, first), load(simd, second)];
                for row in 0..USED {
                    for vector in 0..VECTORS {
                        sums[row][vector] = simd.add_f32s(sums[row][vector], bias[vector]);
                    }
                }
            }
            if let Some(limits) = finish.clamp {
                for row in 0..USED {
                    for vector in 0..VECTORS {
                        sums[row][vector] = limited(simd, sums[row][vector], limits);
                    }
                }
            }
        }
        for row in 0..USED {
            let Some(into) = out.get_mut(begin + row * self.width..) else { break };
            let (into, _) = into.split_at_mut(self.columns.min(into.len()));
            let (first, second) = into.split_at_mut(LANES.min(into.len()));
            store(simd, sums[row][0], first);
            store(simd, sums[row][1], second);
        }
    }

    /// Returns the parts of the columns for both vectors of a tile.
    #[inline(always)]
    fn split<'v, const LANES: usize>(&self, values: &'v [f32]) -> (&'v [f32], &'v [f32]) {
        let (values, _) = values.split_at(self.columns.min(values.len()));
        values.split_at(LANES.min(values.len()))
    }
}

/// Returns `count` values from `begin` on.
#[inline(always)]
pub(super) fn part_of(values: &[f32], begin: usize, count: usize) -> &[f32] {
    let (_, values) = values.split_at(begin);
    let (values, _) = values.split_at(count);
    values
}

/// Returns a vector between a minimum and a maximum. NaN remains: the second operand is returned if it is NaN.
#[inline(always)]
pub(super) fn limited<S: Simd>(simd: S, vector: S::f32s, [least, most]: [f32; 2]) -> S::f32s {
    simd.min_f32s(simd.splat_f32s(most), simd.max_f32s(simd.splat_f32s(least), vector))
}

/// Loads a vector; what it has beyond the elements is zero.
#[inline(always)]
pub(super) fn load<S: Simd>(simd: S, from: &[f32]) -> S::f32s {
    match S::as_simd_f32s(from) {
        ([vector, ..], _) => *vector,
        _ => simd.partial_load_f32s(from),
    }
}

/// Stores the elements of a vector that there is room for.
#[inline(always)]
pub(super) fn store<S: Simd>(simd: S, vector: S::f32s, into: &mut [f32]) {
    match S::as_mut_simd_f32s(into) {
        ([into, ..], _) => *into = vector,
        (_, rest) => simd.partial_store_f32s(rest, vector),
    }
}
