//! Scaled dot-product attention.
//!
//! Queries are [batch, query heads, queries, size], keys [batch, key heads, keys, size], values [batch, key heads, keys,
//! value size]. With fewer key heads than query heads, neighbouring query heads share keys: their queries are rows of
//! the same matrix product, and nothing is repeated. Half precision is computed in single precision.

use lodstone_model::DType;
use lodstone_schema::Finding;
use lodstone_schema::onnx::dtype;

use super::normalize::softmax;
use crate::call::{Call, Outputs, all};
use crate::dims::{bounded, common, count, long};
use crate::error::Outcome;
use crate::operator::Operator;
use crate::tensor::{Dense, Extreme, floats_are, product};

/// The operators of this family.
pub(super) const OPERATORS: &[Operator] =
    &[Operator::dense("Attention", attention).working(12, 24).copies()];

/// The bytes of memory for each score: several steps hold all of them at the same time.
pub(super) const SCORES: u64 = 16;

/// What the fourth output holds.
const SOFTCAPPED: i64 = 1;
const BIASED: i64 = 2;
const PROBABILITIES: i64 = 3;

fn attention(call: &Call<'_>) -> Outputs {
    let is_packed = call.input(0)?.shape().len() == 3;
    let query = heads(call, 0, "q_num_heads")?;
    let new = (heads(call, 1, "kv_num_heads")?, heads(call, 2, "kv_num_heads")?);
    let keys = continued(call.optional(4), new.0)?;
    let values = continued(call.optional(5), new.1)?;
    let sizes = Sizes::of(&query, &keys, &values)?;
    let kind = query.dtype();
    let [q, k, v] = [&query.widened()?, &keys.widened()?, &values.widened()?];
    let wide = q.dtype();
    let scale = match call.float("scale", 0.0) {
        0.0 => 1.0 / (sizes.size as f64).sqrt(),
        scale => scale.into(),
    };
    let Sizes { batch, heads, key_heads, queries, keys: length, value_size, .. } = sizes;
    // [batch, key heads, queries of all heads that share keys, size]
    let rows =
        |x: Dense, inner: usize| x.reshaped([batch, key_heads, heads / key_heads * queries, inner]);
    let shape = [batch, heads, queries, length];
    // The scores, what becomes of them in each step, and the mask.
    let _scores = call.workspace(&shape, SCORES)?;
    let scores =
        product(&rows(q.scaled(scale)?, sizes.size)?, &k.cast_to(wide)?.permuted(&[0, 1, 3, 2])?)?
            .reshaped(shape)?;
    let mode = call.int("qk_matmul_output_mode", 0);
    let softcap = f64::from(call.float("softcap", 0.0));
    let capped = match softcap > 0.0 {
        true => scores.scaled(1.0 / softcap)?.tanh()?.scaled(softcap)?,
        false => scores.clone(),
    };
    let bias = Bias { call, sizes: &sizes, wide }.sum()?;
    let biased = match &bias {
        Some(bias) => capped.plus(bias)?,
        None => capped.clone(),
    };
    let shares = match shape.contains(&0) {
        true => biased.clone(),
        false => shares(call, &biased, bias.as_ref())?,
    };
    let y = product(&rows(shares.clone(), length)?, &v.cast_to(wide)?)?;
    let y = y.reshaped(vec![batch, heads, queries, value_size])?.cast_to(kind)?;
    let y = match is_packed {
        true => y.permuted(&[0, 2, 1, 3])?.reshaped(vec![batch, queries, heads * value_size])?,
        false => y,
    };
    if call.outputs() < 4 {
        return all([y, keys, values]);
    }
    let inner = match mode {
        0 => scores,
        SOFTCAPPED => capped,
        BIASED => biased,
        PROBABILITIES => shares,
        other => return Err(format!("`qk_matmul_output_mode` {other} is not supported").into()),
    };
    all([y, keys, values, inner.cast_to(kind)?])
}

/// Returns an input with separate heads: [batch, heads, length, size].
pub(super) fn heads(call: &Call<'_>, number: usize, attribute: &str) -> Outcome<Dense> {
    let x = call.input(number)?.clone();
    match *x.shape().as_slice() {
        [_, _, _, _] => Ok(x),
        [batch, length, packed] => {
            let heads = count(call.int(attribute, 0))?;
            if heads == 0 || !packed.is_multiple_of(heads) {
                let wrong = format!("{packed} elements do not divide into {heads} heads");
                return Err(Finding::from(wrong).about_input(number));
            }
            let apart = vec![batch, length, heads, packed / heads];
            Ok(x.reshaped(apart)?.permuted(&[0, 2, 1, 3])?)
        }
        _ => Err(Finding::from("expected 3 or 4 dims").about_input(number)),
    }
}

/// Appends new keys or values to past ones.
fn continued(past: Option<&Dense>, new: Dense) -> Outcome<Dense> {
    let Some(past) = past else { return Ok(new) };
    let (before, after) = (past.shape(), new.shape());
    let others = |shape: &[usize]| {
        shape.iter().copied().enumerate().filter(|(at, _)| *at != 2).collect::<Vec<_>>()
    };
    if others(&before) != others(&after) {
        return Err(format!("past keys or values {before:?} do not match {after:?}").into());
    }
    match (before.contains(&0), after.contains(&0)) {
        (true, _) => Ok(new),
        (_, true) => Ok(past.clone()),
        _ => Dense::joined(&[past.clone(), new], 2),
    }
}

/// The dims of an attention.
struct Sizes {
    batch: usize,
    heads: usize,
    key_heads: usize,
    queries: usize,
    keys: usize,
    size: usize,
    value_size: usize,
}

impl Sizes {
    fn of(query: &Dense, keys: &Dense, values: &Dense) -> Outcome<Self> {
        let (query, keys, values) = (query.shape(), keys.shape(), values.shape());
        let (
            &[batch, heads, queries, size],
            &[examples, key_heads, length, same],
            &[of_values, value_heads, many, value_size],
        ) = (query.as_slice(), keys.as_slice(), values.as_slice())
        else {
            return Err("expected queries, keys and values of 4 dims".into());
        };
        let fits = [examples, of_values] == [batch; 2]
            && same == size
            && [value_heads, many] == [key_heads, length]
            && key_heads > 0
            && heads.is_multiple_of(key_heads);
        if !fits {
            return Err(format!(
                "queries {query:?} do not fit keys {keys:?} and values {values:?}"
            )
            .into());
        }
        bounded(&[batch, heads, queries, length])?;
        bounded(&[batch, heads, queries, value_size])?;
        Ok(Self { batch, heads, key_heads, queries, keys: length, size, value_size })
    }
}

/// Returns the softmax of scores. Queries without any key have zeros.
fn shares(call: &Call<'_>, scores: &Dense, bias: Option<&Dense>) -> Outcome<Dense> {
    let kind = scores.dtype();
    let code = i32::try_from(call.int("softmax_precision", 0)).ok().and_then(dtype::from_code);
    let precision = match code {
        Some(DType::Float64) => DType::Float64,
        _ => kind,
    };
    let shares = softmax(&scores.cast_to(precision)?, 3)?.cast_to(kind)?;
    let Some(bias) = bias else { return Ok(shares) };
    let top = bias.extremes(bias.dims().len().saturating_sub(1), Extreme::Greatest)?;
    let is_masked = floats_are!(&top, |top| top.is_infinite() && top < 0.0)?;
    shares.masked(&is_masked, &shares.zeros(&[])?)
}

/// What is added to scores: masks are 0 where a query attends a key, and minus infinity elsewhere.
struct Bias<'a> {
    call: &'a Call<'a>,
    sizes: &'a Sizes,
    wide: DType,
}

impl Bias<'_> {
    /// Returns the sum of the mask and of the ranges of keys; it broadcasts to the scores.
    fn sum(&self) -> Outcome<Option<Dense>> {
        let (mask, ranges) = (self.mask()?, self.ranges()?);
        let sum = match (mask, ranges) {
            (Some(mask), Some(ranges)) => mask.plus(&ranges)?,
            (Some(one), None) | (None, Some(one)) => one,
            (None, None) => return Ok(None),
        };
        let Sizes { batch, heads, queries, keys, .. } = *self.sizes;
        let scores = [batch, heads, queries, keys];
        match *common(sum.dims(), &scores)? == scores {
            // The last dim is that of the keys, even if the mask is a single number.
            true => {
                let missing = scores.len() - sum.shape().len();
                let dims = [vec![1; missing], sum.shape()].concat();
                Ok(Some(sum.reshaped(dims)?))
            }
            false => {
                Err(format!("the mask {:?} does not broadcast to {scores:?}", sum.shape()).into())
            }
        }
    }

    /// Returns the mask; it may have fewer keys, the others are not attended.
    fn mask(&self) -> Outcome<Option<Dense>> {
        let Some(mask) = self.call.optional(3) else { return Ok(None) };
        let wide = match mask.dtype() {
            DType::Bool => {
                let no = Dense::filled(f64::NEG_INFINITY, self.wide, &[])?;
                no.masked(mask, &Dense::filled(0.0, self.wide, &[])?)?
            }
            _ => mask.cast_to(self.wide)?,
        };
        let missing = match wide.shape().last() {
            Some(&found) if found < self.sizes.keys => self.sizes.keys - found,
            _ => return Ok(Some(wide)),
        };
        let mut pads = vec![(0, 0); wide.shape().len()];
        if let Some(last) = pads.last_mut() {
            *last = (0, long(missing));
        }
        let none = Dense::filled(f64::NEG_INFINITY, self.wide, &[1])?;
        wide.padded(&pads, &none).map(Some)
    }

    /// Returns the bias of causality, of windows, and of the number of keys that are not padding:
    /// [1 or batch, 1, queries, keys].
    fn ranges(&self) -> Outcome<Option<Dense>> {
        let Sizes { batch, queries, keys, .. } = *self.sizes;
        let is_causal = self.call.int("is_causal", 0) != 0;
        let window = |name: &str| usize::try_from(self.call.int(name, -1)).ok();
        let (left, right) = (window("left_window_size"), window("right_window_size"));
        let lengths = self.call.longs(6)?;
        if !is_causal && left.is_none() && right.is_none() && lengths.is_none() {
            return Ok(None);
        }
        if lengths.as_ref().is_some_and(|lengths| lengths.len() != batch) {
            return Err(Finding::from(format!("expected {batch} lengths")).about_input(6));
        }
        let past = match self.call.optional(4) {
            Some(past) => long(crate::dims::dim_at(&past.shape(), 2)?),
            None => 0,
        };
        let has_past = self.call.optional(4).is_some();
        let examples = if lengths.is_some() { batch } else { 1 };
        let mut values = vec![0.0; bounded(&[examples, queries, keys])?];
        for (row, line) in values.chunks_mut(keys.max(1)).enumerate() {
            let length = lengths.as_ref().and_then(|all| all.get(row / queries.max(1))).copied();
            let offset = match length {
                Some(length) if !has_past => length.saturating_sub(long(queries)),
                _ => past,
            };
            let place = offset.saturating_add(long(row % queries.max(1)));
            let last = right.map(|size| place.saturating_add(long(size)));
            let first = left.map(|size| place.saturating_sub(long(size)));
            for (key, slot) in (0_i64..).zip(line) {
                let attends = (!is_causal || key <= place)
                    && last.is_none_or(|last| key <= last)
                    && first.is_none_or(|first| key >= first)
                    && length.is_none_or(|length| key < length);
                if !attends {
                    *slot = f64::NEG_INFINITY;
                }
            }
        }
        Dense::numbers(values, self.wide, &[examples, 1, queries, keys]).map(Some)
    }
}
