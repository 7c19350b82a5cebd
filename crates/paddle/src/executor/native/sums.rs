//! Sums of values of any kind: dense tensors, selected rows, and arrays of them.
//!
//! Rows with equal indices are summed; if there is a dense tensor among the values, rows are added to it. Arrays are
//! summed member by member, over those that are present.

use std::collections::BTreeMap;

use lodstone_model::{DType, Kind, Op, Tensor};
use lodstone_schema::Finding;
use lodstone_store::Blob;

use super::{Outcome, Run, output};
use crate::executor::frame::Frame;
use crate::executor::layout::Step;
use crate::executor::value::Value;

pub(super) const OPERATORS: &[(&str, Run)] = &[("sum", sum)];

/// Sums all inputs that have a value.
fn sum(frame: &mut Frame<'_>, step: &Step, _: &Op) -> Outcome {
    let slots = step.inputs("X").iter().copied().flatten();
    let values: Vec<&Value> = slots.map(|slot| frame.value(slot)).collect::<Result<_, _>>()?;
    let made = total(frame, &values)?;
    frame.set(output(step, "Out")?, made)?;
    Ok(())
}

/// Returns the sum of values.
pub(super) fn total(frame: &Frame<'_>, values: &[&Value]) -> Outcome<Value> {
    let arrays = values.iter().map(|value| match value {
        Value::Array(array) => Some(array),
        _ => None,
    });
    let arrays: Option<Vec<&Vec<Option<Tensor>>>> = arrays.collect();
    let Some(arrays) = arrays.filter(|arrays| !arrays.is_empty()) else {
        let tensors = values.iter().map(|value| value.tensor());
        return Ok(Value::Tensor(of_tensors(frame, &tensors.collect::<Result<Vec<_>, _>>()?)?));
    };
    let length = arrays.iter().map(|array| array.len()).fold(0, usize::max);
    let member = |place: usize| {
        let members: Vec<&Tensor> =
            arrays.iter().filter_map(|array| array.get(place)?.as_ref()).collect();
        (!members.is_empty()).then(|| of_tensors(frame, &members)).transpose()
    };
    Ok(Value::Array((0..length).map(member).collect::<Outcome<_>>()?))
}

fn of_tensors(frame: &Frame<'_>, tensors: &[&Tensor]) -> Outcome<Tensor> {
    let is_dense = |tensor: &&&Tensor| matches!(tensor.kind, Kind::Dense);
    let first = match (tensors, tensors.iter().find(is_dense)) {
        ([], _) => return Err("expected at least one value to sum".into()),
        ([one], _) => return Ok((*one).clone()),
        (_, Some(dense)) => *dense,
        _ => return merged(frame, tensors),
    };
    let bytes = first.data.bytes()?;
    frame.reserve(bytes.len() as u64)?;
    let mut sums = bytes.to_vec();
    for tensor in tensors.iter().filter(|tensor| !std::ptr::eq(**tensor, first)) {
        if tensor.dtype != first.dtype {
            return Err(format!("expected {}, found {}", first.dtype, tensor.dtype).into());
        }
        match &tensor.kind {
            Kind::Dense if tensor.shape == first.shape => {
                let bytes = tensor.data.bytes()?;
                add(first.dtype, &mut sums, &bytes)?;
            }
            Kind::Dense => {
                let (wanted, found) = (&first.shape, &tensor.shape);
                return Err(format!("expected dims {wanted:?}, found {found:?}").into());
            }
            _ => {
                let rows = SomeRows::of(tensor)?;
                if rows.whole() != first.shape {
                    let (wanted, found) = (&first.shape, rows.whole());
                    return Err(
                        format!("expected rows of {wanted:?}, found rows of {found:?}").into()
                    );
                }
                for row in rows.each() {
                    let (number, row) = row?;
                    let start = number.saturating_mul(row.len());
                    let sum = sums.get_mut(start..start.saturating_add(row.len()));
                    let lost = || Finding::internal(format!("row {number} does not exist"));
                    add(first.dtype, sum.ok_or_else(lost)?, row)?;
                }
            }
        }
    }
    let mut made = Tensor::dense(first.dtype, first.shape.clone(), Blob::memory(sums));
    made.lod = first.lod.clone();
    Ok(frame.charged(made)?)
}

/// Adds values to others of the same type.
fn add(dtype: DType, sums: &mut [u8], values: &[u8]) -> Outcome {
    macro_rules! add {
        ($type:ty) => {
            for (sum, value) in sums.as_chunks_mut().0.iter_mut().zip(values.as_chunks().0) {
                *sum =
                    (<$type>::from_le_bytes(*sum) + <$type>::from_le_bytes(*value)).to_le_bytes();
            }
        };
    }
    match dtype {
        DType::Float32 => add!(f32),
        DType::Float64 => add!(f64),
        other => return Err(format!("expected float32 or float64, found {other}").into()),
    }
    Ok(())
}

/// Selected rows of a tensor, with their indices.
pub(super) struct SomeRows<'t> {
    tensor: &'t Tensor,
    pub(super) numbers: Vec<usize>,
    height: usize,
    bytes: bytes::Bytes,
    /// The size of a row in bytes.
    size: usize,
}

impl<'t> SomeRows<'t> {
    pub(super) fn of(tensor: &'t Tensor) -> Outcome<Self> {
        let Kind::SelectedRows { rows, height } = &tensor.kind else {
            return Err(format!("expected selected rows, found {}", tensor.kind.name()).into());
        };
        let height = usize::try_from(*height).map_err(|_| "the height is negative")?;
        let rows = rows.bytes()?;
        let number = |bytes: &[u8; 8]| {
            let number = i64::from_le_bytes(*bytes);
            let place = usize::try_from(number).ok().filter(|number| *number < height);
            place.ok_or_else(|| format!("row {number} is out of range of height {height}"))
        };
        let numbers = rows.as_chunks().0.iter().map(number).collect::<Result<Vec<_>, _>>()?;
        let bytes = tensor.data.bytes()?;
        let size = bytes.len() / numbers.len().max(1);
        if tensor.dtype.size_of(&tensor.shape) != Some(bytes.len() as u64) {
            let (count, shape) = (bytes.len(), &tensor.shape);
            return Err(format!("{count} bytes do not match the dims {shape:?}").into());
        }
        match tensor.shape.first() == Some(&(numbers.len() as u64)) {
            true => Ok(Self { tensor, numbers, height, bytes, size }),
            false => {
                let (count, shape) = (numbers.len(), &tensor.shape);
                Err(format!("{count} indices do not match the dims {shape:?}").into())
            }
        }
    }

    /// Returns the dims of the whole tensor.
    fn whole(&self) -> Vec<u64> {
        let rest = self.tensor.shape.iter().skip(1).copied();
        std::iter::once(self.height as u64).chain(rest).collect()
    }

    /// Returns each row with its index.
    fn each(&self) -> impl Iterator<Item = Outcome<(usize, &[u8])>> {
        let numbers = self.numbers.iter().enumerate();
        numbers.map(|(place, number)| {
            let row = self.bytes.get(place * self.size..(place + 1) * self.size);
            let lost = || Finding::internal(format!("row {place} does not exist"));
            Ok((*number, row.ok_or_else(lost)?))
        })
    }
}

/// Merges rows with equal indices: in their order if indices are already unique, else ascending.
pub(super) fn merged(frame: &Frame<'_>, tensors: &[&Tensor]) -> Outcome<Tensor> {
    let all = tensors.iter().map(|tensor| SomeRows::of(tensor)).collect::<Outcome<Vec<_>>>()?;
    let first = all.first().ok_or("expected at least one value to sum")?;
    let dtype = first.tensor.dtype;
    frame.reserve(all.iter().map(|rows| rows.bytes.len() as u64).fold(0, u64::saturating_add))?;
    let mut places: BTreeMap<usize, usize> = BTreeMap::new();
    let mut made: Vec<(usize, Vec<u8>)> = Vec::new();
    for rows in &all {
        if (rows.tensor.dtype, rows.whole()) != (dtype, first.whole()) {
            let (wanted, found) = (first.whole(), rows.whole());
            return Err(format!("expected rows of {wanted:?}, found rows of {found:?}").into());
        }
        for row in rows.each() {
            let (number, row) = row?;
            match places.get(&number).and_then(|place| made.get_mut(*place)) {
                Some((_, sum)) => add(dtype, sum, row)?,
                None => {
                    places.insert(number, made.len());
                    made.push((number, row.to_vec()));
                }
            }
        }
    }
    if made.len() < all.iter().map(|rows| rows.numbers.len()).sum() {
        made.sort_unstable_by_key(|(number, _)| *number);
    }
    let rows: Vec<u8> = made.iter().flat_map(|(row, _)| (*row as u64).to_le_bytes()).collect();
    let rest = first.tensor.shape.iter().skip(1).copied();
    let shape = std::iter::once(made.len() as u64).chain(rest).collect();
    let bytes: Vec<u8> = made.into_iter().flat_map(|(_, row)| row).collect();
    let mut made = Tensor::dense(dtype, shape, Blob::memory(bytes));
    let height = i64::try_from(first.height).map_err(|_| "the height is too large")?;
    made.kind = Kind::SelectedRows { rows: Blob::memory(rows), height };
    Ok(frame.charged(made)?)
}

/// Returns zeros with the dims of a tensor.
pub(super) fn zeros_like(tensor: &Tensor) -> Outcome<Tensor> {
    let size = tensor.dtype.size_of(&tensor.shape).and_then(|size| usize::try_from(size).ok());
    let zeros = vec![0; size.ok_or("the tensor is too large")?];
    let mut made = Tensor::dense(tensor.dtype, tensor.shape.clone(), Blob::memory(zeros));
    made.lod = tensor.lod.clone();
    Ok(made)
}

/// Returns zeros with the structure of a value.
pub(super) fn zeros_like_value(frame: &Frame<'_>, value: &Value) -> Outcome<Value> {
    let zeros = |tensor: &Tensor| -> Outcome<Tensor> {
        frame.reserve(tensor.nbytes())?;
        Ok(frame.charged(zeros_like(tensor)?)?)
    };
    Ok(match value {
        Value::Tensor(tensor) => Value::Tensor(zeros(tensor)?),
        Value::Array(array) => {
            let members = array.iter().map(|member| member.as_ref().map(zeros).transpose());
            Value::Array(members.collect::<Outcome<_>>()?)
        }
        other => return Err(format!("expected tensors, found {}", other.kind()).into()),
    })
}
