//! Depthwise convolutions: one filter for each channel.
//!
//! Several neighbouring results are summed at a time, in vectors of channels. Every result is summed in the order of its
//! window, so its bits do not depend on its neighbours.

use std::ops::Range;

use pulp::{Simd, WithSimd};

use super::im2col::Geometry;
use crate::error::Outcome;
use crate::gemm::{Epilogue, add_bias_and_clamp, part_of};
use crate::simd::{dispatch, lanes, load, store};
use crate::threads::each_chunk;

impl Geometry {
    /// Convolves each channel with a filter of its own: `[window][channel]`.
    pub(super) fn convolve_depthwise(
        &self,
        image: &[f32],
        weights: &[f32],
        epilogue: Epilogue<'_>,
        out: &mut [f32],
        finish_block: impl Fn(usize, &mut [f32]) -> Outcome<()> + Sync,
    ) -> Outcome<()> {
        let ([_, columns], channels) = (self.steps, self.channels);
        let line = channels * columns;
        let repeated = self.repeated(weights, epilogue);
        let narrow = Sums { image, weights, epilogue, channels };
        let wide = repeated.as_ref().map(|repeated| Sums {
            image,
            weights: &repeated.weights,
            epilogue: Epilogue { bias: repeated.bias.as_deref(), ..epilogue },
            channels: lanes(),
        });
        each_chunk(out, line, |taps, number, out| {
            let first = number * columns;
            dispatch(Line { geometry: self, narrow, wide, first, taps, out });
            finish_block(number * line, out)
        })
    }

    /// Returns filters and biases as those of a vector, if that has all channels of neighbouring windows.
    fn repeated(&self, weights: &[f32], epilogue: Epilogue<'_>) -> Option<Repeated> {
        let (channels, [_, stride]) = (self.channels, self.strides);
        if channels >= lanes() || !lanes().is_multiple_of(channels) || stride != 1 {
            return None;
        }
        let repeat = |values: &[f32]| -> Vec<f32> {
            values.chunks(channels).flat_map(|all| all.repeat(lanes() / channels)).collect()
        };
        Some(Repeated { weights: repeat(weights), bias: epilogue.bias.map(repeat) })
    }

    /// Finds the elements of the windows of `count` neighbouring results of a line that are in the image. `row` is the number
    /// of the first result of the line, `start` the column of the first of them.
    fn taps(&self, row: usize, start: usize, count: usize, taps: &mut Vec<Tap>) {
        let (example, [top, _]) = self.origin(row);
        let ([height, width], [rows, columns]) = (self.image, self.window);
        let ([_, before], [_, stride], [_, dilation]) = (self.pads, self.strides, self.dilations);
        taps.clear();
        for down in 0..rows {
            let Some(line) = self.inside(top, down, 0) else { continue };
            for right in 0..columns {
                // The columns of the image, enlarged by the padding.
                let begin = start * stride + right * dilation;
                let from = before.saturating_sub(begin).div_ceil(stride);
                let to = (before + width).saturating_sub(begin).div_ceil(stride).min(count);
                if from >= to {
                    continue;
                }
                let column = begin + from * stride - before;
                let pixel = ((example * height + line) * width + column) * self.channels;
                taps.push(Tap { pixel, index: down * columns + right, inside: from..to });
            }
        }
    }

    /// Returns the columns of results whose windows are between the borders of the image at the left and right.
    fn between(&self) -> Range<usize> {
        let ([_, width], [_, before], [_, stride]) = (self.image, self.pads, self.strides);
        let ([_, columns], [_, reach]) = (self.steps, self.reach());
        let end = (before + width).saturating_sub(reach).div_ceil(stride);
        before.div_ceil(stride).min(columns)..end.min(columns)
    }
}

/// Filters and biases of narrow images, repeated to the size of a vector.
struct Repeated {
    weights: Vec<f32>,
    bias: Option<Vec<f32>>,
}

/// An element of the windows of neighbouring results.
struct Tap {
    /// Where the channels begin, for the first result for which it is in the image.
    pixel: usize,
    /// Its number in the window.
    index: usize,
    /// The results for which it is in the image.
    inside: Range<usize>,
}

/// A line of results.
struct Line<'a> {
    geometry: &'a Geometry,
    narrow: Sums<'a>,
    /// Where a vector has all channels of neighbouring windows.
    wide: Option<Sums<'a>>,
    /// The number of the first result.
    first: usize,
    /// Space for the elements of windows.
    taps: &'a mut Vec<Tap>,
    out: &'a mut [f32],
}

impl WithSimd for Line<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let [_, columns] = self.geometry.steps;
        let mut done = 0..0;
        if let Some(wide) = self.wide {
            done = self.geometry.between();
            let next = self.run_wide::<S, 8>(simd, wide, done.clone());
            done.end = self.run_wide::<S, 1>(simd, wide, next..done.end);
        }
        for columns in [0..done.start, done.end..columns] {
            match columns.len() {
                4.. => self.run::<S, 4>(simd, columns),
                _ => self.run::<S, 1>(simd, columns),
            }
        }
    }
}

impl Line<'_> {
    /// Computes columns in vectors of several results, `COUNT` at a time; returns the first column that is left.
    #[inline(always)]
    fn run_wide<S: Simd, const COUNT: usize>(
        &mut self,
        simd: S,
        wide: Sums<'_>,
        columns: Range<usize>,
    ) -> usize {
        let (channels, step) = (self.narrow.channels, S::F32_LANES);
        let at_once = COUNT * (step / channels);
        let mut at = columns.start;
        self.geometry.taps(self.first, at, 1, self.taps);
        while at + at_once <= columns.end {
            let (_, out) = self.out.split_at_mut(at * channels);
            let shift = (at - columns.start) * channels;
            wide.sum::<S, COUNT, 1, false>(simd, self.taps, shift, step, 0, out);
            at += at_once;
        }
        at
    }

    /// Computes columns, `COUNT` at a time: at least so many. The last ones may be computed twice.
    #[inline(always)]
    fn run<S: Simd, const COUNT: usize>(&mut self, simd: S, columns: Range<usize>) {
        let Self { geometry, narrow, first, .. } = *self;
        let (channels, [_, stride]) = (narrow.channels, geometry.strides);
        let (between, step) = (geometry.between(), stride * channels);
        // Between the borders, windows have the same elements, some pixels further.
        let mut known: Option<usize> = None;
        for start in columns.clone().step_by(COUNT) {
            let start = start.min(columns.end - COUNT);
            let is_between = between.start <= start && start + COUNT <= between.end;
            let shift = match known.filter(|_| is_between) {
                Some(known) => (start - known) * step,
                None => {
                    geometry.taps(first, start, COUNT, self.taps);
                    known = is_between.then_some(start);
                    0
                }
            };
            let (_, out) = self.out.split_at_mut(start * channels);
            let (taps, lanes) = (self.taps.as_slice(), S::F32_LANES);
            let mut begin = 0;
            macro_rules! sum {
                ($vectors:literal, $begin:expr) => {
                    match is_between {
                        true => narrow
                            .sum::<S, COUNT, $vectors, false>(simd, taps, shift, step, $begin, out),
                        false => narrow
                            .sum::<S, COUNT, $vectors, true>(simd, taps, shift, step, $begin, out),
                    }
                };
            }
            // As many sums as there are registers for.
            while lanes == 16 && begin + 4 * lanes <= channels {
                sum!(4, begin);
                begin += 4 * lanes;
            }
            while begin + 2 * lanes <= channels {
                sum!(2, begin);
                begin += 2 * lanes;
            }
            while begin < channels {
                // The last channels may be computed twice.
                sum!(1, begin.min(channels.saturating_sub(lanes)));
                begin += lanes;
            }
        }
    }
}

/// Sums over windows, each channel for itself.
#[derive(Clone, Copy)]
struct Sums<'a> {
    image: &'a [f32],
    weights: &'a [f32],
    epilogue: Epilogue<'a>,
    channels: usize,
}

impl Sums<'_> {
    /// Sums `VECTORS` vectors of channels, from `begin` on, of `COUNT` results, whose windows are `step` elements apart. Those
    /// of the first are `shift` elements after the taps. `CHECKED` if there are elements that are not in the image.
    #[inline(always)]
    #[expect(
        clippy::indexing_slicing,
        clippy::needless_range_loop,
        reason = "constant bounds: what is indexed stays in registers"
    )]
    fn sum<S: Simd, const COUNT: usize, const VECTORS: usize, const CHECKED: bool>(
        &self,
        simd: S,
        taps: &[Tap],
        shift: usize,
        step: usize,
        begin: usize,
        out: &mut [f32],
    ) {
        let count = (VECTORS * S::F32_LANES).min(self.channels);
        let part = |values: &'_ [f32], at: usize| {
            vectors::<S, VECTORS>(simd, part_of(values, at + begin, count))
        };
        let mut sums = [[simd.splat_f32s(0.0); VECTORS]; COUNT];
        for Tap { pixel, index, inside } in taps {
            let weights = part(self.weights, index * self.channels);
            for at in 0..COUNT {
                if CHECKED && !inside.contains(&at) {
                    continue;
                }
                let first = if CHECKED { inside.start } else { 0 };
                let pixel = part(self.image, pixel + shift + (at - first) * step);
                for vector in 0..VECTORS {
                    let sum = sums[at][vector];
                    sums[at][vector] = simd.mul_add_e_f32s(pixel[vector], weights[vector], sum);
                }
            }
        }
        let bias = self.epilogue.bias.map(|bias| part(bias, 0));
        add_bias_and_clamp(simd, &mut sums, bias, self.epilogue.clamp);
        for at in 0..COUNT {
            let begin = at * self.channels + begin;
            let Some(mut rest) = out.get_mut(begin..begin + count) else { return };
            for vector in 0..VECTORS {
                let (now, later) = rest.split_at_mut(S::F32_LANES.min(rest.len()));
                store(simd, sums[at][vector], now);
                rest = later;
            }
        }
    }
}

/// Loads vectors; what a single one has beyond the values is zero.
#[inline(always)]
fn vectors<S: Simd, const COUNT: usize>(simd: S, values: &[f32]) -> [S::f32s; COUNT] {
    if let Some(vectors) = S::as_simd_f32s(values).0.first_chunk::<COUNT>() {
        return *vectors;
    }
    [load(simd, values); COUNT]
}
