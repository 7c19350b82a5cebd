//! `sequence_softmax`: softmax within each sequence.

use lodstone_model::Op;
use lodstone_schema::Finding;

use super::super::{Outcome, input, output};
use super::{Rows, made, numbers};
use crate::executor::frame::Frame;
use crate::executor::layout::Step;

fn sequences(frame: &Frame<'_>, step: &Step) -> Outcome<Rows> {
    let rows = Rows::of(frame, input(step, "X")?)?;
    match rows.width {
        1 => Ok(rows),
        width => Err(format!("expected one element per row, found {width}").into()),
    }
}

/// Reports a sequence without its rows, although its LoD was checked.
fn lost() -> Finding {
    Finding::internal("a sequence has no rows")
}

pub(super) fn softmax(frame: &mut Frame<'_>, step: &Step, _: &Op) -> Outcome {
    let mut rows = sequences(frame, step)?;
    for sequence in &rows.sequences {
        let values = rows.values.get_mut(sequence.clone()).ok_or_else(lost)?;
        let most = values.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        values.iter_mut().for_each(|value| *value = (*value - most).exp());
        let sum: f32 = values.iter().sum();
        values.iter_mut().for_each(|value| *value /= sum);
    }
    let made = made(rows.values, rows.shape, rows.lod);
    Ok(frame.make(output(step, "Out")?, made)?)
}

/// `y (dy - sum(y dy))`, summed over the sequence.
pub(super) fn gradient(frame: &mut Frame<'_>, step: &Step, _: &Op) -> Outcome {
    let rows = sequences(frame, step)?;
    let shares = numbers(frame, step, "Out", rows.values.len())?;
    let mut values = numbers(frame, step, "Out@GRAD", rows.values.len())?;
    for sequence in &rows.sequences {
        let shares = shares.get(sequence.clone()).ok_or_else(lost)?;
        let values = values.get_mut(sequence.clone()).ok_or_else(lost)?;
        let mean: f32 = values.iter().zip(shares).map(|(value, share)| value * share).sum();
        values.iter_mut().zip(shares).for_each(|(value, share)| *value = (*value - mean) * share);
    }
    Ok(frame.make(output(step, "X@GRAD")?, rows.like(values))?)
}
