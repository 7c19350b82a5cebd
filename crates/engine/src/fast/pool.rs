//! Pooling of images whose channels are innermost.

use super::call::{FastCall, FastKernel, one};
use super::images::accepts;
use crate::call::Call;
use crate::error::Outcome;
use crate::gemm::part_of;
use crate::geometry::Pooling;
use crate::layout::{images, ordered, tensor};
use crate::simd::wide;
use crate::tensor::{Dense, Order};
use crate::threads::each_chunk;

pub(crate) const AVERAGE_POOL: FastKernel = FastKernel::new(accepts, average_pool);
pub(crate) const GLOBAL_AVERAGE_POOL: FastKernel = FastKernel::new(accepts, global_average_pool);
pub(crate) const MAX_POOL: FastKernel = FastKernel::new(accepts, max_pool);

/// How the elements of a window become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// As the kernel does: see `FirstLayer::greatest`.
    Maximum,
    Mean,
}

/// Returns the means of all pixels, or `None` if the kernel for all inputs must run.
fn global_average_pool(call: &FastCall<'_>) -> Outcome<Option<Vec<Dense>>> {
    let Some((images, dims)) = images(call.input(0)) else { return Ok(None) };
    let [examples, channels, height, width] = dims;
    let values = ordered(images, Order::ChannelsLast)?;
    let mut out = call.buffers.take(examples * channels)?;
    let images = values.chunks_exact(height * width * channels);
    for (image, out) in images.zip(out.chunks_exact_mut(channels)) {
        out.fill(0.0);
        // One line after the other: the sums stay small.
        let mut sums = vec![0.0; channels];
        for line in image.chunks_exact(width * channels) {
            sums.fill(0.0);
            line.chunks_exact(channels).for_each(|pixel| add(&mut sums, pixel));
            add(out, &sums);
        }
        scale(out, 1.0 / (height * width) as f32);
    }
    tensor(out, vec![examples, channels, 1, 1], Order::ChannelsLast).map(one)
}

/// Returns the mean of each window, or `None` if the kernel for all inputs must run.
fn average_pool(call: &FastCall<'_>) -> Outcome<Option<Vec<Dense>>> {
    match call.attributes()?.int("count_include_pad", 0) {
        0 => pool(call, Kind::Mean),
        _ => Ok(None),
    }
}

/// Returns the maximum of each window, or `None` if the kernel for all inputs must run.
fn max_pool(call: &FastCall<'_>) -> Outcome<Option<Vec<Dense>>> {
    pool(call, Kind::Maximum)
}

fn pool(call: &FastCall<'_>, kind: Kind) -> Outcome<Option<Vec<Dense>>> {
    let Some((images, dims)) = images(call.input(0)) else { return Ok(None) };
    let [examples, channels, height, width] = dims;
    let values = ordered(images, Order::ChannelsLast)?;
    let Pooling { windows, steps, .. } = Pooling::of(&Call::new(call.op, call.inputs)?)?;
    let [down, across] = *steps else { return Ok(None) };
    let rows = windows.elements(0, height, down)?;
    let columns = windows.elements(1, width, across)?;
    let mut out = call.buffers.take(examples * down * across * channels)?;
    each_chunk(&mut out, across * channels, |(), number, out| {
        let (example, row) = (number / down, number % down);
        for (columns, out) in columns.iter().zip(out.chunks_exact_mut(channels)) {
            let mut count = 0;
            let lines = rows.iter().skip(row).take(1).cloned().flatten();
            let places = lines.flat_map(|line| columns.clone().map(move |column| (line, column)));
            for (line, column) in places {
                let begin = ((example * height + line) * width + column) * channels;
                let pixel = part_of(&values, begin, channels);
                match (count, kind) {
                    (0, _) => out.copy_from_slice(pixel),
                    (_, Kind::Maximum) => raise(out, pixel),
                    (_, Kind::Mean) => add(out, pixel),
                }
                count += 1;
            }
            match (count, kind) {
                (0, Kind::Maximum) => out.fill(f32::NEG_INFINITY),
                (0, Kind::Mean) => out.fill(f32::NAN),
                (_, Kind::Maximum) => {}
                (count, Kind::Mean) => divide(out, count as f32),
            }
        }
        Ok(())
    })?;
    tensor(out, vec![examples, channels, down, across], Order::ChannelsLast).map(one)
}

fn add(sums: &mut [f32], values: &[f32]) {
    wide!(sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += value));
}

fn scale(values: &mut [f32], by: f32) {
    wide!(values.iter_mut().for_each(|value| *value *= by));
}

fn divide(values: &mut [f32], by: f32) {
    wide!(values.iter_mut().for_each(|value| *value /= by));
}

fn raise(best: &mut [f32], values: &[f32]) {
    // A NaN fails the comparison: it is taken, and replaced by the next element.
    let next = |best: f32, value: f32| if best >= value { best } else { value };
    wide!(best.iter_mut().zip(values).for_each(|(best, value)| *best = next(*best, *value)));
}
