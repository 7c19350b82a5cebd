//! Sequences, optional values, and operators on values of any kind.

use lodstone_model::{AttributeValue, Op};
use lodstone_schema::Finding;

use crate::budget::Memory;
use crate::call::Outputs;
use crate::dims::{axis, count, dim_at, long};
use crate::error::Outcome;
use crate::operator::Operator;
use crate::tensor::Dense;
use crate::value::{VALUE, Value};

/// The operators of this family.
pub(super) const OPERATORS: &[Operator] = &[
    Operator::values("ConcatFromSequence", concat),
    Operator::values("Identity", |_, inputs, memory| Ok(vec![copied(value(inputs, 0)?, memory)?])),
    Operator::values("Optional", optional),
    Operator::values("OptionalGetElement", optional_get_element),
    Operator::values("OptionalHasElement", optional_has_element),
    Operator::values("SequenceAt", sequence_at),
    Operator::values("SequenceConstruct", sequence_construct),
    Operator::values("SequenceEmpty", |_, _, _| Ok(vec![Value::Sequence(Vec::new())])),
    Operator::values("SequenceErase", sequence_erase),
    Operator::values("SequenceInsert", sequence_insert),
    Operator::values("SequenceLength", sequence_length),
    Operator::values("SplitToSequence", split).working(12, 0),
];

fn optional(_: &Op, inputs: &[Option<Value>], memory: Memory<'_>) -> Outputs {
    let inside = inputs.first().and_then(Option::as_ref);
    let handles = inside.iter().map(|value| value.handles());
    let _copy = memory.reserve(handles.fold(VALUE, u64::saturating_add))?;
    Ok(vec![Value::Optional(inside.cloned().map(Box::new))])
}

fn optional_get_element(_: &Op, inputs: &[Option<Value>], memory: Memory<'_>) -> Outputs {
    match value(inputs, 0)? {
        Value::Optional(Some(inside)) => Ok(vec![copied(inside, memory)?]),
        Value::Optional(None) => Err("the optional value is empty".into()),
        other => Ok(vec![copied(other, memory)?]),
    }
}

fn optional_has_element(_: &Op, inputs: &[Option<Value>], _: Memory<'_>) -> Outputs {
    let is_there = match inputs.first().and_then(Option::as_ref) {
        None | Some(Value::Optional(None)) => false,
        Some(_) => true,
    };
    Ok(vec![Dense::truths(&[is_there], &[])?.into()])
}

fn sequence_at(_: &Op, inputs: &[Option<Value>], memory: Memory<'_>) -> Outputs {
    let all = sequence(inputs, 0)?;
    let at = integer(inputs, 1)?;
    let at = at.ok_or_else(|| Finding::from("the position is missing").about_input(1))?;
    let at = axis(at, all.len()).map_err(|_| out_of_range(all.len()))?;
    Ok(vec![copied(all.get(at).ok_or_else(|| out_of_range(all.len()))?, memory)?])
}

fn sequence_construct(_: &Op, inputs: &[Option<Value>], memory: Memory<'_>) -> Outputs {
    let all: Vec<&Value> = inputs.iter().flatten().collect();
    let handles = all.iter().map(|value| value.handles().saturating_add(VALUE));
    let _copies = memory.reserve(handles.fold(0, u64::saturating_add))?;
    Ok(vec![Value::Sequence(all.into_iter().cloned().collect())])
}

fn sequence_erase(_: &Op, inputs: &[Option<Value>], memory: Memory<'_>) -> Outputs {
    let _copies = memory.reserve(value(inputs, 0)?.handles())?;
    let mut all = sequence(inputs, 0)?.to_vec();
    let last = all.len().checked_sub(1);
    let at = match integer(inputs, 1)? {
        Some(at) => axis(at, all.len()).ok(),
        None => last,
    };
    all.remove(at.ok_or_else(|| out_of_range(all.len()))?);
    Ok(vec![Value::Sequence(all)])
}

fn sequence_insert(_: &Op, inputs: &[Option<Value>], memory: Memory<'_>) -> Outputs {
    let (whole, new) = (value(inputs, 0)?, value(inputs, 1)?);
    let handles = whole.handles().saturating_add(new.handles());
    let _copies = memory.reserve(handles.saturating_add(VALUE))?;
    let all = sequence(inputs, 0)?;
    let at = match integer(inputs, 2)? {
        None => all.len(),
        Some(at) if at < 0 => {
            count(at.saturating_add(long(all.len()))).map_err(|_| out_of_range(all.len()))?
        }
        Some(at) => count(at)?,
    };
    let (before, after) = all.split_at_checked(at).ok_or_else(|| out_of_range(all.len()))?;
    let mut longer = Vec::with_capacity(all.len() + 1);
    longer.extend_from_slice(before);
    longer.push(new.clone());
    longer.extend_from_slice(after);
    Ok(vec![Value::Sequence(longer)])
}

fn sequence_length(_: &Op, inputs: &[Option<Value>], _: Memory<'_>) -> Outputs {
    let length = long(sequence(inputs, 0)?.len());
    Ok(vec![Dense::longs(&[length]).reshaped(Vec::new())?.into()])
}

/// Copies a value, whose elements are shared.
fn copied(value: &Value, memory: Memory<'_>) -> Outcome<Value> {
    let _copies = memory.reserve(value.handles())?;
    Ok(value.clone())
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
    match found.dense()?.to_longs()?.as_slice() {
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
fn concat(op: &Op, inputs: &[Option<Value>], memory: Memory<'_>) -> Outputs {
    let all = sequence(inputs, 0)?;
    let bytes = all.iter().map(|value| value.nbytes().saturating_add(2 * VALUE));
    let _result = memory.reserve(bytes.fold(0, u64::saturating_add))?;
    let all = all.iter().map(Value::dense).collect::<Outcome<Vec<_>>>()?;
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
    let items: Vec<Dense> = all.into_iter().cloned().collect();
    Ok(vec![Dense::joined(&items, at)?.into()])
}

/// The memory of a part of a tensor, in bytes: its handle, and copies of its size.
const PART: u64 = VALUE + 32;

/// Splits along an axis: by the sizes of an input, by one size, or into parts of 1, whose axis may be removed.
fn split(op: &Op, inputs: &[Option<Value>], memory: Memory<'_>) -> Outputs {
    let whole = value(inputs, 0)?.dense()?;
    let at = axis(attribute(op, "axis", 0), whole.dims().len())?;
    let length = dim_at(whole.dims(), at)?;
    let sized = inputs.get(1).and_then(Option::as_ref).map(Value::dense).transpose()?;
    let mut handles = memory.growing();
    let sizes = match sized {
        None => {
            handles.add((length as u64).saturating_mul(PART))?;
            vec![1; length]
        }
        Some(sizes) => {
            let numbers = sizes.to_longs()?;
            match (sizes.dims(), numbers.as_slice()) {
                ([], [size]) => {
                    let size = count(*size).ok().filter(|size| *size > 0);
                    let size = size.ok_or("expected parts of at least 1")?;
                    let parts = length.div_ceil(size);
                    handles.add((parts as u64).saturating_mul(PART))?;
                    (0..parts).map(|part| size.min(length - part * size)).collect()
                }
                _ => {
                    handles.add((numbers.len() as u64).saturating_mul(PART))?;
                    numbers.iter().map(|size| count(*size)).collect::<Outcome<Vec<_>>>()?
                }
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
