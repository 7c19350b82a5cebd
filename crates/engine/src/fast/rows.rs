//! `Softmax` and `LayerNormalization` of rows that are contiguous in memory.
//!
//! Sums are made of as many partial sums on every processor, so their bits do not depend on it.

use lodstone_model::DType;

use super::call::{FastCall, FastKernel, one};
use crate::dims::axis;
use crate::error::Outcome;
use crate::gemm::part_of;
use crate::layout::{ordered, tensor};
use crate::simd::curves::exp;
use crate::simd::wide;
use crate::tensor::{Dense, Order};
use crate::threads::each_chunk;
use crate::value::Value;

pub(crate) const LAYER_NORMALIZATION: FastKernel = FastKernel::new(accepts, layer_normalization);
pub(crate) const SOFTMAX: FastKernel = FastKernel::new(accepts, softmax);

/// The number of partial sums.
const SUMS: usize = 16;

/// The number of elements that one processor handles at a time.
const CHUNK: usize = 1 << 14;

/// Returns whether the first input is a tensor in single precision whose elements are in the order of its dims.
fn accepts(inputs: &[Option<&Value>]) -> bool {
    let Some(Some(Value::Dense(x))) = inputs.first() else { return false };
    x.dtype() == DType::Float32 && x.count() > 0 && Order::RowMajor.is_of(x)
}

/// Returns the softmax along the last axis, or `None` if the kernel must run instead.
fn softmax(call: &FastCall<'_>) -> Outcome<Option<Vec<Dense>>> {
    let Some(Some(Value::Dense(x))) = call.inputs.first() else { return Ok(None) };
    let rank = x.dims().len();
    let Some(&width) = x.dims().last() else { return Ok(None) };
    if axis(call.attributes()?.int("axis", -1), rank)? + 1 != rank {
        return Ok(None);
    }
    each_row(call, x, width, |row, out| {
        wide!({
            let most = combined(row, f32::NEG_INFINITY, |it| it, |a, b| if b > a { b } else { a });
            row.iter().zip(out.iter_mut()).for_each(|(value, out)| *out = exp(value - most));
            let all = sum(out, |it| it);
            out.iter_mut().for_each(|value| *value /= all);
        });
    })
}

/// Returns tensors that are normalized over their last dims, or `None` if the kernel must run instead.
fn layer_normalization(call: &FastCall<'_>) -> Outcome<Option<Vec<Dense>>> {
    let [Some(Value::Dense(x)), Some(Value::Dense(scale)), bias @ ..] = call.inputs else {
        return Ok(None);
    };
    let attributes = call.attributes()?;
    let at = axis(attributes.int("axis", -1), x.dims().len())?;
    let Some(dims) = x.dims().get(at..).filter(|_| attributes.int("stash_type", 1) == 1) else {
        return Ok(None);
    };
    let bias = match bias {
        [] | [None] => None,
        [Some(Value::Dense(bias))] => Some(bias),
        _ => return Ok(None),
    };
    let fits = |it: &Dense| it.dtype() == DType::Float32 && it.dims() == dims;
    if !fits(scale) || !bias.is_none_or(fits) {
        return Ok(None);
    }
    let width = dims.iter().product();
    let scale = ordered(scale, Order::RowMajor)?;
    let bias = bias.map(|bias| ordered(bias, Order::RowMajor)).transpose()?;
    let epsilon = attributes.float("epsilon", 1e-5);
    #[expect(clippy::cast_precision_loss, reason = "the kernel divides by the same number")]
    let count = width as f32;
    each_row(call, x, width, |row, out| {
        wide!({
            let mean = sum(row, |it| it) / count;
            row.iter().zip(out.iter_mut()).for_each(|(value, out)| *out = value - mean);
            let variance = sum(out, |distance| distance * distance) / count;
            let inverse = 1.0 / (variance + epsilon).sqrt();
            out.iter_mut().zip(scale.iter()).for_each(|(out, scale)| *out = *out * inverse * scale);
            if let Some(bias) = &bias {
                out.iter_mut().zip(bias.iter()).for_each(|(out, bias)| *out += bias);
            }
        });
    })
}

/// Returns a tensor whose rows of `width` elements are computed from those of another.
fn each_row(
    call: &FastCall<'_>,
    x: &Dense,
    width: usize,
    of: impl Fn(&[f32], &mut [f32]) + Sync,
) -> Outcome<Option<Vec<Dense>>> {
    let values = ordered(x, Order::RowMajor)?;
    let mut out = call.buffers.take(values.len())?;
    let at_once = (CHUNK / width.max(1)).max(1) * width;
    each_chunk(&mut out, at_once, |(), number, out| {
        let values = part_of(&values, number * at_once, out.len());
        let rows = values.chunks_exact(width);
        out.chunks_exact_mut(width).zip(rows).for_each(|(out, row)| of(row, out));
        Ok(())
    })?;
    tensor(out, x.dims(), Order::RowMajor).map(one)
}

/// Combines elements in partial results, and those in order.
#[inline(always)]
pub(super) fn combined(
    values: &[f32],
    first: f32,
    of: impl Fn(f32) -> f32,
    with: impl Fn(f32, f32) -> f32,
) -> f32 {
    let mut parts = [first; SUMS];
    let (lines, rest) = values.as_chunks::<SUMS>();
    for line in lines {
        parts.iter_mut().zip(line).for_each(|(part, value)| *part = with(*part, of(*value)));
    }
    parts.iter_mut().zip(rest).for_each(|(part, value)| *part = with(*part, of(*value)));
    parts.into_iter().fold(first, with)
}

/// Returns the sum of a function of elements.
#[inline(always)]
fn sum(values: &[f32], of: impl Fn(f32) -> f32) -> f32 {
    combined(values, 0.0, of, |a, b| a + b)
}
