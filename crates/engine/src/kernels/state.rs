//! Operators that carry a state along a sequence: linear attention and causal convolutions.

use rayon::prelude::*;

use super::attention::heads;
use crate::call::{Call, Outputs, all};
use crate::dims::{bounded, count};
use crate::error::Outcome;
use crate::operator::Operator;
use crate::tensor::Dense;

/// The operators of this family.
pub(super) const OPERATORS: &[Operator] = &[
    Operator::dense("CausalConvWithState", causal_conv).working(12, 6).shares(),
    Operator::dense("LinearAttention", linear_attention).working(4, 8).threaded(),
];

/// Convolves each channel with its own filter; the state holds the positions before the first.
fn causal_conv(call: &Call<'_>) -> Outputs {
    let (x, filter) = (call.input(0)?, call.input(1)?);
    let (shape, sizes) = (x.shape(), filter.shape());
    let (&[batch, channels, length], &[same, 1, size]) = (shape.as_slice(), sizes.as_slice())
    else {
        return Err(format!("filter {sizes:?} does not fit {shape:?}").into());
    };
    if same != channels || size == 0 {
        return Err(format!("filter {sizes:?} does not fit {shape:?}").into());
    }
    let kept = [batch, channels, size - 1];
    bounded(&[batch, channels, length.saturating_add(size)])?;
    let (kind, wide) = (x.dtype(), x.widened()?);
    let past = match call.optional(3) {
        Some(past) if past.shape() != kept => {
            return Err(format!("expected a state of {kept:?}, found {:?}", past.shape()).into());
        }
        Some(past) => past.cast_to(wide.dtype())?,
        None => Dense::filled(0.0, wide.dtype(), &kept)?,
    };
    let padded = match (kept.contains(&0), shape.contains(&0)) {
        (_, true) => past,
        (true, _) => wide.clone(),
        _ => Dense::joined(&[past, wide.clone()], 2)?,
    };
    let state = match (shape.contains(&0), size) {
        (true, _) => padded.clone(),
        (_, 1) => Dense::filled(0.0, kind, &kept)?,
        _ => padded.cut(2, length, length + size - 1)?,
    };
    let state = state.cast_to(kind)?;
    if shape.contains(&0) {
        return all([x.clone(), state]);
    }
    let line = |item: &Dense| item.cast_to(wide.dtype());
    let filter = line(filter)?.reshaped(vec![1, channels, size])?;
    let mut y: Option<Dense> = None;
    for step in 0..size {
        let weights = filter.cut(2, step, step + 1)?;
        let part = padded.cut(2, step, step + length)?.times(&weights)?;
        y = Some(match y {
            Some(sum) => sum.plus(&part)?,
            None => part,
        });
    }
    let mut y = y.ok_or("the filter has no elements")?;
    if let Some(bias) = call.optional(2) {
        y = y.plus(&line(bias)?.fitted(&[channels])?.reshaped(vec![1, channels, 1])?)?;
    }
    if matches!(call.text("activation").as_deref(), Some("silu" | "swish")) {
        y = y.times(&y.sigmoid()?)?;
    }
    all([y.cast_to(kind)?, state])
}

/// What one key head of an example reads.
struct Head<'a> {
    /// The number of time steps, and of query heads that share this key head.
    steps: usize,
    queries: usize,
    /// The sizes of keys and of values.
    size: usize,
    value_size: usize,
    scale: f32,
    // [query heads, time, size]
    query: &'a [f32],
    // [time, size]
    key: &'a [f32],
    // [time, value size]
    value: &'a [f32],
    /// The decay of each step: one for all elements of the key, or one for each.
    decay: Option<Vec<f32>>,
    beta: Option<Vec<f32>>,
}

impl Head<'_> {
    /// Updates the state, [size, value size], step by step; returns the results, [query heads, time, value size].
    fn run(&self, state: &mut [f32]) -> Vec<f32> {
        let Self { steps, size, value_size, .. } = *self;
        let mut made = vec![0.0; self.queries * steps * value_size];
        let times = self.key.chunks_exact(size).zip(self.value.chunks_exact(value_size));
        for (step, (key, value)) in times.enumerate() {
            if let Some(decay) = &self.decay {
                let each = decay.len() / steps;
                let decay = decay.get(step * each..(step + 1) * each).unwrap_or_default();
                let factors = decay.iter().cycle().map(|decay| decay.exp());
                for (row, factor) in state.chunks_exact_mut(value_size).zip(factors) {
                    row.iter_mut().for_each(|element| *element *= factor);
                }
            }
            let mut new = value.to_vec();
            if let Some(beta) = self.beta.as_ref().and_then(|beta| beta.get(step)) {
                let found = read(state, key, value_size);
                new.iter_mut().zip(found).for_each(|(new, found)| *new = beta * (*new - found));
            }
            for (row, key) in state.chunks_exact_mut(value_size).zip(key) {
                row.iter_mut().zip(&new).for_each(|(element, new)| *element += key * new);
            }
            let queries = self.query.chunks_exact(steps * size);
            let results = made.chunks_exact_mut(steps * value_size);
            for (query, result) in queries.zip(results) {
                let query = query.get(step * size..(step + 1) * size).unwrap_or_default();
                let places = step * value_size..(step + 1) * value_size;
                let slots = result.get_mut(places).unwrap_or_default();
                for (slot, read) in slots.iter_mut().zip(read(state, query, value_size)) {
                    *slot = self.scale * read;
                }
            }
        }
        made
    }
}

/// Returns the sum of the rows of a state, each times an element of a key or query.
fn read(state: &[f32], factors: &[f32], value_size: usize) -> Vec<f32> {
    let mut sum = vec![0.0; value_size];
    for (row, factor) in state.chunks_exact(value_size).zip(factors) {
        sum.iter_mut().zip(row).for_each(|(sum, element)| *sum += factor * element);
    }
    sum
}

/// Attention without a softmax, whose keys and values are summed up in a state. It is computed in single precision.
fn linear_attention(call: &Call<'_>) -> Outputs {
    let query = heads(call, 0, "q_num_heads")?;
    let (key, value) = (heads(call, 1, "kv_num_heads")?, heads(call, 2, "kv_num_heads")?);
    let (shape, keys, values) = (query.shape(), key.shape(), value.shape());
    let (
        &[batch, heads, steps, size],
        &[of_keys, key_heads, key_steps, same],
        &[of_values, value_heads, value_steps, value_size],
    ) = (shape.as_slice(), keys.as_slice(), values.as_slice())
    else {
        return Err("expected queries, keys and values".into());
    };
    let fits = key_heads > 0
        && [of_keys, of_values] == [batch; 2]
        && [key_steps, value_steps] == [steps; 2]
        && same == size
        && value_heads == key_heads
        && heads.is_multiple_of(key_heads);
    if !fits {
        return Err(
            format!("queries {shape:?} do not fit keys {keys:?} and values {values:?}").into()
        );
    }
    let dims = [batch, key_heads, size, value_size];
    bounded(&[batch, heads, steps, value_size])?;
    let stated = call.optional(3).unwrap_or(&query).dtype();
    let mut state = match call.optional(3) {
        Some(state) if state.shape() == dims => state.to_singles()?,
        Some(state) => {
            return Err(format!("expected a state of {dims:?}, found {:?}", state.shape()).into());
        }
        None => vec![0.0; bounded(&dims)?],
    };
    let scale = match call.float("scale", 0.0) {
        0.0 => 1.0 / (size as f32).sqrt(),
        scale => scale,
    };
    let packed = [batch, steps, heads * value_size];
    if packed.contains(&0) || size == 0 {
        let y = Dense::filled(0.0, query.dtype(), &packed)?;
        return all([y, Dense::from_vec(state, dims)?.cast_to(stated)?]);
    }
    // [batch * key heads, time * values of each step]
    let by_head = |number: usize| match call.optional(number) {
        Some(x) => by_head(x, [batch, steps, key_heads]).map(Some),
        None => Ok(None),
    };
    let (decay, beta) = (by_head(4)?, by_head(5)?);
    let queries = heads / key_heads;
    let (query_list, key, value) = (query.to_singles()?, key.to_singles()?, value.to_singles()?);
    let line = |list: &Option<Vec<f32>>, head: usize| {
        let each = list.as_ref()?.len() / (batch * key_heads);
        list.as_ref()?.get(head * each..(head + 1) * each).map(<[f32]>::to_vec)
    };
    let results = state
        .par_chunks_exact_mut(size * value_size)
        .zip(query_list.par_chunks_exact(queries * steps * size))
        .zip(key.par_chunks_exact(steps * size).zip(value.par_chunks_exact(steps * value_size)))
        .enumerate()
        .map(|(head, ((state, query), (key, value)))| {
            let (decay, beta) = (line(&decay, head), line(&beta, head));
            let head =
                Head { steps, queries, size, value_size, scale, query, key, value, decay, beta };
            head.run(state)
        });
    let made: Vec<Vec<f32>> = results.collect();
    // [batch, heads, time, value size]
    let y = Dense::from_vec(made.concat(), [batch, heads, steps, value_size])?;
    let y = y.permuted(&[0, 2, 1, 3])?.reshaped(packed)?.cast_to(query.dtype())?;
    all([y, Dense::from_vec(state, dims)?.cast_to(stated)?])
}

/// Orders decays or rates by key head: [batch, key heads, time, each]. One for all heads is repeated.
fn by_head(x: &Dense, [batch, steps, heads]: [usize; 3]) -> Outcome<Vec<f32>> {
    let &[examples, found, last] = x.shape().as_slice() else {
        return Err("expected decays and rates of 3 dims".into());
    };
    if [examples, found] != [batch, steps]
        || last == 0
        || !(last == 1 || last.is_multiple_of(heads))
    {
        return Err(format!("{:?} do not fit {steps} steps of {heads} heads", x.shape()).into());
    }
    let x = match last {
        1 => x.expanded(&[batch, steps, heads])?,
        _ => x.clone(),
    };
    let each = count(crate::dims::long(last / heads))?.max(1);
    x.reshaped(vec![batch, steps, heads, each])?.permuted(&[0, 2, 1, 3])?.to_singles()
}
