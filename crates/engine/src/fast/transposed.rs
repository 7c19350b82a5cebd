//! Transposed convolutions whose filters are packed: a product of all pixels with the filter, and sums of its results where
//! windows overlap.

use std::slice::ChunksExact;

use lodstone_schema::Finding;
use pulp::NullaryFnOnce;

use super::im2col::Geometry;
use crate::error::Outcome;
use crate::gemm::{Epilogue, PackedMatrix, StridedRows, part_of};
use crate::simd::{dispatch, wide};
use crate::threads::{each_chunk, sharing};

impl Geometry {
    /// Returns the number of elements that a transposed convolution computes before it sums them.
    pub(super) fn products(&self, examples: usize, packed: &PackedMatrix) -> usize {
        let pixels = self.image.iter().fold(examples, |all, dim| all.saturating_mul(*dim));
        pixels.saturating_mul(packed.width())
    }

    /// Computes a transposed convolution. The columns of the matrix are the elements of a window, each with its channels.
    pub(super) fn convolve_transposed(
        &self,
        image: &[f32],
        (packed, groups): (&PackedMatrix, usize),
        epilogue: Epilogue<'_>,
        out: &mut [f32],
        finish_block: impl Fn(usize, &mut [f32]) -> Outcome<()> + Sync,
    ) -> Outcome<()> {
        let ([height, width], [rows, columns], [tall, across]) =
            (self.image, self.steps, self.window);
        let channels = packed.width() / (tall * across);
        let (line, from) = (columns * channels, width * packed.width());
        let examples = image.len() / (height * width * self.channels).max(1);
        let pixels = StridedRows {
            stride: self.channels,
            group_width: self.channels / groups,
            values: image,
        };
        let sums =
            Sums { geometry: self, packed, per_group: channels / groups, channels, epilogue };
        let ([down, _], [dilation, _], [before, _]) = (self.strides, self.dilations, self.pads);
        if (tall - 1) * dilation < down && before.is_multiple_of(down) && rows.is_multiple_of(down)
        {
            // Every line of the image has lines of the result of its own: its products stay in the cache.
            return each_chunk(out, down * line, |scratch: &mut Scratch, number, out| {
                let (example, group) = (number / (rows / down), number % (rows / down));
                let place = group + before / down;
                if place < height {
                    scratch.products.resize(from, 0.0);
                    let first = (example * height + place) * width;
                    let Scratch { unfolded, products } = &mut *scratch;
                    packed.multiply_alone(&pixels, first, Epilogue::default(), unfolded, products);
                }
                for (at, out) in out.chunks_exact_mut(line).enumerate() {
                    sums.line(group * down + at, |_| &scratch.products, out);
                }
                finish_block(number * down * line, out)
            });
        }
        if examples > 1 && examples >= sharing() {
            // The products of an image stay in the cache.
            return each_chunk(out, rows * line, |scratch: &mut Scratch, example, out| {
                let Scratch { unfolded, products } = scratch;
                products.resize(height * from, 0.0);
                let (first, none) = (example * height * width, Epilogue::default());
                packed.multiply_alone(&pixels, first, none, unfolded, products);
                for (row, out) in out.chunks_exact_mut(line).enumerate() {
                    sums.line(row, |place| part_of(products, place * from, from), out);
                }
                finish_block(example * rows * line, out)
            });
        }
        // Not from the buffers, which would keep it when it is no longer charged.
        let mut products = vec![0.0; self.products(examples, packed)];
        packed.multiply(&pixels, Epilogue::default(), &mut products, |_, _| Ok(()))?;
        each_chunk(out, line, |(), number, out| {
            let (example, row) = (number / rows.max(1), number % rows.max(1));
            let of = |place| part_of(&products, (example * height + place) * from, from);
            sums.line(row, of, out);
            finish_block(number * line, out)
        })
    }

    /// Computes a transposed convolution whose windows are next to each other. The columns of each matrix are the elements of
    /// a line of a window, each with its channels.
    pub(super) fn convolve_adjacent(
        &self,
        image: &[f32],
        lines: &[PackedMatrix],
        epilogue: Epilogue<'_>,
        out: &mut [f32],
        finish_block: impl Fn(usize, &mut [f32]) -> Outcome<()> + Sync,
    ) -> Outcome<()> {
        let ([_, width], channels) = (self.image, self.channels);
        let pixels = StridedRows { stride: channels, group_width: channels, values: image };
        let first = lines.first().ok_or_else(|| Finding::internal("a window has no lines"))?;
        let line = width * first.width();
        let size = line * lines.len();
        each_chunk(out, size, |unfolded, number, out| {
            for (packed, out) in lines.iter().zip(out.chunks_exact_mut(line.max(1))) {
                packed.multiply_alone(&pixels, number * width, epilogue, unfolded, out);
            }
            finish_block(number * size, out)
        })
    }

    /// Returns the line of an image whose window has line `row` of the result in its line `tap`, if there is one.
    fn source(&self, row: usize, tap: usize) -> Option<usize> {
        let ([before, _], [dilation, _]) = (self.pads, self.dilations);
        let ([height, _], [stride, _]) = (self.image, self.strides);
        let at = (row + before).checked_sub(tap * dilation)?;
        (at.is_multiple_of(stride) && at / stride < height).then_some(at / stride)
    }
}

/// The space in which a thread multiplies a line of an image.
#[derive(Default)]
struct Scratch {
    unfolded: Vec<f32>,
    products: Vec<f32>,
}

/// The sums of the products of a transposed convolution.
struct Sums<'a> {
    geometry: &'a Geometry,
    packed: &'a PackedMatrix,
    channels: usize,
    /// The number of channels of a group.
    per_group: usize,
    epilogue: Epilogue<'a>,
}

impl Sums<'_> {
    /// Computes a line of the result. `products` returns those of a line of the image.
    fn line<'p>(&self, row: usize, products: impl Fn(usize) -> &'p [f32], out: &mut [f32]) {
        let Self { geometry, packed, channels, epilogue, .. } = *self;
        match epilogue.bias {
            Some([bias]) => out.fill(*bias),
            Some(bias) => {
                out.chunks_exact_mut(channels).for_each(|pixel| pixel.copy_from_slice(bias));
            }
            None => out.fill(0.0),
        }
        let [tall, across] = geometry.window;
        for line in 0..tall {
            if let Some(place) = geometry.source(row, line) {
                let (first, products) = (line * across, products(place));
                let products = products.chunks_exact(packed.width());
                dispatch(Added { sums: self, first, products, out });
            }
        }
        if let Some([least, most]) = epilogue.clamp {
            wide!({
                for value in out.iter_mut() {
                    let raised = if *value < least { least } else { *value };
                    *value = if raised > most { most } else { raised };
                }
            });
        }
    }
}

/// The products of a line of an image with a line of the window, which are added to a line of the result.
struct Added<'a> {
    sums: &'a Sums<'a>,
    /// The number of the first element of the line of the window.
    first: usize,
    /// Those of each pixel.
    products: ChunksExact<'a, f32>,
    out: &'a mut [f32],
}

impl Added<'_> {
    /// Adds them to neighbouring results: the elements of the window follow each other there, too. The last pixels come
    /// first, so that a result is the sum of the elements of the window in their order, as in [`add_taps`](Self::add_taps).
    #[inline(always)]
    fn add_windows(self) {
        let Self { sums: Sums { geometry, channels, .. }, first, products, out } = self;
        let ([_, across], [_, columns], [_, before]) =
            (geometry.window, geometry.steps, geometry.pads);
        for (place, products) in products.enumerate().rev() {
            // The elements whose results are not cropped.
            let begin = before.saturating_sub(place);
            let end = (columns + before).saturating_sub(place).min(across);
            if begin < end {
                let (len, to) = ((end - begin) * channels, (place + begin - before) * channels);
                let products = part_of(products, (first + begin) * channels, len);
                add(out.get_mut(to..to + len).unwrap_or_default(), products);
            }
        }
    }

    /// Adds the products with one element of the window after the other.
    #[inline(always)]
    fn add_taps(self) {
        let Self { sums: Sums { geometry, channels, per_group, .. }, first, products, out } = self;
        let ([tall, across], [_, right]) = (geometry.window, geometry.strides);
        let ([_, dilation], [_, before]) = (geometry.dilations, geometry.pads);
        for column in 0..across {
            // The first pixel that is not cropped, and the result that it adds to.
            let skipped = before.saturating_sub(column * dilation).div_ceil(right);
            let to = skipped * right + column * dilation - before;
            let (tap, products) = (first + column, products.clone().skip(skipped));
            if *channels == 1 {
                // No loop over channels.
                let products = products.filter_map(|products| products.get(tap));
                let results = out.iter_mut().skip(to).step_by(right);
                results.zip(products).for_each(|(sum, value)| *sum += value);
                continue;
            }
            let results = out.chunks_exact_mut(*channels).skip(to).step_by(right);
            for (results, products) in results.zip(products) {
                let products = products.chunks_exact(*per_group).skip(tap).step_by(tall * across);
                results.chunks_exact_mut(*per_group).zip(products).for_each(|(a, b)| add(a, b));
            }
        }
    }
}

impl NullaryFnOnce for Added<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let Sums { geometry, channels, per_group, .. } = *self.sums;
        let ([_, right], [_, dilation]) = (geometry.strides, geometry.dilations);
        match (right, dilation) == (1, 1) && channels == per_group {
            true => self.add_windows(),
            false => self.add_taps(),
        }
    }
}

/// Adds numbers to others, in short vectors: there are few.
#[inline(always)]
fn add(sums: &mut [f32], values: &[f32]) {
    let ((sums, rest), (values, others)) = (sums.as_chunks_mut::<8>(), values.as_chunks::<8>());
    for (sums, values) in sums.iter_mut().zip(values) {
        sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
    }
    rest.iter_mut().zip(others).for_each(|(sum, value)| *sum += value);
}
