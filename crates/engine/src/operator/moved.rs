//! Tensors of strings in operators that only move elements: kernels move the indices of the strings.

use bytes::Bytes;
use lodstone_model::Op;
use lodstone_schema::Finding;

use crate::budget::Memory;
use crate::call::{Call, Outputs};
use crate::dims::long;
use crate::error::Outcome;
use crate::narrow::supported;
use crate::tensor::Dense;
use crate::value::{Strings, Value};

/// The memory of a string that is moved, in bytes: its handle, and two copies of its index.
const MOVED: u64 = size_of::<Bytes>() as u64 + 16;

/// Returns whether an input is a tensor of strings.
pub(super) fn has_strings(inputs: &[Option<&Value>]) -> bool {
    inputs.iter().flatten().any(|value| matches!(value, Value::Strings(_)))
}

/// Runs a kernel on the indices of the strings of all inputs.
pub(super) fn run(
    run: fn(&Call<'_>) -> Outputs,
    op: &Op,
    inputs: &[Option<Value>],
    memory: Memory<'_>,
) -> Outputs {
    let count = inputs.iter().flatten().map(|value| match value {
        Value::Strings(strings) => strings.elements().len() as u64,
        _ => 0,
    });
    let _lists = memory.reserve(count.sum::<u64>().saturating_mul(MOVED))?;

    let mut texts: Vec<Bytes> = Vec::new();
    let mut items = Vec::with_capacity(inputs.len());
    for value in inputs {
        items.push(match value {
            Some(Value::Strings(strings)) => {
                let first = long(texts.len());
                texts.extend_from_slice(strings.elements());
                let indices: Vec<i64> = (first..long(texts.len())).collect();
                Some(Dense::longs(&indices).reshaped(strings.dims())?)
            }
            Some(value) => Some(supported(value.dense()?)?.clone()),
            None => None,
        });
    }
    let text = |at: i64| usize::try_from(at).ok().and_then(|at| texts.get(at)).cloned();
    let strings = |value: Value| {
        let indices = value.dense()?;
        let _found = memory.reserve((value.dense()?.count() as u64).saturating_mul(MOVED))?;
        let found = indices.to_longs()?.into_iter().map(text).collect::<Option<Vec<Bytes>>>();
        let found = found.ok_or_else(|| Finding::internal("an index has no string"))?;
        Ok(Value::Strings(Strings::new(indices.shape(), found)?))
    };
    run(&Call::of(op, items, memory))?.into_iter().map(strings).collect::<Outcome<_>>()
}
