//! `ctc_align` and `crf_decoding`: the best sequences of labels.

use lodstone_model::{AttributeValue, DType, Lod, Op};
use lodstone_schema::numbers::exact;
use lodstone_schema::paddle::attribute;
use lodstone_schema::places::at;
use lodstone_schema::{Finding, numbers};

use super::super::{Outcome, input, output};
use super::labels::{integers, lengths, ranges, spans};
use super::{columns, int, part, singles};
use crate::executor::frame::Frame;
use crate::executor::indices::whole;
use crate::executor::layout::Step;
use crate::executor::value::rows;

/// Removes blanks, and labels that repeat the previous one.
fn aligned(labels: &[i64], blank: i64, merges: bool) -> Vec<i64> {
    let (mut previous, mut kept) = (-1, Vec::new());
    for label in labels {
        if *label != blank && !(merges && *label == previous) {
            kept.push(*label);
        }
        previous = *label;
    }
    kept
}

/// With lengths, rows of labels are padded; otherwise, sequences get shorter. No label at all is -1.
pub(super) fn align(frame: &mut Frame<'_>, step: &Step, op: &Op) -> Outcome {
    let tensor = frame.tensor(input(step, "Input")?)?;
    let (labels, dtype) = (whole(tensor)?, tensor.dtype);
    let blank = i64::from(int(op, "blank", 0));
    let merges = !matches!(attribute(op, "merge_repeated"), Some(AttributeValue::Bool(false)));
    if let Some(lengths) = lengths(frame, step, "InputLength")? {
        let [rows, columns, ..] = tensor.shape[..] else {
            return Err(format!("expected rows of labels, found {:?}", tensor.shape).into());
        };
        let (shape, rows, columns) = (vec![rows, columns], exact(rows)?, exact(columns)?);
        let padding = i64::from(int(op, "padding_value", 0));
        let (mut all, mut counts) = (Vec::new(), Vec::new());
        for (number, length) in lengths.iter().enumerate().take(rows) {
            let row = labels.get(number.saturating_mul(columns)..).unwrap_or_default();
            let mut kept = aligned(row.get(..(*length).min(columns)).unwrap_or(row), blank, merges);
            counts.push(numbers::length(kept.len()));
            kept.resize(columns, padding);
            all.extend(kept);
        }
        if all.len() != labels.len() {
            return Err(format!("expected a length of each row of {shape:?}").into());
        }
        frame.make(output(step, "Output")?, integers(&all, dtype, shape, Lod::default()))?;
        if let Some(out) = step.outputs("OutputLength").first().copied().flatten() {
            let shape = vec![counts.len() as u64, 1];
            frame.make(out, integers(&counts, dtype, shape, Lod::default()))?;
        }
        return Ok(());
    }
    let (mut all, mut ends) = (Vec::new(), vec![0_u64]);
    for range in ranges(tensor, labels.len())? {
        all.extend(aligned(labels.get(range).unwrap_or_default(), blank, merges));
        ends.push(all.len() as u64);
    }
    if all.is_empty() {
        all.push(-1);
    }
    let shape = vec![all.len() as u64, 1];
    let made = integers(&all, dtype, shape, Lod(vec![ends]));
    Ok(frame.make(output(step, "Output")?, made)?)
}

/// Returns the best path through the labels of a sequence. The first rows of the transitions are the weights of the
/// first and of the last label.
fn path(scores: &[f32], transitions: &[f32], count: usize) -> Result<Vec<i64>, Finding> {
    let (first, last) = (part(transitions, 0, count)?, part(transitions, 1, count)?);
    let mut steps = scores.chunks_exact(count);
    let Some(begin) = steps.next() else { return Ok(Vec::new()) };
    let mut best: Vec<f32> =
        begin.iter().zip(first).map(|(score, weight)| score + weight).collect();
    let mut tracks = Vec::new();
    for scores in steps {
        let (mut next, mut track) = (Vec::new(), Vec::new());
        for (label, score) in scores.iter().enumerate() {
            let (mut most, mut from) = (f32::NEG_INFINITY, 0);
            for (number, before) in best.iter().enumerate() {
                let row = part(transitions, number + 2, count)?;
                let sum = before + at(row, label)?;
                if sum > most {
                    (most, from) = (sum, number);
                }
            }
            next.push(most + score);
            track.push(from);
        }
        best = next;
        tracks.push(track);
    }
    let (mut most, mut label) = (f32::NEG_INFINITY, 0);
    for (number, (sum, weight)) in best.iter().zip(last).enumerate() {
        if sum + weight > most {
            (most, label) = (sum + weight, number);
        }
    }
    let mut path = vec![numbers::length(label)];
    for track in tracks.iter().rev() {
        label = at(track, label)?;
        path.push(numbers::length(label));
    }
    path.reverse();
    Ok(path)
}

/// The best path of each sequence, or, with `Label`, where it agrees with the labels.
pub(super) fn viterbi(frame: &mut Frame<'_>, step: &Step, _: &Op) -> Outcome {
    let emission = frame.tensor(input(step, "Emission")?)?;
    let transitions = singles(frame.tensor(input(step, "Transition")?)?)?;
    let scores = singles(emission)?;
    let count = columns(emission)?;
    if count == 0 || transitions.len() != count.saturating_add(2).saturating_mul(count) {
        return Err(format!("expected transitions of {count} labels").into());
    }
    let rows = scores.len() / count;
    frame.reserve((scores.len() as u64).saturating_mul(16))?;
    let (ranges, shape, lod) = spans(frame, step, emission, rows)?;
    let labels = match step.inputs("Label").first().copied().flatten() {
        Some(slot) => {
            let labels = whole(frame.tensor(slot)?)?;
            if labels.len() != rows {
                return Err(format!("expected {rows} labels, found {}", labels.len()).into());
            }
            Some(labels)
        }
        None => None,
    };
    let mut all = vec![0_i64; rows];
    for range in ranges {
        let own = scores.get(range.start.saturating_mul(count)..range.end.saturating_mul(count));
        let mut found = path(own.unwrap_or_default(), &transitions, count)?;
        if let Some(labels) = labels.as_ref().and_then(|labels| labels.get(range.clone())) {
            found.iter_mut().zip(labels).for_each(|(own, label)| *own = i64::from(own == label));
        }
        let places = all.get_mut(range).unwrap_or_default();
        places.iter_mut().zip(found).for_each(|(place, label)| *place = label);
    }
    let made = integers(&all, DType::Int64, shape, lod);
    Ok(frame.make(output(step, "ViterbiPath")?, made)?)
}

/// Replaces the LoD by that of `Y`, by the offsets in `Y`, or by those of the attribute; or appends a level.
pub(super) fn reset_lod(frame: &mut Frame<'_>, step: &Step, op: &Op) -> Outcome {
    let mut tensor = frame.tensor(input(step, "X")?)?.clone();
    let offset = |offset: i64| {
        u64::try_from(offset).map_err(|_| format!("expected offsets of at least 0, found {offset}"))
    };
    let level = match step.inputs("Y").first().copied().flatten() {
        Some(slot) => {
            let like = frame.tensor(slot)?;
            if !like.lod.0.is_empty() {
                tensor.lod = like.lod.clone();
                return Ok(frame.make(output(step, "Out")?, tensor)?);
            }
            whole(like)?.into_iter().map(offset).collect::<Result<Vec<u64>, _>>()?
        }
        None => match attribute(op, "target_lod") {
            Some(AttributeValue::Ints(level)) => {
                level.iter().map(|end| offset(i64::from(*end))).collect::<Result<_, _>>()?
            }
            _ => Vec::new(),
        },
    };
    let is_appended = matches!(attribute(op, "append"), Some(AttributeValue::Bool(true)));
    let mut levels = if is_appended { tensor.lod.0.clone() } else { Vec::new() };
    levels.push(level);
    let lod = Lod(levels);
    let rows = rows(&tensor);
    lod.check(rows).map_err(|wrong| format!("the LoD does not match {rows} rows: {wrong}"))?;
    tensor.lod = lod;
    Ok(frame.make(output(step, "Out")?, tensor)?)
}
