//! Products of unsigned with signed bytes by the instructions of AVX-512 VNNI.

use std::arch::x86_64::{__m512i, _mm512_dpbusd_epi32, _mm512_set1_epi32, _mm512_setzero_si512};

use super::bytes::TILE;

/// The number of vectors of a tile.
const VECTORS: usize = 2;

/// The number of columns of a vector.
const LANES: usize = 16;

/// The number of columns of a tile.
const WIDTH: usize = VECTORS * LANES;

/// Four successive bytes of a row, or of each column of a vector.
type Quad = [u8; 4];
type Vector = [Quad; LANES];

/// Constant matrices in panels that are as wide as a tile, one for each group.
#[derive(Debug)]
pub(super) struct Panels {
    groups: usize,
    columns: usize,
    /// The number of quads of a column.
    quads: usize,
    /// `[group][panel][quad][vector]`. The last panel and the last quads are filled with zeros.
    vectors: Vec<[Vector; VECTORS]>,
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
    ) -> Self {
        let quads = inner.div_ceil(4);
        let byte = |group: usize, row: usize, column: usize| match row < inner && column < columns {
            true => at(group, row, column).cast_unsigned(),
            false => 0,
        };
        let mut vectors = Vec::with_capacity(groups * columns.div_ceil(WIDTH) * quads);
        for group in 0..groups {
            for first in (0..columns).step_by(WIDTH) {
                for quad in 0..quads {
                    vectors.push(std::array::from_fn(|vector| {
                        std::array::from_fn(|lane| {
                            let column = first + vector * LANES + lane;
                            std::array::from_fn(|at| byte(group, quad * 4 + at, column))
                        })
                    }));
                }
            }
        }
        Self { groups, columns, quads, vectors }
    }

    /// Returns the size in bytes.
    pub(super) fn nbytes(&self) -> u64 {
        size_of_val(self.vectors.as_slice()) as u64
    }

    /// Multiplies rows of `whole` bytes, in which the groups follow one another, into `out`.
    pub(super) fn multiply(&self, rows: &[u8], whole: usize, out: &mut [i32]) {
        assert!(is_available(), "the instructions were there when the matrix was packed");
        #[expect(unsafe_code, reason = "the instructions are not part of every processor")]
        // SAFETY: this processor has the instructions.
        unsafe {
            self.run(rows, whole, out);
        }
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
    fn run(&self, rows: &[u8], whole: usize, out: &mut [i32]) {
        let width = self.groups * self.columns;
        if self.quads == 0 || width == 0 {
            return;
        }
        let mut panels = self.vectors.chunks_exact(self.quads);
        for group in 0..self.groups {
            for first in (0..self.columns).step_by(WIDTH) {
                let Some(panel) = panels.next() else { return };
                let column = group * self.columns + first;
                let columns = WIDTH.min(self.columns - first);
                let tiles = rows.chunks(TILE * whole).zip(out.chunks_mut(TILE * width));
                for (rows, out) in tiles {
                    let mut lines = rows.chunks_exact(whole).map(|row| {
                        let (_, row) = row.split_at(group * self.quads * 4);
                        row.as_chunks::<4>().0
                    });
                    let mut into = out.chunks_mut(width).map(|row| {
                        let (_, row) = row.split_at_mut(column);
                        row.split_at_mut(columns).0
                    });
                    if rows.len() == TILE * whole {
                        let lines = std::array::from_fn(|_| lines.next().unwrap_or_default());
                        tile::<TILE>(lines, panel, into);
                    } else {
                        for line in lines {
                            tile::<1>([line], panel, into.by_ref().take(1));
                        }
                    }
                }
            }
        }
    }
}

/// Multiplies rows with a panel.
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
#[inline]
#[expect(clippy::indexing_slicing, reason = "constant bounds: what is indexed stays in registers")]
fn tile<'o, const ROWS: usize>(
    lines: [&[Quad]; ROWS],
    panel: &[[Vector; VECTORS]],
    out: impl Iterator<Item = &'o mut [i32]>,
) {
    let lines = lines.map(|line| line.split_at(panel.len()).0);
    let mut sums = [[_mm512_setzero_si512(); VECTORS]; ROWS];
    for (at, vectors) in panel.iter().enumerate() {
        let vectors: [__m512i; VECTORS] = vectors.map(pulp::cast);
        for row in 0..ROWS {
            let quad = _mm512_set1_epi32(i32::from_le_bytes(lines[row][at]));
            for vector in 0..VECTORS {
                sums[row][vector] = _mm512_dpbusd_epi32(sums[row][vector], quad, vectors[vector]);
            }
        }
    }
    for (sums, out) in sums.into_iter().zip(out) {
        let sums: [[i32; LANES]; VECTORS] = sums.map(pulp::cast);
        out.iter_mut().zip(sums.as_flattened()).for_each(|(out, sum)| *out = *sum);
    }
}
