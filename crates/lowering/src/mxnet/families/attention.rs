//! Attention with interleaved projections: the last dim is heads times (query, key, value) times the size of a head.

use crate::mxnet::attributes::wrong;
use crate::mxnet::node::{Node, Outcome, Rule, rank};
use crate::onnx::Value;

pub(super) const RULES: &[(&str, Rule)] = &[
    ("_contrib_interleaved_matmul_encdec_qk", Rule::One(cross_scores)),
    ("_contrib_interleaved_matmul_encdec_valatt", Rule::One(cross_values)),
    ("_contrib_interleaved_matmul_selfatt_qk", Rule::One(own_scores)),
    ("_contrib_interleaved_matmul_selfatt_valatt", Rule::One(own_values)),
];

fn heads(node: &Node<'_>) -> Outcome<i64> {
    match node.attributes.int("heads", None)? {
        heads @ 1.. => Ok(heads),
        heads => Err(wrong("heads", "a positive number", &heads.to_string())),
    }
}

/// Returns projections `[time, batch, heads * parts * size]` as `[batch * heads, time, size]`, one for each part.
fn projections(node: &mut Node<'_>, x: &Value, heads: i64, parts: i64) -> Outcome<Vec<Value>> {
    if rank(x)? != 3 {
        return Err(format!("expected projections of rank 3, found {}", rank(x)?).into());
    }
    let split = node.recoded(x, &[0, 0, -4, heads, -1])?;
    let split = node.recoded(&split, &[0, 0, 0, -4, parts, -1])?;
    let mut all = Vec::new();
    for part in 0..parts {
        let part = node.long(part);
        // [time, batch, heads, size]
        let one = node.gather(&split, &part, 3)?;
        let one = node.transpose(&one, &[1, 2, 0, 3])?;
        all.push(node.recoded(&one, &[-3, 0, 0])?);
    }
    Ok(all)
}

fn scores(node: &mut Node<'_>, query: &Value, key: &Value) -> Outcome {
    let size = node.extent_as(query, 2, query.dtype())?;
    let root = node.call("Sqrt", &[&size], [])?;
    let query = node.div(query, &root)?;
    let key = node.turned(key)?;
    node.call("MatMul", &[&query, &key], [])
}

/// Weights values; returns `[time, batch, heads * size]`.
fn weighted(node: &mut Node<'_>, weights: &Value, values: &Value, heads: i64) -> Outcome {
    let y = node.call("MatMul", &[weights, values], [])?;
    let y = node.recoded(&y, &[-4, -1, heads, 0, 0])?;
    let y = node.transpose(&y, &[2, 0, 1, 3])?;
    node.recoded(&y, &[0, 0, -3])
}

fn lost() -> lodstone_schema::Finding {
    lodstone_schema::Finding::internal("a projection was lost")
}

fn own_scores(node: &mut Node<'_>) -> Outcome {
    let [x] = node.exactly()?;
    let heads = heads(node)?;
    let parts = projections(node, &x, heads, 3)?;
    let [query, key, _] = parts.as_slice() else { return Err(lost()) };
    scores(node, query, key)
}

fn own_values(node: &mut Node<'_>) -> Outcome {
    let [x, weights] = node.exactly()?;
    let heads = heads(node)?;
    let parts = projections(node, &x, heads, 3)?;
    let [_, _, values] = parts.as_slice() else { return Err(lost()) };
    weighted(node, &weights, values, heads)
}

fn cross_scores(node: &mut Node<'_>) -> Outcome {
    let [queries, pairs] = node.exactly()?;
    let heads = heads(node)?;
    let queries = projections(node, &queries, heads, 1)?;
    let pairs = projections(node, &pairs, heads, 2)?;
    let ([query], [key, _]) = (queries.as_slice(), pairs.as_slice()) else { return Err(lost()) };
    scores(node, query, key)
}

fn cross_values(node: &mut Node<'_>) -> Outcome {
    let [pairs, weights] = node.exactly()?;
    let heads = heads(node)?;
    let pairs = projections(node, &pairs, heads, 2)?;
    let [_, values] = pairs.as_slice() else { return Err(lost()) };
    weighted(node, &weights, values, heads)
}
