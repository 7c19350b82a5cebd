//! Sequence operators, on rows grouped by LoD; and their gradients.
//!
//! They compute in float32 in a fixed order, sequence by sequence, so that the result does not depend on the number of
//! threads. Source of truth: PaddlePaddle 1.8.5's and 2.6.2's kernels, and their results.

mod convolve;
mod crf;
mod ctc;
mod decode;
mod distance;
mod expand;
mod labels;
mod pool;
mod softmax;

use std::ops::Range;

use lodstone_engine::bytes_of_singles;
use lodstone_model::{AttributeValue, DType, Lod, Op, Tensor};
use lodstone_schema::Finding;
use lodstone_schema::numbers::exact;
use lodstone_store::Blob;

use super::{Outcome, Run, input};
use crate::executor::frame::Frame;
use crate::executor::layout::{Slot, Step};
use crate::executor::value::rows;

pub(super) const OPERATORS: &[(&str, Run)] = &[
    ("crf_decoding", decode::viterbi),
    ("ctc_align", decode::align),
    ("edit_distance", distance::edits),
    ("linear_chain_crf", crf::likelihood),
    ("linear_chain_crf_grad", crf::gradient),
    ("lod_reset", decode::reset_lod),
    ("sequence_conv", convolve::convolve),
    ("sequence_conv_grad", convolve::gradient),
    ("sequence_expand", expand::expand),
    ("sequence_expand_grad", expand::gradient),
    ("sequence_pool", pool::pool),
    ("sequence_pool_grad", pool::gradient),
    ("sequence_softmax", softmax::softmax),
    ("sequence_softmax_grad", softmax::gradient),
    ("warpctc", ctc::loss),
    ("warpctc_grad", ctc::gradient),
];

/// Rows of floats, grouped into sequences by the last level of their LoD.
pub(super) struct Rows {
    pub(super) values: Vec<f32>,
    pub(super) width: usize,
    pub(super) sequences: Vec<Range<usize>>,
    pub(super) lod: Lod,
    pub(super) shape: Vec<u64>,
}

impl Rows {
    /// Reads the rows of a variable, which must have LoD.
    pub(super) fn of(frame: &Frame<'_>, slot: Slot) -> Outcome<Self> {
        let tensor = frame.tensor(slot)?;
        let last = tensor.lod.0.last().ok_or_else(|| {
            let name = frame.layout.vars.get(slot).map_or("", |var| &var.name);
            format!("`{name}` has no LoD")
        })?;
        let ends = last.iter().zip(last.iter().skip(1));
        let sequences = ends.map(|(start, end)| Ok(exact(*start)?..exact(*end)?));
        let sequences = sequences.collect::<Result<_, Finding>>()?;
        let width = width(tensor)?;
        let values = singles(tensor)?;
        // The kernels rely on this.
        let rows = rows(tensor);
        let is_inside = last.is_sorted() && last.last().is_none_or(|end| *end <= rows);
        if !is_inside || Some(values.len()) != exact::<usize, _>(rows)?.checked_mul(width) {
            let name = frame.layout.vars.get(slot).map_or("", |var| &var.name);
            let shape = &tensor.shape;
            return Err(
                format!("the LoD or the elements of `{name}` do not match {shape:?}").into()
            );
        }
        Ok(Self { values, width, sequences, lod: tensor.lod.clone(), shape: tensor.shape.clone() })
    }

    /// Returns a row.
    pub(super) fn row(&self, number: usize) -> Result<&[f32], Finding> {
        part(&self.values, number, self.width)
    }

    /// Returns the number of rows.
    pub(super) fn count(&self) -> usize {
        self.sequences.iter().map(|sequence| sequence.end).fold(0, usize::max)
    }

    /// Returns the dims, with another number of rows.
    fn dims(&self, rows: usize) -> Vec<u64> {
        let rest = self.shape.iter().skip(1).copied();
        std::iter::once(rows as u64).chain(rest).collect()
    }

    /// Returns a tensor with the same dims and LoD.
    pub(super) fn like(&self, values: Vec<f32>) -> Tensor {
        made(values, self.shape.clone(), self.lod.clone())
    }
}

/// Returns the number of elements of a row.
pub(super) fn width(tensor: &Tensor) -> Result<usize, Finding> {
    exact(tensor.shape.iter().skip(1).product::<u64>())
}

/// Returns the last dim.
pub(super) fn columns(tensor: &Tensor) -> Result<usize, Finding> {
    exact(*tensor.shape.last().ok_or("expected at least one dim, found a scalar")?)
}

/// Returns the elements of a `float32` tensor.
pub(super) fn singles(tensor: &Tensor) -> Outcome<Vec<f32>> {
    if tensor.dtype != DType::Float32 {
        return Err(format!("expected float32, found {}", tensor.dtype).into());
    }
    let bytes = tensor.data.bytes()?;
    let (numbers, _) = bytes.as_chunks::<4>();
    Ok(numbers.iter().map(|four| f32::from_le_bytes(*four)).collect())
}

/// Returns the elements of a tensor of floats in double precision.
pub(super) fn doubles(tensor: &Tensor) -> Outcome<Vec<f64>> {
    let bytes = tensor.data.bytes()?;
    match tensor.dtype {
        DType::Float32 => Ok(singles(tensor)?.into_iter().map(f64::from).collect()),
        DType::Float64 => {
            Ok(bytes.as_chunks().0.iter().map(|eight| f64::from_le_bytes(*eight)).collect())
        }
        other => Err(format!("expected float32 or float64, found {other}").into()),
    }
}

/// Returns the elements of an input slot; fails unless there are `count`.
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
            Err(format!("expected {count} elements in `{slot}`, found {}", values.len()).into())
        }
    }
}

/// Returns zeros, if there is memory for them.
pub(super) fn zeros(frame: &Frame<'_>, count: usize) -> Outcome<Vec<f32>> {
    frame.reserve((count as u64).saturating_mul(4))?;
    Ok(vec![0.0; count])
}

/// Creates a `float32` tensor.
pub(super) fn made(values: Vec<f32>, shape: Vec<u64>, lod: Lod) -> Tensor {
    let bytes = Blob::memory(bytes_of_singles(values));
    let mut tensor = Tensor::dense(DType::Float32, shape, bytes);
    tensor.lod = lod;
    tensor
}

/// Returns a part of values that consist of parts of equal size.
///
/// # Errors
/// An internal error if the part does not exist: callers have checked the number of values.
pub(super) fn part(values: &[f32], number: usize, size: usize) -> Result<&[f32], Finding> {
    let start = number.saturating_mul(size);
    let part = values.get(start..start.saturating_add(size));
    part.ok_or_else(|| {
        Finding::internal(format!("part {number} of {size} elements does not exist"))
    })
}

/// Returns a mutable part of values that consist of parts of equal size.
///
/// # Errors
/// An internal error if the part does not exist.
pub(super) fn part_mut(
    values: &mut [f32],
    number: usize,
    size: usize,
) -> Result<&mut [f32], Finding> {
    let start = number.saturating_mul(size);
    let part = values.get_mut(start..start.saturating_add(size));
    part.ok_or_else(|| {
        Finding::internal(format!("part {number} of {size} elements does not exist"))
    })
}

/// Copies values.
pub(super) fn copy(places: &mut [f32], values: &[f32]) {
    places.iter_mut().zip(values).for_each(|(place, value)| *place = *value);
}

/// Adds values to others.
pub(super) fn add(sums: &mut [f32], values: &[f32]) {
    sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
}

/// Adds values times a factor to others.
pub(super) fn add_times(sums: &mut [f32], values: &[f32], factor: f32) {
    sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += value * factor);
}

/// Adds a row times a matrix that begins at row `first`.
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

/// Adds a row times the transpose of a matrix that begins at row `first`: the gradient of a product with respect to its
/// left factor.
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

/// Adds the outer product of a column and a row to a matrix that begins at row `first`.
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
