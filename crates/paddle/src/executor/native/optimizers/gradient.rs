//! Gradients: dense, or selected rows.

use std::collections::BTreeMap;
use std::ops::Range;

use bytes::Bytes;
use lodstone_model::{Kind, Tensor};
use lodstone_schema::Finding;
use lodstone_schema::numbers::exact;
use lodstone_schema::places::at;
use lodstone_store::Blob;

use super::number::Number;
use super::{Outcome, Rows, elements};

/// The gradient of a parameter.
pub(super) enum Gradient {
    /// A dense gradient.
    Dense(Bytes),
    /// Selected rows; the others are not updated.
    Rows(Merged),
}

/// Rows with unique indices.
pub(super) struct Merged {
    /// The position of each row in the bytes, by its index.
    places: BTreeMap<usize, usize>,
    bytes: Vec<u8>,
    /// The number of elements of a row, and its size in bytes.
    width: usize,
    size: usize,
}

impl Gradient {
    /// Reads the gradient of a parameter of dims `shape`.
    pub(super) fn of<T: Number>(tensor: &Tensor, shape: &[u64], rows: Rows) -> Outcome<Self> {
        let Kind::SelectedRows { rows: numbers, height } = &tensor.kind else {
            return Ok(Self::Dense(elements::<T>(tensor, "Grad", shape)?));
        };
        if rows == Rows::Rejected {
            return Err("expected a dense `Grad`, found selected rows".into());
        }
        let count = *shape.first().ok_or("expected rows in `Param`, found a scalar")?;
        if u64::try_from(*height) != Ok(count) {
            return Err(
                format!("expected `Grad` of height {count}, as `Param`, found {height}").into()
            );
        }
        let mut own = shape.to_vec();
        own.iter_mut().zip(&tensor.shape).take(1).for_each(|(own, stored)| *own = *stored);
        let values = Tensor::dense(tensor.dtype, tensor.shape.clone(), tensor.data.clone());
        let merged = Merged::of::<T>(&elements::<T>(&values, "Grad", &own)?, numbers, &own, count)?;
        Ok(match rows {
            Rows::Spread => Self::Dense(merged.spread(count)?),
            _ => Self::Rows(merged),
        })
    }
}

impl Merged {
    /// Sums rows with equal indices, in their order.
    fn of<T: Number>(values: &[u8], numbers: &Blob, shape: &[u64], count: u64) -> Outcome<Self> {
        let numbers = numbers.bytes()?;
        let numbers = numbers.as_chunks().0.iter().map(|bytes| i64::from_le_bytes(*bytes));
        let stored = at(shape, 0)?;
        if numbers.len() as u64 != stored {
            return Err(format!("`Grad` has {stored} rows, but {} indices", numbers.len()).into());
        }
        let width = shape.iter().skip(1).product::<u64>();
        let width = usize::try_from(width).map_err(|_| "a row is too large")?;
        let size = width.saturating_mul(size_of::<T>());
        let (mut places, mut bytes) = (BTreeMap::new(), Vec::<u8>::new());
        for (row, number) in values.chunks(size.max(1)).zip(numbers) {
            let place = usize::try_from(number).ok().filter(|place| (*place as u64) < count);
            let number = place.ok_or_else(|| {
                format!("row {number} of `Grad` is out of range of `Param`, which has {count}")
            })?;
            match places.get(&number).and_then(|start: &usize| bytes.get_mut(*start..*start + size))
            {
                Some(sum) => {
                    for (sum, more) in T::chunks_mut(sum).iter_mut().zip(T::all(row)) {
                        *sum = (T::read(*sum) + more).bytes();
                    }
                }
                None => {
                    places.insert(number, bytes.len());
                    bytes.extend_from_slice(row);
                }
            }
        }
        Ok(Self { places, bytes, width, size })
    }

    /// Returns each row, with the range of its elements in the parameter.
    pub(super) fn rows(&self) -> impl Iterator<Item = Outcome<(Range<usize>, &[u8])>> {
        self.places.iter().map(|(number, start)| {
            let first = number.saturating_mul(self.width);
            Ok((first..first + self.width, self.row(*start)?))
        })
    }

    /// Returns the row that begins at an offset.
    fn row(&self, start: usize) -> Outcome<&[u8]> {
        let row = self.bytes.get(start..start + self.size);
        Ok(row.ok_or_else(|| Finding::internal("a row of the gradient does not exist"))?)
    }

    /// Returns a dense gradient of `count` rows.
    fn spread(&self, count: u64) -> Outcome<Bytes> {
        let size = exact::<usize, _>(count)?.checked_mul(self.size);
        let mut all = vec![0; size.ok_or("the gradient is too large")?];
        for (number, start) in &self.places {
            let place = all.get_mut(number * self.size..(number + 1) * self.size);
            let lost = || Finding::internal(format!("the parameter has no row {number}"));
            place.ok_or_else(lost)?.copy_from_slice(self.row(*start)?);
        }
        Ok(all.into())
    }
}
