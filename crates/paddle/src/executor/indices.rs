//! Indices, ids and labels as inputs: negative ones do not count from the end, as in ONNX, but are errors, as in PaddlePaddle.

use lodstone_model::{AttributeValue, DType, Op, Tensor};
use lodstone_schema::Finding;
use lodstone_schema::paddle::{Indices, attribute};

use crate::executor::frame::Frame;
use crate::executor::layout::Step;

/// Raises an error if an index is out of range.
pub(crate) fn check(
    indices: &Indices,
    frame: &Frame<'_>,
    step: &Step,
    op: &Op,
) -> Result<(), Finding> {
    let is_from_end = indices.until.is_some_and(|release| frame.release() >= release);
    if is_from_end || indices.unless.is_some_and(|name| flag(op, name)) {
        return Ok(());
    }
    let given = |slot: &str| {
        let slot = step.inputs(slot).first().copied().flatten()?;
        // Labels of another type are probabilities.
        let is_whole = |tensor: &&Tensor| matches!(tensor.dtype, DType::Int32 | DType::Int64);
        frame.known_tensor(slot).filter(is_whole)
    };
    let count = match indices.below {
        Some((attribute, variable)) => match given(variable) {
            Some(count) => whole(count)?.first().copied(),
            None => int(op, attribute),
        },
        None => None,
    };
    let Some(tensor) = given(indices.slot) else { return Ok(()) };
    let none = indices.except.and_then(|name| int(op, name));
    let is_beyond = |index: &i64| count.is_some_and(|count| *index >= count);
    let is_wrong = |index: &i64| (*index < 0 || is_beyond(index)) && Some(*index) != none;
    let Some(wrong) = whole(tensor)?.into_iter().find(is_wrong) else { return Ok(()) };
    let what = match count.filter(|_| wrong >= 0) {
        None => format!("expected an index of at least 0, found {wrong}"),
        Some(end) => format!("expected an index below {end}, found {wrong}"),
    };
    Err(Finding::from(what).about_slot(indices.slot))
}

/// Returns the integers of a tensor.
pub(crate) fn whole(tensor: &Tensor) -> Result<Vec<i64>, Finding> {
    let bytes = tensor.data.bytes().map_err(|error| Finding::from(error.to_string()))?;
    Ok(match tensor.dtype {
        DType::Int32 => {
            bytes.as_chunks().0.iter().map(|four| i64::from(i32::from_le_bytes(*four))).collect()
        }
        DType::Int64 => {
            bytes.as_chunks().0.iter().map(|eight| i64::from_le_bytes(*eight)).collect()
        }
        other => return Err(format!("expected int32 or int64, found {other}").into()),
    })
}

fn flag(op: &Op, name: &str) -> bool {
    matches!(attribute(op, name), Some(AttributeValue::Bool(true)))
}

fn int(op: &Op, name: &str) -> Option<i64> {
    match attribute(op, name) {
        Some(AttributeValue::Int(value)) => Some((*value).into()),
        Some(AttributeValue::Long(value)) => Some(*value),
        _ => None,
    }
}
