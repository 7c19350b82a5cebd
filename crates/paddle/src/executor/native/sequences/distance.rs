//! `edit_distance`: the number of insertions, deletions and substitutions that turn one sequence into another.

use std::ops::Range;

use lodstone_model::{DType, Lod, Op};

use super::super::{Outcome, flag, input, output};
use super::decode::{integers, lengths, offsets, whole};
use super::{made, place};
use crate::executor::frame::Frame;
use crate::executor::layout::Step;

/// Returns the elements of a slot, and those of each sequence: by LoD, or by lengths.
fn sequences(
    frame: &Frame<'_>,
    step: &Step,
    slot: &str,
    of_lengths: &str,
) -> Outcome<(Vec<i64>, Vec<Range<usize>>)> {
    let tensor = frame.tensor(input(step, slot)?)?;
    let values = whole(tensor)?;
    let ranges = match lengths(frame, step, of_lengths)? {
        None => {
            let offsets = offsets(tensor, values.len())?;
            let ends = offsets.iter().skip(1);
            offsets.iter().zip(ends).map(|(start, end)| *start..*end).collect()
        }
        Some(lengths) => {
            let [rows, width, ..] = tensor.shape[..] else {
                return Err(format!("expected rows of `{slot}`, found {:?}", tensor.shape).into());
            };
            if lengths.len() as u64 != rows {
                let found = lengths.len();
                return Err(
                    format!("expected {rows} lengths in `{of_lengths}`, found {found}").into()
                );
            }
            let width = place(width);
            if let Some(length) = lengths.iter().find(|length| **length > width) {
                return Err(format!(
                    "a length of {length} exceeds the {width} columns of `{slot}`"
                )
                .into());
            }
            let starts = (0..lengths.len()).map(|row| row.saturating_mul(width));
            starts.zip(lengths).map(|(start, length)| start..start.saturating_add(length)).collect()
        }
    };
    Ok((values, ranges))
}

/// Returns the distance of two sequences (Levenshtein, 1966).
fn distance(one: &[i64], other: &[i64]) -> usize {
    // The distances of the beginnings of `one` to each beginning of `other`.
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (number, left) in one.iter().enumerate() {
        let (mut diagonal, mut before) = (number, number + 1);
        let mut next = vec![before];
        for (right, above) in other.iter().zip(row.iter().skip(1)) {
            let kept = diagonal + usize::from(left != right);
            diagonal = *above;
            before = kept.min(above + 1).min(before + 1);
            next.push(before);
        }
        row = next;
    }
    row.last().copied().unwrap_or_default()
}

/// Sets the distance of each pair of sequences, divided by the length of the reference if `normalized`.
pub(super) fn edits(frame: &mut Frame<'_>, step: &Step, op: &Op) -> Outcome {
    let (hyps, of_hyps) = sequences(frame, step, "Hyps", "HypsLength")?;
    let (refs, of_refs) = sequences(frame, step, "Refs", "RefsLength")?;
    if of_hyps.len() != of_refs.len() {
        let (hyps, refs) = (of_hyps.len(), of_refs.len());
        return Err(
            format!("expected {refs} sequences in `Hyps`, as in `Refs`, found {hyps}").into()
        );
    }
    let normalized = flag(op, "normalized", false);
    let longest = of_refs.iter().map(Range::len).max().unwrap_or(0);
    frame.reserve((longest as u64).saturating_mul(16))?;
    let mut distances = Vec::new();
    for (hyp, of_ref) in of_hyps.into_iter().zip(of_refs) {
        let count = of_ref.len();
        if normalized && count == 0 {
            return Err("a reference without elements has no normalized distance".into());
        }
        let (hyp, of_ref) = (hyps.get(hyp), refs.get(of_ref));
        let found = distance(hyp.unwrap_or_default(), of_ref.unwrap_or_default());
        #[expect(clippy::cast_precision_loss, reason = "PaddlePaddle's distances are float32")]
        let (found, count) = (found as f32, count as f32);
        distances.push(if normalized { found / count } else { found });
    }
    let count = i64::try_from(distances.len()).unwrap_or(i64::MAX);
    let shape = vec![distances.len() as u64, 1];
    frame.make(output(step, "Out")?, made(&distances, shape, Lod::default()))?;
    let number = integers(&[count], DType::Int64, vec![1], Lod::default());
    Ok(frame.make(output(step, "SequenceNum")?, number)?)
}
