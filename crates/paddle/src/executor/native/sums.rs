//! Sums of values of any kind: tensors with all their elements, some rows of such, and arrays of them.
//!
//! Rows of one number are added up where there are several; where a tensor with all its elements is among them, they
//! are added to that. An array has the sum of all members that are there at each place.

use std::collections::BTreeMap;

use lodstone_model::{DType, Kind, Op, Tensor};
use lodstone_schema::Finding;
use lodstone_store::Blob;

use super::{Outcome, Run, output};
use crate::executor::frame::Frame;
use crate::executor::layout::Step;
use crate::executor::value::Value;

pub(super) const OPERATORS: &[(&str, Run)] = &[("sum", sum)];

/// Adds up all that it reads and that is there.
fn sum(frame: &mut Frame<'_>, step: &Step, _: &Op) -> Outcome {
    let slots = step.inputs("X").iter().copied().flatten();
    let values: Vec<&Value> = slots.map(|slot| frame.value(slot)).collect::<Result<_, _>>()?;
    let made = total(frame, &values)?;
    frame.set(output(step, "Out")?, made)?;
    Ok(())
}

/// The sum of values.
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
    let length = arrays.iter().map(|array| array.len()).max().unwrap_or(0);
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
        ([], _) => return Err("there is nothing to add up".into()),
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
                return Err(format!("expected the extents {wanted:?}, found {found:?}").into());
            }
            _ => {
                let rows = SomeRows::of(tensor)?;
                if rows.whole() != first.shape {
                    let (wanted, found) = (&first.shape, rows.whole());
                    return Err(format!("expected rows of {wanted:?}, found of {found:?}").into());
                }
                for row in rows.each() {
                    let (number, row) = row?;
                    let start = number.saturating_mul(row.len());
                    let sum = sums.get_mut(start..start.saturating_add(row.len()));
                    let lost = || Finding::internal(format!("there is no row {number}"));
                    add(first.dtype, sum.ok_or_else(lost)?, row)?;
                }
            }
        }
    }
    let mut made = Tensor::dense(first.dtype, first.shape.clone(), Blob::memory(sums));
    made.lod = first.lod.clone();
    Ok(frame.charged(made)?)
}

/// Adds numbers to others of their type.
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

/// Some rows of a tensor, with their numbers.
pub(super) struct SomeRows<'t> {
    tensor: &'t Tensor,
    pub(super) numbers: Vec<usize>,
    height: usize,
    bytes: bytes::Bytes,
    /// How many bytes a row has.
    size: usize,
}

impl<'t> SomeRows<'t> {
    pub(super) fn of(tensor: &'t Tensor) -> Outcome<Self> {
        let Kind::SelectedRows { rows, height } = &tensor.kind else {
            return Err(format!("expected rows of a tensor, found {}", tensor.kind.name()).into());
        };
        let height = usize::try_from(*height).map_err(|_| "its height is below 0")?;
        let rows = rows.bytes()?;
        let number = |bytes: &[u8; 8]| {
            let number = i64::from_le_bytes(*bytes);
            let place = usize::try_from(number).ok().filter(|number| *number < height);
            place.ok_or_else(|| format!("it has a row {number} of {height}"))
        };
        let numbers = rows.as_chunks().0.iter().map(number).collect::<Result<Vec<_>, _>>()?;
        let bytes = tensor.data.bytes()?;
        let size = bytes.len().checked_div(numbers.len()).unwrap_or(0);
        if tensor.dtype.size_of(&tensor.shape) != Some(bytes.len() as u64) {
            let (count, shape) = (bytes.len(), &tensor.shape);
            return Err(format!("{count} bytes are not those of {shape:?}").into());
        }
        match tensor.shape.first() == Some(&(numbers.len() as u64)) {
            true => Ok(Self { tensor, numbers, height, bytes, size }),
            false => {
                let (count, shape) = (numbers.len(), &tensor.shape);
                Err(format!("it has numbers of {count} rows, and the extents {shape:?}").into())
            }
        }
    }

    /// The extents of the tensor that they are of.
    fn whole(&self) -> Vec<u64> {
        let rest = self.tensor.shape.iter().skip(1).copied();
        std::iter::once(self.height as u64).chain(rest).collect()
    }

    /// Each row with its number.
    fn each(&self) -> impl Iterator<Item = Outcome<(usize, &[u8])>> {
        let numbers = self.numbers.iter().enumerate();
        numbers.map(|(place, number)| {
            let row = self.bytes.get(place * self.size..(place + 1) * self.size);
            let lost = || Finding::internal(format!("there is no row {place}"));
            Ok((*number, row.ok_or_else(lost)?))
        })
    }
}

/// Rows of one tensor, each number once: in their order if they are that already, and ascending otherwise.
pub(super) fn merged(frame: &Frame<'_>, tensors: &[&Tensor]) -> Outcome<Tensor> {
    let all = tensors.iter().map(|tensor| SomeRows::of(tensor)).collect::<Outcome<Vec<_>>>()?;
    let first = all.first().ok_or("there is nothing to add up")?;
    let dtype = first.tensor.dtype;
    frame.reserve(all.iter().map(|rows| rows.bytes.len() as u64).fold(0, u64::saturating_add))?;
    let mut places: BTreeMap<usize, usize> = BTreeMap::new();
    let mut made: Vec<(usize, Vec<u8>)> = Vec::new();
    for rows in &all {
        if (rows.tensor.dtype, rows.whole()) != (dtype, first.whole()) {
            let (wanted, found) = (first.whole(), rows.whole());
            return Err(format!("expected rows of {wanted:?}, found of {found:?}").into());
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
    let height = i64::try_from(first.height).map_err(|_| "its height is too large")?;
    made.kind = Kind::SelectedRows { rows: Blob::memory(rows), height };
    Ok(frame.charged(made)?)
}

/// As many zeros as a tensor has elements.
pub(super) fn zeros_like(tensor: &Tensor) -> Outcome<Tensor> {
    let size = tensor.dtype.size_of(&tensor.shape).and_then(|size| usize::try_from(size).ok());
    let zeros = vec![0; size.ok_or("it is too large")?];
    let mut made = Tensor::dense(tensor.dtype, tensor.shape.clone(), Blob::memory(zeros));
    made.lod = tensor.lod.clone();
    Ok(made)
}

/// Zeros in the place of a value.
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
