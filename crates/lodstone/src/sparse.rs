//! Conversion of sparse tensors to another kind, or to separate tensors.
//!
//! A row-sparse tensor has the shape of the whole, selected rows have that of their values, as in their frameworks.
//! They are translated if rows ascend, where their meanings agree.

use lodstone_formats::Holds;
use lodstone_model::{DType, Indices, Kind, Tensor};
use lodstone_store::Blob;

use crate::Result;

/// Converts a tensor to a kind that the target can represent, if that is lossless: row-sparse tensors and
/// SelectedRows are equivalent if the rows are strictly increasing.
///
/// # Errors
/// Errors of reading indices.
pub(crate) fn translate(tensor: &mut Tensor, holds: &Holds) -> Result<()> {
    match &tensor.kind {
        Kind::SelectedRows { rows, height } if holds.sparse => {
            let indices = Indices { dtype: DType::Int64, data: rows.clone() };
            let Ok(whole) = u64::try_from(*height) else { return Ok(()) };
            let Some((_, rest)) = tensor.shape.split_first() else { return Ok(()) };
            let shape = std::iter::once(whole).chain(rest.iter().copied()).collect();
            let mut other = tensor.clone();
            (other.kind, other.shape) = (Kind::RowSparse { indices }, shape);
            other.residual.clear();
            if other.broken_indices()?.is_none() {
                *tensor = other;
            }
        }
        Kind::RowSparse { indices } if holds.selected_rows => {
            let rows = indices.widened()?;
            let Some(height) = tensor.shape.first().and_then(|rows| i64::try_from(*rows).ok())
            else {
                return Ok(());
            };
            tensor.shape = tensor.stored_shape();
            tensor.kind = Kind::SelectedRows { rows, height };
            tensor.residual.clear();
        }
        _ => {}
    }
    Ok(())
}

/// A suffix, its meaning, and tensors by name.
type Apart = (&'static str, String, Vec<(&'static str, Tensor)>);

/// Makes a tensor dense, with the stored values only. Returns the dims of the whole tensor with their
/// label, and the indices as tensors.
pub(crate) fn take_apart(tensor: &mut Tensor) -> Apart {
    let list = |data: &Blob, dtype| {
        let count = Indices { dtype, data: data.clone() }.count();
        Tensor::dense(dtype, vec![count], data.clone())
    };
    let shape = format!("{:?}", tensor.shape);
    let apart = match &tensor.kind {
        Kind::SelectedRows { rows, height } => {
            ("height", height.to_string(), vec![("rows", list(rows, DType::Int64))])
        }
        Kind::RowSparse { indices } => {
            ("shape", shape, vec![("indices", list(&indices.data, indices.dtype))])
        }
        Kind::Csr { indptr, indices } => {
            let parts = vec![
                ("indptr", list(&indptr.data, indptr.dtype)),
                ("indices", list(&indices.data, indices.dtype)),
            ];
            ("shape", shape, parts)
        }
        Kind::Coo { indices, linear } => {
            let count = indices.count();
            let each = tensor.shape.len().max(1) as u64;
            let dims = if *linear { vec![count] } else { vec![count / each, each] };
            let list = Tensor::dense(indices.dtype, dims, indices.data.clone());
            ("shape", shape, vec![("indices", list)])
        }
        Kind::Dense | Kind::Strings { .. } | Kind::Absent | Kind::Vocabulary { .. } => {
            ("shape", shape, Vec::new())
        }
    };
    tensor.shape = tensor.stored_shape();
    tensor.kind = Kind::Dense;
    tensor.residual.clear();
    apart
}
