//! `edit_distance`: the number of insertions, deletions and substitutions that turn one sequence into another.

use std::ops::Range;

use lodstone_model::{DType, Lod, Op};
use lodstone_schema::numbers::length;

use super::super::{Outcome, flag, output};
use super::labels::{integers, labels};
use super::made;
use crate::executor::frame::Frame;
use crate::executor::layout::Step;

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
    let (hyps, of_hyps) = labels(frame, step, "Hyps", "HypsLength")?;
    let (refs, of_refs) = labels(frame, step, "Refs", "RefsLength")?;
    if of_hyps.len() != of_refs.len() {
        let (hyps, refs) = (of_hyps.len(), of_refs.len());
        return Err(
            format!("expected {refs} sequences in `Hyps`, as in `Refs`, found {hyps}").into()
        );
    }
    let normalized = flag(op, "normalized", false);
    let longest = of_refs.iter().map(Range::len).fold(0, usize::max);
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
    let count = length(distances.len());
    let shape = vec![distances.len() as u64, 1];
    frame.make(output(step, "Out")?, made(distances, shape, Lod::default()))?;
    let number = integers(&[count], DType::Int64, vec![1], Lod::default());
    Ok(frame.make(output(step, "SequenceNum")?, number)?)
}
