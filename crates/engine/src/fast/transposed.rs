//! Transposed convolutions with constant filters: a product of all pixels with the filter, and sums of its results where
//! windows overlap.

use super::convolution::Geometry;
use super::product::{Finish, Lines, Packed, part_of};
use crate::fused::wide;
use crate::item::Outcome;
use crate::threads::each_chunk;

impl Geometry {
    /// Returns the number of elements that a transposed convolution computes before it sums them.
    pub(super) fn products(&self, examples: usize, packed: &Packed) -> usize {
        let pixels = self.image.iter().fold(examples, |all, dim| all.saturating_mul(*dim));
        pixels.saturating_mul(packed.width())
    }

    /// Computes a transposed convolution. The columns of the matrix are the elements of a window, each with its channels.
    pub(super) fn convolve_transposed(
        &self,
        image: &[f32],
        (packed, groups): (&Packed, usize),
        finish: Finish<'_>,
        out: &mut [f32],
        then: impl Fn(usize, &mut [f32]) -> Outcome<()> + Sync,
    ) -> Outcome<()> {
        let ([height, width], [rows, columns], [tall, across]) =
            (self.image, self.steps, self.window);
        let channels = packed.width() / (tall * across);
        let (line, from) = (columns * channels, width * packed.width());
        let examples = image.len() / (height * width * self.channels).max(1);
        let pixels = Lines { apart: self.channels, each: self.channels / groups, values: image };
        let sums = Sums { geometry: self, packed, each: channels / groups, channels, finish };
        let ([down, _], [apart, _], [before, _]) = (self.strides, self.dilations, self.pads);
        if (tall - 1) * apart < down && before.is_multiple_of(down) && rows.is_multiple_of(down) {
            // Every line of the image has lines of the result of its own: its products stay in the cache.
            return each_chunk(out, down * line, |scratch: &mut Scratch, number, out| {
                let (example, group) = (number / (rows / down), number % (rows / down));
                let place = group + before / down;
                if place < height {
                    scratch.products.resize(from, 0.0);
                    let first = (example * height + place) * width;
                    let Scratch { unfolded, products } = &mut *scratch;
                    packed.multiply_alone(&pixels, first, Finish::default(), unfolded, products);
                }
                for (at, out) in out.chunks_exact_mut(line).enumerate() {
                    sums.line(group * down + at, |_| &scratch.products, out);
                }
                then(number * down * line, out)
            });
        }
        // Not from the buffers, which would keep it when it is no longer charged.
        let mut products = vec![0.0; self.products(examples, packed)];
        packed.multiply(&pixels, Finish::default(), &mut products, |_, _| Ok(()))?;
        each_chunk(out, line, |(), number, out| {
            let (example, row) = (number / rows.max(1), number % rows.max(1));
            let of = |place| part_of(&products, (example * height + place) * from, from);
            sums.line(row, of, out);
            then(number * line, out)
        })
    }

    /// Computes a transposed convolution whose windows are next to each other. The columns of each matrix are the elements of
    /// a line of a window, each with its channels.
    pub(super) fn convolve_tiles(
        &self,
        image: &[f32],
        lines: &[Packed],
        finish: Finish<'_>,
        out: &mut [f32],
        then: impl Fn(usize, &mut [f32]) -> Outcome<()> + Sync,
    ) -> Outcome<()> {
        let ([_, width], channels) = (self.image, self.channels);
        let pixels = Lines { apart: channels, each: channels, values: image };
        let line = width * lines.first().map_or(0, Packed::width);
        let size = line * lines.len();
        each_chunk(out, size, |unfolded, number, out| {
            for (packed, out) in lines.iter().zip(out.chunks_exact_mut(line.max(1))) {
                packed.multiply_alone(&pixels, number * width, finish, unfolded, out);
            }
            then(number * size, out)
        })
    }

    /// Returns the line of an image whose window has line `row` of the result in its line `tap`, if there is one.
    fn source(&self, row: usize, tap: usize) -> Option<usize> {
        let ([before, _], [apart, _]) = (self.pads, self.dilations);
        let ([height, _], [stride, _]) = (self.image, self.strides);
        let at = (row + before).checked_sub(tap * apart)?;
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
    packed: &'a Packed,
    channels: usize,
    /// The number of channels of a group.
    each: usize,
    finish: Finish<'a>,
}

impl Sums<'_> {
    /// Computes a line of the result. `products` returns those of a line of the image.
    fn line<'p>(&self, row: usize, products: impl Fn(usize) -> &'p [f32], out: &mut [f32]) {
        let Self { geometry, packed, channels, each, finish } = *self;
        let ([tall, across], [_, right]) = (geometry.window, geometry.strides);
        let ([_, apart], [_, before]) = (geometry.dilations, geometry.pads);
        let (all, taps) = (packed.width(), tall * across);
        match finish.bias {
            Some([bias]) => out.fill(*bias),
            Some(bias) => {
                out.chunks_exact_mut(channels).for_each(|pixel| pixel.copy_from_slice(bias));
            }
            None => out.fill(0.0),
        }
        for tap in 0..taps {
            let Some(place) = geometry.source(row, tap / across) else { continue };
            // The first column that is not cropped, and the result that it adds to.
            let offset = tap % across * apart;
            let first = before.saturating_sub(offset).div_ceil(right);
            let to = first * right + offset - before;
            let products = products(place);
            if channels == 1 {
                // No loop over channels.
                let products = products.iter().skip(first * all + tap).step_by(all);
                let results = out.iter_mut().skip(to).step_by(right);
                results.zip(products).for_each(|(sum, value)| *sum += value);
                continue;
            }
            let results = out.chunks_exact_mut(channels).skip(to).step_by(right);
            let products = products.chunks_exact(all).skip(first);
            wide(|| {
                for (results, products) in results.zip(products) {
                    let products = products.chunks_exact(each).skip(tap).step_by(taps);
                    for (sums, values) in results.chunks_exact_mut(each).zip(products) {
                        sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
                    }
                }
            });
        }
        if let Some([least, most]) = finish.clamp {
            wide(|| {
                for value in out.iter_mut() {
                    let raised = if *value < least { least } else { *value };
                    *value = if raised > most { most } else { raised };
                }
            });
        }
    }
}
