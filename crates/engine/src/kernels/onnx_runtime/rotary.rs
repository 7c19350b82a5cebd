//! Rotary position embeddings.

use lodstone_schema::Finding;

use crate::call::with_int;
use crate::call::{Call, Outputs};
use crate::dims::long;
use crate::error::Outcome;
use crate::kernels::rotary;
use crate::operator::{Operator, RUNTIME};
use crate::tensor::Dense;

/// The operators of this family.
pub(super) const OPERATORS: &[Operator] =
    &[Operator::dense("RotaryEmbedding", rotate).domain(RUNTIME).working(0, 12)];

/// Inputs: x [batch, length, heads * size] or [batch, heads, length, size]; positions [batch, length], or the first one;
/// cosines and sines [positions, pairs].
fn rotate(call: &Call<'_>) -> Outputs {
    let x = call.input(0)?;
    let shape = x.shape();
    let (batch, length) = match *shape.as_slice() {
        [batch, length, _] | [batch, _, length, _] => (batch, length),
        _ => return Err(format!("expected 3 or 4 dims, found {shape:?}").into()),
    };
    let positions = positions(call.input(1)?, batch, length)?;
    let &[_, pairs] = call.input(2)?.shape().as_slice() else {
        return Err(Finding::from("expected 2 dims").about_input(2));
    };
    if call.input(3)?.shape() != call.input(2)?.shape() {
        return Err(Finding::from("expected as many sines as cosines").about_input(3));
    }
    let rotated = call.int("rotary_embedding_dim", 0);
    let op = match (shape.as_slice(), call.int("num_heads", 0)) {
        // The size of a head is that of the angles.
        ([_, _, packed], 0) => {
            let size = pairs.saturating_mul(2).max(1);
            with_int(call.op, "num_heads", long(packed / size))
        }
        _ => call.op.clone(),
    };
    let op =
        with_int(&op, "rotary_embedding_dim", if rotated > 0 { rotated } else { long(pairs) * 2 });
    let inputs = [Some(x), call.optional(2), call.optional(3), Some(&positions)];
    let inputs = inputs.map(|input| input.cloned()).into();
    rotary::rotary(&call.with(&op, inputs))
}

/// Returns the position of each element of each sequence.
fn positions(given: &Dense, batch: usize, length: usize) -> Outcome<Dense> {
    let list = given.to_longs()?;
    let [first] = *list.as_slice() else { return Ok(given.clone()) };
    if given.shape().len() == 2 {
        return Ok(given.clone());
    }
    let row = (0..length).map(|at| first.saturating_add(long(at)));
    let all: Vec<i64> = row.collect::<Vec<_>>().repeat(batch);
    Dense::longs(&all).reshaped(vec![batch, length])
}
