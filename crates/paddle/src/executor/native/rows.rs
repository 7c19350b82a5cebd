//! Selected rows: the gradients of embedding tables, and operators on them before parameters are updated.
//!
//! Operators that process each row once first sum the rows with equal indices.

use lodstone_model::{AttributeValue, DType, Kind, Op, Tensor};
use lodstone_schema::paddle::attribute;
use lodstone_store::Blob;

use super::sums::{SomeRows, merged};
use super::{Outcome, Run, input, output};
use crate::executor::frame::Frame;
use crate::executor::layout::Step;

pub(super) const OPERATORS: &[(&str, Run)] = &[
    ("clip", clip),
    ("clip_by_norm", clip_by_norm),
    ("elementwise_mul", multiply),
    ("get_tensor_from_selected_rows", stored),
    ("lookup_table_grad", looked_up),
    ("lookup_table_v2_grad", looked_up),
    ("merge_selected_rows", |frame, step, _| put(frame, step, |_, rows| Ok(rows), true)),
    ("scale", scale),
];

/// The gradient has a row for each looked-up index, in order. (PaddlePaddle omits `padding_idx` only in dense
/// gradients.)
fn looked_up(frame: &mut Frame<'_>, step: &Step, _: &Op) -> Outcome {
    let (table, ids) = (frame.tensor(input(step, "W")?)?, frame.tensor(input(step, "Ids")?)?);
    let given = frame.tensor(input(step, "Out@GRAD")?)?;
    let [height, width] = *table.shape.as_slice() else {
        return Err(format!("expected a table of rank 2, found {:?}", table.shape).into());
    };
    let numbers = numbers(ids)?;
    let shape = vec![numbers.len() as u64, width];
    let is_dense = matches!(given.kind, Kind::Dense) && given.dtype == table.dtype;
    if !is_dense || table.dtype.size_of(&shape) != Some(given.nbytes()) {
        let (wanted, found) = (table.dtype, given.dtype);
        let found = format!("{found}{:?}", given.shape);
        return Err(format!("expected {wanted}{shape:?} as `Out@GRAD`, found {found}").into());
    }
    let height = i64::try_from(height).map_err(|_| "the table is too large")?;
    if let Some(number) = numbers.iter().find(|number| !(0..height).contains(*number)) {
        return Err(format!("row {number} is out of range of a table of {height} rows").into());
    }
    frame.reserve((numbers.len() as u64).saturating_mul(8))?;
    let rows: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    let mut made = Tensor::dense(table.dtype, shape, given.data.clone());
    made.kind = Kind::SelectedRows { rows: Blob::memory(rows), height };
    Ok(frame.make(output(step, "W@GRAD")?, made)?)
}

/// Reads integers of any width.
fn numbers(tensor: &Tensor) -> Outcome<Vec<i64>> {
    let bytes = tensor.data.bytes()?;
    match (tensor.dtype, &tensor.kind) {
        (DType::Int64, Kind::Dense) => {
            Ok(bytes.as_chunks().0.iter().map(|bytes| i64::from_le_bytes(*bytes)).collect())
        }
        (DType::Int32, Kind::Dense) => {
            Ok(bytes.as_chunks().0.iter().map(|bytes| i32::from_le_bytes(*bytes).into()).collect())
        }
        (dtype, _) => Err(format!("expected integer indices, found {dtype}").into()),
    }
}

/// Returns the values of the rows as a dense tensor.
fn stored(frame: &mut Frame<'_>, step: &Step, _: &Op) -> Outcome {
    let tensor = frame.tensor(input(step, "X")?)?;
    SomeRows::of(tensor)?;
    let made = Tensor::dense(tensor.dtype, tensor.shape.clone(), tensor.data.clone());
    Ok(frame.make(output(step, "Out")?, made)?)
}

/// Writes rows, with equal indices summed first if `merges`.
fn put(
    frame: &mut Frame<'_>,
    step: &Step,
    of: impl FnOnce(&Frame<'_>, Tensor) -> Outcome<Tensor>,
    merges: bool,
) -> Outcome {
    let tensor = frame.tensor(input(step, "X")?)?;
    let rows = SomeRows::of(tensor)?;
    frame.reserve(tensor.nbytes().saturating_add(rows.numbers.len() as u64 * 8))?;
    let rows = if merges { merged(frame, &[tensor])? } else { tensor.clone() };
    let made = of(frame, rows)?;
    Ok(frame.make(output(step, "Out")?, made)?)
}

/// Applies a function to each value of the rows.
fn each(mut rows: Tensor, of: impl Fn(f64) -> f64) -> Outcome<Tensor> {
    let bytes = rows.data.bytes()?;
    #[expect(
        clippy::cast_possible_truncation,
        reason = "rounding to the original type is intended"
    )]
    let single = |bytes: &[u8; 4]| (of(f32::from_le_bytes(*bytes).into()) as f32).to_le_bytes();
    let double = |bytes: &[u8; 8]| of(f64::from_le_bytes(*bytes)).to_le_bytes();
    let made: Vec<u8> = match rows.dtype {
        DType::Float32 => bytes.as_chunks().0.iter().flat_map(single).collect(),
        DType::Float64 => bytes.as_chunks().0.iter().flat_map(double).collect(),
        other => return Err(format!("expected float32 or float64, found {other}").into()),
    };
    rows.data = Blob::memory(made);
    Ok(rows)
}

fn float(op: &Op, name: &str) -> Outcome<f64> {
    match attribute(op, name) {
        Some(AttributeValue::Float(value)) => Ok(f64::from(*value)),
        _ => Err(format!("expected a number as `{name}`").into()),
    }
}

/// Returns the number in a variable of one element, if the slot has a variable.
fn one(frame: &Frame<'_>, step: &Step, slot: &str) -> Outcome<Option<f64>> {
    let Ok(variable) = input(step, slot) else { return Ok(None) };
    let tensor = frame.tensor(variable)?;
    let bytes = tensor.data.bytes()?;
    let number = match (tensor.dtype, &*bytes) {
        (DType::Float32, &[a, b, c, d]) => Some(f32::from_le_bytes([a, b, c, d]).into()),
        (DType::Float64, bytes) => bytes.try_into().ok().map(f64::from_le_bytes),
        _ => None,
    };
    let (dtype, shape) = (tensor.dtype, &tensor.shape);
    let number = number
        .ok_or_else(|| format!("expected a single number as `{slot}`, found {dtype}{shape:?}"))?;
    Ok(Some(number))
}

fn clip(frame: &mut Frame<'_>, step: &Step, op: &Op) -> Outcome {
    let least = one(frame, step, "Min")?.map_or_else(|| float(op, "min"), Ok)?;
    let most = one(frame, step, "Max")?.map_or_else(|| float(op, "max"), Ok)?;
    put(frame, step, |_, rows| each(rows, |value| value.max(least).min(most)), true)
}

fn clip_by_norm(frame: &mut Frame<'_>, step: &Step, op: &Op) -> Outcome {
    let most = float(op, "max_norm")?;
    let clipped = |_: &Frame<'_>, rows: Tensor| {
        let bytes = rows.data.bytes()?;
        let norm = match rows.dtype {
            DType::Float32 => {
                let numbers = bytes.as_chunks().0.iter().map(|it| f32::from_le_bytes(*it));
                numbers.map(|value| f64::from(value).powi(2)).sum::<f64>().sqrt()
            }
            _ => {
                let numbers = bytes.as_chunks().0.iter().map(|it| f64::from_le_bytes(*it));
                numbers.map(|value| value.powi(2)).sum::<f64>().sqrt()
            }
        };
        each(rows, |value| if norm > most { value * (most / norm) } else { value })
    };
    put(frame, step, clipped, true)
}

/// Multiplies rows by a number.
fn multiply(frame: &mut Frame<'_>, step: &Step, _: &Op) -> Outcome {
    let factor = one(frame, step, "Y")?.ok_or("input `Y` is missing")?;
    put(frame, step, |_, rows| each(rows, |value| value * factor), false)
}

fn scale(frame: &mut Frame<'_>, step: &Step, op: &Op) -> Outcome {
    let factor = one(frame, step, "ScaleTensor")?.map_or_else(|| float(op, "scale"), Ok)?;
    let bias = float(op, "bias")?;
    let after = matches!(attribute(op, "bias_after_scale"), Some(AttributeValue::Bool(true)));
    let of = |value: f64| if after { value * factor + bias } else { (value + bias) * factor };
    put(frame, step, |_, rows| each(rows, of), false)
}
