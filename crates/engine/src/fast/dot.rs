//! Products of unsigned with signed bytes by the instructions of AVX-512 VNNI.

use std::arch::x86_64::{_mm512_dpbusd_epi32, _mm512_set1_epi32, _mm512_setzero_si512};

use super::ahead::Ahead;
use super::aligned::Aligned;
use super::bytes::{Matrices, TILE};
use crate::item::Outcome;

/// The number of vectors of a tile.
const VECTORS: usize = 2;

/// The number of columns of a vector.
const LANES: usize = 16;

/// The number of columns of a tile.
const WIDTH: usize = VECTORS * LANES;

/// The number of quads of a column that are packed at a time: they fill a line of the cache.
const BLOCK: usize = 16;

/// The number of quads between requests of what is multiplied next.
const STEP: usize = 8;

/// Four successive bytes of a row, or of each column of a vector.
pub(super) type Quad = [u8; 4];
type Vector = [Quad; LANES];

/// Constant matrices in panels that are as wide as a tile, one for each group.
#[derive(Debug)]
pub(super) struct Panels {
    groups: usize,
    columns: usize,
    /// The number of quads of a column.
    quads: usize,
    /// `[group][panel][quad][vector]`. The last panel and the last quads are filled with zeros.
    vectors: Aligned<[Vector; VECTORS]>,
}

/// Returns whether this processor has the instructions.
pub(super) fn is_available() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512vnni")
}

impl Panels {
    /// Packs matrices.
    pub(super) fn new(matrices: &Matrices) -> Outcome<Self> {
        let [groups, inner, columns] = matrices.size;
        let (quads, count) = (inner.div_ceil(4), columns.div_ceil(WIDTH));
        let mut vectors: Aligned<[Vector; VECTORS]> = Aligned::zeroed(groups * count * quads)?;
        for (number, panel) in vectors.chunks_exact_mut(quads.max(1)).enumerate() {
            let (group, first) = (number / count, number % count * WIDTH);
            // Some quads of all columns at a time, so that they stay in the cache.
            for (block, panel) in panel.chunks_mut(BLOCK).enumerate() {
                for lane in 0..WIDTH.min(columns - first) {
                    let (quads, _) = matrices.column(group, first + lane).as_chunks();
                    let lanes = panel.as_flattened_mut().as_flattened_mut().iter_mut();
                    let into = lanes.skip(lane).step_by(WIDTH);
                    let from = quads.iter().skip(block * BLOCK);
                    into.zip(from).for_each(|(into, quad)| *into = *quad);
                }
            }
        }
        Ok(Self { groups, columns, quads, vectors })
    }

    /// Returns the size in bytes.
    pub(super) fn nbytes(&self) -> u64 {
        size_of_val::<[[Vector; VECTORS]]>(&self.vectors) as u64
    }

    /// Multiplies rows of `whole` bytes, in which the groups follow one another, into `out`. `quads` is memory to compute in.
    pub(super) fn multiply(
        &self,
        rows: &[u8],
        whole: usize,
        quads: &mut Vec<[Quad; TILE]>,
        out: &mut [i32],
    ) {
        let width = self.groups * self.columns;
        if self.quads == 0 || width == 0 {
            return;
        }
        assert!(is_available(), "the instructions were there when the matrix was packed");
        let all = self.columns.div_ceil(WIDTH) * self.quads;
        for (group, panels) in self.vectors.chunks_exact(all).enumerate() {
            quads.clear();
            for rows in rows.chunks(TILE * whole) {
                let begin = group * self.quads * 4;
                let lines: [&[Quad]; TILE] = std::array::from_fn(|number| {
                    rows.chunks_exact(whole)
                        .nth(number)
                        .map_or(&[][..], |row| row.split_at(begin).1.as_chunks().0)
                });
                // Rows beyond the last one are zeros.
                quads.extend(
                    (0..self.quads)
                        .map(|at| lines.map(|line| line.get(at).copied().unwrap_or_default())),
                );
            }
            let column = group * self.columns;
            #[expect(unsafe_code, reason = "the instructions are not part of every processor")]
            // SAFETY: this processor has the instructions.
            unsafe {
                self.run(panels, quads, [column, width], out);
            }
        }
    }

    /// Multiplies the rows of a group, whose columns begin at `column` of `width` columns.
    #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
    fn run(
        &self,
        panels: &[[Vector; VECTORS]],
        rows: &[[Quad; TILE]],
        [column, width]: [usize; 2],
        out: &mut [i32],
    ) {
        for (number, panel) in panels.chunks_exact(self.quads).enumerate() {
            let first = number * WIDTH;
            let (column, columns) = (column + first, WIDTH.min(self.columns - first));
            let (_, later) = panels.split_at((number + 1) * self.quads);
            let count = rows.len() / self.quads;
            let ahead = Ahead::new(later.as_flattened(), self.quads * VECTORS, count);
            let tiles = rows.chunks_exact(self.quads).zip(out.chunks_mut(TILE * width));
            for (number, (rows, out)) in tiles.enumerate() {
                let sums = tile(rows, panel, ahead.part(number));
                for (sums, out) in sums.iter().zip(out.chunks_mut(width)) {
                    let (_, out) = out.split_at_mut(column);
                    let sums: &[i32] = sums.as_flattened();
                    out.iter_mut().zip(sums).take(columns).for_each(|(out, sum)| *out = *sum);
                }
            }
        }
    }
}

/// Returns the products of the rows of a tile with a panel.
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
#[inline]
#[expect(clippy::indexing_slicing, reason = "constant bounds: what is indexed stays in registers")]
fn tile(
    rows: &[[Quad; TILE]],
    panel: &[[Vector; VECTORS]],
    ahead: Ahead<'_, Vector>,
) -> [[[i32; LANES]; VECTORS]; TILE] {
    let mut sums = [[_mm512_setzero_si512(); VECTORS]; TILE];
    let ahead = ahead.in_parts(panel.len().div_ceil(STEP));
    for (number, (rows, panel)) in rows.chunks(STEP).zip(panel.chunks(STEP)).enumerate() {
        ahead.part(number).request();
        // One stream of each: nothing is indexed by a variable.
        for (quads, panel) in rows.iter().zip(panel) {
            // A call of `map` would not be inlined here.
            let mut vectors = [_mm512_setzero_si512(); VECTORS];
            for vector in 0..VECTORS {
                vectors[vector] = pulp::cast(panel[vector]);
            }
            for row in 0..TILE {
                let quad = _mm512_set1_epi32(i32::from_le_bytes(quads[row]));
                for vector in 0..VECTORS {
                    sums[row][vector] =
                        _mm512_dpbusd_epi32(sums[row][vector], quad, vectors[vector]);
                }
            }
        }
    }
    let mut found = [[[0; LANES]; VECTORS]; TILE];
    for row in 0..TILE {
        for vector in 0..VECTORS {
            found[row][vector] = pulp::cast(sums[row][vector]);
        }
    }
    found
}
