//! Attention: [batch, heads, sequence, head size], or [batch, sequence, heads of head size].

use lodstone_model::{DType, Dim};

use super::Rule;
use super::dims::{Checked, mapped, merged, merged_types, show, show_type, sum};
use super::node::{Node, Outcome};
use super::value::{UNDEFINED, ValueInfo};
use crate::Finding;

pub(super) const RULES: &[(&str, Rule)] =
    &[("Attention", attention), ("LinearAttention", linear), ("RotaryEmbedding", rotary)];

/// Of `ai.onnx.preview`.
pub(super) const PREVIEW: &[(&str, Rule)] = &[("FlexAttention", flexible)];

/// Queries, keys or values with their heads apart.
struct Heads {
    batch: Dim,
    heads: Dim,
    sequence: Dim,
    size: Dim,
}

/// The heads of an input, apart or packed into the last extent.
fn heads(node: &Node<'_>, index: usize, attribute: &str) -> Checked<Option<Heads>> {
    match node.shape(index) {
        Some([batch, heads, sequence, size]) => Ok(Some(Heads {
            batch: batch.clone(),
            heads: heads.clone(),
            sequence: sequence.clone(),
            size: size.clone(),
        })),
        Some([batch, sequence, packed]) => {
            let heads = positive(node, attribute)?;
            Ok(Some(Heads {
                batch: batch.clone(),
                heads: heads.map_or(Dim::Unknown, Dim::Known),
                sequence: sequence.clone(),
                size: match heads {
                    Some(heads) => parted(packed, heads, attribute)?,
                    None => Dim::Unknown,
                },
            }))
        }
        Some(other) => Err(Finding::from(format!(
            "expected 3 or 4 extents of input {index}, found {}",
            show(other)
        ))
        .about_input(index)),
        None => Ok(None),
    }
}

fn positive(node: &Node<'_>, attribute: &str) -> Checked<Option<u64>> {
    match node.int_attribute(attribute) {
        None | Some(0) => Ok(None),
        Some(number) => match u64::try_from(number) {
            Ok(number) => Ok(Some(number)),
            Err(_) => Err(format!("expected `{attribute}` from 1 on, found {number}").into()),
        },
    }
}

/// The size of each of so many heads.
fn parted(packed: &Dim, heads: u64, attribute: &str) -> Checked<Dim> {
    match packed {
        Dim::Known(packed) if packed % heads != 0 => {
            Err(format!("expected {heads} heads by `{attribute}`, found {packed} numbers").into())
        }
        Dim::Known(packed) => Ok(Dim::Known(packed / heads)),
        _ => Ok(Dim::Unknown),
    }
}

fn times(a: &Dim, b: &Dim) -> Checked<Dim> {
    match a {
        Dim::Known(1) => Ok(b.clone()),
        Dim::Known(a) => mapped(b, "an extent", |b| b.checked_mul(i128::from(*a))),
        _ => Ok(Dim::Unknown),
    }
}

fn attention(node: &mut Node<'_>) -> Outcome {
    node.alike([0, 1])?;
    let query = heads(node, 0, "q_num_heads")?;
    let key = heads(node, 1, "kv_num_heads")?;
    let value = heads(node, 2, "kv_num_heads")?;
    let packed = node.shape(0).is_some_and(|shape| shape.len() == 3);
    let (of_keys, of_values) = (node.dtype(0), node.dtype(2));
    let past = |index: usize| match node.shape(index) {
        Some([_, _, length, _]) => length.clone(),
        None if !node.has(index) => Dim::Known(0),
        _ => Dim::Unknown,
    };
    let (past_key, past_value) = (past(4), past(5));
    let output = match (&query, &value) {
        (Some(query), Some(value)) if packed => Some(vec![
            query.batch.clone(),
            query.sequence.clone(),
            times(&query.heads, &value.size)?,
        ]),
        (Some(query), Some(value)) => Some(vec![
            query.batch.clone(),
            query.heads.clone(),
            query.sequence.clone(),
            value.size.clone(),
        ]),
        _ => None,
    };
    let present = |of: &Option<Heads>, past: &Dim| {
        let of = of.as_ref()?;
        let total = sum(past, &of.sequence);
        Some(vec![of.batch.clone(), of.heads.clone(), total, of.size.clone()])
    };
    let keys = present(&key, &past_key);
    let values = present(&value, &past_value);
    let scores = match (&query, &key) {
        (Some(query), Some(key)) => Some(vec![
            query.batch.clone(),
            query.heads.clone(),
            query.sequence.clone(),
            sum(&past_key, &key.sequence),
        ]),
        _ => None,
    };
    node.tensor(0, of_keys, output);
    let cached = match node.dtype(1) {
        UNDEFINED => of_keys,
        dtype => dtype,
    };
    node.tensor(1, cached, keys);
    node.tensor(2, of_values, values);
    node.tensor(3, of_keys, scores);
    Ok(())
}

/// [batch, query heads, query sequence, value size]; blocks change scores and probabilities, each [batch,
/// query heads, query sequence, key sequence].
fn flexible(node: &mut Node<'_>) -> Outcome {
    node.only_tensors()?;
    let dtype = node.alike(0..3)?;
    let (query, key, value) = (node.ranked(0, 4)?, node.ranked(1, 4)?, node.ranked(2, 4)?);
    if let (Some([.., size]), Some([.., found])) = (query, key)
        && merged(size, found).is_none()
    {
        return Err(format!("expected keys of the size {size}, found {found}").into());
    }
    let shape = match (query, value) {
        (Some([batch, heads, sequence, _]), Some([.., size])) => {
            Some(vec![batch.clone(), heads.clone(), sequence.clone(), size.clone()])
        }
        _ => None,
    };
    let scores = match (query, key) {
        (Some([batch, heads, sequence, _]), Some([_, _, length, _])) => {
            Some(vec![batch.clone(), heads.clone(), sequence.clone(), length.clone()])
        }
        _ => None,
    };
    let precision = match (node.int_attribute("softmax_precision"), dtype) {
        (Some(1..), _) => node.dtype_attribute("softmax_precision")?.unwrap_or(UNDEFINED),
        (_, DType::Float64) => DType::Float64,
        _ => DType::Float32,
    };
    for name in ["score_mod", "prob_mod"] {
        if node.attribute(name).is_none() {
            continue;
        }
        let block = node.block(name)?;
        let given = ValueInfo::tensor(precision, scores.clone());
        let results = node.bodies.body(block, vec![given.clone()])?;
        let [result] = results.as_slice() else {
            return Err(format!("expected one value of `{name}`, found {}", results.len()).into());
        };
        if merged_types(&given.value, &result.value).is_none() {
            let (expected, found) = (show_type(&given.value), show_type(&result.value));
            return Err(format!("expected {expected} of `{name}`, found {found}").into());
        }
    }
    node.tensor(0, dtype, shape);
    Ok(())
}

/// [batch, time, heads of value size], and a state [batch, key heads, key size, value size].
fn linear(node: &mut Node<'_>) -> Outcome {
    let dtype = node.alike([0, 1, 2])?;
    let query = node.ranked(0, 3)?.is_some();
    let keys = heads(node, 1, "kv_num_heads")?;
    let values = heads(node, 2, "kv_num_heads")?;
    node.ranked(1, 3)?;
    node.ranked(2, 3)?;
    let count = positive(node, "q_num_heads")?.map_or(Dim::Unknown, Dim::Known);
    let output = match (node.shape(0).filter(|_| query), &values) {
        (Some([batch, time, _]), Some(values)) => {
            Some(vec![batch.clone(), time.clone(), times(&count, &values.size)?])
        }
        (Some([batch, time, _]), None) => Some(vec![batch.clone(), time.clone(), Dim::Unknown]),
        _ => None,
    };
    let state = match (&keys, &values) {
        (Some(keys), Some(values)) => Some(vec![
            keys.batch.clone(),
            keys.heads.clone(),
            keys.size.clone(),
            values.size.clone(),
        ]),
        _ => node.shape(3).map(<[Dim]>::to_vec),
    };
    // The state may be kept more exactly than what goes in.
    let stated = if node.has(3) { node.dtype(3) } else { dtype };
    node.tensor(0, dtype, output);
    node.tensor(1, stated, state);
    Ok(())
}

fn rotary(node: &mut Node<'_>) -> Outcome {
    if let Some(shape) = node.shape(0) {
        match shape.len() {
            3 if positive(node, "num_heads")?.is_none() => {
                return Err(Finding::from("expected `num_heads` for packed heads, found none")
                    .about_attribute("num_heads"));
            }
            3 | 4 => {}
            _ => return Err(format!("expected 3 or 4 extents, found {}", show(shape)).into()),
        }
    }
    node.like(0, 0);
    Ok(())
}
