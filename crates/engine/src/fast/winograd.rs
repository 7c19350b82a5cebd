//! Convolutions of windows of 3 x 3 by Winograd's algorithm F(2 x 2, 3 x 3) (Lavin and Gray, 2015): a tile of 2 x 2 results takes
//! 16 multiplications for each channel instead of 36.
//!
//! The 4 x 4 elements under the windows of a tile are transformed to 16 sums of them, and filters likewise. For each of these 16
//! points, the channels are multiplied as matrices, and the products are transformed to results. A result depends on the
//! elements of its own window alone. One that is infinite may make it NaN.

use std::ops::Range;

use pulp::{Simd, WithSimd};

use super::im2col::Geometry;
use crate::dims::rows_of;
use crate::error::Outcome;
use crate::gemm::{
    Buffer, Buffers, Epilogue, PackedMatrix, StridedRows, add_bias_and_clamp, part_of,
};
use crate::simd::{dispatch, load, store};
use crate::threads::{each, sharing};

/// The number of elements under the windows of a tile, and of points.
const POINTS: usize = 16;

/// The number of elements of a window.
const WINDOW: usize = 9;

/// The minimum number of channels of images and of results: with fewer, the sums take longer than they save.
const MIN_CHANNELS: usize = 24;

/// The number of elements and products of points that stay in the second-level cache.
const MAX_CACHED: usize = 1 << 18;

/// The minimum number of tiles that are computed together, if there are so many: filters are read once for all of them.
const MIN_TILES: usize = 48;

/// The number of elements between points, so that those of one tile are not all in the same set of the cache.
const POINT_GAP: usize = 16;

/// The filters of a convolution.
#[derive(Debug)]
pub(super) struct Winograd {
    channels: usize,
    results: usize,
    /// `[point][channel][result]`.
    filters: PackedMatrix,
}

/// Returns whether filters of some channels and results make the algorithm faster.
pub(super) fn is_faster(channels: usize, results: usize) -> bool {
    channels.min(results) >= MIN_CHANNELS
}

impl Winograd {
    /// Packs filters in memory that `allocate` returns. `read` is called with an element of the window, a channel and the first of some
    /// results, and sets a slice to that element of their filters.
    ///
    /// # Errors
    /// If memory is insufficient.
    pub(super) fn new(
        [channels, results]: [usize; 2],
        allocate: impl Fn(usize) -> Outcome<Buffer>,
        mut read: impl FnMut([usize; 3], &mut [f32]),
    ) -> Outcome<Self> {
        let (size, mut window) = ([POINTS, channels, results], Vec::new());
        let filters =
            PackedMatrix::with_groups(size, channels, allocate, |[channel, first], points| {
                let Some(count) = points.first().map(|point| point.len()) else { return };
                window.resize(WINDOW * count, 0.0);
                for (element, into) in window.chunks_exact_mut(count.max(1)).enumerate() {
                    read([element, channel, first], into);
                }
                dispatch(FilterTransform { window: &window, count, points });
            })?;
        Ok(Self { channels, results, filters: filters.in_place() })
    }

    /// Returns the size of the packed filters in bytes.
    pub(super) fn nbytes(&self) -> u64 {
        self.filters.nbytes()
    }

    /// Returns the number of elements in which each thread computes.
    pub(super) fn workspace(&self, geometry: &Geometry) -> usize {
        let ([down, across], best) = (tiles(geometry), self.best());
        let count = down.saturating_mul(across).min(best + best / 2);
        Self::points(count, self.channels).saturating_add(Self::points(count, self.results))
    }

    /// Returns the number of elements of all points of some tiles.
    fn points(tiles: usize, channels: usize) -> usize {
        POINTS.saturating_mul(tiles.saturating_mul(channels).saturating_add(POINT_GAP))
    }

    /// Returns the number of tiles that are best computed together.
    fn best(&self) -> usize {
        (MAX_CACHED / (POINTS * (self.channels + self.results))).max(MIN_TILES)
    }

    /// Returns how many of a number of tiles are computed together: about the best number, in equal parts.
    fn at_once(&self, count: usize) -> usize {
        let parts = (count + self.best() / 2) / self.best();
        count.div_ceil(parts.max(1)).max(1)
    }

    /// Convolves images. `finish_block` is called with the offset of each finished part of the results.
    pub(super) fn convolve(
        &self,
        geometry: &Geometry,
        image: &[f32],
        epilogue: Epilogue<'_>,
        (out, buffers): (&mut [f32], &Buffers),
        finish_block: impl Fn(usize, &mut [f32]) -> Outcome<()> + Sync,
    ) -> Outcome<()> {
        let ([height, width], [rows, columns]) = (geometry.image, geometry.steps);
        let ([down, across], size) = (tiles(geometry), rows * columns * self.results);
        let examples = rows_of(size, out.len());
        // As many parts for each thread, of whole lines of tiles.
        let all = down * across;
        let parts = (all.div_ceil(self.at_once(all)) * examples).next_multiple_of(sharing());
        let lines = down.div_ceil(parts.div_ceil(examples.max(1)).max(1)).max(1);
        let line = 2 * columns * self.results;
        let parts = out.chunks_mut(size.max(1)).enumerate().flat_map(|(example, out)| {
            let parts = out.chunks_mut((lines * line).max(1)).enumerate();
            parts.map(move |(number, out)| (example, number * lines, out))
        });
        let pixels = height * width * self.channels;
        each(parts.collect(), |unfolded: &mut Vec<f32>, _, (example, first, out)| {
            let begin = example * size + first * line;
            let image = part_of(image, example * pixels, pixels);
            let all = first * across..(first + out.len().div_ceil(line)) * across;
            let at_once = self.at_once(all.len());
            let mut values = buffers.take(Self::points(at_once, self.channels))?;
            let mut products = buffers.take(Self::points(at_once, self.results))?;
            let epilogue = epilogue.within(begin, out.len());
            for begin in all.clone().step_by(at_once) {
                let tiles = begin..all.end.min(begin + at_once);
                let strip = Strip { geometry, image, first, tiles };
                self.convolve_strip(&strip, epilogue, (&mut values, &mut products), unfolded, out);
            }
            finish_block(begin, out)
        })
    }

    /// Convolves a strip into the results from its first line on. The elements of points and their products are computed in
    /// `values` and `products`.
    fn convolve_strip(
        &self,
        strip: &Strip<'_>,
        epilogue: Epilogue<'_>,
        (values, products): (&mut [f32], &mut [f32]),
        unfolded: &mut Vec<f32>,
        out: &mut [f32],
    ) {
        let count = strip.tiles.len();
        let (channels, results) = (self.channels, self.results);
        let blank = vec![0.0; channels];
        dispatch(InputTransform { strip, channels, blank: &blank, values: &mut *values });
        let point_stride = count * channels + POINT_GAP;
        let rows = StridedRows { stride: channels, group_width: point_stride, values };
        let points = products.chunks_exact_mut(count * results + POINT_GAP).take(POINTS);
        for (point, products) in points.enumerate() {
            let (products, _) = products.split_at_mut(count * results);
            self.filters.multiply_group(point, &rows, unfolded, products);
        }
        dispatch(OutputTransform { strip, results, epilogue, products, out });
    }
}

/// Returns the numbers of lines of tiles and of tiles in a line.
fn tiles(geometry: &Geometry) -> [usize; 2] {
    geometry.steps.map(|side| side.div_ceil(2))
}

/// Successive tiles of an image.
struct Strip<'a> {
    geometry: &'a Geometry,
    image: &'a [f32],
    /// The first line of tiles whose results are at hand.
    first: usize,
    tiles: Range<usize>,
}

impl Strip<'_> {
    /// Returns the line and the column of each tile.
    fn tile_origins(&self) -> impl Iterator<Item = [usize; 2]> {
        let [_, across] = tiles(self.geometry);
        self.tiles.clone().map(move |tile| [tile / across, tile % across])
    }

    /// Returns the channels of the elements under the windows of a tile; those in the padding are `blank`.
    fn elements<'e>(&'e self, tile: [usize; 2], blank: &'e [f32]) -> [&'e [f32]; POINTS] {
        let ([_, width], channels) = (self.geometry.image, blank.len());
        let [line, column] = tile.map(|at| 2 * at);
        std::array::from_fn(|point| {
            let down = self.geometry.inside(line, point / 4, 0);
            let right = self.geometry.inside(column, point % 4, 1);
            match (down, right) {
                (Some(down), Some(right)) => {
                    part_of(self.image, (down * width + right) * channels, channels)
                }
                _ => blank,
            }
        })
    }
}

/// Transforms some filters.
struct FilterTransform<'a, 'p> {
    /// `[element of the window][filter]`.
    window: &'a [f32],
    count: usize,
    points: &'a mut [&'p mut [f32]],
}

impl WithSimd for FilterTransform<'_, '_> {
    type Output = ();

    #[inline(always)]
    #[expect(
        clippy::indexing_slicing,
        reason = "constant bounds: what is indexed stays in registers"
    )]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { window, count, points } = self;
        for first in (0..count).step_by(S::F32_LANES) {
            let lanes = S::F32_LANES.min(count - first);
            let mut elements = [[simd.splat_f32s(0.0); 3]; 3];
            for element in 0..WINDOW {
                let from = part_of(window, element * count + first, lanes);
                elements[element / 3][element % 3] = load(simd, from);
            }
            let mut lines = [[simd.splat_f32s(0.0); 4]; 3];
            for line in 0..3 {
                lines[line] = filter_line(simd, elements[line]);
            }
            let mut sums = [[simd.splat_f32s(0.0); 4]; 4];
            for column in 0..4 {
                sums[column] =
                    filter_line(simd, [lines[0][column], lines[1][column], lines[2][column]]);
            }
            for (point, into) in points.iter_mut().enumerate() {
                store(simd, sums[point % 4][point / 4], part_of_mut(into, first, lanes));
            }
        }
    }
}

/// Transforms a line of a filter.
#[inline(always)]
fn filter_line<S: Simd>(simd: S, [a, b, c]: [S::f32s; 3]) -> [S::f32s; 4] {
    let (half, sides) = (simd.splat_f32s(0.5), simd.add_f32s(a, c));
    let sum = simd.mul_f32s(simd.add_f32s(sides, b), half);
    [a, sum, simd.mul_f32s(simd.sub_f32s(sides, b), half), c]
}

/// Transforms a line of elements.
#[inline(always)]
fn input_line<S: Simd>(simd: S, [a, b, c, d]: [S::f32s; 4]) -> [S::f32s; 4] {
    [simd.sub_f32s(a, c), simd.add_f32s(b, c), simd.sub_f32s(c, b), simd.sub_f32s(b, d)]
}

/// Transforms a line of products to results.
#[inline(always)]
fn output_line<S: Simd>(simd: S, [a, b, c, d]: [S::f32s; 4]) -> [S::f32s; 2] {
    let sum = simd.add_f32s(simd.add_f32s(a, b), c);
    [sum, simd.sub_f32s(simd.sub_f32s(b, c), d)]
}

/// Transforms the elements under the windows of a strip.
struct InputTransform<'a> {
    strip: &'a Strip<'a>,
    channels: usize,
    blank: &'a [f32],
    /// `[point][tile][channel]`.
    values: &'a mut [f32],
}

impl WithSimd for InputTransform<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        match S::F32_LANES {
            16 => self.run::<S, 16>(simd),
            8 => self.run::<S, 8>(simd),
            4 => self.run::<S, 4>(simd),
            _ => self.run::<S, 1>(simd),
        }
    }
}

impl InputTransform<'_> {
    #[inline(always)]
    #[expect(
        clippy::indexing_slicing,
        reason = "constant bounds: what is indexed stays in registers"
    )]
    fn run<S: Simd, const LANES: usize>(self, simd: S) {
        let Self { strip, channels, blank, values } = self;
        let (whole, rest) = (channels / LANES, channels % LANES);
        let mut points = values.chunks_exact_mut(strip.tiles.len() * channels + POINT_GAP);
        let mut points: [&mut [f32]; POINTS] =
            std::array::from_fn(|_| points.next().unwrap_or_default());
        for (number, tile) in strip.tile_origins().enumerate() {
            let from = strip.elements(tile, blank);
            let mut into = points.each_mut().map(|it| part_of_mut(it, number * channels, channels));
            let vectors = from.map(|it| part_of(it.as_chunks::<LANES>().0, 0, whole));
            let whole_vectors =
                into.each_mut().map(|it| part_of_mut(it.as_chunks_mut::<LANES>().0, 0, whole));
            for at in 0..whole {
                let mut elements = [[simd.splat_f32s(0.0); 4]; 4];
                for point in 0..POINTS {
                    elements[point / 4][point % 4] = load(simd, &vectors[point][at]);
                }
                let sums = input_tile(simd, elements);
                for point in 0..POINTS {
                    store(simd, sums[point / 4][point % 4], &mut whole_vectors[point][at]);
                }
            }
            if rest > 0 {
                let mut elements = [[simd.splat_f32s(0.0); 4]; 4];
                for point in 0..POINTS {
                    let from = part_of(from[point], whole * LANES, rest);
                    elements[point / 4][point % 4] = load(simd, from);
                }
                let sums = input_tile(simd, elements);
                for point in 0..POINTS {
                    let into = part_of_mut(into[point], whole * LANES, rest);
                    store(simd, sums[point / 4][point % 4], into);
                }
            }
        }
    }
}

/// Transforms the elements under the windows of a tile.
#[inline(always)]
#[expect(clippy::indexing_slicing, reason = "constant bounds: what is indexed stays in registers")]
fn input_tile<S: Simd>(simd: S, elements: [[S::f32s; 4]; 4]) -> [[S::f32s; 4]; 4] {
    let mut lines = elements;
    for line in 0..4 {
        lines[line] = input_line(simd, elements[line]);
    }
    let mut sums = lines;
    for at in 0..4 {
        let column = input_line(simd, [lines[0][at], lines[1][at], lines[2][at], lines[3][at]]);
        for line in 0..4 {
            sums[line][at] = column[line];
        }
    }
    sums
}

/// Transforms products to the results of a strip.
struct OutputTransform<'a> {
    strip: &'a Strip<'a>,
    results: usize,
    epilogue: Epilogue<'a>,
    /// `[point][tile][result]`.
    products: &'a [f32],
    out: &'a mut [f32],
}

impl WithSimd for OutputTransform<'_> {
    type Output = ();

    #[inline(always)]
    #[expect(
        clippy::indexing_slicing,
        clippy::needless_range_loop,
        reason = "constant bounds: what is indexed stays in registers"
    )]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { strip, results, epilogue, products, out } = self;
        let point_stride = strip.tiles.len() * results + POINT_GAP;
        let [_, columns] = strip.geometry.steps;
        let rows = out.len() / (columns * results);
        for (number, [line, column]) in strip.tile_origins().enumerate() {
            let (top, left) = (2 * (line - strip.first), 2 * column);
            let (height, width) = ((rows - top).min(2), (columns - left).min(2));
            for first in (0..results).step_by(S::F32_LANES) {
                let count = S::F32_LANES.min(results - first);
                let mut lines = [[simd.splat_f32s(0.0); 2]; 4];
                for line in 0..4 {
                    let mut of_line = [simd.splat_f32s(0.0); 4];
                    for column in 0..4 {
                        let begin = (line * 4 + column) * point_stride + number * results + first;
                        of_line[column] = load(simd, part_of(products, begin, count));
                    }
                    lines[line] = output_line(simd, of_line);
                }
                let mut bias = None;
                if let Some(all) = epilogue.bias {
                    bias = Some([load(simd, part_of(all, first, count))]);
                }
                for column in 0..2 {
                    let of_column =
                        [lines[0][column], lines[1][column], lines[2][column], lines[3][column]];
                    let of_lines = output_line(simd, of_column);
                    for line in 0..2 {
                        if line >= height || column >= width {
                            continue;
                        }
                        let begin = ((top + line) * columns + left + column) * results + first;
                        let mut result = [[of_lines[line]]];
                        add_bias_and_clamp(simd, &mut result, bias, None);
                        if let Some(added) = epilogue.added {
                            let added = load(simd, part_of(added, begin, count));
                            result = [[simd.add_f32s(result[0][0], added)]];
                        }
                        add_bias_and_clamp(simd, &mut result, None, epilogue.clamp);
                        store(simd, result[0][0], part_of_mut(out, begin, count));
                    }
                }
            }
        }
    }
}

/// Returns `count` values from `begin` on.
#[inline(always)]
fn part_of_mut<T>(values: &mut [T], begin: usize, count: usize) -> &mut [T] {
    let (_, values) = values.split_at_mut(begin);
    let (values, _) = values.split_at_mut(count);
    values
}
