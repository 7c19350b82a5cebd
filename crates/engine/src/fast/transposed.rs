//! Transposed convolutions with constant filters: a product of all pixels with the filter, and sums of its results where
//! windows overlap.

use super::convolution::{Geometry, Unfolded};
use super::product::{Finish, Packed, part_of};
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
        let ([height, width], [rows, columns]) = (self.image, self.steps);
        let ([tall, across], [down, right]) = (self.window, self.strides);
        let ([_, apart], [_, before]) = (self.dilations, self.pads);
        let taps = tall * across;
        let (all, channels) = (packed.width(), packed.width() / taps);
        let each = channels / groups;
        let line = columns * channels;
        let examples = image.len() / (height * width * self.channels).max(1);
        let pixels = Self {
            window: [1, 1],
            steps: self.image,
            strides: [1, 1],
            dilations: [1, 1],
            pads: [0, 0],
            ..*self
        };
        let unfolded = Unfolded { geometry: &pixels, image, channels: self.channels / groups };
        // Not from the buffers, which would keep it when it is no longer charged.
        let mut products = vec![0.0; self.products(examples, packed)];
        packed.multiply(&unfolded, Finish::default(), &mut products, |_, _| Ok(()))?;
        each_chunk(out, line, |(), number, out| {
            let (example, row) = (number / rows.max(1), number % rows.max(1));
            for pixel in out.chunks_exact_mut(channels) {
                match finish.bias {
                    Some(bias) => pixel.copy_from_slice(bias),
                    None => pixel.fill(0.0),
                }
            }
            for tap in 0..taps {
                let Some(line) = self.source(row, tap / across, down) else { continue };
                let products =
                    part_of(&products, (example * height + line) * width * all, width * all);
                // The first column that is not cropped, and the result that it adds to.
                let offset = tap % across * apart;
                let first = before.saturating_sub(offset).div_ceil(right);
                let to = first * right + offset - before;
                let results = out.chunks_exact_mut(channels).skip(to).step_by(right);
                let products = products.chunks_exact(all).skip(first);
                wide(|| {
                    for (results, products) in results.zip(products) {
                        // A single channel needs no loop over the groups.
                        if let ([result], Some(product)) = (&mut *results, products.get(tap)) {
                            *result += product;
                            continue;
                        }
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
            then(number * line, out)
        })
    }

    /// Returns the line of an image whose window has line `row` of the result in its line `tap`, if there is one.
    fn source(&self, row: usize, tap: usize, stride: usize) -> Option<usize> {
        let ([before, _], [apart, _], [height, _]) = (self.pads, self.dilations, self.image);
        let at = (row + before).checked_sub(tap * apart)?;
        (at.is_multiple_of(stride) && at / stride < height).then_some(at / stride)
    }
}
