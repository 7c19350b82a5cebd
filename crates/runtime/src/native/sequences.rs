//! Operators of sequences: rows grouped by LoD.
//!
//! They compute with 32-bit floats in a fixed order, sequence by sequence, so that the number of threads changes
//! nothing. Source of truth: the kernels of PaddlePaddle 1.8.5 and 2.6.2, and results that they gave.

use std::ops::Range;

use lodstone_model::{AttributeValue, DType, Lod, Op, Tensor};
use lodstone_store::Blob;

use super::{Outcome, Run, input, output};
use crate::plan::{Slot, Step};
use crate::run::Frame;

pub(super) fn of(kind: &str) -> Option<Run> {
    Some(match kind {
        "sequence_conv" => convolve,
        "sequence_expand" => expand,
        "sequence_pool" => pool,
        "sequence_softmax" => softmax,
        _ => return None,
    })
}

/// Rows of numbers, grouped into sequences by the last level of their LoD.
pub(super) struct Rows {
    pub(super) values: Vec<f32>,
    pub(super) width: usize,
    pub(super) sequences: Vec<Range<usize>>,
    pub(super) lod: Lod,
    pub(super) shape: Vec<u64>,
}

impl Rows {
    /// Those of a variable, which has to have a LoD.
    pub(super) fn of(frame: &Frame<'_>, slot: Slot) -> Outcome<Self> {
        let tensor = frame.tensor(slot)?;
        let last = tensor.lod.0.last().ok_or_else(|| {
            let name = frame.plan.vars.get(slot).map_or("", |var| &var.name);
            format!("`{name}` has no LoD: its rows are no sequences")
        })?;
        let ends = last.windows(2).map(|pair| match pair {
            [start, end] => Ok(place(*start)..place(*end)),
            _ => Err("it has no ends".to_owned()),
        });
        let sequences = ends.collect::<Result<_, String>>()?;
        let width = width(tensor);
        let values = singles(tensor)?;
        Ok(Self { values, width, sequences, lod: tensor.lod.clone(), shape: tensor.shape.clone() })
    }

    /// A row.
    pub(super) fn row(&self, number: usize) -> &[f32] {
        let start = number * self.width;
        self.values.get(start..start + self.width).unwrap_or_default()
    }

    /// Its extents, with another number of rows.
    fn extents(&self, rows: usize) -> Vec<u64> {
        let rest = self.shape.iter().skip(1).copied();
        std::iter::once(rows as u64).chain(rest).collect()
    }
}

fn place(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// How many numbers a row has.
pub(super) fn width(tensor: &Tensor) -> usize {
    place(tensor.shape.iter().skip(1).product())
}

/// The numbers of a tensor.
pub(super) fn singles(tensor: &Tensor) -> Outcome<Vec<f32>> {
    if tensor.dtype != DType::Float32 {
        return Err(format!("expected float32, found {}", tensor.dtype).into());
    }
    let bytes = tensor.data.bytes().map_err(|error| error.to_string())?;
    let (numbers, _) = bytes.as_chunks::<4>();
    Ok(numbers.iter().map(|four| f32::from_le_bytes(*four)).collect())
}

/// A tensor of numbers.
pub(super) fn made(values: &[f32], shape: Vec<u64>, lod: Lod) -> Tensor {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    let mut tensor = Tensor::dense(DType::Float32, shape, Blob::memory(bytes));
    tensor.lod = lod;
    tensor
}

fn text(op: &Op, name: &str) -> String {
    match op.attribute(name) {
        Some(AttributeValue::String(value)) => value.to_string(),
        _ => String::new(),
    }
}

fn int(op: &Op, name: &str, otherwise: i32) -> i32 {
    match op.attribute(name) {
        Some(AttributeValue::Int(value)) => *value,
        _ => otherwise,
    }
}

/// One row for each sequence; its LoD has one level less.
fn pool(frame: &mut Frame<'_>, step: &Step, op: &Op) -> Outcome {
    let rows = Rows::of(frame, input(step, "X")?)?;
    let empty = match op.attribute("pad_value") {
        Some(AttributeValue::Float(value)) => *value,
        _ => 0.0,
    };
    let kind = text(op, "pooltype");
    let mut values = Vec::with_capacity(rows.sequences.len() * rows.width);
    let mut places: Vec<i32> = Vec::new();
    for sequence in &rows.sequences {
        let count = sequence.len();
        if count == 0 {
            values.extend(std::iter::repeat_n(empty, rows.width));
            places.extend(std::iter::repeat_n(-1, rows.width));
            continue;
        }
        for column in 0..rows.width {
            let at = |row: usize| rows.row(row).get(column).copied().unwrap_or(0.0);
            let sum = || sequence.clone().map(at).sum::<f32>();
            #[expect(clippy::cast_precision_loss, reason = "as the kernel divides")]
            values.push(match kind.as_str() {
                "AVERAGE" => sum() / count as f32,
                "SUM" => sum(),
                "SQRT" => sum() / (count as f32).sqrt(),
                "FIRST" => at(sequence.start),
                "LAST" => at(sequence.end - 1),
                "MAX" => {
                    let better =
                        |best: usize, row: usize| if at(row) > at(best) { row } else { best };
                    let best = sequence.clone().fold(sequence.start, better);
                    places.push(i32::try_from(best).unwrap_or(i32::MAX));
                    at(best)
                }
                other => return Err(format!("expected a way to pool, found `{other}`").into()),
            });
        }
    }
    let count = rows.sequences.len();
    let mut lod = rows.lod.clone();
    lod.0.pop();
    frame.make(output(step, "Out")?, made(&values, rows.extents(count), lod))?;
    if let Ok(slot) = output(step, "MaxIndex")
        && kind == "MAX"
    {
        let bytes: Vec<u8> = places.iter().flat_map(|place| place.to_le_bytes()).collect();
        let shape = rows.extents(count);
        frame.make(slot, Tensor::dense(DType::Int32, shape, Blob::memory(bytes)))?;
    }
    Ok(())
}

/// Each row with those around it, as far as its sequence goes, times a filter.
fn convolve(frame: &mut Frame<'_>, step: &Step, op: &Op) -> Outcome {
    let rows = Rows::of(frame, input(step, "X")?)?;
    let filter = frame.tensor(input(step, "Filter")?)?;
    let (length, start) = (int(op, "contextLength", 1), int(op, "contextStart", 0));
    if int(op, "contextStride", 1) != 1 {
        return Err("expected a step of 1 from row to row".into());
    }
    if matches!(op.attribute("paddingTrainable"), Some(AttributeValue::Bool(true))) {
        return Err("it has rows of its own around sequences, which is not computed".into());
    }
    let context = usize::try_from(length).ok().filter(|length| *length > 0);
    let context = context.ok_or_else(|| format!("expected rows as context, found {length}"))?;
    let [inner, size] = *filter.shape.as_slice() else {
        return Err(format!("expected a matrix as filter, found {:?}", filter.shape).into());
    };
    if context.checked_mul(rows.width) != Some(place(inner)) {
        return Err(format!("{context} rows of {} do not fit the filter", rows.width).into());
    }
    let (size, weights) = (place(size), singles(filter)?);
    let mut values = Vec::with_capacity(rows.values.len() / rows.width.max(1) * size);
    for sequence in &rows.sequences {
        for row in sequence.clone() {
            let mut sums = vec![0.0_f32; size];
            for step in 0..context {
                let offset = i64::from(start) + i64::try_from(step).unwrap_or(i64::MAX);
                let other = i64::try_from(row).ok().and_then(|row| row.checked_add(offset));
                let other = other.and_then(|other| usize::try_from(other).ok());
                let Some(other) = other.filter(|other| sequence.contains(other)) else { continue };
                add_product(&mut sums, rows.row(other), &weights, step * rows.width);
            }
            values.extend(sums);
        }
    }
    let count = rows.sequences.last().map_or(0, |last| last.end);
    let shape = vec![count as u64, size as u64];
    Ok(frame.make(output(step, "Out")?, made(&values, shape, rows.lod))?)
}

/// Adds a row times a matrix, whose rows begin at the one called `first`.
pub(super) fn add_product(sums: &mut [f32], row: &[f32], matrix: &[f32], first: usize) {
    let size = sums.len();
    for (number, value) in row.iter().enumerate() {
        let start = (first + number) * size;
        let weights = matrix.get(start..start + size).unwrap_or_default();
        for (sum, weight) in sums.iter_mut().zip(weights) {
            *sum += value * weight;
        }
    }
}

/// Shares within each sequence of numbers.
fn softmax(frame: &mut Frame<'_>, step: &Step, _: &Op) -> Outcome {
    let mut rows = Rows::of(frame, input(step, "X")?)?;
    if rows.width != 1 {
        return Err(format!("expected one number a row, found {}", rows.width).into());
    }
    for sequence in &rows.sequences {
        let values = rows.values.get_mut(sequence.clone()).unwrap_or_default();
        let most = values.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        values.iter_mut().for_each(|value| *value = (*value - most).exp());
        let sum: f32 = values.iter().sum();
        values.iter_mut().for_each(|value| *value /= sum);
    }
    let made = made(&rows.values, rows.shape.clone(), rows.lod);
    Ok(frame.make(output(step, "Out")?, made)?)
}

/// Rows, or sequences of such, as often as the sequences of another are long.
fn expand(frame: &mut Frame<'_>, step: &Step, op: &Op) -> Outcome {
    let x = frame.tensor(input(step, "X")?)?;
    let y = frame.tensor(input(step, "Y")?)?;
    let level = int(op, "ref_level", -1);
    let level = match usize::try_from(level) {
        Ok(level) => y.lod.0.get(level),
        Err(_) => y.lod.0.last(),
    };
    let counts = level.ok_or("its `Y` has no such level of LoD")?;
    let rows = place(x.shape.first().copied().unwrap_or(0));
    let own: Vec<Range<usize>> = match x.lod.0.as_slice() {
        [] => (0..rows).map(|row| row..row + 1).collect(),
        [one] => one
            .windows(2)
            .filter_map(|pair| Some(place(*pair.first()?)..place(*pair.last()?)))
            .collect(),
        _ => return Err("expected at most one level of LoD".into()),
    };
    let times: Vec<u64> = counts
        .windows(2)
        .map(|pair| pair.iter().rev().copied().reduce(|a, b| a - b).unwrap_or(0))
        .collect();
    if own.len() != times.len() {
        let (found, wanted) = (own.len(), times.len());
        return Err(format!("expected {wanted} sequences to repeat, found {found}").into());
    }
    let size = width(x) * x.dtype.bits().map_or(0, |bits| bits.div_ceil(8) as usize);
    let bytes = x.data.bytes().map_err(|error| error.to_string())?;
    let (mut made, mut count, mut offsets) = (Vec::new(), 0_u64, vec![0_u64]);
    for (range, times) in own.iter().zip(times) {
        let piece = bytes.get(range.start * size..range.end * size).unwrap_or_default();
        // An empty one repeated takes its offsets.
        frame.reserve((piece.len() as u64 + 8).saturating_mul(times))?;
        for _ in 0..times {
            made.extend_from_slice(piece);
            count += range.len() as u64;
            offsets.push(count);
        }
    }
    let shape = std::iter::once(count).chain(x.shape.iter().skip(1).copied()).collect();
    let mut tensor = Tensor::dense(x.dtype, shape, Blob::memory(made));
    if !x.lod.is_empty() {
        tensor.lod = Lod(vec![offsets]);
    }
    Ok(frame.make(output(step, "Out")?, tensor)?)
}
