//! `split_lod_tensor` and `merge_lod_tensor`: rows, or sequences of rows, by a mask. So PaddlePaddle 1.x branches row by row.
//!
//! Source of truth: PaddlePaddle 1.8.5's kernels, and their results.

use std::ops::Range;

use lodstone_model::{AttributeValue, DType, Lod, Op, Tensor};
use lodstone_store::Blob;

use super::{Outcome, Run, input, output};
use crate::executor::frame::Frame;
use crate::executor::layout::{Slot, Step};

pub(super) const OPERATORS: &[(&str, Run)] =
    &[("merge_lod_tensor", merge), ("split_lod_tensor", split)];

/// Returns the mask, one Boolean for each row or sequence.
fn mask(frame: &Frame<'_>, step: &Step) -> Outcome<Vec<bool>> {
    let mask = frame.tensor(input(step, "Mask")?)?;
    if mask.dtype != DType::Bool {
        return Err(format!("expected Booleans as `Mask`, found {}", mask.dtype).into());
    }
    Ok(mask.data.bytes()?.iter().map(|value| *value != 0).collect())
}

/// Checks the level at which the mask applies: only the outermost one is supported.
fn check_level(op: &Op) -> Outcome {
    match op.attribute("level") {
        None | Some(AttributeValue::Int(0)) => Ok(()),
        Some(other) => Err(format!("expected 0 as `level`, found {other:?}").into()),
    }
}

/// A tensor as pieces: sequences, if it has LoD, or rows.
struct Pieces {
    bytes: bytes::Bytes,
    /// The number of bytes of a row.
    size: usize,
    ranges: Vec<Range<usize>>,
}

impl Pieces {
    fn of(tensor: &Tensor) -> Outcome<Self> {
        let bytes = tensor.data.bytes()?;
        let rows = tensor.shape.first().copied().ok_or("expected rows, found a scalar")?;
        let rows = usize::try_from(rows).map_err(|_| "there are too many rows")?;
        let size = bytes.len().checked_div(rows).unwrap_or(0);
        let place = |offset: &u64| usize::try_from(*offset).unwrap_or(usize::MAX);
        let ranges = match tensor.lod.0.as_slice() {
            [] => (0..rows).map(|row| row..row + 1).collect(),
            [level] => {
                let ends = level.iter().skip(1);
                level.iter().zip(ends).map(|(start, end)| place(start)..place(end)).collect()
            }
            _ => return Err("expected at most one level of LoD".into()),
        };
        Ok(Self { bytes, size, ranges })
    }

    fn piece(&self, number: usize) -> Outcome<&[u8]> {
        let range = self.ranges.get(number).ok_or_else(|| format!("there is no row {number}"))?;
        let bytes = range.start.saturating_mul(self.size)..range.end.saturating_mul(self.size);
        Ok(self.bytes.get(bytes).ok_or("the LoD does not match the rows")?)
    }
}

/// The pieces of a result, as they are collected.
struct Made {
    bytes: Vec<u8>,
    offsets: Vec<u64>,
}

impl Made {
    fn new() -> Self {
        Self { bytes: Vec::new(), offsets: vec![0] }
    }

    fn add(&mut self, pieces: &Pieces, number: usize) -> Outcome {
        self.bytes.extend_from_slice(pieces.piece(number)?);
        let rows = pieces.ranges.get(number).map_or(0, Range::len) as u64;
        self.offsets.push(self.offsets.last().copied().unwrap_or(0).saturating_add(rows));
        Ok(())
    }

    /// Returns a tensor of the type of another.
    fn tensor(self, like: &Tensor) -> Tensor {
        let rows = self.offsets.last().copied().unwrap_or(0);
        let shape = std::iter::once(rows).chain(like.shape.iter().skip(1).copied()).collect();
        let mut tensor = Tensor::dense(like.dtype, shape, Blob::memory(self.bytes));
        // No sequence at all has no LoD.
        if !like.lod.is_empty() && self.offsets.len() > 1 {
            tensor.lod = Lod(vec![self.offsets]);
        }
        tensor
    }
}

/// Separates the rows where the mask is true from the others.
fn split(frame: &mut Frame<'_>, step: &Step, op: &Op) -> Outcome {
    check_level(op)?;
    let mask = mask(frame, step)?;
    let x = frame.tensor(input(step, "X")?)?;
    let pieces = Pieces::of(x)?;
    if mask.len() != pieces.ranges.len() {
        let (found, wanted) = (mask.len(), pieces.ranges.len());
        return Err(format!("expected {wanted} elements in `Mask`, found {found}").into());
    }
    frame.reserve(x.nbytes())?;
    let (mut yes, mut no) = (Made::new(), Made::new());
    for (number, is_true) in mask.iter().enumerate() {
        if *is_true { yes.add(&pieces, number)? } else { no.add(&pieces, number)? }
    }
    let (yes, no) = (yes.tensor(x), no.tensor(x));
    for (slot, tensor) in [("OutTrue", yes), ("OutFalse", no)] {
        if let Ok(out) = output(step, slot) {
            frame.make(out, tensor)?;
        }
    }
    Ok(())
}

/// Puts the rows of both tensors together again, in the order of the mask.
fn merge(frame: &mut Frame<'_>, step: &Step, op: &Op) -> Outcome {
    check_level(op)?;
    let mask = mask(frame, step)?;
    let slot = |name: &str| -> Outcome<Slot> { input(step, name) };
    let (yes, no) = (frame.tensor(slot("InTrue")?)?, frame.tensor(slot("InFalse")?)?);
    if yes.dtype != no.dtype || yes.shape.get(1..) != no.shape.get(1..) {
        return Err(format!(
            "expected rows of one type in `InTrue` and `InFalse`, found {}{:?} and {}{:?}",
            yes.dtype, yes.shape, no.dtype, no.shape
        )
        .into());
    }
    let (of_yes, of_no) = (Pieces::of(yes)?, Pieces::of(no)?);
    let true_count = mask.iter().filter(|is_true| **is_true).count();
    let found = (of_yes.ranges.len(), of_no.ranges.len());
    if found != (true_count, mask.len() - true_count) {
        return Err(format!(
            "expected {true_count} and {} rows in `InTrue` and `InFalse`, found {} and {}",
            mask.len() - true_count,
            found.0,
            found.1
        )
        .into());
    }
    frame.reserve(yes.nbytes().saturating_add(no.nbytes()))?;
    let (mut made, mut next) = (Made::new(), [0, 0]);
    for is_true in mask {
        let [yes, no] = &mut next;
        let (pieces, number) = if is_true { (&of_yes, yes) } else { (&of_no, no) };
        made.add(pieces, *number)?;
        *number += 1;
    }
    let made = made.tensor(if yes.lod.is_empty() { no } else { yes });
    Ok(frame.make(output(step, "Out")?, made)?)
}
