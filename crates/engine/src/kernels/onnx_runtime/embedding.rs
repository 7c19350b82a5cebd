//! Sums of embeddings, normalized.

use lodstone_model::DType;
use lodstone_schema::Finding;

use crate::call::{Call, Outputs, all};
use crate::dims::{bounded, dim_at, long};
use crate::error::Outcome;
use crate::kernels::indexing::places;
use crate::kernels::normalize;
use crate::operator::{Operator, RUNTIME};
use crate::tensor::Dense;
use crate::value::Value;

/// The operators of this family.
pub(super) const OPERATORS: &[Operator] =
    &[Operator::dense("EmbedLayerNormalization", embed).domain(RUNTIME).working(20, 12)];

/// Returns rows of a table: [.., hidden].
fn rows(call: &Call<'_>, table: usize, numbers: &Dense, shape: &[usize]) -> Outcome<Dense> {
    let table = call.input(table)?.clone();
    let &[length, hidden] = table.shape().as_slice() else {
        return Err(format!("expected a table of rows, found {:?}", table.shape()).into());
    };
    let whole = [shape, &[hidden]].concat();
    bounded(&whole)?;
    table.selected(0, &places(numbers, length)?)?.reshaped(whole)
}

/// Outputs: the normalized sum, the number of words that are not masked, and the sum.
fn embed(call: &Call<'_>) -> Outputs {
    let words = call.input(0)?;
    let shape = words.shape();
    let &[batch, length] = shape.as_slice() else {
        return Err(format!("expected rows of words, found {shape:?}").into());
    };
    if shape.contains(&0) {
        return Err("expected words, found none".into());
    }
    let mut sum = rows(call, 2, words, &shape)?;
    let positions = match call.optional(8) {
        Some(positions) => rows(call, 3, positions, &positions.shape())?,
        None => {
            let all: Vec<i64> = (0..length).map(long).collect();
            rows(call, 3, &Dense::longs(&all), &[length])?
        }
    };
    sum = sum.plus(&positions)?;
    if let (Some(segments), Some(_)) = (call.optional(1), call.optional(4)) {
        sum = sum.plus(&rows(call, 4, segments, &segments.shape())?)?;
    }
    let counts = match call.optional(7) {
        Some(mask) => {
            let mask = mask.to_longs()?;
            let count = |row: &[i64]| long(row.iter().filter(|value| **value == 1).count());
            mask.chunks(dim_at(&shape, 1)?.max(1)).map(count).collect()
        }
        None => vec![0; batch],
    };
    let counts = Dense::longs(&counts).cast_to(DType::Int32)?;
    let mut op = call.op.clone();
    if op.attribute("epsilon").is_none() {
        let value = lodstone_model::AttributeValue::Float(1e-12);
        op.attributes.push(lodstone_model::Attribute { name: "epsilon".to_owned(), value });
    }
    let inputs = vec![Some(sum.clone()), call.optional(5).cloned(), call.optional(6).cloned()];
    let made: Option<Value> =
        normalize::layer_normalization(&call.with(&op, inputs))?.into_iter().next();
    let y = made.ok_or_else(|| Finding::internal("there is no result"))?;
    all([y.dense()?.clone(), counts, sum])
}
