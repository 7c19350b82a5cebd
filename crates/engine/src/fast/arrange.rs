//! `Resize` (nearest) and `Concat` of images whose channels are innermost.

use lodstone_model::Op;
use rayon::prelude::*;

use super::buffers::Buffers;
use super::layout::{Floats, Order, images, ordered, tensor};
use super::product::part_of;
use crate::dense::Dense;
use crate::item::Outcome;
use crate::kernels::{Call, axis, nearest};
use crate::value::Value;

/// Returns images that are resized to their nearest elements, or `None` if the kernel must run instead.
pub(super) fn resize(
    op: &Op,
    inputs: &[Option<&Value>],
    buffers: &Buffers,
) -> Outcome<Option<Dense>> {
    let Some((images, dims)) = images(inputs.first().copied().flatten()) else { return Ok(None) };
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
    let mut out = buffers.take(dims.iter().product());
    let lines = out.par_chunks_exact_mut((columns.len() * channels).max(1)).enumerate();
    lines.for_each(|(number, out)| {
        let example = number / rows.len();
        for row in rows.iter().skip(number % rows.len()).take(1) {
            let begin = (example * height + row) * width * channels;
            let line = part_of(&values, begin, width * channels);
            for (column, out) in columns.iter().zip(out.chunks_exact_mut(channels)) {
                out.copy_from_slice(part_of(line, column * channels, channels));
            }
        }
    });
    tensor(out, dims, Order::ChannelsLast).map(Some)
}

/// Returns images with the channels of several, or `None` if the kernel must run instead.
pub(super) fn concat(
    op: &Op,
    inputs: &[Option<&Value>],
    buffers: &Buffers,
) -> Outcome<Option<Dense>> {
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
    let mut out = buffers.take(dims.iter().product());
    out.par_chunks_exact_mut(all).enumerate().with_min_len(PIXELS).for_each(|(pixel, mut out)| {
        for (values, channels) in &parts {
            let (into, rest) = out.split_at_mut(*channels);
            into.copy_from_slice(part_of(values, pixel * channels, *channels));
            out = rest;
        }
    });
    tensor(out, dims, Order::ChannelsLast).map(Some)
}

/// The minimum number of pixels for a thread.
const PIXELS: usize = 256;
