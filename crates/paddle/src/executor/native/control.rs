//! Feeding and fetching, selection of variables, and arrays of tensors.

use lodstone_model::{AttributeValue, DType, Op, Tensor};
use lodstone_schema::Finding;
use lodstone_schema::numbers::{Rank, exact};
use lodstone_store::Blob;

use super::sums::zeros_like;
use super::{Outcome, Run, flag, input, long, output};
use crate::executor::frame::Frame;
use crate::executor::layout::{Slot, Step};
use crate::executor::value::Value;

/// The maximum length of an array.
const LONGEST: usize = 1 << 20;

pub(super) const OPERATORS: &[(&str, Run)] = &[
    ("assign", assign),
    ("feed", feed),
    // Fetched variables stay until the end of the run, where they are taken.
    ("fetch", |frame, step, _| Ok(frame.value(input(step, "X")?).map(drop)?)),
    ("fetch_v2", |frame, step, _| Ok(frame.value(input(step, "X")?).map(drop)?)),
    ("increment", increment),
    ("lod_array_length", array_length),
    ("read_from_array", read_from_array),
    ("select_input", select_input),
    ("select_output", select_output),
    ("tensor_array_to_tensor", join_array),
    ("write_to_array", write_to_array),
];

/// The caller has already set the variable.
fn feed(frame: &mut Frame<'_>, step: &Step, _: &Op) -> Outcome {
    let slot = output(step, "Out")?;
    let name = frame.layout.vars.get(slot).map_or("", |var| &var.name).to_owned();
    match frame.value(slot) {
        Ok(_) => Ok(()),
        Err(_) => Err(format!("`{name}` is not fed").into()),
    }
}

fn assign(frame: &mut Frame<'_>, step: &Step, _: &Op) -> Outcome {
    let value = frame.value(input(step, "X")?)?.clone();
    frame.set(output(step, "Out")?, value)?;
    Ok(())
}

fn select_input(frame: &mut Frame<'_>, step: &Step, _: &Op) -> Outcome {
    let number = index(frame, input(step, "Mask")?)?;
    let chosen = step.inputs("X").get(number).copied().flatten();
    let chosen = chosen.ok_or_else(|| format!("expected an index into `X`, found {number}"))?;
    let value = frame.value(chosen)?.clone();
    frame.set(output(step, "Out")?, value)?;
    Ok(())
}

/// Writes one of several variables; the others keep their values.
fn select_output(frame: &mut Frame<'_>, step: &Step, _: &Op) -> Outcome {
    let number = index(frame, input(step, "Mask")?)?;
    let chosen = step.outputs("Out").get(number).copied().flatten();
    let chosen = chosen.ok_or_else(|| format!("expected an index into `Out`, found {number}"))?;
    let value = frame.value(input(step, "X")?)?.clone();
    frame.set(chosen, value)?;
    Ok(())
}

/// Returns the array index in a variable.
fn index(frame: &Frame<'_>, slot: Slot) -> Outcome<usize> {
    let number = match frame.tensor(slot)?.dtype {
        DType::Bool => i64::from(frame.is_true(slot)?),
        _ => long(frame, slot)?,
    };
    let place = usize::try_from(number).ok().filter(|place| *place < LONGEST);
    Ok(place.ok_or_else(|| format!("expected an index below {LONGEST}, found {number}"))?)
}

/// Adds a step to a number; integers wrap around.
fn increment(frame: &mut Frame<'_>, step: &Step, op: &Op) -> Outcome {
    let (from, to) = (input(step, "X")?, output(step, "Out")?);
    let by = match op.attribute("step") {
        Some(AttributeValue::Float(by)) => *by,
        _ => 1.0,
    };
    let tensor = frame.tensor(from)?;
    let bytes = tensor.data.bytes()?;
    #[expect(clippy::cast_possible_truncation, reason = "a step of integers has no fraction")]
    let more = match (tensor.dtype, &*bytes) {
        (DType::Int32, &[a, b, c, d]) => {
            i32::from_le_bytes([a, b, c, d]).wrapping_add(by as i32).to_le_bytes().to_vec()
        }
        (DType::Float32, &[a, b, c, d]) => {
            (f32::from_le_bytes([a, b, c, d]) + by).to_le_bytes().to_vec()
        }
        (DType::Int64, bytes) if let Ok(bytes) = bytes.try_into() => {
            i64::from_le_bytes(bytes).wrapping_add(by as i64).to_le_bytes().to_vec()
        }
        (DType::Float64, bytes) if let Ok(bytes) = bytes.try_into() => {
            (f64::from_le_bytes(bytes) + f64::from(by)).to_le_bytes().to_vec()
        }
        (dtype, _) => {
            return Err(format!("expected a single number, found {dtype}{:?}", tensor.shape).into());
        }
    };
    let mut made = Tensor::dense(tensor.dtype, tensor.shape.clone(), Blob::memory(more));
    made.lod = tensor.lod.clone();
    frame.set(to, Value::Tensor(made))?;
    Ok(())
}

fn write_to_array(frame: &mut Frame<'_>, step: &Step, _: &Op) -> Outcome {
    let place = index(frame, input(step, "I")?)?;
    let tensor = frame.tensor(input(step, "X")?)?.clone();
    let slot = output(step, "Out")?;
    let mut array = match frame.take(slot)? {
        Some(Value::Array(array)) => array,
        None => Vec::new(),
        Some(other) => return Err(format!("expected an array, found {}", other.kind()).into()),
    };
    if array.len() <= place {
        array.resize_with(place + 1, || None);
    }
    let lost = || Finding::internal(format!("the array has no index {place}"));
    *array.get_mut(place).ok_or_else(lost)? = Some(tensor);
    frame.set(slot, Value::Array(array))?;
    Ok(())
}

/// Reads an array member. In an array of gradients, an absent member has gradient zero: the result is zeros like `X_W`,
/// the tensor that was written there.
fn read_from_array(frame: &mut Frame<'_>, step: &Step, _: &Op) -> Outcome {
    let place = index(frame, input(step, "I")?)?;
    let written = input(step, "X_W").ok();
    let tensor = match frame.value(input(step, "X")?) {
        Ok(Value::Array(array)) => array.get(place).cloned().flatten(),
        Ok(other) => return Err(format!("expected an array, found {}", other.kind()).into()),
        Err(_) if written.is_some() => None,
        Err(what) => return Err(what.into()),
    };
    let (out, missing) = (output(step, "Out")?, format!("the array has no member {place}"));
    match (tensor, written) {
        (Some(tensor), _) => frame.set(out, Value::Tensor(tensor))?,
        (None, Some(written)) => frame.make(out, zeros_like(frame.tensor(written)?)?)?,
        (None, None) => return Err(missing.into()),
    }
    Ok(())
}

fn array_length(frame: &mut Frame<'_>, step: &Step, _: &Op) -> Outcome {
    let length = match frame.value(input(step, "X")?) {
        Ok(Value::Array(array)) => array.len() as u64,
        Ok(other) => return Err(format!("expected an array, found {}", other.kind()).into()),
        // An array that nothing was written to is empty.
        Err(_) => 0,
    };
    let tensor = Tensor::dense(DType::Int64, vec![1], Blob::memory(length.to_le_bytes().to_vec()));
    frame.set(output(step, "Out")?, Value::Tensor(tensor))?;
    Ok(())
}

/// Concatenates the members of an array along an axis, or stacks them along a new one; also returns their dims there.
fn join_array(frame: &mut Frame<'_>, step: &Step, op: &Op) -> Outcome {
    let array = match frame.value(input(step, "X")?)? {
        Value::Array(array) => array,
        other => return Err(format!("expected an array, found {}", other.kind()).into()),
    };
    let members: Option<Vec<&Tensor>> = array.iter().map(Option::as_ref).collect();
    let members = members.ok_or("the array has absent members")?;
    let first = members.first().ok_or("expected at least one member")?;
    let is_stacked = flag(op, "use_stack", false);
    let rank = first.shape.len();
    let axis = match op.attribute("axis") {
        Some(AttributeValue::Int(axis)) => i64::from(*axis),
        _ => 0,
    };
    let axis = Rank::new(rank + usize::from(is_stacked)).axis(axis);
    let axis = axis.map_err(|_| format!("expected an axis of rank {rank}"))?.index();
    let around = |tensor: &Tensor| {
        let mut shape = tensor.shape.clone();
        if !is_stacked && let Some(dim) = shape.get_mut(axis) {
            *dim = 0;
        }
        shape
    };
    let fits = |other: &&Tensor| other.dtype == first.dtype && around(other) == around(first);
    if !members.iter().all(fits) {
        return Err("expected members of one element type and the same other dims".into());
    }
    let size = first.dtype.size_of(&[1]).ok_or("the elements have no size")?;
    let front: usize = exact(first.shape.iter().take(axis).product::<u64>())?;
    let mut parts = Vec::new();
    for member in &members {
        let bytes = member.data.bytes()?;
        let part = bytes.len() / front.max(1);
        parts.push((bytes, part));
    }
    frame.reserve(parts.iter().map(|(bytes, _)| bytes.len() as u64).sum())?;
    let mut joined = Vec::new();
    for number in 0..front {
        for (bytes, part) in &parts {
            let bytes = bytes.get(number * part..(number + 1) * part);
            let lost = || Finding::internal("a member is shorter than its dims");
            joined.extend_from_slice(bytes.ok_or_else(lost)?);
        }
    }
    let dim = |member: &&Tensor| match member.shape.get(axis) {
        Some(dim) => *dim,
        // Along a new last axis, a member is one.
        None => 1,
    };
    let dims: Vec<u64> = members.iter().map(dim).collect();
    let mut shape = first.shape.clone();
    match is_stacked {
        true => shape.insert(axis, members.len() as u64),
        false => shape.iter_mut().skip(axis).take(1).for_each(|dim| *dim = dims.iter().sum()),
    }
    if first.dtype.size_of(&shape) != Some(joined.len() as u64) || size == 0 {
        return Err(Finding::internal(format!("the members do not fill {shape:?}")).into());
    }
    let sizes = dims.iter().map(|dim| Ok(exact::<i32, _>(*dim)?.to_le_bytes()));
    let sizes = sizes.collect::<Result<Vec<_>, Finding>>()?.concat();
    let sizes = Tensor::dense(DType::Int32, vec![dims.len() as u64], Blob::memory(sizes));
    let joined = Tensor::dense(first.dtype, shape, Blob::memory(joined));
    frame.make(output(step, "Out")?, joined)?;
    if let Some(slot) = step.outputs("OutIndex").first().copied().flatten() {
        frame.make(slot, sizes)?;
    }
    Ok(())
}
