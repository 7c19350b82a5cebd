//! `Resize` (nearest) and `Concat` of images whose channels are innermost.

use super::call::{FastCall, FastKernel, one};
use super::im2col::copy;
use crate::call::Call;
use crate::dims::axis;
use crate::error::Outcome;
use crate::geometry::resize::nearest;
use crate::layout::{Floats, images, ordered, tensor};
use crate::tensor::{Dense, Order};
use crate::threads::each_chunk;
use crate::value::Value;

pub(crate) const CONCAT: FastKernel = FastKernel::new(accepts, concat);
pub(crate) const RESIZE: FastKernel = FastKernel::new(accepts, resize);

/// Returns whether the first input is images whose channels are innermost.
pub(super) fn accepts(inputs: &[Option<&Value>]) -> bool {
    images(inputs.first().copied().flatten()).is_some()
}

/// Returns images that are resized to their nearest elements, or `None` if the kernel must run instead.
fn resize(call: &FastCall<'_>) -> Outcome<Option<Vec<Dense>>> {
    let FastCall { op, inputs, buffers, .. } = *call;
    let Some((images, dims)) = images(call.input(0)) else { return Ok(None) };
    let [examples, channels, height, width] = dims;
    let Some(places) = nearest(&Call::new(op, inputs)?)? else { return Ok(None) };
    let [None, None, rows, columns] = places.as_slice() else { return Ok(None) };
    let all = |places: &Option<Vec<usize>>, count: usize| match places {
        Some(places) => places.clone(),
        None => (0..count).collect(),
    };
    let (rows, columns) = (all(rows, height), all(columns, width));
    let dims = vec![examples, channels, rows.len(), columns.len()];
    let values = ordered(images, Order::ChannelsLast)?;
    let mut out = buffers.take(dims.iter().product())?;
    each_chunk(&mut out, columns.len() * channels, |(), number, out| {
        let example = number / rows.len();
        for row in rows.iter().skip(number % rows.len()).take(1) {
            let begin = (example * height + row) * width * channels;
            let places = columns.iter().zip((0..).step_by(channels));
            places.for_each(|(column, at)| {
                copy(&values, begin + column * channels, at..at + channels, out);
            });
        }
        Ok(())
    })?;
    tensor(out, dims, Order::ChannelsLast).map(one)
}

/// Returns images with the channels of several, or `None` if the kernel must run instead.
fn concat(call: &FastCall<'_>) -> Outcome<Option<Vec<Dense>>> {
    let FastCall { op, inputs, buffers, .. } = *call;
    let mut parts: Vec<(Floats, usize)> = Vec::new();
    let mut dims: Option<Vec<usize>> = None;
    for input in inputs {
        let Some((images, [examples, channels, height, width])) = images(*input) else {
            return Ok(None);
        };
        let side = [examples, height, width];
        match &mut dims {
            None => dims = Some(images.dims().to_vec()),
            Some(dims) => match dims.as_mut_slice() {
                [examples, all, height, width] if side == [*examples, *height, *width] => {
                    *all += channels;
                }
                _ => return Ok(None),
            },
        }
        parts.push((ordered(images, Order::ChannelsLast)?, channels));
    }
    let Some(dims) = dims else { return Ok(None) };
    if axis(Call::new(op, &[])?.int("axis", 0), dims.len())? != 1 {
        return Ok(None);
    }
    let all: usize = parts.iter().map(|(_, channels)| channels).sum();
    let mut out = buffers.take(dims.iter().product())?;
    each_chunk(&mut out, all * PIXELS, |(), number, out| {
        let mut at = 0;
        for pixel in (number * PIXELS..).take(out.len() / all) {
            for (values, channels) in &parts {
                copy(values, pixel * channels, at..at + channels, out);
                at += channels;
            }
        }
        Ok(())
    })?;
    tensor(out, dims, Order::ChannelsLast).map(one)
}

/// The number of pixels that a thread joins at a time.
const PIXELS: usize = 256;
