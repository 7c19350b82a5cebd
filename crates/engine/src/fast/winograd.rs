//! Convolutions of windows of 3 x 3 by Winograd's algorithm F(2 x 2, 3 x 3) (Lavin and Gray, 2015): four neighbouring results,
//! a square, take 16 multiplications for each channel instead of 36.
//!
//! The 16 elements under the four windows of a square are changed to 16 sums of them, filters likewise. Each of the 16 places
//! is a product of matrices over the channels, and results are sums of its 16 elements. A result depends on the elements of
//! its own window alone. One that is infinite may make it NaN.

use std::ops::Range;

use pulp::{Arch, Simd, WithSimd};

use super::buffers::{Buffer, Buffers};
use super::convolution::Geometry;
use super::product::{Finish, Lines, Packed, finished, load, part_of, store};
use crate::item::Outcome;
use crate::threads::{each, sharing};

/// The number of elements under the windows of a square.
const PLACES: usize = 16;

/// The number of elements of a window.
const WINDOW: usize = 9;

/// The minimum number of channels of images and of results: with fewer, the sums take longer than they save.
const CHANNELS: usize = 24;

/// The number of elements of squares, and of their results, that stay in the second-level cache.
const CACHED: usize = 1 << 18;

/// The minimum number of squares of a strip, if there are so many: filters are read once for all of them.
const SQUARES: usize = 48;

/// The number of elements between places, so that those of one square are not all in the same set of the cache.
const APART: usize = 16;

/// The filters of a convolution.
#[derive(Debug)]
pub(super) struct Winograd {
    channels: usize,
    results: usize,
    /// `[place][channel][result]`.
    filters: Packed,
}

/// Returns whether filters of some channels and results are worth it.
pub(super) fn is_worth(channels: usize, results: usize) -> bool {
    channels.min(results) >= CHANNELS
}

impl Winograd {
    /// Packs filters in memory from `room`. `read` is called with an element of the window, a channel and the first of some
    /// results, and sets a slice to that element of their filters.
    ///
    /// # Errors
    /// If memory is insufficient.
    pub(super) fn new(
        [channels, results]: [usize; 2],
        room: impl Fn(usize) -> Outcome<Buffer>,
        read: impl Fn([usize; 3], &mut [f32]),
    ) -> Outcome<Self> {
        let (size, mut window) = ([PLACES, channels, results], Vec::new());
        let filters = Packed::together(size, channels, room, |[channel, first], places| {
            let count = places.first().map_or(0, |place| place.len());
            window.resize(WINDOW * count, 0.0);
            for (element, into) in window.chunks_exact_mut(count.max(1)).enumerate() {
                read([element, channel, first], into);
            }
            Arch::new().dispatch(Filters { window: &window, count, places });
        })?;
        Ok(Self { channels, results, filters: filters.in_place() })
    }

    /// Returns the size of the packed filters in bytes.
    pub(super) fn nbytes(&self) -> u64 {
        self.filters.nbytes()
    }

    /// Returns the number of elements in which each thread computes.
    pub(super) fn workspace(&self, geometry: &Geometry) -> usize {
        let [_, across] = squares(geometry);
        let size = |channels: usize| Self::places(self.lines(geometry) * across, channels);
        size(self.channels).saturating_add(size(self.results))
    }

    /// Returns the number of elements of all places of some squares.
    fn places(squares: usize, channels: usize) -> usize {
        PLACES.saturating_mul(squares.saturating_mul(channels).saturating_add(APART))
    }

    /// Returns the number of lines of squares in a strip.
    fn lines(&self, geometry: &Geometry) -> usize {
        let [down, across] = squares(geometry);
        let most = CACHED / (PLACES * (self.channels + self.results));
        (most.max(SQUARES) / across.max(1)).clamp(1, down.max(1))
    }

    /// Convolves images. `then` is called with the offset of each finished part of the results.
    pub(super) fn convolve(
        &self,
        geometry: &Geometry,
        image: &[f32],
        finish: Finish<'_>,
        (out, buffers): (&mut [f32], &Buffers),
        then: impl Fn(usize, &mut [f32]) -> Outcome<()> + Sync,
    ) -> Outcome<()> {
        let ([height, width], [rows, columns]) = (geometry.image, geometry.steps);
        let [down, _] = squares(geometry);
        let size = rows * columns * self.results;
        let examples = out.len().checked_div(size).unwrap_or(0);
        // As many strips for each thread.
        let strips = down.div_ceil(self.lines(geometry));
        let strips = (strips * examples).next_multiple_of(sharing()).div_ceil(examples.max(1));
        let lines = down.div_ceil(strips.max(1)).max(1);
        let line = 2 * columns * self.results;
        let parts = out.chunks_mut(size.max(1)).enumerate().flat_map(|(example, out)| {
            let strips = out.chunks_mut((lines * line).max(1)).enumerate();
            strips.map(move |(number, out)| (example, number * lines, out))
        });
        each(parts.collect(), |unfolded: &mut Vec<f32>, _, (example, first, out)| {
            let begin = example * size + first * line;
            let pixels = height * width * self.channels;
            let strip = Strip {
                geometry,
                image: part_of(image, example * pixels, pixels),
                lines: first..first + out.len().div_ceil(line),
            };
            let squares = strip.count();
            let mut values = buffers.take(Self::places(squares, self.channels))?;
            let mut sums = buffers.take(Self::places(squares, self.results))?;
            let blank = vec![0.0; self.channels];
            let (channels, results) = (self.channels, self.results);
            let arch = Arch::new();
            arch.dispatch(Spread { strip: &strip, channels, blank: &blank, values: &mut values });
            let apart = squares * results + APART;
            for (place, sums) in sums.chunks_exact_mut(apart).enumerate() {
                let each = squares * channels + APART;
                let rows = Lines { apart: channels, each, values: &values };
                let (sums, _) = sums.split_at_mut(squares * results);
                self.filters.multiply_group(place, &rows, unfolded, sums);
            }
            let finish = finish.within(begin, out.len());
            arch.dispatch(Join { strip: &strip, results, finish, sums: &sums, out: &mut *out });
            then(begin, out)
        })
    }
}

/// Returns the numbers of lines of squares and of squares in a line.
fn squares(geometry: &Geometry) -> [usize; 2] {
    geometry.steps.map(|side| side.div_ceil(2))
}

/// Lines of squares of an image.
struct Strip<'a> {
    geometry: &'a Geometry,
    image: &'a [f32],
    lines: Range<usize>,
}

impl Strip<'_> {
    /// Returns the number of squares.
    fn count(&self) -> usize {
        let [_, across] = squares(self.geometry);
        self.lines.len() * across
    }

    /// Returns the line and the column of each square.
    fn squares(&self) -> impl Iterator<Item = [usize; 2]> {
        let [_, across] = squares(self.geometry);
        self.lines.clone().flat_map(move |line| (0..across).map(move |column| [line, column]))
    }

    /// Returns the channels of the elements under the windows of a square; those in the padding are `blank`.
    fn elements<'e>(&'e self, square: [usize; 2], blank: &'e [f32]) -> [&'e [f32]; PLACES] {
        let ([_, width], channels) = (self.geometry.image, blank.len());
        let [line, column] = square.map(|at| 2 * at);
        std::array::from_fn(|place| {
            let down = self.geometry.inside(line, place / 4, 0);
            let right = self.geometry.inside(column, place % 4, 1);
            match (down, right) {
                (Some(down), Some(right)) => {
                    part_of(self.image, (down * width + right) * channels, channels)
                }
                _ => blank,
            }
        })
    }
}

/// The change of some filters.
struct Filters<'a, 'p> {
    /// `[element of the window][filter]`.
    window: &'a [f32],
    count: usize,
    places: &'a mut [&'p mut [f32]],
}

impl WithSimd for Filters<'_, '_> {
    type Output = ();

    #[inline(always)]
    #[expect(
        clippy::indexing_slicing,
        reason = "constant bounds: what is indexed stays in registers"
    )]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { window, count, places } = self;
        for first in (0..count).step_by(S::F32_LANES) {
            let lanes = S::F32_LANES.min(count - first);
            let mut elements = [[simd.splat_f32s(0.0); 3]; 3];
            for element in 0..WINDOW {
                let from = part_of(window, element * count + first, lanes);
                elements[element / 3][element % 3] = load(simd, from);
            }
            let mut lines = [[simd.splat_f32s(0.0); 4]; 3];
            for line in 0..3 {
                lines[line] = changed(simd, elements[line]);
            }
            let mut sums = [[simd.splat_f32s(0.0); 4]; 4];
            for column in 0..4 {
                sums[column] =
                    changed(simd, [lines[0][column], lines[1][column], lines[2][column]]);
            }
            for (place, into) in places.iter_mut().enumerate() {
                store(simd, sums[place % 4][place / 4], part_of_mut(into, first, lanes));
            }
        }
    }
}

/// Returns the change of a line of a filter.
#[inline(always)]
fn changed<S: Simd>(simd: S, [a, b, c]: [S::f32s; 3]) -> [S::f32s; 4] {
    let (half, sides) = (simd.splat_f32s(0.5), simd.add_f32s(a, c));
    let sum = simd.mul_f32s(simd.add_f32s(sides, b), half);
    [a, sum, simd.mul_f32s(simd.sub_f32s(sides, b), half), c]
}

/// Returns the change of a line of elements under windows.
#[inline(always)]
fn spread<S: Simd>(simd: S, [a, b, c, d]: [S::f32s; 4]) -> [S::f32s; 4] {
    [simd.sub_f32s(a, c), simd.add_f32s(b, c), simd.sub_f32s(c, b), simd.sub_f32s(b, d)]
}

/// Returns the results of a line of sums.
#[inline(always)]
fn joined<S: Simd>(simd: S, [a, b, c, d]: [S::f32s; 4]) -> [S::f32s; 2] {
    let sum = simd.add_f32s(simd.add_f32s(a, b), c);
    [sum, simd.sub_f32s(simd.sub_f32s(b, c), d)]
}

/// The change of the elements under windows.
struct Spread<'a> {
    strip: &'a Strip<'a>,
    channels: usize,
    blank: &'a [f32],
    /// `[place][square][channel]`.
    values: &'a mut [f32],
}

impl WithSimd for Spread<'_> {
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

impl Spread<'_> {
    #[inline(always)]
    #[expect(
        clippy::indexing_slicing,
        reason = "constant bounds: what is indexed stays in registers"
    )]
    fn run<S: Simd, const LANES: usize>(self, simd: S) {
        let Self { strip, channels, blank, values } = self;
        let (whole, rest) = (channels / LANES, channels % LANES);
        let mut places = values.chunks_exact_mut(strip.count() * channels + APART);
        let mut places: [&mut [f32]; PLACES] =
            std::array::from_fn(|_| places.next().unwrap_or_default());
        for (number, square) in strip.squares().enumerate() {
            let from = strip.elements(square, blank);
            let mut into = places.each_mut().map(|it| part_of_mut(it, number * channels, channels));
            let vectors = from.map(|it| part_of(it.as_chunks::<LANES>().0, 0, whole));
            let made =
                into.each_mut().map(|it| part_of_mut(it.as_chunks_mut::<LANES>().0, 0, whole));
            for at in 0..whole {
                let mut elements = [[simd.splat_f32s(0.0); 4]; 4];
                for place in 0..PLACES {
                    elements[place / 4][place % 4] = load(simd, &vectors[place][at]);
                }
                let sums = squared(simd, elements);
                for place in 0..PLACES {
                    store(simd, sums[place / 4][place % 4], &mut made[place][at]);
                }
            }
            if rest > 0 {
                let mut elements = [[simd.splat_f32s(0.0); 4]; 4];
                for place in 0..PLACES {
                    let from = part_of(from[place], whole * LANES, rest);
                    elements[place / 4][place % 4] = load(simd, from);
                }
                let sums = squared(simd, elements);
                for place in 0..PLACES {
                    let into = part_of_mut(into[place], whole * LANES, rest);
                    store(simd, sums[place / 4][place % 4], into);
                }
            }
        }
    }
}

/// Returns the change of the elements under the windows of a square.
#[inline(always)]
#[expect(clippy::indexing_slicing, reason = "constant bounds: what is indexed stays in registers")]
fn squared<S: Simd>(simd: S, elements: [[S::f32s; 4]; 4]) -> [[S::f32s; 4]; 4] {
    let mut lines = elements;
    for line in 0..4 {
        lines[line] = spread(simd, elements[line]);
    }
    let mut made = lines;
    for at in 0..4 {
        let column = spread(simd, [lines[0][at], lines[1][at], lines[2][at], lines[3][at]]);
        for line in 0..4 {
            made[line][at] = column[line];
        }
    }
    made
}

/// The sums of places that are results.
struct Join<'a> {
    strip: &'a Strip<'a>,
    results: usize,
    finish: Finish<'a>,
    /// `[place][square][result]`.
    sums: &'a [f32],
    out: &'a mut [f32],
}

impl WithSimd for Join<'_> {
    type Output = ();

    #[inline(always)]
    #[expect(
        clippy::indexing_slicing,
        clippy::needless_range_loop,
        reason = "constant bounds: what is indexed stays in registers"
    )]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { strip, results, finish, sums, out } = self;
        let each = strip.count() * results + APART;
        let [_, columns] = strip.geometry.steps;
        let rows = out.len() / (columns * results);
        for (number, [line, column]) in strip.squares().enumerate() {
            let (top, left) = (2 * (line - strip.lines.start), 2 * column);
            let (rows, columns_here) = ((rows - top).min(2), (columns - left).min(2));
            for first in (0..results).step_by(S::F32_LANES) {
                let count = S::F32_LANES.min(results - first);
                let mut lines = [[simd.splat_f32s(0.0); 2]; 4];
                for line in 0..4 {
                    let mut of_line = [simd.splat_f32s(0.0); 4];
                    for column in 0..4 {
                        let begin = (line * 4 + column) * each + number * results + first;
                        of_line[column] = load(simd, part_of(sums, begin, count));
                    }
                    lines[line] = joined(simd, of_line);
                }
                let mut bias = None;
                if let Some(all) = finish.bias {
                    bias = Some([load(simd, part_of(all, first, count))]);
                }
                for column in 0..2 {
                    let of_column =
                        [lines[0][column], lines[1][column], lines[2][column], lines[3][column]];
                    let made = joined(simd, of_column);
                    for line in 0..2 {
                        if line >= rows || column >= columns_here {
                            continue;
                        }
                        let begin = ((top + line) * columns + left + column) * results + first;
                        let mut made = [[made[line]]];
                        finished(simd, &mut made, bias, None);
                        if let Some(added) = finish.added {
                            let added = load(simd, part_of(added, begin, count));
                            made = [[simd.add_f32s(made[0][0], added)]];
                        }
                        finished(simd, &mut made, None, finish.clamp);
                        store(simd, made[0][0], part_of_mut(out, begin, count));
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
