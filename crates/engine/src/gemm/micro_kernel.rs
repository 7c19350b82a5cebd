//! The micro-kernel: the sums of a tile in registers, and their epilogue.

use pulp::Simd;

use super::pack::Panel;
use super::prefetch::{Prefetch, prefetch};
use super::slices::part_of;
use crate::simd::{load, store};

/// The number of elements of a row between checks of its length.
const UNROLL: usize = 8;

/// What is applied to sums before they are in memory.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Epilogue<'a> {
    /// What is added to each column, over all groups.
    pub(crate) bias: Option<&'a [f32]>,
    /// What is added to each result after that.
    pub(crate) added: Option<&'a [f32]>,
    /// The minimum and maximum of the results.
    pub(crate) clamp: Option<[f32; 2]>,
}

impl<'a> Epilogue<'a> {
    /// Returns the part for some columns.
    pub(super) fn for_columns(self, first: usize, count: usize) -> Self {
        Self { bias: self.bias.map(|bias| part_of(bias, first, count)), ..self }
    }

    /// Returns the same for `count` elements of the result, from `first` on.
    pub(crate) fn within(self, first: usize, count: usize) -> Self {
        Self { added: self.added.map(|added| part_of(added, first, count)), ..self }
    }
}

/// Where the columns of a panel are in the result.
pub(crate) struct TileColumns<'a> {
    /// The number of columns of the result.
    pub(super) width: usize,
    pub(super) column: usize,
    pub(super) columns: usize,
    /// Whether nothing has been summed yet.
    pub(super) is_first: bool,
    /// Set when all is summed.
    pub(super) epilogue: Option<Epilogue<'a>>,
}

impl TileColumns<'_> {
    /// Adds the products of the first `USED` rows of a tile with a panel to the result. Those beyond the end of the result do
    /// not count.
    #[inline(always)]
    #[expect(
        clippy::indexing_slicing,
        reason = "constant bounds: what is indexed stays in registers"
    )]
    pub(super) fn tile<
        S: Simd,
        const LANES: usize,
        const VECTORS: usize,
        const ROWS: usize,
        const USED: usize,
    >(
        &self,
        simd: S,
        lines: &[&[f32]; ROWS],
        panel: &Panel<LANES, VECTORS>,
        next: Prefetch<'_, f32>,
        row: usize,
        out: &mut [f32],
    ) {
        for row in row + USED..row + 2 * USED {
            for vector in 0..VECTORS {
                prefetch(out.get(row * self.width + self.column + vector * LANES));
            }
        }
        let mut sums = self.load_sums::<S, LANES, VECTORS, USED>(simd, row, out);
        let (steps, rest) = panel.as_chunks::<UNROLL>();
        let next = next.in_parts(steps.len());
        for (step, columns) in steps.iter().enumerate() {
            next.part(step).issue();
            let mut values = [&[0.0; UNROLL]; USED];
            for row in 0..USED {
                let (lines, _) = lines[row].as_chunks::<UNROLL>();
                values[row] = &lines[step];
            }
            for depth in 0..UNROLL {
                let mut now = [0.0; USED];
                for row in 0..USED {
                    now[row] = values[row][depth];
                }
                accumulate(simd, &mut sums, now, &columns[depth]);
            }
        }
        for (depth, columns) in (steps.len() * UNROLL..).zip(rest) {
            let mut now = [0.0; USED];
            for row in 0..USED {
                now[row] = lines[row][depth];
            }
            accumulate(simd, &mut sums, now, columns);
        }
        self.store_sums::<S, LANES, VECTORS, USED>(simd, sums, row, out);
    }

    /// Returns what was summed before, in the tile that begins at a row.
    #[inline(always)]
    #[expect(
        clippy::indexing_slicing,
        clippy::needless_range_loop,
        reason = "constant bounds: what is indexed stays in registers"
    )]
    pub(crate) fn load_sums<
        S: Simd,
        const LANES: usize,
        const VECTORS: usize,
        const USED: usize,
    >(
        &self,
        simd: S,
        row: usize,
        out: &[f32],
    ) -> [[S::f32s; VECTORS]; USED] {
        let mut sums = [[simd.splat_f32s(0.0); VECTORS]; USED];
        let begin = row * self.width + self.column;
        if !self.is_first {
            for row in 0..USED {
                let Some(known) = out.get(begin + row * self.width..) else { break };
                sums[row] = self.vectors::<S, LANES, VECTORS>(simd, known);
            }
        }
        sums
    }

    /// Stores the sums of the tile that begins at a row.
    #[inline(always)]
    #[expect(
        clippy::indexing_slicing,
        clippy::needless_range_loop,
        reason = "constant bounds: what is indexed stays in registers"
    )]
    pub(crate) fn store_sums<
        S: Simd,
        const LANES: usize,
        const VECTORS: usize,
        const USED: usize,
    >(
        &self,
        simd: S,
        mut sums: [[S::f32s; VECTORS]; USED],
        row: usize,
        out: &mut [f32],
    ) {
        let begin = row * self.width + self.column;
        if let Some(epilogue) = self.epilogue {
            let bias = epilogue.bias.map(|bias| self.vectors::<S, LANES, VECTORS>(simd, bias));
            add_bias_and_clamp(simd, &mut sums, bias, None);
            for row in 0..USED {
                let Some(added) = epilogue.added.and_then(|it| it.get(begin + row * self.width..))
                else {
                    break;
                };
                let added = self.vectors::<S, LANES, VECTORS>(simd, added);
                for vector in 0..VECTORS {
                    sums[row][vector] = simd.add_f32s(sums[row][vector], added[vector]);
                }
            }
            add_bias_and_clamp(simd, &mut sums, None, epilogue.clamp);
        }
        for row in 0..USED {
            let Some(into) = out.get_mut(begin + row * self.width..) else { break };
            if self.columns == LANES * VECTORS
                && let Some(into) = into.as_chunks_mut().0.first_chunk_mut::<VECTORS>()
            {
                for vector in 0..VECTORS {
                    store::<S>(simd, sums[row][vector], &mut into[vector] as &mut [f32; LANES]);
                }
                continue;
            }
            let (mut into, _) = into.split_at_mut(self.columns.min(into.len()));
            for vector in 0..VECTORS {
                let (now, rest) = into.split_at_mut(LANES.min(into.len()));
                store(simd, sums[row][vector], now);
                into = rest;
            }
        }
    }

    /// Returns the first elements of `values`, those of the columns, in the vectors of a tile.
    #[inline(always)]
    fn vectors<S: Simd, const LANES: usize, const VECTORS: usize>(
        &self,
        simd: S,
        values: &[f32],
    ) -> [S::f32s; VECTORS] {
        let (mut values, _) = values.split_at(self.columns.min(values.len()));
        let mut vectors = [simd.splat_f32s(0.0); VECTORS];
        for vector in &mut vectors {
            let (now, rest) = values.split_at(LANES.min(values.len()));
            *vector = load(simd, now);
            values = rest;
        }
        vectors
    }
}

/// The number of panels that a single row is multiplied with at a time.
pub(super) const ROW_PANELS: usize = 4;

/// Adds the products of a single row with several panels to the result.
#[inline(always)]
#[expect(clippy::indexing_slicing, reason = "constant bounds: what is indexed stays in registers")]
pub(super) fn multiply_row<S: Simd, const LANES: usize, const VECTORS: usize>(
    simd: S,
    line: &[f32],
    panels: [&Panel<LANES, VECTORS>; ROW_PANELS],
    columns: [TileColumns<'_>; ROW_PANELS],
    out: &mut [f32],
) {
    let mut sums = [[[simd.splat_f32s(0.0); VECTORS]; 1]; ROW_PANELS];
    for at in 0..ROW_PANELS {
        sums[at] = columns[at].load_sums::<S, LANES, VECTORS, 1>(simd, 0, out);
    }
    let [a, b, c, d] = panels;
    for ((value, (a, b)), (c, d)) in line.iter().zip(a.iter().zip(b)).zip(c.iter().zip(d)) {
        let panels = [a, b, c, d];
        for at in 0..ROW_PANELS {
            accumulate(simd, &mut sums[at], [*value], panels[at]);
        }
    }
    for at in 0..ROW_PANELS {
        columns[at].store_sums::<S, LANES, VECTORS, 1>(simd, sums[at], 0, out);
    }
}

/// Adds the products of a value of each row with vectors to the sums of a tile.
#[inline(always)]
#[expect(clippy::indexing_slicing, reason = "constant bounds: what is indexed stays in registers")]
pub(crate) fn accumulate<S: Simd, const LANES: usize, const VECTORS: usize, const USED: usize>(
    simd: S,
    sums: &mut [[S::f32s; VECTORS]; USED],
    values: [f32; USED],
    columns: &[[f32; LANES]; VECTORS],
) {
    let mut vectors = [simd.splat_f32s(0.0); VECTORS];
    for vector in 0..VECTORS {
        vectors[vector] = load(simd, &columns[vector]);
    }
    for row in 0..USED {
        let value = simd.splat_f32s(values[row]);
        for vector in 0..VECTORS {
            sums[row][vector] = simd.mul_add_e_f32s(vectors[vector], value, sums[row][vector]);
        }
    }
}

/// Adds a bias to the sums of each row, and limits them.
#[inline(always)]
#[expect(
    clippy::indexing_slicing,
    clippy::needless_range_loop,
    reason = "constant bounds: what is indexed stays in registers"
)]
pub(crate) fn add_bias_and_clamp<S: Simd, const VECTORS: usize, const ROWS: usize>(
    simd: S,
    sums: &mut [[S::f32s; VECTORS]; ROWS],
    bias: Option<[S::f32s; VECTORS]>,
    clamp: Option<[f32; 2]>,
) {
    if let Some(bias) = bias {
        for row in 0..ROWS {
            for vector in 0..VECTORS {
                sums[row][vector] = simd.add_f32s(sums[row][vector], bias[vector]);
            }
        }
    }
    if let Some(limits) = clamp {
        for row in 0..ROWS {
            for vector in 0..VECTORS {
                sums[row][vector] = clamped(simd, sums[row][vector], limits);
            }
        }
    }
}

/// Returns a vector between a minimum and a maximum. NaN remains: the second operand is returned if it is NaN.
#[inline(always)]
fn clamped<S: Simd>(simd: S, vector: S::f32s, [least, most]: [f32; 2]) -> S::f32s {
    simd.min_f32s(simd.splat_f32s(most), simd.max_f32s(simd.splat_f32s(least), vector))
}
