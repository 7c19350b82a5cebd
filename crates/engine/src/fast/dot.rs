//! Products of unsigned with signed bytes by the instructions of AVX-512 VNNI.

use std::arch::x86_64::{__m512i, _mm512_dpbusd_epi32, _mm512_set1_epi32, _mm512_setzero_si512};

use super::ahead::Ahead;
use super::aligned::Aligned;
use super::bytes::TILE;
use crate::item::Outcome;

/// The number of vectors of a tile.
const VECTORS: usize = 2;

/// The number of columns of a vector.
const LANES: usize = 16;

/// The number of columns of a tile.
const WIDTH: usize = VECTORS * LANES;

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
    /// Packs matrices of `inner` rows and `columns` columns, whose elements `at` returns by group, row and column.
    pub(super) fn new(
        [groups, inner, columns]: [usize; 3],
        at: impl Fn(usize, usize, usize) -> i8,
    ) -> Outcome<Self> {
        let quads = inner.div_ceil(4);
        let byte = |group: usize, row: usize, column: usize| match row < inner && column < columns {
            true => at(group, row, column).cast_unsigned(),
            false => 0,
        };
        let mut vectors = Aligned::zeroed(groups * columns.div_ceil(WIDTH) * quads)?;
        let parts = (0..groups).flat_map(|group| {
            let columns = (0..columns).step_by(WIDTH);
            columns.flat_map(move |first| (0..quads).map(move |quad| (group, first, quad)))
        });
        for ((group, first, quad), into) in parts.zip(vectors.iter_mut()) {
            *into = std::array::from_fn(|vector| {
                std::array::from_fn(|lane| {
                    let column = first + vector * LANES + lane;
                    std::array::from_fn(|at| byte(group, quad * 4 + at, column))
                })
            });
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
        for (quads, vectors) in rows.iter().zip(panel) {
            let vectors: [__m512i; VECTORS] = vectors.map(pulp::cast);
            for row in 0..TILE {
                let quad = _mm512_set1_epi32(i32::from_le_bytes(quads[row]));
                for vector in 0..VECTORS {
                    sums[row][vector] =
                        _mm512_dpbusd_epi32(sums[row][vector], quad, vectors[vector]);
                }
            }
        }
    }
    sums.map(|sums| sums.map(pulp::cast))
}
