//! `sequence_pool`: reduces each sequence to one row.

use lodstone_model::{AttributeValue, DType, Op, Tensor};
use lodstone_schema::Finding;
use lodstone_schema::places::{at, at_mut};
use lodstone_store::Blob;

use super::super::{Outcome, input, output};
use super::{Rows, add, copy, made, numbers, part, part_mut, text, zeros};
use crate::executor::frame::Frame;
use crate::executor::layout::Step;

/// How a sequence is reduced.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Average,
    Sum,
    /// The sum, divided by the square root of the length.
    Root,
    First,
    Last,
    Largest,
}

impl Way {
    fn of(op: &Op) -> Outcome<Self> {
        Ok(match text(op, "pooltype").as_str() {
            "AVERAGE" => Self::Average,
            "SUM" => Self::Sum,
            "SQRT" => Self::Root,
            "FIRST" => Self::First,
            "LAST" => Self::Last,
            "MAX" => Self::Largest,
            other => return Err(format!("unknown `pooltype` `{other}`").into()),
        })
    }

    /// Returns the divisor of a sum of `count` rows.
    #[expect(clippy::cast_precision_loss, reason = "as the kernel divides")]
    fn divisor(self, count: usize) -> f32 {
        match self {
            Self::Average => count as f32,
            Self::Root => (count as f32).sqrt(),
            _ => 1.0,
        }
    }
}

/// Returns, for each sequence and each element of a row, the row with the maximum, the first of equal ones; -1 for
/// sequences without rows.
fn largest(rows: &Rows) -> Outcome<Vec<i32>> {
    let mut places = Vec::with_capacity(rows.sequences.len() * rows.width);
    for sequence in &rows.sequences {
        for column in 0..rows.width {
            let mut best: Option<(usize, f32)> = None;
            for row in sequence.clone() {
                let value = at(rows.row(row)?, column)?;
                if best.is_none_or(|(_, largest)| value > largest) {
                    best = Some((row, value));
                }
            }
            let place = best.map_or(Ok(-1), |(row, _)| i32::try_from(row));
            places.push(place.map_err(|_| "there are too many rows")?);
        }
    }
    Ok(places)
}

/// One row for each sequence; the LoD has one level less.
pub(super) fn pool(frame: &mut Frame<'_>, step: &Step, op: &Op) -> Outcome {
    let rows = Rows::of(frame, input(step, "X")?)?;
    let empty = match op.attribute("pad_value") {
        Some(AttributeValue::Float(value)) => *value,
        _ => 0.0,
    };
    let (way, count) = (Way::of(op)?, rows.sequences.len());
    let mut values = zeros(frame, count.saturating_mul(rows.width))?;
    let places = if way == Way::Largest { largest(&rows)? } else { Vec::new() };
    for (number, sequence) in rows.sequences.iter().enumerate() {
        let made = part_mut(&mut values, number, rows.width)?;
        match way {
            _ if sequence.is_empty() => made.fill(empty),
            Way::Average | Way::Sum | Way::Root => {
                for row in sequence.clone() {
                    add(made, rows.row(row)?);
                }
                made.iter_mut().for_each(|sum| *sum /= way.divisor(sequence.len()));
            }
            Way::First => copy(made, rows.row(sequence.start)?),
            Way::Last => copy(made, rows.row(sequence.end - 1)?),
            Way::Largest => {
                let places = places.iter().skip(number * rows.width);
                for (column, (made, place)) in made.iter_mut().zip(places).enumerate() {
                    let row = usize::try_from(*place);
                    let row = row
                        .map_err(|_| Finding::internal("a sequence has no row with the maximum"))?;
                    *made = at(rows.row(row)?, column)?;
                }
            }
        }
    }
    let mut lod = rows.lod.clone();
    lod.0.pop();
    frame.make(output(step, "Out")?, made(values, rows.dims(count), lod))?;
    if let Ok(slot) = output(step, "MaxIndex")
        && way == Way::Largest
    {
        let bytes: Vec<u8> = places.iter().flat_map(|place| place.to_le_bytes()).collect();
        let shape = rows.dims(count);
        frame.make(slot, Tensor::dense(DType::Int32, shape, Blob::memory(bytes)))?;
    }
    Ok(())
}

/// Returns the rows of the maxima that the forward operator recorded, or computes them.
fn maxima(frame: &Frame<'_>, step: &Step, rows: &Rows) -> Outcome<Vec<i32>> {
    let Ok(slot) = input(step, "MaxIndex") else { return largest(rows) };
    let tensor = frame.tensor(slot)?;
    let bytes = tensor.data.bytes()?;
    let places: Vec<i32> =
        bytes.as_chunks().0.iter().map(|four| i32::from_le_bytes(*four)).collect();
    match tensor.dtype == DType::Int32 && places.len() == rows.sequences.len() * rows.width {
        true => Ok(places),
        false => {
            let (dtype, shape) = (tensor.dtype, &tensor.shape);
            Err(format!("expected a row for each result as `MaxIndex`, found {dtype}{shape:?}")
                .into())
        }
    }
}

/// Distributes the gradient of a result to the rows of its sequence.
pub(super) fn gradient(frame: &mut Frame<'_>, step: &Step, op: &Op) -> Outcome {
    let rows = Rows::of(frame, input(step, "X")?)?;
    let (way, count) = (Way::of(op)?, rows.sequences.len());
    let given = numbers(frame, step, "Out@GRAD", count.saturating_mul(rows.width))?;
    let places = if way == Way::Largest { maxima(frame, step, &rows)? } else { Vec::new() };
    let mut values = zeros(frame, rows.values.len())?;
    for (number, sequence) in rows.sequences.iter().enumerate() {
        let given = part(&given, number, rows.width)?;
        match way {
            _ if sequence.is_empty() => {}
            Way::Average | Way::Sum | Way::Root => {
                let divisor = way.divisor(sequence.len());
                let share: Vec<f32> = given.iter().map(|value| value / divisor).collect();
                for row in sequence.clone() {
                    copy(part_mut(&mut values, row, rows.width)?, &share);
                }
            }
            Way::First => copy(part_mut(&mut values, sequence.start, rows.width)?, given),
            Way::Last => copy(part_mut(&mut values, sequence.end - 1, rows.width)?, given),
            Way::Largest => {
                let places = places.iter().skip(number * rows.width);
                for (column, (given, place)) in given.iter().zip(places).enumerate() {
                    let row = usize::try_from(*place).ok().filter(|row| sequence.contains(row));
                    let row = row.ok_or_else(|| {
                        format!("expected a row of sequence {number} as `MaxIndex`, found {place}")
                    })?;
                    *at_mut(&mut values, row * rows.width + column)? = *given;
                }
            }
        }
    }
    Ok(frame.make(output(step, "X@GRAD")?, rows.like(values))?)
}
