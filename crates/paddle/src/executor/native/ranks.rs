//! Operators that process sequences step by step: how PaddlePaddle 1.x loops over sequences of different lengths.
//!
//! Sequences are ranked by length, longest first, so that those that have a row at a step come first; an array has the
//! rows of each step. Source of truth: PaddlePaddle 1.8.5's kernels, and their results.

use std::cmp::Reverse;
use std::ops::Range;

use lodstone_model::{DType, Lod, Op, Tensor};
use lodstone_schema::Finding;
use lodstone_schema::numbers::{exact, length};
use lodstone_store::Blob;

use super::sums::zeros_like;
use super::{Outcome, Run, input, long, output};
use crate::executor::frame::Frame;
use crate::executor::layout::{Slot, Step};
use crate::executor::value::Value;

pub(super) const OPERATORS: &[(&str, Run)] = &[
    ("array_to_lod_tensor", join),
    ("lod_rank_table", rank),
    ("lod_tensor_to_array", split),
    ("max_sequence_len", longest),
    ("reorder_lod_tensor_by_rank", reorder),
    ("reorder_lod_tensor_by_rank_grad", reorder_back),
    ("shrink_rnn_memory", shrink),
    ("shrink_rnn_memory_grad", shrink_back),
];

type Ranks = [(usize, usize)];

fn ranks<'f>(frame: &'f Frame<'_>, step: &Step) -> Outcome<&'f Ranks> {
    match frame.value(input(step, "RankTable")?)? {
        Value::Ranks(ranks) => Ok(ranks),
        other => Err(format!("expected a rank table, found {}", other.kind()).into()),
    }
}

/// Returns the rows of each sequence of a level.
fn sequences(tensor: &Tensor, level: usize) -> Outcome<Vec<Range<usize>>> {
    let offsets = tensor.lod.0.get(level).ok_or("the LoD does not have this level")?;
    let pairs = offsets.iter().zip(offsets.iter().skip(1));
    Ok(pairs
        .map(|(start, end)| Ok(exact(*start)?..exact(*end)?))
        .collect::<Result<_, Finding>>()?)
}

/// Returns the number of rows of the longest sequence, which is the first.
fn most(ranks: &Ranks) -> usize {
    ranks.iter().map(|(_, length)| *length).fold(0, usize::max)
}

fn rank(frame: &mut Frame<'_>, step: &Step, op: &Op) -> Outcome {
    let level = match op.attribute("level") {
        Some(lodstone_model::AttributeValue::Int(level)) => usize::try_from(*level).ok(),
        None => Some(0),
        _ => None,
    };
    let tensor = frame.tensor(input(step, "X")?)?;
    let sequences = sequences(tensor, level.ok_or("expected a level of LoD")?)?;
    let mut ranks: Vec<(usize, usize)> =
        sequences.iter().enumerate().map(|(number, rows)| (number, rows.len())).collect();
    // Sequences of equal length keep their order.
    ranks.sort_by_key(|(_, length)| Reverse(*length));
    frame.set(output(step, "Out")?, Value::Ranks(ranks))?;
    Ok(())
}

fn longest(frame: &mut Frame<'_>, step: &Step, _: &Op) -> Outcome {
    let bytes = length(most(ranks(frame, step)?)).to_le_bytes().to_vec();
    let made = Tensor::dense(DType::Int64, vec![1], Blob::memory(bytes));
    Ok(frame.make(output(step, "Out")?, made)?)
}

/// The rows of a tensor, as bytes.
pub(super) struct Rows<'t> {
    pub(super) tensor: &'t Tensor,
    pub(super) bytes: bytes::Bytes,
    /// The number of bytes of a row.
    pub(super) size: usize,
    /// The number of rows.
    count: usize,
}

impl<'t> Rows<'t> {
    pub(super) fn of(tensor: &'t Tensor) -> Outcome<Self> {
        let bytes = tensor.data.bytes()?;
        let rows = tensor.shape.first().copied().ok_or("expected rows, found a scalar")?;
        let rows = usize::try_from(rows).map_err(|_| "there are too many rows")?;
        let size = bytes.len() / rows.max(1);
        Ok(Self { tensor, bytes, size, count: rows })
    }

    /// Returns the rows of each sequence, or each row alone, if there is no LoD.
    pub(super) fn pieces(&self) -> Outcome<Vec<Range<usize>>> {
        match self.tensor.lod.0.len() {
            0 => Ok((0..self.count).map(|row| row..row + 1).collect()),
            1 => sequences(self.tensor, 0),
            _ => Err("expected at most one level of LoD".into()),
        }
    }

    fn row(&self, number: usize) -> Outcome<&[u8]> {
        let row = self.bytes.get(number * self.size..(number + 1) * self.size);
        Ok(row.ok_or_else(|| format!("row {number} does not exist"))?)
    }

    /// Returns a tensor of other rows.
    pub(super) fn with(&self, bytes: Vec<u8>, rows: usize) -> Tensor {
        let rest = self.tensor.shape.iter().skip(1).copied();
        let shape = std::iter::once(rows as u64).chain(rest).collect();
        Tensor::dense(self.tensor.dtype, shape, Blob::memory(bytes))
    }
}

/// Checks that each sequence has the length that it was ranked by.
fn check(ranks: &Ranks, sequences: &[Range<usize>]) -> Outcome {
    let fits = |(number, length): &(usize, usize)| {
        sequences.get(*number).is_some_and(|rows| rows.len() == *length)
    };
    match ranks.len() == sequences.len() && ranks.iter().all(fits) {
        true => Ok(()),
        false => Err("the sequences differ from those of the rank table".into()),
    }
}

fn split(frame: &mut Frame<'_>, step: &Step, _: &Op) -> Outcome {
    let (ranks, tensor) = (ranks(frame, step)?, frame.tensor(input(step, "X")?)?);
    if tensor.lod.0.len() > 1 {
        return Err("expected one level of LoD".into());
    }
    let sequences = sequences(tensor, 0)?;
    check(ranks, &sequences)?;
    let rows = Rows::of(tensor)?;
    frame.reserve(rows.bytes.len() as u64)?;
    let mut array = Vec::new();
    for at in 0..most(ranks) {
        let (mut bytes, mut count) = (Vec::new(), 0);
        for (number, _) in ranks.iter().take_while(|(_, length)| *length > at) {
            let sequence = sequences.get(*number);
            let sequence = sequence.ok_or_else(|| Finding::internal("a rank has no sequence"))?;
            bytes.extend_from_slice(rows.row(sequence.start + at)?);
            count += 1;
        }
        array.push(Some(frame.charged(rows.with(bytes, count))?));
    }
    frame.set(output(step, "Out")?, Value::Array(array))?;
    Ok(())
}

fn join(frame: &mut Frame<'_>, step: &Step, _: &Op) -> Outcome {
    let ranks = ranks(frame, step)?;
    let array = match frame.value(input(step, "X")?)? {
        Value::Array(array) => array,
        other => return Err(format!("expected an array, found {}", other.kind()).into()),
    };
    let steps =
        array.iter().map(|step| Rows::of(step.as_ref().ok_or("a member of the array is absent")?));
    let steps = steps.collect::<Outcome<Vec<_>>>()?;
    let mut order: Vec<(usize, usize, usize)> = ranks
        .iter()
        .enumerate()
        .map(|(place, (number, length))| (*number, place, *length))
        .collect();
    order.sort_unstable();
    let (mut bytes, mut offsets, mut count) = (Vec::new(), vec![0_u64], 0);
    for (_, place, length) in order {
        for at in 0..length {
            let rows = steps.get(at).ok_or_else(|| format!("the array has no step {at}"))?;
            bytes.extend_from_slice(rows.row(place)?);
        }
        count += length;
        offsets.push(count as u64);
    }
    let first = steps.first().ok_or("the array has no steps")?;
    let mut made = first.with(bytes, count);
    made.lod = Lod(vec![offsets]);
    Ok(frame.make(output(step, "Out")?, made)?)
}

/// Keeps the rows, or the sequences of rows, of the sequences that are not finished at a step: the first ones.
fn shrink(frame: &mut Frame<'_>, step: &Step, _: &Op) -> Outcome {
    let at = at_step(frame, input(step, "I")?)?;
    let count = ranks(frame, step)?.iter().filter(|(_, length)| *length > at).count();
    let x = frame.tensor(input(step, "X")?)?;
    let rows = Rows::of(x)?;
    let lost = "there are fewer rows than sequences";
    let (kept, lod) = match x.lod.0.as_slice() {
        [] => (count, Lod::default()),
        [level] => {
            let level = level.get(..=count).ok_or(lost)?;
            let end = level.last().and_then(|end| usize::try_from(*end).ok());
            (end.ok_or(lost)?, Lod(vec![level.to_vec()]))
        }
        _ => return Err("expected at most one level of LoD".into()),
    };
    let bytes = rows.bytes.get(..kept.saturating_mul(rows.size)).ok_or(lost)?;
    let mut made = rows.with(bytes.to_vec(), kept);
    made.lod = lod;
    Ok(frame.make(output(step, "Out")?, made)?)
}

/// Rows of finished sequences have gradient zero.
fn shrink_back(frame: &mut Frame<'_>, step: &Step, _: &Op) -> Outcome {
    let x = frame.tensor(input(step, "X")?)?;
    let mut made = zeros_like(x)?;
    if let Ok(given) = input(step, "Out@GRAD") {
        let given = frame.tensor(given)?;
        let bytes = given.data.bytes()?;
        let mut all = made.data.bytes()?.to_vec();
        let fits = given.dtype == x.dtype && given.shape.get(1..) == x.shape.get(1..);
        let first = all.get_mut(..bytes.len()).filter(|_| fits);
        first.ok_or("`Out@GRAD` has more rows than `X`")?.copy_from_slice(&bytes);
        made.data = Blob::memory(all);
    }
    Ok(frame.make(output(step, "X@GRAD")?, made)?)
}

fn at_step(frame: &Frame<'_>, slot: Slot) -> Outcome<usize> {
    let at = long(frame, slot)?;
    Ok(usize::try_from(at).map_err(|_| format!("step {at} does not exist"))?)
}

/// Reorders rows, or sequences of rows, by rank.
fn reorder(frame: &mut Frame<'_>, step: &Step, _: &Op) -> Outcome {
    let order: Vec<usize> = ranks(frame, step)?.iter().map(|(number, _)| *number).collect();
    moved(frame, step, &order)
}

/// Restores the order before `reorder`.
fn reorder_back(frame: &mut Frame<'_>, step: &Step, _: &Op) -> Outcome {
    let ranks = ranks(frame, step)?;
    let mut order: Vec<usize> = (0..ranks.len()).collect();
    order.sort_by_key(|place| ranks.get(*place).map(|(number, _)| *number));
    moved(frame, step, &order)
}

/// Writes rows, or sequences of rows, in another order.
fn moved(frame: &mut Frame<'_>, step: &Step, order: &[usize]) -> Outcome {
    let tensor = frame.tensor(input(step, "X")?)?;
    let rows = Rows::of(tensor)?;
    let pieces = rows.pieces()?;
    let (mut bytes, mut offsets, mut count) = (Vec::new(), vec![0_u64], 0);
    for number in order {
        let piece = pieces.get(*number).cloned().ok_or("there are fewer rows than ranks")?;
        for row in piece.clone() {
            bytes.extend_from_slice(rows.row(row)?);
        }
        count += piece.len();
        offsets.push(count as u64);
    }
    let mut made = rows.with(bytes, count);
    if !tensor.lod.is_empty() {
        made.lod = Lod(vec![offsets]);
    }
    Ok(frame.make(output(step, "Out")?, made)?)
}
