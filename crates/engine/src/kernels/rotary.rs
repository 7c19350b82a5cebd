//! Rotary position embeddings, gates, and updates of caches.

use lodstone_schema::Finding;

use super::attention::heads;
use super::indexing::places;
use crate::call::{Call, Outputs, one};
use crate::dims::{bounded, count, dim_at};
use crate::error::Outcome;
use crate::operator::Operator;
use crate::tensor::{Dense, check_alike};

/// The operators of this family.
pub(super) const OPERATORS: &[Operator] = &[
    Operator::dense("RotaryEmbedding", rotary).working(0, 12),
    Operator::dense("SwiGLU", gated).working(0, 20),
];

/// Rotates pairs of elements of each head by the angles of its position.
pub(super) fn rotary(call: &Call<'_>) -> Outputs {
    let shape = call.input(0)?.shape();
    // [batch, length, heads, size]
    let x = heads(call, 0, "num_heads")?.permuted(&[0, 2, 1, 3])?;
    let dims = x.shape();
    let &[batch, length, many, size] = dims.as_slice() else {
        return Err("expected 3 or 4 dims".into());
    };
    let rotated = match count(call.int("rotary_embedding_dim", 0))? {
        0 => size,
        rotated => rotated,
    };
    if rotated > size || !rotated.is_multiple_of(2) {
        return Err(format!("cannot rotate {rotated} of {size} elements").into());
    }
    if dims.contains(&0) || rotated == 0 {
        return one(call.input(0)?.clone());
    }
    let wide = x.widened()?;
    let angles = |number: usize| {
        let cache = angles(call, number, [batch, length, rotated / 2])?;
        cache.cast_to(wide.dtype())
    };
    let (cos, sin) = (angles(1)?, angles(2)?);
    let is_interleaved = call.int("interleaved", 0) != 0;
    let part = wide.cut(3, 0, rotated)?;
    let half = rotated / 2;
    // The first and the second elements of all pairs.
    let side = |number: usize| match is_interleaved {
        true => {
            let pairs = part.reshaped(vec![batch, length, many, half, 2])?;
            pairs.cut(4, number, number + 1)?.reshaped([batch, length, many, half])
        }
        false => part.cut(3, number * half, (number + 1) * half),
    };
    let (first, second) = (side(0)?, side(1)?);
    let real = cos.times(&first)?.minus(&sin.times(&second)?)?;
    let imaginary = sin.times(&first)?.plus(&cos.times(&second)?)?;
    let mut y = match is_interleaved {
        true => {
            let single = |x: Dense| x.reshaped([batch, length, many, half, 1]);
            let pairs = Dense::joined(&[single(real)?, single(imaginary)?], 4)?;
            pairs.reshaped(vec![batch, length, many, rotated])?
        }
        false => Dense::joined(&[real, imaginary], 3)?,
    };
    if rotated < size {
        y = Dense::joined(&[y, wide.cut(3, rotated, size)?], 3)?;
    }
    let y = match shape.len() {
        3 => y.reshaped(shape)?,
        _ => y.permuted(&[0, 2, 1, 3])?,
    };
    one(y.cast_to(x.dtype())?)
}

/// Returns the cosines or sines of all positions: [batch, length, 1, pairs].
fn angles(call: &Call<'_>, number: usize, dims: [usize; 3]) -> Outcome<Dense> {
    let (cache, [batch, length, half]) = (call.input(number)?.clone(), dims);
    let found = cache.shape();
    let wrong = || {
        let wrong = format!("expected angles for dims {dims:?}, found {found:?}");
        Finding::from(wrong).about_input(number)
    };
    let picked = match call.optional(3) {
        Some(positions) => {
            let places = places(positions, dim_at(&found, 0).map_err(|_| wrong())?)?;
            if found.len() != 2
                || found.last() != Some(&half)
                || positions.shape() != [batch, length]
            {
                return Err(wrong());
            }
            cache.selected(0, &places)?
        }
        None if found == dims => cache,
        None => return Err(wrong()),
    };
    picked.reshaped(vec![batch, length, 1, half])
}

/// The swish of the first input times the second.
fn gated(call: &Call<'_>) -> Outputs {
    let (a, b) = (call.input(0)?, call.input(1)?);
    check_alike(a, b)?;
    if a.shape() != b.shape() {
        return Err(format!("dims {:?} and {:?} differ", a.shape(), b.shape()).into());
    }
    bounded(&a.shape())?;
    let wide = a.widened()?;
    let gate = wide.scaled(call.float("alpha", 1.0).into())?.sigmoid()?;
    one(wide.times(&gate)?.times(&b.widened()?)?.cast_to(a.dtype())?)
}
