//! Counts of n-grams, of strings or integers.

use std::collections::HashMap;

use lodstone_model::{DType, Op};

use super::sequence::value;
use crate::budget::Memory;
use crate::call::{Call, Outputs};
use crate::dims::{bounded, count};
use crate::error::Outcome;
use crate::operator::Operator;
use crate::tensor::Dense;
use crate::value::Value;

/// The operators of this family.
pub(super) const OPERATORS: &[Operator] = &[Operator::values("TfIdfVectorizer", frequencies)];

/// A token: a number for each different string or integer of the pool.
type Token = usize;

/// The n-grams of a pool.
struct Pool {
    /// The column of each n-gram.
    columns: HashMap<Vec<Token>, usize>,
    /// The smallest and the largest number of tokens of an n-gram.
    least: usize,
    most: usize,
}

fn frequencies(op: &Op, inputs: &[Option<Value>], memory: Memory<'_>) -> Outputs {
    let call = &Call::new(op, &[])?;
    let (x, mut known) = (value(inputs, 0)?, HashMap::new());
    let elements = match x {
        Value::Strings(strings) => strings.elements().len(),
        x => x.dense()?.count(),
    };
    // A token, and a copy of an integer.
    let _tokens = memory.reserve((elements as u64).saturating_mul(16 + 8))?;
    let (tokens, dims, pool) = match x {
        Value::Strings(strings) => {
            let pool = call.texts("pool_strings").unwrap_or_default();
            let pool: Vec<Token> =
                pool.into_iter().map(|text| number(&mut known, text.into_bytes())).collect();
            let token = |text: &bytes::Bytes| known.get(text.as_ref()).copied();
            let tokens = strings.elements().iter().map(token).collect::<Vec<Option<Token>>>();
            (tokens, strings.dims().to_vec(), pool)
        }
        _ => {
            let pool = call.ints("pool_int64s").unwrap_or_default();
            let bytes = |value: &i64| value.to_le_bytes().to_vec();
            let pool = pool.iter().map(|value| number(&mut known, bytes(value))).collect();
            let item = x.dense()?;
            let token = |value: i64| known.get(bytes(&value).as_slice()).copied();
            (item.to_longs()?.into_iter().map(token).collect(), item.shape(), pool)
        }
    };
    let columns = call.ints("ngram_indexes").unwrap_or_default();
    let columns = columns.iter().map(|column| count(*column)).collect::<Outcome<Vec<_>>>()?;
    let width = columns.iter().max().ok_or("`ngram_indexes` is missing")?.saturating_add(1);
    let pool = Pool::of(call, &pool, &columns)?;
    let (rows, length, whole) = match *dims.as_slice() {
        [] => (1, 1, vec![width]),
        [length] => (1, length, vec![width]),
        [rows, length] => (rows, length, vec![rows, width]),
        _ => return Err(format!("expected 1 or 2 dims, found {dims:?}").into()),
    };
    let _counts = memory.reserve((bounded(&[rows, width])? as u64).saturating_mul(8))?;
    let mut counts = vec![0.0; bounded(&[rows, width])?];
    let skips = count(call.int("max_skip_count", 0))?;
    for (row, counts) in counts.chunks_exact_mut(width).enumerate() {
        let tokens = tokens.get(row * length..(row + 1) * length).unwrap_or_default();
        pool.count(tokens, skips, counts);
    }
    let weights = call.floats("weights");
    if !weights.is_empty() && weights.len() < width {
        return Err(format!("expected {width} weights, found {}", weights.len()).into());
    }
    let mode = call.text("mode").unwrap_or_default();
    for counts in counts.chunks_exact_mut(width) {
        let factors = weights.iter().copied().map(f64::from).chain(std::iter::repeat(1.0));
        for (count, weight) in counts.iter_mut().zip(factors) {
            *count = match mode.as_str() {
                "TF" => *count,
                "IDF" => {
                    if *count > 0.0 {
                        weight
                    } else {
                        0.0
                    }
                }
                "TFIDF" => *count * weight,
                other => return Err(format!("mode `{other}` is not supported").into()),
            };
        }
    }
    let made = Dense::numbers(counts, DType::Float32, &whole)?;
    Ok(vec![made.into()])
}

/// Returns the token of a string or integer.
fn number(known: &mut HashMap<Vec<u8>, Token>, bytes: Vec<u8>) -> Token {
    let next = known.len();
    *known.entry(bytes).or_insert(next)
}

impl Pool {
    /// Reads the n-grams: first those of one token, then those of two, and so on; `ngram_counts` has the begin of each.
    fn of(call: &Call<'_>, tokens: &[Token], columns: &[usize]) -> Outcome<Self> {
        let begins = call.ints("ngram_counts").unwrap_or_default();
        let begins = begins.iter().map(|begin| count(*begin)).collect::<Outcome<Vec<_>>>()?;
        let (least, most) =
            (count(call.int("min_gram_length", 1))?, count(call.int("max_gram_length", 1))?);
        let most = most.min(begins.len());
        let (mut all, mut number) = (HashMap::new(), 0);
        for (at, begin) in begins.iter().enumerate() {
            let end = begins.get(at + 1).copied().unwrap_or(tokens.len());
            let part = tokens.get(*begin..end).ok_or("`ngram_counts` exceed the pool")?;
            for gram in part.chunks_exact(at + 1) {
                let column = columns.get(number).ok_or("an n-gram has no index")?;
                number += 1;
                if (least..=most).contains(&(at + 1)) {
                    all.insert(gram.to_vec(), *column);
                }
            }
        }
        if least == 0 {
            return Err("expected n-grams of at least 1 token".into());
        }
        Ok(Self { columns: all, least, most })
    }

    /// Counts the n-grams of a row, whose tokens may skip up to `skips` others. Those of one token count once.
    fn count(&self, tokens: &[Option<Token>], skips: usize, counts: &mut [f64]) {
        for distance in 1..=tokens.len().max(1).min(skips.saturating_add(1)) {
            let least = if distance > 1 { self.least.max(2) } else { self.least };
            for begin in 0..tokens.len() {
                let line = tokens.iter().skip(begin).step_by(distance).copied();
                let mut gram = Vec::new();
                for token in line.take(self.most).map_while(|token| token) {
                    gram.push(token);
                    let column = self.columns.get(&gram).filter(|_| gram.len() >= least);
                    if let Some(slot) = column.and_then(|column| counts.get_mut(*column)) {
                        *slot += 1.0;
                    }
                }
            }
        }
    }
}
