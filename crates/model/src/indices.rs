//! Indices of sparse tensors, and their validation.
//!
//! Opening a file does not read them. The code that passes a tensor on checks them: the writer, the conversion, a hash
//! of everything.

use lodstone_store::{Blob, Result};

use crate::{DType, Indices, Kind, Tensor};

impl Indices {
    /// Returns the number of indices.
    pub fn count(&self) -> u64 {
        self.data.len() / self.size()
    }

    /// Returns the indices as `int64`.
    ///
    /// # Errors
    /// Fails if reading fails.
    pub fn widened(&self) -> Result<Blob> {
        if self.dtype == DType::Int64 {
            return Ok(self.data.clone());
        }
        let mut wide = Vec::new();
        self.for_each(|number| wide.extend(number.to_le_bytes()))?;
        Ok(Blob::memory(wide))
    }

    /// Calls `each` for every index in order.
    ///
    /// # Errors
    /// Fails if reading fails.
    pub fn for_each(&self, mut each: impl FnMut(i64)) -> Result<()> {
        // Chunks hold whole integers: their size is a multiple of eight.
        self.data.for_each_chunk(|piece| {
            if self.size() == 4 {
                piece.as_chunks().0.iter().for_each(|n| each(i32::from_le_bytes(*n).into()));
            } else {
                piece.as_chunks().0.iter().for_each(|n| each(i64::from_le_bytes(*n)));
            }
            Ok(())
        })
    }

    fn size(&self) -> u64 {
        if self.dtype == DType::Int32 { 4 } else { 8 }
    }
}

impl Tensor {
    /// Reads the indices of a row-sparse, CSR or COO tensor, and describes the first rule that they violate.
    ///
    /// Frameworks do not check these indices and may access memory out of bounds. Opening a model does not read
    /// them either, so code that passes a tensor on must call this method.
    ///
    /// # Errors
    /// Fails if reading fails.
    pub fn broken_indices(&self) -> Result<Option<String>> {
        match &self.kind {
            Kind::RowSparse { indices } => {
                let rows = self.shape.first().copied().unwrap_or(0);
                row_error(indices, rows)
            }
            Kind::Csr { indptr, indices } => {
                let [rows, columns] = *self.shape.as_slice() else {
                    return Ok(Some(format!("a CSR tensor of shape {:?}", self.shape)));
                };
                match offset_error(indptr, rows, indices.count())? {
                    None => column_error(indices, columns),
                    broken => Ok(broken),
                }
            }
            Kind::Coo { indices, linear } => position_error(indices, *linear, &self.shape),
            _ => Ok(None),
        }
    }
}

/// Checks that COO indices ascend strictly in row-major order and are in bounds.
fn position_error(indices: &Indices, linear: bool, shape: &[u64]) -> Result<Option<String>> {
    let size = shape.iter().try_fold(1u64, |size, dim| size.checked_mul(*dim));
    let Some(size) = size.and_then(|size| i64::try_from(size).ok()) else {
        return Ok(Some(format!("a tensor of shape {shape:?}")));
    };
    let dim = |dim: &u64| i64::try_from(*dim).unwrap_or(i64::MAX);
    let dims = if linear { vec![size] } else { shape.iter().map(dim).collect() };
    if dims.is_empty() && indices.count() > 0 {
        return Ok(Some(format!("{} indices in a scalar", indices.count())));
    }
    let (mut broken, mut count, mut least) = (None, 0usize, 0i64);
    let mut position = 0i64;
    indices.for_each(|index| {
        let axis = count.checked_rem(dims.len()).unwrap_or(0);
        let dim = dims.get(axis).copied().unwrap_or(0);
        count += 1;
        if broken.is_none() && !(0..dim).contains(&index) {
            broken = Some(format!("index {} is {index}, expected 0 to {dim} - 1", count - 1));
        }
        position = position.saturating_mul(dim).saturating_add(index);
        if axis + 1 == dims.len() {
            if broken.is_none() && position < least {
                broken = Some(format!("index {} does not ascend", count - 1));
            }
            (least, position) = (position.saturating_add(1), 0);
        }
    })?;
    Ok(broken)
}

/// Checks that row indices are strictly increasing and less than `rows`.
fn row_error(indices: &Indices, rows: u64) -> Result<Option<String>> {
    let (mut broken, mut position, mut least) = (None, 0u64, 0i64);
    indices.for_each(|row| {
        if broken.is_none() && (row < least || u64::try_from(row).is_ok_and(|row| row >= rows)) {
            broken = Some(format!("row index {position} is {row}, expected {least} to {rows} - 1"));
        }
        (position, least) = (position + 1, row.saturating_add(1));
    })?;
    Ok(broken)
}

/// Checks that row offsets ascend from 0 to the number of stored elements.
fn offset_error(indptr: &Indices, rows: u64, stored: u64) -> Result<Option<String>> {
    if indptr.count() == 0 && stored == 0 {
        return Ok(None);
    }
    if Some(indptr.count()) != rows.checked_add(1) {
        return Ok(Some(format!("{} offsets for {rows} rows", indptr.count())));
    }
    let (mut broken, mut position, mut last) = (None, 0u64, 0i64);
    indptr.for_each(|offset| {
        if broken.is_none() && (offset < last || (position == 0 && offset != 0)) {
            broken = Some(format!("offset {position} is {offset}, after {last}"));
        }
        (position, last) = (position + 1, offset);
    })?;
    let end = u64::try_from(last) == Ok(stored);
    Ok(broken.or_else(|| (!end).then(|| format!("the offsets end at {last}, expected {stored}"))))
}

/// Checks that column indices are less than `columns`.
fn column_error(indices: &Indices, columns: u64) -> Result<Option<String>> {
    let (mut broken, mut position) = (None, 0u64);
    indices.for_each(|column| {
        if broken.is_none() && !u64::try_from(column).is_ok_and(|column| column < columns) {
            broken =
                Some(format!("column index {position} is {column}, expected 0 to {columns} - 1"));
        }
        position += 1;
    })?;
    Ok(broken)
}
