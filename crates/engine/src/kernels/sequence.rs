//! Sequences, optional values, and operators on values of any kind.

use lodstone_model::{AttributeValue, Op};
use lodstone_schema::Finding;

use super::tensor::long;
use super::{Made, RunValues, axis, count, dim_at};
use crate::dense::Dense;
use crate::item::{Item, Outcome};
use crate::value::Value;

pub(super) fn kernel(kind: &str) -> Option<RunValues> {
    Some(match kind {
        "ConcatFromSequence" => concat,
        "Identity" => |_, inputs| Ok(vec![value(inputs, 0)?.clone()]),
        "Optional" => |_, inputs| {
            let inside = inputs.first().and_then(Option::as_ref);
            Ok(vec![Value::Optional(inside.cloned().map(Box::new))])
        },
        "OptionalGetElement" => |_, inputs| match value(inputs, 0)? {
            Value::Optional(Some(inside)) => Ok(vec![(**inside).clone()]),
            Value::Optional(None) => Err("the optional value is empty".into()),
            other => Ok(vec![other.clone()]),
        },
        "OptionalHasElement" => |_, inputs| {
            let is_there = match inputs.first().and_then(Option::as_ref) {
                None | Some(Value::Optional(None)) => false,
                Some(_) => true,
            };
            Ok(vec![Item::truths(vec![is_there], &[]).dense()?.into()])
        },
        "SequenceAt" => |_, inputs| {
            let all = sequence(inputs, 0)?;
            let at = axis(integer(inputs, 1)?.unwrap_or(0), all.len())
                .map_err(|_| out_of_range(all.len()))?;
            Ok(vec![all.get(at).cloned().ok_or_else(|| out_of_range(all.len()))?])
        },
        "SequenceConstruct" => {
            |_, inputs| Ok(vec![Value::Sequence(inputs.iter().flatten().cloned().collect())])
        }
        "SequenceEmpty" => |_, _| Ok(vec![Value::Sequence(Vec::new())]),
        "SequenceErase" => |_, inputs| {
            let mut all = sequence(inputs, 0)?.to_vec();
            let at = axis(integer(inputs, 1)?.unwrap_or(-1), all.len())
                .map_err(|_| out_of_range(all.len()))?;
            all.remove(at);
            Ok(vec![Value::Sequence(all)])
        },
        "SequenceInsert" => |_, inputs| {
            let mut all = sequence(inputs, 0)?.to_vec();
            let new = value(inputs, 1)?.clone();
            let at = match integer(inputs, 2)? {
                None => all.len(),
                Some(at) if at < 0 => count(at.saturating_add(long(all.len())))
                    .map_err(|_| out_of_range(all.len()))?,
                Some(at) => count(at)?,
            };
            if at > all.len() {
                return Err(out_of_range(all.len()));
            }
            all.insert(at, new);
            Ok(vec![Value::Sequence(all)])
        },
        "SequenceLength" => |_, inputs| {
            let length = long(sequence(inputs, 0)?.len());
            Ok(vec![Item::longs(&[length]).reshaped(Vec::new()).dense()?.into()])
        },
        "SplitToSequence" => split,
        _ => return None,
    })
}

/// Returns a required input.
pub(super) fn value(inputs: &[Option<Value>], at: usize) -> Outcome<&Value> {
    let found = inputs.get(at).and_then(Option::as_ref);
    let wrong = || Finding::from(format!("expected an input {at}, found none"));
    found.ok_or_else(|| wrong().about_input(at))
}

fn sequence(inputs: &[Option<Value>], at: usize) -> Outcome<&[Value]> {
    match value(inputs, at)? {
        Value::Sequence(values) => Ok(values),
        other => Err(format!("expected a sequence, found {}", other.kind()).into()),
    }
}

/// Returns an input with a single integer, or `None` if it is omitted.
fn integer(inputs: &[Option<Value>], at: usize) -> Outcome<Option<i64>> {
    let Some(Some(found)) = inputs.get(at) else { return Ok(None) };
    match Item::of(found.dense()?)?.to_longs()?.as_slice() {
        [one] => Ok(Some(*one)),
        other => Err(format!("expected one integer, found {} values", other.len()).into()),
    }
}

fn out_of_range(length: usize) -> Finding {
    format!("the position is out of range for a sequence of {length} values").into()
}

/// Returns an integer attribute, or its default.
pub(super) fn attribute(op: &Op, name: &str, default: i64) -> i64 {
    match op.attribute(name) {
        Some(AttributeValue::Long(value)) => *value,
        _ => default,
    }
}

/// Concatenates tensors along an axis, or stacks them along a new one.
fn concat(op: &Op, inputs: &[Option<Value>]) -> Made {
    let all = sequence(inputs, 0)?.iter().map(Value::dense).collect::<Outcome<Vec<_>>>()?;
    let first = all.first().ok_or("the sequence is empty")?;
    let is_new = attribute(op, "new_axis", 0) != 0;
    let rank = first.dims().len() + usize::from(is_new);
    let at = axis(attribute(op, "axis", 0), rank)?;
    if is_new {
        return Ok(vec![Dense::stacked(&all, at)?.into()]);
    }
    let fits = |other: &&Dense| {
        let mut dims = other.dims().iter().zip(first.dims()).enumerate();
        other.dims().len() == rank && dims.all(|(axis, (a, b))| axis == at || a == b)
    };
    if !all.iter().all(fits) {
        return Err("the tensors of the sequence have different dims on other axes".into());
    }
    let items = all.iter().map(|dense| Item::of(dense)).collect::<Outcome<Vec<_>>>()?;
    Ok(vec![Item::concatenated(items, at)?.dense()?.into()])
}

/// Splits along an axis: by the sizes of an input, by one size, or into parts of 1, whose axis may be removed.
fn split(op: &Op, inputs: &[Option<Value>]) -> Made {
    let whole = value(inputs, 0)?.dense()?;
    let at = axis(attribute(op, "axis", 0), whole.dims().len())?;
    let length = dim_at(whole.dims(), at)?;
    let sizes = match inputs.get(1).and_then(Option::as_ref) {
        None => vec![1; length],
        Some(sizes) => {
            let sizes = sizes.dense()?;
            let numbers = Item::of(sizes)?.to_longs()?;
            match (sizes.dims(), numbers.as_slice()) {
                ([], [size]) => {
                    let size = count(*size).ok().filter(|size| *size > 0);
                    let size = size.ok_or("expected parts of at least 1")?;
                    let parts = length.div_ceil(size);
                    (0..parts).map(|part| size.min(length - part * size)).collect()
                }
                _ => numbers.iter().map(|size| count(*size)).collect::<Outcome<Vec<_>>>()?,
            }
        }
    };
    if sizes.iter().try_fold(0_usize, |all, size| all.checked_add(*size)) != Some(length) {
        return Err(format!("expected sizes with the sum {length}, found {sizes:?}").into());
    }
    let is_dropped = inputs.get(1).is_none_or(Option::is_none) && attribute(op, "keepdims", 1) == 0;
    let mut begin = 0;
    let mut parts = Vec::with_capacity(sizes.len());
    for size in sizes {
        let part = match is_dropped {
            true => whole.index(at, begin)?,
            false => whole.narrowed(at, begin, size)?,
        };
        parts.push(Value::Dense(part));
        begin += size;
    }
    Ok(vec![Value::Sequence(parts)])
}
