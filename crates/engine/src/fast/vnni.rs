//! Products of unsigned with signed bytes by the instructions of AVX-512 VNNI.

use std::arch::x86_64::{
    __m512i, _mm512_castps_si512, _mm512_dpbusd_epi32, _mm512_set1_ps, _mm512_setzero_si512,
};

use super::int8::{ByteMatrices, QUAD, Strip, TILE_ROWS};
use crate::error::Outcome;
use crate::gemm::{Aligned, Prefetch, part_of};

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
pub(super) type Quad = [u8; QUAD];
type Vector = [Quad; LANES];

/// The sums of the columns of a tile, of one row.
type Sums = [[i32; LANES]; VECTORS];

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
    pub(super) fn new(matrices: &ByteMatrices) -> Outcome<Self> {
        let [groups, inner, columns] = matrices.size;
        let (quads, count) = (inner.div_ceil(QUAD).max(1), columns.div_ceil(WIDTH));
        let mut vectors: Aligned<[Vector; VECTORS]> = Aligned::paged(groups * count * quads)?;
        for (number, panel) in vectors.chunks_exact_mut(quads).enumerate() {
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

    /// Multiplies rows of `whole` bytes, in which the groups follow one another. `finish_strip` is called for each panel, with
    /// the sums of its products, which are added to those of `base`.
    pub(super) fn multiply(
        &self,
        rows: &[u8],
        whole: usize,
        base: &[i32],
        sums: &mut Vec<i32>,
        mut finish_strip: impl FnMut(&Strip, &mut [i32]),
    ) {
        assert!(is_available(), "the instructions were there when the matrix was packed");
        let ((quads, _), count) = (rows.as_chunks(), rows.len() / whole);
        let all = self.columns.div_ceil(WIDTH) * self.quads;
        let width = self.groups * self.columns;
        sums.resize(count.next_multiple_of(TILE_ROWS) * WIDTH, 0);
        for (group, panels) in self.vectors.chunks_exact(all.max(1)).enumerate() {
            // What a tile has beyond the last row is that row.
            let line = |row: usize| {
                let begin = row.min(count - 1) * (whole / QUAD) + group * self.quads;
                part_of(quads, begin, self.quads)
            };
            let tile = |first| std::array::from_fn(|number| line(first + number));
            let tiles: Vec<[&[Quad]; TILE_ROWS]> =
                (0..count).step_by(TILE_ROWS).map(tile).collect();
            for (number, panel) in panels.chunks_exact(self.quads).enumerate() {
                let (_, later) = panels.split_at((number + 1) * self.quads);
                let ahead = Prefetch::new(later.as_flattened(), self.quads * VECTORS, tiles.len());
                let begin = group * self.columns + number * WIDTH;
                let columns = begin..(begin + WIDTH).min((group + 1) * self.columns);
                let mut first = [[0; LANES]; VECTORS];
                let (into, _) = first.as_flattened_mut().split_at_mut(columns.len());
                into.copy_from_slice(part_of(base, begin, columns.len()));
                #[expect(unsafe_code, reason = "the instructions are not part of every processor")]
                // SAFETY: this processor has the instructions.
                unsafe {
                    run(&tiles, panel, first, ahead, sums);
                }
                let (sums, _) = sums.split_at_mut(count * WIDTH);
                finish_strip(&Strip { group, columns, width, stride: WIDTH, offset: 0 }, sums);
            }
        }
    }
}

/// Multiplies the rows of tiles with a panel.
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn run(
    tiles: &[[&[Quad]; TILE_ROWS]],
    panel: &[[Vector; VECTORS]],
    first: Sums,
    ahead: Prefetch<'_, Vector>,
    sums: &mut [i32],
) {
    let tiles = tiles.iter().zip(sums.chunks_exact_mut(TILE_ROWS * WIDTH));
    for (number, (lines, sums)) in tiles.enumerate() {
        let products = tile(lines, panel, first, ahead.part(number));
        sums.copy_from_slice(products.as_flattened().as_flattened());
    }
}

/// Returns the products of the rows of a tile with a panel.
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
#[inline]
#[expect(clippy::indexing_slicing, reason = "constant bounds: what is indexed stays in registers")]
fn tile(
    lines: &[&[Quad]; TILE_ROWS],
    panel: &[[Vector; VECTORS]],
    first: Sums,
    ahead: Prefetch<'_, Vector>,
) -> [Sums; TILE_ROWS] {
    let mut vectors = [_mm512_setzero_si512(); VECTORS];
    for vector in 0..VECTORS {
        vectors[vector] = pulp::cast(first[vector]);
    }
    let mut sums = [vectors; TILE_ROWS];
    let (steps, rest) = panel.as_chunks::<STEP>();
    let ahead = ahead.in_parts(steps.len());
    for (step, vectors) in steps.iter().enumerate() {
        ahead.part(step).issue();
        let mut quads = [&[[0; QUAD]; STEP]; TILE_ROWS];
        for row in 0..TILE_ROWS {
            quads[row] = &lines[row].as_chunks().0[step];
        }
        for depth in 0..STEP {
            let mut now = [0.0; TILE_ROWS];
            for row in 0..TILE_ROWS {
                now[row] = f32::from_le_bytes(quads[row][depth]);
            }
            add(&mut sums, now, &vectors[depth]);
        }
    }
    for (depth, vectors) in (steps.len() * STEP..).zip(rest) {
        let mut now = [0.0; TILE_ROWS];
        for row in 0..TILE_ROWS {
            now[row] = f32::from_le_bytes(lines[row][depth]);
        }
        add(&mut sums, now, vectors);
    }
    let mut products = [[[0; LANES]; VECTORS]; TILE_ROWS];
    for row in 0..TILE_ROWS {
        for vector in 0..VECTORS {
            products[row][vector] = pulp::cast(sums[row][vector]);
        }
    }
    products
}

/// Adds the products of a quad of each row with vectors to the sums of a tile. Quads are in the bits of other numbers: the
/// compiler reads several integers at a time, and takes them apart.
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
#[inline]
#[expect(clippy::indexing_slicing, reason = "constant bounds: what is indexed stays in registers")]
fn add(
    sums: &mut [[__m512i; VECTORS]; TILE_ROWS],
    quads: [f32; TILE_ROWS],
    panel: &[Vector; VECTORS],
) {
    // A call of `map` would not be inlined here.
    let mut vectors = [_mm512_setzero_si512(); VECTORS];
    for vector in 0..VECTORS {
        vectors[vector] = pulp::cast(panel[vector]);
    }
    for row in 0..TILE_ROWS {
        let quad = _mm512_castps_si512(_mm512_set1_ps(quads[row]));
        for vector in 0..VECTORS {
            sums[row][vector] = _mm512_dpbusd_epi32(sums[row][vector], quad, vectors[vector]);
        }
    }
}
