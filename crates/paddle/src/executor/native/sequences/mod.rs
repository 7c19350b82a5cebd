//! Operators of sequences: rows grouped by LoD; and their gradients.
//!
//! They compute with 32-bit floats in a fixed order, sequence by sequence, so that the number of threads changes
//! nothing. Source of truth: the kernels of PaddlePaddle 1.8.5 and 2.6.2, and results that they gave.

mod convolve;
mod expand;
mod pool;
mod softmax;

use std::ops::Range;

use lodstone_model::{AttributeValue, DType, Lod, Op, Tensor};
use lodstone_schema::Finding;
use lodstone_store::Blob;

use super::{Outcome, Run, input};
use crate::executor::frame::Frame;
use crate::executor::layout::{Slot, Step};

pub(super) const OPERATORS: &[(&str, Run)] = &[
    ("sequence_conv", convolve::convolve),
    ("sequence_conv_grad", convolve::gradient),
    ("sequence_expand", expand::expand),
    ("sequence_expand_grad", expand::gradient),
    ("sequence_pool", pool::pool),
    ("sequence_pool_grad", pool::gradient),
    ("sequence_softmax", softmax::softmax),
    ("sequence_softmax_grad", softmax::gradient),
];

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
            let name = frame.layout.vars.get(slot).map_or("", |var| &var.name);
            format!("`{name}` has no LoD: its rows are no sequences")
        })?;
        let ends = last.windows(2).map(|pair| match pair {
            [start, end] => Ok(place(*start)..place(*end)),
            _ => Err(Finding::internal("a window of two ends has another length")),
        });
        let sequences = ends.collect::<Result<_, Finding>>()?;
        let width = width(tensor);
        let values = singles(tensor)?;
        // What is computed of rows and sequences relies on this.
        let rows = place(tensor.shape.first().copied().unwrap_or(0));
        let is_inside = last.is_sorted() && last.last().is_none_or(|end| place(*end) <= rows);
        if !is_inside || Some(values.len()) != rows.checked_mul(width) {
            let name = frame.layout.vars.get(slot).map_or("", |var| &var.name);
            let shape = &tensor.shape;
            return Err(format!("`{name}`: its LoD and its elements do not fit {shape:?}").into());
        }
        Ok(Self { values, width, sequences, lod: tensor.lod.clone(), shape: tensor.shape.clone() })
    }

    /// A row.
    pub(super) fn row(&self, number: usize) -> Result<&[f32], Finding> {
        part(&self.values, number, self.width)
    }

    /// How many rows the sequences have.
    pub(super) fn count(&self) -> usize {
        self.sequences.last().map_or(0, |last| last.end)
    }

    /// Its extents, with another number of rows.
    fn extents(&self, rows: usize) -> Vec<u64> {
        let rest = self.shape.iter().skip(1).copied();
        std::iter::once(rows as u64).chain(rest).collect()
    }

    /// A tensor of its extents and its LoD.
    pub(super) fn like(&self, values: &[f32]) -> Tensor {
        made(values, self.shape.clone(), self.lod.clone())
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
    let bytes = tensor.data.bytes()?;
    let (numbers, _) = bytes.as_chunks::<4>();
    Ok(numbers.iter().map(|four| f32::from_le_bytes(*four)).collect())
}

/// The numbers of an input slot, which has to have so many.
pub(super) fn numbers(
    frame: &Frame<'_>,
    step: &Step,
    slot: &str,
    count: usize,
) -> Outcome<Vec<f32>> {
    let values = singles(frame.tensor(input(step, slot)?)?)?;
    match values.len() == count {
        true => Ok(values),
        false => {
            Err(format!("expected {count} numbers as `{slot}`, found {}", values.len()).into())
        }
    }
}

/// So many zeros, if they fit.
pub(super) fn zeros(frame: &Frame<'_>, count: usize) -> Outcome<Vec<f32>> {
    frame.reserve((count as u64).saturating_mul(4))?;
    Ok(vec![0.0; count])
}

/// A tensor of numbers.
pub(super) fn made(values: &[f32], shape: Vec<u64>, lod: Lod) -> Tensor {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    let mut tensor = Tensor::dense(DType::Float32, shape, Blob::memory(bytes));
    tensor.lod = lod;
    tensor
}

/// A part of numbers: parts of one size come after each other.
///
/// # Errors
/// If there are fewer numbers, which is a defect: callers have checked how many there are.
pub(super) fn part(values: &[f32], number: usize, size: usize) -> Result<&[f32], Finding> {
    let start = number.saturating_mul(size);
    let part = values.get(start..start.saturating_add(size));
    part.ok_or_else(|| Finding::internal(format!("there is no part {number} of {size} numbers")))
}

/// The same, to be changed.
///
/// # Errors
/// As [`part`].
pub(super) fn part_mut(
    values: &mut [f32],
    number: usize,
    size: usize,
) -> Result<&mut [f32], Finding> {
    let start = number.saturating_mul(size);
    let part = values.get_mut(start..start.saturating_add(size));
    part.ok_or_else(|| Finding::internal(format!("there is no part {number} of {size} numbers")))
}

/// Puts numbers into the place of others.
pub(super) fn copy(places: &mut [f32], values: &[f32]) {
    places.iter_mut().zip(values).for_each(|(place, value)| *place = *value);
}

/// Adds numbers to others.
pub(super) fn add(sums: &mut [f32], values: &[f32]) {
    sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
}

/// Adds numbers times a factor to others.
pub(super) fn add_times(sums: &mut [f32], values: &[f32], factor: f32) {
    sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += value * factor);
}

/// Adds a row times a matrix, whose rows begin at the one called `first`.
pub(super) fn add_product(
    sums: &mut [f32],
    row: &[f32],
    matrix: &[f32],
    first: usize,
) -> Result<(), Finding> {
    for (number, value) in row.iter().enumerate() {
        add_times(sums, part(matrix, first + number, sums.len())?, *value);
    }
    Ok(())
}

/// Adds a row times a turned matrix, whose rows begin at the one called `first`: it goes back from a product to what
/// was multiplied.
pub(super) fn add_product_back(
    sums: &mut [f32],
    row: &[f32],
    matrix: &[f32],
    first: usize,
) -> Result<(), Finding> {
    for (number, sum) in sums.iter_mut().enumerate() {
        let weights = part(matrix, first + number, row.len())?;
        *sum += row.iter().zip(weights).map(|(value, weight)| value * weight).sum::<f32>();
    }
    Ok(())
}

/// Adds to a matrix, from its row called `first` on, each number of a column times a row.
pub(super) fn add_outer(
    matrix: &mut [f32],
    column: &[f32],
    row: &[f32],
    first: usize,
) -> Result<(), Finding> {
    for (number, value) in column.iter().enumerate() {
        add_times(part_mut(matrix, first + number, row.len())?, row, *value);
    }
    Ok(())
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
