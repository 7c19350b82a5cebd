//! The first layer of image networks: convolutions of images of few channels.
//!
//! The images are in the order of their dims, and elements of windows are read where they are: unfolded windows of few
//! channels would take as long to write as to multiply.

use pulp::{Simd, WithSimd};

use super::im2col::Geometry;
use crate::error::Outcome;
use crate::gemm::{Epilogue, PackedMatrix, SLACK, TileLoop, accumulate, gather, part_of};
use crate::simd::dispatch;
use crate::threads::{each_chunk, sharing};

/// The maximum number of channels.
const MAX_CHANNELS: usize = 4;

/// The maximum number of results for which lines of an image are copied at a time.
const MAX_RESULTS: usize = 512;

/// The maximum number of copied elements.
const MAX_COPIED: usize = 1 << 17;

/// The windows of images whose channels are outermost.
pub(super) struct FirstLayer<'a> {
    geometry: &'a Geometry,
    /// The number of copied lines for each line of an image: every `stride`-th column is in the same one.
    phases: usize,
    /// The size of a copied line; as many elements as a tile has rows are read at a time.
    line_len: usize,
}

impl<'a> FirstLayer<'a> {
    /// Returns the windows of a convolution with packed filters, if they have few channels and are near each other.
    pub(super) fn of(geometry: &'a Geometry, packed: &PackedMatrix) -> Option<Self> {
        let ([rows, columns], [_, most]) = (geometry.window, geometry.steps);
        let ([_, stride], [_, reach]) = (geometry.strides, geometry.reach());
        let phases = stride.min(reach.saturating_add(1));
        let line_len = (reach / stride).saturating_add(most.min(MAX_RESULTS) + SLACK);
        let copied = rows.saturating_mul(phases).saturating_mul(line_len);
        let is_small = copied.saturating_mul(geometry.channels) <= MAX_COPIED;
        let fits = is_small && geometry.channels <= MAX_CHANNELS && rows * columns > 1;
        (fits && packed.is_one_block()).then_some(Self { geometry, phases, line_len })
    }

    /// Returns the number of elements that each thread copies.
    pub(super) fn copied(&self) -> usize {
        let [rows, _] = self.geometry.window;
        let lines = rows.saturating_mul(self.geometry.channels);
        lines.saturating_mul(self.phases).saturating_mul(self.line_len)
    }

    /// Convolves images. The rows of the matrix are the elements of a window, each with its channels.
    pub(super) fn convolve(
        &self,
        image: &[f32],
        packed: &PackedMatrix,
        epilogue: Epilogue<'_>,
        out: &mut [f32],
        finish_block: impl Fn(usize, &mut [f32]) -> Outcome<()> + Sync,
    ) -> Outcome<()> {
        let width = packed.width();
        let count = out.len() / width.max(1);
        let parts = count.div_ceil(MAX_RESULTS).next_multiple_of(sharing()).max(1);
        let at_once = count.div_ceil(parts).max(1);
        let [_, columns] = self.geometry.steps;
        let offsets = &self.offsets();
        each_chunk(out, at_once * width, |lines: &mut Vec<f32>, number, out| {
            let mut first = number * at_once;
            let mut rest = &mut *out;
            while !rest.is_empty() {
                // The results in one line.
                let left = (columns - first % columns) * width;
                let (out, others) = rest.split_at_mut(left.min(rest.len()));
                self.copy(image, first, out.len() / width, lines);
                dispatch(Line { offsets, packed, epilogue, lines, out });
                first += left / width;
                rest = others;
            }
            finish_block(number * at_once * width, out)
        })
    }

    /// Returns where the elements of the first window are in the copied lines.
    fn offsets(&self) -> Vec<usize> {
        let ([rows, columns], channels) = (self.geometry.window, self.geometry.channels);
        let ([_, stride], [_, dilation]) = (self.geometry.strides, self.geometry.dilations);
        let mut offsets = Vec::with_capacity(rows * columns * channels);
        for row in 0..rows {
            for pixel in (0..columns).map(|column| column * dilation) {
                let line =
                    |channel: usize| (row * channels + channel) * self.phases + pixel % stride;
                let at = |channel: usize| line(channel) * self.line_len + pixel / stride;
                offsets.extend((0..channels).map(at));
            }
        }
        offsets
    }

    /// Copies the elements of the windows of `count` results of a line, from `first` on. Those of one element of all windows
    /// are neighbours: `[line of the window][channel][column % stride][column / stride]`.
    fn copy(&self, image: &[f32], first: usize, count: usize, lines: &mut Vec<f32>) {
        let geometry = self.geometry;
        let ([height, width], channels) = (geometry.image, geometry.channels);
        let ([rows, _], [_, before], [_, stride]) =
            (geometry.window, geometry.pads, geometry.strides);
        let [_, reach] = geometry.reach();
        let (example, [top, left]) = geometry.origin(first);
        lines.resize(rows * channels * self.phases * self.line_len, 0.0);
        let mut into = lines.chunks_exact_mut(self.line_len);
        for row in 0..rows {
            let line = geometry.inside(top, row, 0);
            for channel in 0..channels {
                let values = line.map(|line| {
                    let line = (example * channels + channel) * height + line;
                    part_of(image, line * width, width)
                });
                for (phase, into) in into.by_ref().take(self.phases).enumerate() {
                    let (into, _) = into.split_at_mut(count + reach / stride + 1);
                    // The columns are those of the image, enlarged by the padding.
                    let begin = left + phase;
                    let inside = |end: usize| end.saturating_sub(begin).div_ceil(stride);
                    let (from, to) = (inside(before), inside(before + width));
                    let (from, to) = (from.min(into.len()), to.min(into.len()));
                    match values {
                        Some(values) if from < to => {
                            let (padding, rest) = into.split_at_mut(from);
                            let (now, after) = rest.split_at_mut(to - from);
                            padding.fill(0.0);
                            gather(values, begin + from * stride - before, stride, now);
                            after.fill(0.0);
                        }
                        _ => into.fill(0.0),
                    }
                }
            }
        }
    }
}

/// Neighbouring results of a line.
struct Line<'a> {
    offsets: &'a [usize],
    packed: &'a PackedMatrix,
    epilogue: Epilogue<'a>,
    lines: &'a [f32],
    out: &'a mut [f32],
}

impl WithSimd for Line<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        self.packed.run_tiled(simd, self);
    }
}

impl TileLoop for Line<'_> {
    #[inline(always)]
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
    ) {
        let Self { offsets, packed, epilogue, lines, out } = self;
        for (panel, at) in packed.one_block_panels::<LANES, VECTORS>(epilogue) {
            for row in (0..out.len() / packed.width()).step_by(ROWS) {
                let (_, lines) = lines.split_at(row);
                let mut sums = at.load_sums::<S, LANES, VECTORS, ROWS>(simd, row, out);
                for (columns, offset) in panel.iter().zip(offsets) {
                    let values = lines.get(*offset..).and_then(<[f32]>::first_chunk);
                    let Some(values) = values else { return };
                    accumulate(simd, &mut sums, *values, columns);
                }
                at.store_sums::<S, LANES, VECTORS, ROWS>(simd, sums, row, out);
            }
        }
    }
}
