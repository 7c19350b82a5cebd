//! Attention: [batch, heads, sequence, head size], or [batch, sequence, heads of head size].

use lodstone_model::{DType, Dim};

use super::Rule;
use super::dims::{Checked, mapped, merged, merged_types, show, show_type, sum};
use super::node::{Node, Outcome};
use super::value::{UNDEFINED, ValueInfo};
use crate::Finding;

pub(super) const RULES: &[(&str, Rule)] =
    &[("Attention", attention), ("LinearAttention", linear), ("RotaryEmbedding", rotary)];

/// Rules of `ai.onnx.preview`.
pub(super) const PREVIEW: &[(&str, Rule)] = &[("FlexAttention", flexible)];

/// The dims of queries, keys or values, with separate heads.
struct Heads {
    batch: Dim,
    heads: Dim,
    sequence: Dim,
    size: Dim,
}

impl Heads {
    /// Merges the batch, heads and sequence length of keys with those of values.
    fn unify(&mut self, values: &mut Self) -> Outcome {
        for (own, other) in [
            (&mut self.batch, &mut values.batch),
            (&mut self.heads, &mut values.heads),
            (&mut self.sequence, &mut values.sequence),
        ] {
            *own = merged(own, other)
                .ok_or_else(|| format!("expected values for keys of {own}, found {other}"))?;
            other.clone_from(own);
        }
        Ok(())
    }
}

/// Returns the heads of an input, which are separate or packed into the last dim.
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
            "expected 3 or 4 dims of input {index}, found {}",
            show(other)
        ))
        .about_input(index)),
        None => Ok(None),
    }
}

fn positive(node: &Node<'_>, attribute: &str) -> Checked<Option<u64>> {
    match node.int_attribute(attribute) {
        None => Ok(None),
        Some(number) => match u64::try_from(number) {
            Ok(number @ 1..) => Ok(Some(number)),
            _ => {
                Err(Finding::from(format!("expected `{attribute}` of at least 1, found {number}"))
                    .about_attribute(attribute))
            }
        },
    }
}

/// Divides a packed dim by the number of heads.
fn parted(packed: &Dim, heads: u64, attribute: &str) -> Checked<Dim> {
    match packed {
        Dim::Known(packed) if packed % heads != 0 => Err(format!(
            "expected a multiple of the {heads} heads of `{attribute}`, found {packed}"
        )
        .into()),
        Dim::Known(packed) => Ok(Dim::Known(packed / heads)),
        _ => Ok(Dim::Unknown),
    }
}

fn times(a: &Dim, b: &Dim) -> Checked<Dim> {
    match a {
        Dim::Known(1) => Ok(b.clone()),
        Dim::Known(a) => mapped(b, "a dim", |b| b.checked_mul(i128::from(*a))),
        _ => Ok(Dim::Unknown),
    }
}

/// Returns the number of heads of a required attribute.
fn required(node: &Node<'_>, attribute: &str) -> Checked<u64> {
    positive(node, attribute)?.ok_or_else(|| {
        Finding::from(format!("expected `{attribute}`, found none")).about_attribute(attribute)
    })
}

/// Checks the additions of version 25: windows, and which inputs and outputs exclude each other.
fn newest(node: &Node<'_>) -> Outcome {
    for name in ["left_window_size", "right_window_size"] {
        if let Some(size) = node.int_attribute(name).filter(|size| *size < -1) {
            let wrong = format!("expected `{name}` of at least -1, found {size}");
            return Err(Finding::from(wrong).about_attribute(name));
        }
    }
    let heads = ["q_num_heads", "kv_num_heads"].into_iter().find(|name| node.has_attribute(name));
    if let (Some([_, _, _, _]), Some(name)) = (node.shape(0), heads) {
        let wrong = format!("expected no `{name}` for queries of rank 4");
        return Err(Finding::from(wrong).about_attribute(name));
    }
    let has_output =
        |index: usize| node.op.output("").get(index).is_some_and(|name| !name.is_empty());
    let past = (node.has(4), node.has(5));
    let present = (has_output(1), has_output(2));
    for ((keys, values), what) in [(past, "past"), (present, "present")] {
        if keys != values {
            return Err(format!("expected both {what} keys and values, found one").into());
        }
    }
    match node.has(6) && (past.0 || present.0) {
        true => Err("expected no lengths without padding beside past or present keys".into()),
        false => Ok(()),
    }
}

/// Returns the length of past keys or values, whose other dims equal those of the new ones.
fn past(node: &Node<'_>, index: usize, new: Option<&mut Heads>) -> Checked<Dim> {
    let mut length = if node.has(index) { Dim::Unknown } else { Dim::Known(0) };
    match new {
        Some(Heads { batch, heads, size, .. }) => {
            node.unify(index, &mut [batch, heads, &mut length, size])?;
        }
        None => {
            node.ranked(index, 4)?;
        }
    }
    Ok(length)
}

fn attention(node: &mut Node<'_>) -> Outcome {
    node.same_dtype([0, 1])?;
    if node.opset >= 25 {
        newest(node)?;
    }
    if let Some([_, _, _]) = node.shape(0) {
        required(node, "q_num_heads")?;
        required(node, "kv_num_heads")?;
    }
    let query = heads(node, 0, "q_num_heads")?;
    let (mut key, mut value) = (heads(node, 1, "kv_num_heads")?, heads(node, 2, "kv_num_heads")?);
    if let (Some(key), Some(value)) = (&mut key, &mut value) {
        key.unify(value)?;
    }
    let packed = node.shape(0).is_some_and(|shape| shape.len() == 3);
    let (of_keys, of_values) = (node.dtype(0), node.dtype(2));
    let past_key = past(node, 4, key.as_mut())?;
    let past_value = past(node, 5, value.as_mut())?;
    let (past_key, past_value) = match (node.has(4), node.has(5)) {
        (true, true) => {
            let both = merged(&past_key, &past_value).ok_or_else(|| {
                let wrong = format!("expected past values for {past_key} keys, found {past_value}");
                Finding::from(wrong).about_input(5)
            })?;
            (both.clone(), both)
        }
        _ => (past_key, past_value),
    };
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

/// Output: [batch, query heads, query sequence, value size]. Blocks modify scores and probabilities, each [batch,
/// query heads, query sequence, key sequence].
fn flexible(node: &mut Node<'_>) -> Outcome {
    node.only_tensors()?;
    let dtype = node.same_dtype(0..3)?;
    let [mut batch, mut heads, mut sequence, mut size] = [const { Dim::Unknown }; 4];
    let [mut key_heads, mut length, mut value_size] = [const { Dim::Unknown }; 3];
    node.unify(0, &mut [&mut batch, &mut heads, &mut sequence, &mut size])?;
    node.unify(1, &mut [&mut batch, &mut key_heads, &mut length, &mut size])?;
    node.unify(2, &mut [&mut batch, &mut key_heads, &mut length, &mut value_size])?;
    if let (Dim::Known(heads), Dim::Known(key_heads)) = (&heads, &key_heads) {
        divides(*key_heads, *heads)?;
    }
    let shape = Some(vec![batch.clone(), heads.clone(), sequence.clone(), value_size]);
    let scores = Some(vec![batch, heads, sequence, length]);
    let precision = match (node.dtype_attribute("softmax_precision")?, dtype) {
        (
            Some(precision @ (DType::Float32 | DType::Float16 | DType::BFloat16 | DType::Float64)),
            _,
        ) => precision,
        (Some(other), _) => {
            let wrong = format!("expected a float type in `softmax_precision`, found {other}");
            return Err(Finding::from(wrong).about_attribute("softmax_precision"));
        }
        (None, DType::Float64) => DType::Float64,
        (None, _) => DType::Float32,
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

/// Checks that the number of query heads is a multiple of the number of key heads.
fn divides(keys: u64, queries: u64) -> Outcome {
    match queries.checked_rem(keys) {
        Some(0) => Ok(()),
        _ if queries == keys => Ok(()),
        _ => {
            Err(format!("expected a multiple of {keys} key heads as query heads, found {queries}")
                .into())
        }
    }
}

/// Output: [batch, time, heads * value size]; state: [batch, key heads, key size, value size].
fn linear(node: &mut Node<'_>) -> Outcome {
    let dtype = node.same_dtype([0, 1, 2])?;
    let (queries, keys) = (required(node, "q_num_heads")?, required(node, "kv_num_heads")?);
    divides(keys, queries)?;
    let rule = node.text("update_rule").unwrap_or(b"gated_delta");
    for (index, name, is_needed) in
        [(4, "decay", rule.starts_with(b"gated")), (5, "beta", rule.ends_with(b"delta"))]
    {
        if node.has(index) != is_needed {
            let expected = if is_needed { "a" } else { "no" };
            let rule = String::from_utf8_lossy(rule);
            let wrong = format!("expected {expected} `{name}` for the update rule `{rule}`");
            return Err(Finding::from(wrong).about_input(index));
        }
    }
    let [mut batch, mut time, mut query, mut key, mut value] = [const { Dim::Unknown }; 5];
    let [mut size, mut value_size, mut decay, mut beta] = [const { Dim::Unknown }; 4];
    let mut heads = Dim::Known(keys);
    node.unify(0, &mut [&mut batch, &mut time, &mut query])?;
    node.unify(1, &mut [&mut batch, &mut time, &mut key])?;
    node.unify(2, &mut [&mut batch, &mut time, &mut value])?;
    node.unify(3, &mut [&mut batch, &mut heads, &mut size, &mut value_size])?;
    node.unify(4, &mut [&mut batch, &mut time, &mut decay])?;
    node.unify(5, &mut [&mut batch, &mut time, &mut beta])?;
    let size_of = |known: &Dim, packed: &Dim, heads: u64, attribute: &str| {
        let each = parted(packed, heads, attribute)?;
        merged(known, &each).ok_or_else(|| {
            Finding::from(format!("expected heads of the size {known}, found {each}"))
        })
    };
    size = size_of(&size, &query, queries, "q_num_heads")?;
    size = size_of(&size, &key, keys, "kv_num_heads")?;
    value_size = size_of(&value_size, &value, keys, "kv_num_heads")?;
    // One decay for each head, or one for each element of its key.
    if let Dim::Known(found) = decay {
        let fits = match size {
            Dim::Known(size) => found == keys || Some(found) == keys.checked_mul(size),
            _ => found.is_multiple_of(keys),
        };
        if !fits {
            let wrong = format!("expected a decay for each of {keys} heads, found {found}");
            return Err(Finding::from(wrong).about_input(4));
        }
    }
    if let Dim::Known(found) = beta
        && found != 1
        && found != keys
    {
        let wrong = format!("expected 1 or {keys} values in `beta`, found {found}");
        return Err(Finding::from(wrong).about_input(5));
    }
    // The state may have a higher precision than the inputs.
    let stated = if node.has(3) { node.dtype(3) } else { dtype };
    let packed = times(&Dim::Known(queries), &value_size)?;
    node.tensor(0, dtype, Some(vec![batch.clone(), time, packed]));
    node.tensor(1, stated, Some(vec![batch, heads, size, value_size]));
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
            _ => return Err(format!("expected 3 or 4 dims, found {}", show(shape)).into()),
        }
    }
    node.like(0, 0);
    Ok(())
}
