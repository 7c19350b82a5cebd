//! Where the elements of sparse tensors belong, and whether they can.

use lodstone_store::{Blob, Result};

use crate::{DType, Indices, Kind, Tensor};

impl Indices {
    /// How many numbers there are.
    pub fn count(&self) -> u64 {
        self.data.len() / self.size()
    }

    /// The numbers as `int64`.
    ///
    /// # Errors
    /// What reading gives.
    pub fn widened(&self) -> Result<Blob> {
        if self.dtype == DType::Int64 {
            return Ok(self.data.clone());
        }
        let mut wide = Vec::new();
        self.for_each(|number| wide.extend(number.to_le_bytes()))?;
        Ok(Blob::memory(wide))
    }

    /// Calls `each` with every number in order.
    ///
    /// # Errors
    /// What reading gives.
    pub fn for_each(&self, mut each: impl FnMut(i64)) -> Result<()> {
        // Pieces are of whole numbers: their size is a multiple of eight.
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
    /// Reads the indices of a row-sparse, CSR or COO tensor, and says which rule they break, if any.
    ///
    /// Frameworks do not check them and read or write out of bounds; opening a model does not read
    /// them. Whoever hands a tensor on has to ask.
    ///
    /// # Errors
    /// What reading gives.
    pub fn broken_indices(&self) -> Result<Option<String>> {
        match &self.kind {
            Kind::RowSparse { indices } => {
                let rows = self.shape.first().copied().unwrap_or(0);
                rows_broken(indices, rows)
            }
            Kind::Csr { indptr, indices } => {
                let [rows, columns] = *self.shape.as_slice() else {
                    return Ok(Some(format!("a CSR tensor of shape {:?}", self.shape)));
                };
                match offsets_broken(indptr, rows, indices.count())? {
                    None => columns_broken(indices, columns),
                    broken => Ok(broken),
                }
            }
            Kind::Coo { indices, linear } => places_broken(indices, *linear, &self.shape),
            _ => Ok(None),
        }
    }
}

/// Whether places in a tensor ascend strictly, row by row, and are inside it.
fn places_broken(indices: &Indices, linear: bool, shape: &[u64]) -> Result<Option<String>> {
    let size = shape.iter().try_fold(1u64, |size, extent| size.checked_mul(*extent));
    let Some(size) = size.and_then(|size| i64::try_from(size).ok()) else {
        return Ok(Some(format!("a tensor of shape {shape:?}")));
    };
    let extent = |extent: &u64| i64::try_from(*extent).unwrap_or(i64::MAX);
    let extents = if linear { vec![size] } else { shape.iter().map(extent).collect() };
    if extents.is_empty() && indices.count() > 0 {
        return Ok(Some(format!("{} indices in a scalar", indices.count())));
    }
    let (mut broken, mut count, mut least) = (None, 0usize, 0i64);
    let mut place = 0i64;
    indices.for_each(|index| {
        let axis = count.checked_rem(extents.len()).unwrap_or(0);
        let extent = extents.get(axis).copied().unwrap_or(0);
        count += 1;
        if broken.is_none() && !(0..extent).contains(&index) {
            broken = Some(format!("index number {} is {index}, not 0 to {extent} - 1", count - 1));
        }
        place = place.saturating_mul(extent).saturating_add(index);
        if axis + 1 == extents.len() {
            if broken.is_none() && place < least {
                broken = Some(format!("index number {} does not ascend", count - 1));
            }
            (least, place) = (place.saturating_add(1), 0);
        }
    })?;
    Ok(broken)
}

/// Whether row numbers are strictly increasing and below `rows`.
fn rows_broken(indices: &Indices, rows: u64) -> Result<Option<String>> {
    let (mut broken, mut place, mut least) = (None, 0u64, 0i64);
    indices.for_each(|row| {
        if broken.is_none() && (row < least || u64::try_from(row).is_ok_and(|row| row >= rows)) {
            broken = Some(format!("row number {place} is {row}, not {least} to {rows} - 1"));
        }
        (place, least) = (place + 1, row.saturating_add(1));
    })?;
    Ok(broken)
}

/// Whether offsets of rows ascend from 0 to the number of elements.
fn offsets_broken(indptr: &Indices, rows: u64, stored: u64) -> Result<Option<String>> {
    if indptr.count() == 0 && stored == 0 {
        return Ok(None);
    }
    if Some(indptr.count()) != rows.checked_add(1) {
        return Ok(Some(format!("{} offsets for {rows} rows", indptr.count())));
    }
    let (mut broken, mut place, mut last) = (None, 0u64, 0i64);
    indptr.for_each(|offset| {
        if broken.is_none() && (offset < last || (place == 0 && offset != 0)) {
            broken = Some(format!("offset {place} is {offset}, after {last}"));
        }
        (place, last) = (place + 1, offset);
    })?;
    let end = u64::try_from(last) == Ok(stored);
    Ok(broken.or_else(|| (!end).then(|| format!("the offsets end at {last}, not at {stored}"))))
}

/// Whether column numbers are below `columns`.
fn columns_broken(indices: &Indices, columns: u64) -> Result<Option<String>> {
    let (mut broken, mut place) = (None, 0u64);
    indices.for_each(|column| {
        if broken.is_none() && !u64::try_from(column).is_ok_and(|column| column < columns) {
            broken = Some(format!("column number {place} is {column}, not 0 to {columns} - 1"));
        }
        place += 1;
    })?;
    Ok(broken)
}
