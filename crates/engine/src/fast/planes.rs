//! Convolutions of images of few channels, with which networks begin.
//!
//! The images are in the order of their dims, and elements of windows are read where they are: unfolded windows of few
//! channels would take as long to write as to multiply.

use std::ops::Range;

use pulp::{Arch, Simd, WithSimd};

use super::convolution::Geometry;
use super::product::{Finish, Packed, Tiled, add, part_of};
use crate::item::Outcome;
use crate::threads::{each_chunk, sharing};

/// The maximum number of channels.
pub(super) const CHANNELS: usize = 4;

/// The maximum number of results for which lines of an image are copied at a time.
const RESULTS: usize = 512;

/// The number of elements after those of a copied line, of which as many as a tile has rows are read at a time.
const SLACK: usize = 16;

impl Geometry {
    /// Convolves images whose channels are outermost. The rows of the matrix are the elements of a window, each with its
    /// channels.
    pub(super) fn convolve_planes(
        &self,
        image: &[f32],
        packed: &Packed,
        finish: Finish<'_>,
        out: &mut [f32],
        then: impl Fn(usize, &mut [f32]) -> Outcome<()> + Sync,
    ) -> Outcome<()> {
        let width = packed.width();
        let count = out.len() / width.max(1);
        let parts = count.div_ceil(RESULTS).next_multiple_of(sharing()).max(1);
        let each = count.div_ceil(parts).max(1);
        let planes = Planes::new(self, image, each);
        let [_, columns] = self.steps;
        each_chunk(out, each * width, |lines: &mut Vec<f32>, number, out| {
            let mut first = number * each;
            let mut rest = &mut *out;
            while !rest.is_empty() {
                // The results in one line.
                let left = (columns - first % columns) * width;
                let (out, others) = rest.split_at_mut(left.min(rest.len()));
                planes.copy(first, out.len() / width, lines);
                Arch::new().dispatch(Line { planes: &planes, packed, finish, lines, out });
                first += left / width;
                rest = others;
            }
            then(number * each * width, out)
        })
    }
}

/// The windows of images whose channels are outermost.
struct Planes<'a> {
    geometry: &'a Geometry,
    image: &'a [f32],
    /// The size of a copied line.
    apart: usize,
    /// Where the elements of the first window are in the copied lines.
    offsets: Vec<usize>,
}

impl<'a> Planes<'a> {
    /// Returns the windows of at most `count` results of a line at a time.
    fn new(geometry: &'a Geometry, image: &'a [f32], count: usize) -> Self {
        let ([rows, columns], [_, dilation]) = (geometry.window, geometry.dilations);
        let ([_, stride], [_, reach], [_, most]) =
            (geometry.strides, geometry.reach(), geometry.steps);
        let apart = count.min(most) + reach / stride + SLACK;
        let line = |row: usize, channel: usize, place: usize| {
            (row * geometry.channels + channel) * stride + place % stride
        };
        let window = (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column)));
        let offsets = window.flat_map(|(row, column)| {
            let place = column * dilation;
            (0..geometry.channels)
                .map(move |channel| line(row, channel, place) * apart + place / stride)
        });
        Self { geometry, image, apart, offsets: offsets.collect() }
    }

    /// Copies the elements of the windows of `count` results of a line, from `first` on. Those of one element of all windows
    /// are neighbours: `[line of the window][channel][column % stride][column / stride]`.
    fn copy(&self, first: usize, count: usize, lines: &mut Vec<f32>) {
        let geometry = self.geometry;
        let ([height, width], channels) = (geometry.image, geometry.channels);
        let ([rows, _], [_, before], [_, stride]) =
            (geometry.window, geometry.pads, geometry.strides);
        let [_, reach] = geometry.reach();
        let (example, [top, left]) = geometry.place(first);
        lines.resize(rows * channels * stride * self.apart, 0.0);
        let mut into = lines.chunks_exact_mut(self.apart);
        for row in 0..rows {
            let line = geometry.inside(top, row, 0);
            for channel in 0..channels {
                let values = line.map(|line| {
                    let line = (example * channels + channel) * height + line;
                    part_of(self.image, line * width, width)
                });
                for (phase, into) in into.by_ref().take(stride).enumerate() {
                    let (into, _) = into.split_at_mut(count + reach / stride + 1);
                    // The columns are those of the image, enlarged by the padding.
                    let begin = left + phase;
                    let inside = |end: usize| end.saturating_sub(begin).div_ceil(stride);
                    let (from, to) = (inside(before), inside(before + width));
                    let (from, to) = (from.min(into.len()), to.min(into.len()));
                    match values {
                        Some(values) if from < to => {
                            let values = part_from(values, begin + from * stride - before);
                            fill(into, from..to, values, stride);
                        }
                        _ => into.fill(0.0),
                    }
                }
            }
        }
    }
}

/// Sets a part of a line to elements that are `stride` apart, and the rest to zero.
fn fill(into: &mut [f32], part: Range<usize>, values: &[f32], stride: usize) {
    let (before, rest) = into.split_at_mut(part.start);
    let (now, after) = rest.split_at_mut(part.len());
    before.fill(0.0);
    after.fill(0.0);
    match stride {
        1 => now.copy_from_slice(part_of(values, 0, now.len())),
        2 => {
            // In vectors, but for the last element, after which there may be no other.
            let (pairs, last) = values.as_chunks::<2>();
            now.iter_mut().zip(pairs).for_each(|(into, [value, _])| *into = *value);
            if let (Some(into), [value, ..]) = (now.get_mut(pairs.len()), last) {
                *into = *value;
            }
        }
        _ => {
            let values = values.iter().step_by(stride);
            now.iter_mut().zip(values).for_each(|(into, value)| *into = *value);
        }
    }
}

/// Returns the values from `begin` on.
fn part_from(values: &[f32], begin: usize) -> &[f32] {
    values.split_at(begin).1
}

/// Neighbouring results of a line.
struct Line<'a> {
    planes: &'a Planes<'a>,
    packed: &'a Packed,
    finish: Finish<'a>,
    lines: &'a [f32],
    out: &'a mut [f32],
}

impl WithSimd for Line<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        self.packed.tiled(simd, self);
    }
}

impl Tiled for Line<'_> {
    #[inline(always)]
    fn run<
        S: Simd,
        const LANES: usize,
        const VECTORS: usize,
        const ROWS: usize,
        const LESS: usize,
        const FEW: usize,
    >(
        self,
        simd: S,
    ) {
        let Self { planes, packed, finish, lines, out } = self;
        for (panel, at) in packed.whole::<LANES, VECTORS>(finish) {
            for row in (0..out.len() / packed.width()).step_by(ROWS) {
                let (_, lines) = lines.split_at(row);
                let mut sums = at.known::<S, LANES, VECTORS, ROWS>(simd, row, out);
                for (columns, offset) in panel.iter().zip(&planes.offsets) {
                    let values = lines.get(*offset..).and_then(<[f32]>::first_chunk);
                    let Some(values) = values else { return };
                    add(simd, &mut sums, *values, columns);
                }
                at.put::<S, LANES, VECTORS, ROWS>(simd, sums, row, out);
            }
        }
    }
}
