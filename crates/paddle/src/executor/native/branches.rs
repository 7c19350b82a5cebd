//! `split_lod_tensor` and `merge_lod_tensor`: rows, or sequences of rows, by a mask. So PaddlePaddle 1.x branches row by row.
//!
//! Source of truth: PaddlePaddle 1.8.5's kernels, and their results.

use std::ops::Range;

use lodstone_model::{AttributeValue, DType, Lod, Op, Tensor};

use super::ranks::Rows;
use super::{Outcome, Run, input, output, put};
use crate::executor::frame::Frame;
use crate::executor::layout::Step;

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

/// Rows, or sequences of rows, as they are collected.
struct Made {
    bytes: Vec<u8>,
    /// The number of rows before each piece, and in all.
    offsets: Vec<u64>,
    count: usize,
}

impl Made {
    fn new() -> Self {
        Self { bytes: Vec::new(), offsets: vec![0], count: 0 }
    }

    fn add(&mut self, rows: &Rows<'_>, piece: Option<&Range<usize>>) -> Outcome {
        let piece = piece.ok_or("there are fewer rows than elements of the mask")?;
        let bytes = piece.start.saturating_mul(rows.size)..piece.end.saturating_mul(rows.size);
        let bytes = rows.bytes.get(bytes).ok_or("the LoD does not match the rows")?;
        self.bytes.extend_from_slice(bytes);
        self.count = self.count.saturating_add(piece.len());
        self.offsets.push(self.count as u64);
        Ok(())
    }

    /// Returns a tensor of the type of other rows.
    fn tensor(self, like: &Rows<'_>) -> Tensor {
        let mut tensor = like.with(self.bytes, self.count);
        // No sequence at all has no LoD.
        if !like.tensor.lod.is_empty() && self.offsets.len() > 1 {
            tensor.lod = Lod(vec![self.offsets]);
        }
        tensor
    }
}

/// Separates the rows where the mask is true from the others.
fn split(frame: &mut Frame<'_>, step: &Step, op: &Op) -> Outcome {
    check_level(op)?;
    let mask = mask(frame, step)?;
    let rows = Rows::of(frame.tensor(input(step, "X")?)?)?;
    let pieces = rows.pieces()?;
    if mask.len() != pieces.len() {
        let (found, wanted) = (mask.len(), pieces.len());
        return Err(format!("expected {wanted} elements in `Mask`, found {found}").into());
    }
    frame.reserve(rows.tensor.nbytes())?;
    let (mut yes, mut no) = (Made::new(), Made::new());
    for (piece, is_true) in pieces.iter().zip(mask) {
        let made = if is_true { &mut yes } else { &mut no };
        made.add(&rows, Some(piece))?;
    }
    let (yes, no) = (yes.tensor(&rows), no.tensor(&rows));
    put(frame, step, "OutTrue", yes)?;
    put(frame, step, "OutFalse", no)
}

/// Puts the rows of both tensors together again, in the order of the mask.
fn merge(frame: &mut Frame<'_>, step: &Step, op: &Op) -> Outcome {
    check_level(op)?;
    let mask = mask(frame, step)?;
    let of = |slot: &str| -> Outcome<Rows<'_>> { Rows::of(frame.tensor(input(step, slot)?)?) };
    let (of_yes, of_no) = (of("InTrue")?, of("InFalse")?);
    let (yes, no) = (of_yes.tensor, of_no.tensor);
    if yes.dtype != no.dtype || yes.shape.get(1..) != no.shape.get(1..) {
        return Err(format!(
            "expected rows of one type in `InTrue` and `InFalse`, found {}{:?} and {}{:?}",
            yes.dtype, yes.shape, no.dtype, no.shape
        )
        .into());
    }
    let (yes_pieces, no_pieces) = (of_yes.pieces()?, of_no.pieces()?);
    let true_count = mask.iter().filter(|is_true| **is_true).count();
    let (wanted, found) =
        ((true_count, mask.len() - true_count), (yes_pieces.len(), no_pieces.len()));
    if found != wanted {
        return Err(format!(
            "expected {} and {} rows in `InTrue` and `InFalse`, found {} and {}",
            wanted.0, wanted.1, found.0, found.1
        )
        .into());
    }
    frame.reserve(yes.nbytes().saturating_add(no.nbytes()))?;
    let (mut made, mut next) = (Made::new(), (yes_pieces.iter(), no_pieces.iter()));
    for is_true in mask {
        match is_true {
            true => made.add(&of_yes, next.0.next())?,
            false => made.add(&of_no, next.1.next())?,
        }
    }
    let made = made.tensor(if yes.lod.is_empty() { &of_no } else { &of_yes });
    Ok(frame.make(output(step, "Out")?, made)?)
}
