//! Integers of sequences, and the rows of each sequence: by LoD, or by lengths in a variable.

use std::ops::Range;

use lodstone_model::{DType, Lod, Tensor};
use lodstone_schema::Finding;
use lodstone_schema::numbers::exact;
use lodstone_schema::onnx::infer::ValueInfo;
use lodstone_store::Blob;

use super::super::{Outcome, input};
use crate::executor::frame::Frame;
use crate::executor::indices::whole;
use crate::executor::layout::Step;

/// Creates a tensor of integers of the type of another.
pub(super) fn integers(values: &[i64], dtype: DType, shape: Vec<u64>, lod: Lod) -> Tensor {
    let bytes: Vec<u8> = match dtype {
        #[expect(clippy::cast_possible_truncation, reason = "the values were int32")]
        DType::Int32 => values.iter().flat_map(|value| (*value as i32).to_le_bytes()).collect(),
        _ => values.iter().flat_map(|value| value.to_le_bytes()).collect(),
    };
    let mut tensor = Tensor::dense(dtype, shape, Blob::memory(bytes));
    tensor.lod = lod;
    tensor
}

/// Returns the lengths of sequences in a variable, if it is there.
pub(super) fn lengths(frame: &Frame<'_>, step: &Step, slot: &str) -> Outcome<Option<Vec<usize>>> {
    let Some(slot) = step.inputs(slot).first().copied().flatten() else { return Ok(None) };
    let lengths = ValueInfo::of(frame.tensor(slot)?).ints().ok_or("expected few lengths")?;
    let length = |length: i64| {
        exact(length).map_err(|_| format!("expected lengths of at least 0, found {length}"))
    };
    Ok(Some(lengths.into_iter().map(length).collect::<Result<_, _>>()?))
}

/// Checks that there are as many lengths in a slot as sequences, and that none exceeds `most`.
pub(super) fn check_lengths(lengths: &[usize], count: usize, most: usize, slot: &str) -> Outcome {
    if lengths.len() != count {
        return Err(format!("expected {count} lengths in `{slot}`, found {}", lengths.len()).into());
    }
    match lengths.iter().find(|length| **length > most) {
        Some(length) => {
            Err(format!("a length in `{slot}` is {length}, expected at most {most}").into())
        }
        None => Ok(()),
    }
}

/// Returns the rows of each sequence of the last LoD level of a tensor of so many rows.
pub(super) fn ranges(tensor: &Tensor, rows: usize) -> Outcome<Vec<Range<usize>>> {
    let last = tensor.lod.0.last().ok_or("expected LoD or lengths")?;
    let offsets = last.iter().map(|end| exact(*end)).collect::<Result<Vec<usize>, Finding>>()?;
    if !offsets.is_sorted() || offsets.last().is_some_and(|end| *end > rows) {
        return Err(format!("the LoD does not match {:?}", tensor.shape).into());
    }
    let ends = offsets.iter().skip(1);
    Ok(offsets.iter().zip(ends).map(|(start, end)| *start..*end).collect())
}

/// Returns the integers in a slot, and the range of those of each sequence: by LoD, or by the lengths in another slot.
pub(super) fn labels(
    frame: &Frame<'_>,
    step: &Step,
    slot: &str,
    of_lengths: &str,
) -> Outcome<(Vec<i64>, Vec<Range<usize>>)> {
    let tensor = frame.tensor(input(step, slot)?)?;
    let values = whole(tensor)?;
    let Some(lengths) = lengths(frame, step, of_lengths)? else {
        let ranges = ranges(tensor, values.len())?;
        return Ok((values, ranges));
    };
    let [sequences, width, ..] = tensor.shape[..] else {
        return Err(format!("expected rows of `{slot}`, found {:?}", tensor.shape).into());
    };
    let width = exact(width)?;
    check_lengths(&lengths, exact(sequences)?, width, of_lengths)?;
    let starts = (0..lengths.len()).map(|row| row.saturating_mul(width));
    let ranges = starts.zip(lengths).map(|(start, length)| start..start.saturating_add(length));
    Ok((values, ranges.collect()))
}

/// Returns the rows of each sequence, by LoD or by the lengths in `Length`, and the dims and the LoD
/// of a result with an element for each row.
pub(super) fn spans(
    frame: &Frame<'_>,
    step: &Step,
    emission: &Tensor,
    rows: usize,
) -> Outcome<(Vec<Range<usize>>, Vec<u64>, Lod)> {
    let Some(lengths) = lengths(frame, step, "Length")? else {
        let ranges = ranges(emission, rows)?;
        return Ok((ranges, vec![rows as u64, 1], emission.lod.clone()));
    };
    let [batch, steps, _] = emission.shape[..] else {
        return Err(format!("expected rank 3, found {:?}", emission.shape).into());
    };
    if lengths.len() as u64 != batch {
        return Err(format!("expected {batch} lengths, found {}", lengths.len()).into());
    }
    let count: usize = exact(steps)?;
    let range = |(number, length): (usize, &usize)| {
        let start = number.saturating_mul(count);
        start..start.saturating_add((*length).min(count))
    };
    let ranges = lengths.iter().enumerate().map(range).collect();
    Ok((ranges, vec![batch, steps], Lod::default()))
}
