//! The parts of `FlexAttention` between its subgraphs: scores, their softmax, and the sum of values.
//!
//! Queries are [batch, query heads, queries, size]; neighbouring query heads share the keys of one key head.

use lodstone_model::{AttributeValue, DType, Op};
use lodstone_schema::Finding;
use lodstone_schema::onnx::dtype;

use super::attention::SCORES;
use super::normalize::softmax;
use super::sequence::{attribute, value};
use crate::dims::bounded;
use crate::error::Outcome;
use crate::narrow::supported;
use crate::tensor::{Dense, product};
use crate::value::Value;

fn item(value: &Value) -> Outcome<Dense> {
    supported(value.dense()?).cloned()
}

/// Brings the rows of query heads that share keys together: [batch, key heads, rows, size].
fn rows(x: Dense, key_heads: usize) -> Outcome<Dense> {
    let &[batch, heads, length, size] = x.shape().as_slice() else {
        return Err("expected 4 dims".into());
    };
    match heads.checked_rem(key_heads) {
        Some(0) => Ok(x.reshaped(vec![batch, key_heads, heads / key_heads * length, size])?),
        _ => Err(format!("{heads} query heads do not divide into {key_heads} key heads").into()),
    }
}

/// Returns the memory for scores in bytes: several steps hold all of them at the same time.
pub(crate) fn workspace(inputs: &[Option<Value>]) -> Outcome<u64> {
    let (query, keys) = (item(value(inputs, 0)?)?.shape(), item(value(inputs, 1)?)?.shape());
    let dim = |shape: &[usize], at| crate::dims::dim_at(shape, at);
    let whole = [dim(&query, 0)?, dim(&query, 1)?, dim(&query, 2)?, dim(&keys, 2)?];
    Ok((bounded(&whole)? as u64).saturating_mul(SCORES))
}

/// Returns the scores of all keys, in the precision of the softmax: [batch, query heads, queries, keys].
pub(crate) fn scores(op: &Op, inputs: &[Option<Value>]) -> Outcome<Value> {
    let (query, keys) = (item(value(inputs, 0)?)?, item(value(inputs, 1)?)?);
    let (shape, of_keys) = (query.shape(), keys.shape());
    let (&[batch, heads, queries, size], &[examples, key_heads, length, same]) =
        (shape.as_slice(), of_keys.as_slice())
    else {
        return Err("expected queries and keys of 4 dims".into());
    };
    let whole = [batch, heads, queries, length];
    bounded(&whole)?;
    if examples != batch || same != size {
        return Err(format!("queries {shape:?} do not fit keys {of_keys:?}").into());
    }
    let precision = match attribute(op, "softmax_precision", 0) {
        0 if query.dtype() == DType::Float64 => DType::Float64,
        0 => DType::Float32,
        code => {
            let known = i32::try_from(code).ok().and_then(dtype::from_code);
            known.ok_or("expected an element type")?
        }
    };
    let scale = match op.attribute("scale") {
        Some(AttributeValue::Float(scale)) => f64::from(*scale),
        _ => 1.0 / (size as f64).sqrt(),
    };
    let wide = query.widened()?;
    let keys = keys.cast_to(wide.dtype())?.permuted(&[0, 1, 3, 2])?;
    let scores = product(&rows(wide.scaled(scale)?, key_heads)?, &keys)?;
    Ok(scores.reshaped(whole)?.cast_to(precision)?.into())
}

/// Returns the softmax of scores.
pub(crate) fn shares(scores: &Value) -> Outcome<Value> {
    let scores = item(scores)?;
    match scores.shape().as_slice() {
        dims @ [_, _, _, _] if !dims.contains(&0) => Ok(softmax(&scores, 3)?.into()),
        [_, _, _, _] => Ok(scores.into()),
        other => Err(format!("expected scores of 4 dims, found {other:?}").into()),
    }
}

/// Returns the sum of values, each times its share: [batch, query heads, queries, value size].
pub(crate) fn weighted(inputs: &[Option<Value>], shares: &Value) -> Outcome<Value> {
    let (values, shares) = (item(value(inputs, 2)?)?, item(shares)?);
    let (of_values, dims) = (values.shape(), shares.shape());
    let (&[_, key_heads, _, size], &[batch, heads, queries, _]) =
        (of_values.as_slice(), dims.as_slice())
    else {
        return Err("expected values and shares of 4 dims".into());
    };
    if of_values.first() != Some(&batch) {
        return Err(Finding::from(format!("values {of_values:?} do not fit shares {dims:?}")));
    }
    let wide = shares.widened()?;
    let made = product(&rows(wide.clone(), key_heads)?, &values.cast_to(wide.dtype())?)?;
    Ok(made.reshaped(vec![batch, heads, queries, size])?.cast_to(values.dtype())?.into())
}
