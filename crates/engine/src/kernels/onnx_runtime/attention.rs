//! Scaled dot-product attention with the masks of ONNX Runtime.
//!
//! Heads are [batch, heads, length, size].

use lodstone_model::DType;
use lodstone_schema::Finding;

use crate::call::{Call, Outputs, all};
use crate::dims::{bounded, count, dim_at, long};
use crate::error::Outcome;
use crate::kernels::attention::SCORES;
use crate::kernels::normalize::softmax;
use crate::operator::{Operator, RUNTIME};
use crate::tensor::{Dense, product};

/// The operators of this family.
pub(super) const OPERATORS: &[Operator] = &[
    Operator::dense("Attention", attention).domain(RUNTIME).working(12, 24).copies(),
    Operator::dense("MultiHeadAttention", multi_head).domain(RUNTIME).working(4, 0),
];

/// Queries, keys and values.
struct Heads {
    query: Dense,
    keys: Dense,
    values: Dense,
}

/// The mask of keys, and other numbers that are added to scores.
struct Masks<'a> {
    mask: Option<&'a Dense>,
    bias: Option<&'a Dense>,
    /// The number of keys before the first query.
    past: usize,
}

fn heads(call: &Call<'_>) -> Outcome<usize> {
    match count(call.int("num_heads", 0))? {
        0 => Err("expected `num_heads` above 0".into()),
        heads => Ok(heads),
    }
}

/// Separates heads: [batch, length, heads * size].
fn apart(x: Dense, heads: usize) -> Outcome<Dense> {
    let &[batch, length, packed] = x.shape().as_slice() else {
        return Err(format!("expected 3 dims, found {:?}", x.shape()).into());
    };
    if !packed.is_multiple_of(heads) || packed == 0 {
        return Err(format!("{packed} elements do not divide into {heads} heads").into());
    }
    x.reshaped(vec![batch, length, heads, packed / heads])?.permuted(&[0, 2, 1, 3])
}

/// Appends heads to those of earlier steps.
fn continued(past: Option<Dense>, new: Dense) -> Outcome<Dense> {
    let Some(past) = past.filter(|past| !past.shape().contains(&0)) else { return Ok(new) };
    let (before, after) = (past.shape(), new.shape());
    let fits = matches!((before.as_slice(), after.as_slice()), ([a, b, _, c], [d, e, _, f]) if (a, b, c) == (d, e, f));
    match fits {
        true => Dense::joined(&[past, new], 2),
        false => Err(format!("past keys or values {before:?} do not match {after:?}").into()),
    }
}

/// Inputs: x, weights [size, query + key + value], bias, mask, past [2, batch, heads, length, size], attention bias.
fn attention(call: &Call<'_>) -> Outputs {
    if call.int("do_rotary", 0) != 0 || call.optional(6).is_some() {
        return Err("rotary embeddings and shared buffers are not supported".into());
    }
    let (x, heads) = (call.input(0)?, heads(call)?);
    let kind = x.dtype();
    // Queries, keys and values, packed and apart.
    let mut dims = x.shape();
    if let (Some(last), Some(width)) = (dims.last_mut(), call.input(1)?.shape().last()) {
        *last = *width;
    }
    let _packed = call.workspace(&dims, 12)?;
    let mut packed = product(&x.widened()?, &call.input(1)?.widened()?)?;
    if let Some(bias) = call.optional(2) {
        packed = packed.plus(&bias.widened()?)?;
    }
    let shape = packed.shape();
    let &[_, _, width] = shape.as_slice() else {
        return Err(format!("expected 3 dims, found {shape:?}").into());
    };
    let sizes = match call.ints("qkv_hidden_sizes").unwrap_or_default() {
        [] => [width / 3; 3],
        &[query, key, value] => [count(query)?, count(key)?, count(value)?],
        _ => return Err("expected 3 `qkv_hidden_sizes`".into()),
    };
    let ends = sizes.iter().scan(0_usize, |end, size| {
        *end = end.saturating_add(*size);
        Some(*end)
    });
    let ends: Vec<usize> = ends.collect();
    if ends.last() != Some(&width) || shape.contains(&0) {
        return Err(format!("{sizes:?} do not divide {shape:?}").into());
    }
    let part = |at: usize| {
        let end = dim_at(&ends, at)?;
        apart(packed.cut(2, end - dim_at(&sizes, at)?, end)?, heads)
    };
    let past = |at: usize| -> Outcome<Option<Dense>> {
        let Some(past) = call.optional(4) else { return Ok(None) };
        let &[2, batch, heads, length, size] = past.shape().as_slice() else {
            return Err(Finding::from("expected 2 tensors of 4 dims").about_input(4));
        };
        let part = past.cut(0, at, at + 1)?;
        part.reshaped(vec![batch, heads, length, size])?.widened().map(Some)
    };
    let (keys, values) = (continued(past(0)?, part(1)?)?, continued(past(1)?, part(2)?)?);
    let before = match call.optional(4) {
        Some(past) => dim_at(&past.shape(), 3)?,
        None => 0,
    };
    let parts = Heads { query: part(0)?, keys, values };
    let masks = Masks { mask: call.optional(3), bias: call.optional(5), past: before };
    let y = attended(call, &parts, &masks)?.cast_to(kind)?;
    if call.outputs() < 2 {
        return all([y]);
    }
    let single = |x: &Dense| x.reshaped([&[1], x.dims()].concat());
    if parts.keys.shape() != parts.values.shape() {
        return Err("keys and values of different sizes cannot be stacked".into());
    }
    let present = Dense::joined(&[single(&parts.keys)?, single(&parts.values)?], 0)?;
    all([y, present.cast_to(kind)?])
}

/// Inputs: query, keys, values, bias of all three, mask, attention bias, past keys, past values.
fn multi_head(call: &Call<'_>) -> Outputs {
    let (query, heads) = (call.input(0)?, heads(call)?);
    let kind = query.dtype();
    let packed = |number: usize, at: usize, parts: usize| -> Outcome<Dense> {
        let x = call.input(number)?.widened()?;
        let &[batch, length, many, found, size] = x.shape().as_slice() else {
            return Err(Finding::from("expected 5 dims").about_input(number));
        };
        if found != parts || x.shape().contains(&0) {
            return Err(Finding::from(format!("expected {parts} parts")).about_input(number));
        }
        x.cut(3, at, at + 1)?.reshaped(vec![batch, length, many * size])
    };
    let input = |number: usize| call.input(number)?.widened();
    let of_keys = call.optional(1).map(|keys| keys.dims().len());
    let [q, k, v] = match (query.shape().len(), of_keys) {
        (5, _) => [packed(0, 0, 3)?, packed(0, 1, 3)?, packed(0, 2, 3)?],
        (_, Some(5)) => [input(0)?, packed(1, 0, 2)?, packed(1, 1, 2)?],
        _ => [input(0)?, input(1)?, input(2)?],
    };
    let bias = call.optional(3).map(Dense::widened).transpose()?;
    let mut begin = 0;
    let mut side = |x: Dense| -> Outcome<Dense> {
        let shape = x.shape();
        // Keys and values that already have separate heads take no bias.
        let &[_, _, size] = shape.as_slice() else { return Ok(x) };
        let part = match &bias {
            Some(bias) => {
                let end = begin + size;
                if bias.shape().len() != 1 || dim_at(&bias.shape(), 0)? < end {
                    return Err(Finding::from("the bias is too short").about_input(3));
                }
                let part = bias.cut(0, begin, end)?;
                begin = end;
                x.plus(&part)?
            }
            None => x,
        };
        apart(part, heads)
    };
    let (query, keys, values) = (side(q)?, side(k)?, side(v)?);
    let past = |number: usize| call.optional(number).map(Dense::widened).transpose();
    let before = match call.optional(6) {
        Some(past) => past.shape().get(2).copied().ok_or("expected past keys of 4 dims")?,
        None => 0,
    };
    let (keys, values) = (continued(past(6)?, keys)?, continued(past(7)?, values)?);
    let parts = Heads { query, keys, values };
    let masks = Masks { mask: call.optional(4), bias: call.optional(5), past: before };
    let y = attended(call, &parts, &masks)?;
    all([y.cast_to(kind)?, parts.keys.cast_to(kind)?, parts.values.cast_to(kind)?])
}

/// Returns the sums of values by the softmax of scores: [batch, queries, heads * size].
fn attended(call: &Call<'_>, parts: &Heads, masks: &Masks<'_>) -> Outcome<Dense> {
    let (query, keys, values) = (parts.query.shape(), parts.keys.shape(), parts.values.shape());
    let (&[batch, heads, queries, size], &[_, _, length, same], &[_, _, many, value_size]) =
        (query.as_slice(), keys.as_slice(), values.as_slice())
    else {
        return Err("expected queries, keys and values of 4 dims".into());
    };
    let is_alike = |shape: &[usize]| shape.starts_with(&[batch, heads]) && !shape.contains(&0);
    if size != same || many != length || ![&query, &keys, &values].iter().all(|it| is_alike(it)) {
        return Err(format!("queries {query:?} do not fit keys {keys:?}, values {values:?}").into());
    }
    let shape = [batch, heads, queries, length];
    let _scores = call.workspace(&shape, SCORES)?;
    let scale = match call.float("scale", 0.0) {
        0.0 => 1.0 / (size as f64).sqrt(),
        scale => scale.into(),
    };
    let turned = parts.keys.permuted(&[0, 1, 3, 2])?;
    let mut scores = product(&parts.query.scaled(scale)?, &turned)?;
    let kind = scores.dtype();
    // The order matters for rows without a key: their scores are rounded at the size of the mask.
    if let Some(bias) = masks.bias {
        scores = scores.plus(&bias.cast_to(kind)?.fitted(&shape)?)?;
    }
    if let Some(mask) = mask(call, masks, [batch, queries, length])? {
        scores = scores.plus(&mask.cast_to(kind)?)?;
    }
    let y = product(&softmax(&scores, 3)?, &parts.values)?;
    y.permuted(&[0, 2, 1, 3])?.reshaped([batch, queries, heads * value_size])
}

/// Returns what the mask adds to scores: [batch, 1, queries, keys].
///
/// | mask | keys that are attended |
/// |---|---|
/// | [batch] | those before the end |
/// | [2 * batch] | those before the ends, from the starts on |
/// | [batch, keys], [batch, queries, keys] | those with a number above 0 |
fn mask(call: &Call<'_>, masks: &Masks<'_>, dims: [usize; 3]) -> Outcome<Option<Dense>> {
    let [batch, queries, keys] = dims;
    let is_causal = call.int("unidirectional", 0) != 0;
    if masks.mask.is_none() && !is_causal {
        return Ok(None);
    }
    if is_causal && keys > masks.past.saturating_add(queries) {
        let what = format!("{queries} queries and {keys} keys");
        return Err(Finding::from(format!("`unidirectional` with {what} is not supported"))
            .about_attribute("unidirectional"));
    }
    let list = masks.mask.map(Dense::to_longs).transpose()?.unwrap_or_default();
    let shape = masks.mask.map(Dense::shape).unwrap_or_default();
    // The list has an element at each place of its dims.
    let attends: Box<dyn Fn(usize, usize, usize) -> bool> = match *shape.as_slice() {
        [] if masks.mask.is_none() => Box::new(|_, _, _| true),
        [length] if length == batch => {
            Box::new(|row, _, key| list.get(row).is_some_and(|end| long(key) < *end))
        }
        [length] if Some(length) == batch.checked_mul(2) => Box::new(|row, _, key| {
            list.get(row).is_some_and(|end| long(key) < *end)
                && list.get(batch + row).is_some_and(|start| long(key) >= *start)
        }),
        [rows, length] if rows == batch && length == keys => {
            Box::new(|row, _, key| list.get(row * keys + key).is_some_and(|it| *it > 0))
        }
        [rows, many, length] if [rows, many, length] == dims => Box::new(|row, query, key| {
            list.get((row * queries + query) * keys + key).is_some_and(|it| *it > 0)
        }),
        _ => return Err(format!("a mask of {shape:?} does not fit {dims:?}").into()),
    };
    let hidden = f64::from(call.float("mask_filter_value", -10000.0));
    let _mask = call.workspace(&dims, 12)?;
    let mut made = Vec::with_capacity(bounded(&dims)?);
    for row in 0..batch {
        for query in 0..queries {
            let last = masks.past + query;
            made.extend((0..keys).map(|key| {
                match (is_causal && key > last, attends(row, query, key)) {
                    (true, _) => f64::from(f32::MIN),
                    (false, true) => 0.0,
                    (false, false) => hidden,
                }
            }));
        }
    }
    let made = Dense::numbers(made, DType::Float32, &[batch, 1, queries, keys])?;
    Ok(Some(made))
}
