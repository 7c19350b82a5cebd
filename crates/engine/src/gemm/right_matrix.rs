//! A matrix that is packed once and multiplied often.

use lodstone_schema::Finding;

use super::buffers::Buffer;
use super::micro_kernel::Epilogue;
use super::pack::PackedMatrix;
use super::rows::StridedRows;
use crate::error::Outcome;
use crate::threads::Threads;

/// The right matrix of many products in single precision, packed once.
#[derive(Debug)]
pub struct RightMatrix(PackedMatrix);

impl RightMatrix {
    /// Packs a matrix of `inner` rows and `columns` columns, whose elements are in row-major order; those of its transpose are, if
    /// it `is_transposed`.
    ///
    /// # Errors
    /// If there are not as many elements, or memory is insufficient.
    pub fn new(
        elements: &[f32],
        [inner, columns]: [usize; 2],
        is_transposed: bool,
    ) -> Outcome<Self> {
        if inner.checked_mul(columns) != Some(elements.len()) {
            let found = elements.len();
            return Err(format!("expected {inner} x {columns} elements, found {found}").into());
        }
        let read = |[_, row, column]: [usize; 3], into: &mut [f32]| {
            let (begin, step) = match is_transposed {
                true => (column * inner + row, inner),
                false => (row * columns + column, 1),
            };
            let from = elements.get(begin..).unwrap_or_default().iter().step_by(step.max(1));
            into.iter_mut().zip(from).for_each(|(into, from)| *into = *from);
        };
        let size = [1, inner, columns];
        Ok(Self(PackedMatrix::new(size, inner, Buffer::own, read)?))
    }

    /// Multiplies the rows of `left` with the matrix, and returns the rows of the product.
    ///
    /// # Errors
    /// If `left` does not consist of whole rows, or threads cannot be started.
    pub fn multiply(&self, left: &[f32], threads: &Threads) -> Outcome<Vec<f32>> {
        let (inner, columns) = (self.0.inner, self.0.columns);
        let rows = left.len().checked_div(inner).filter(|rows| rows * inner == left.len());
        let rows = rows.ok_or_else(|| Finding::internal("the left matrix has no whole rows"))?;
        let mut out = vec![0.0; rows * columns];
        let lines = StridedRows { stride: inner, group_width: inner, values: left };
        threads.run(|| self.0.multiply(&lines, Epilogue::default(), &mut out, |_, _| Ok(())))??;
        Ok(out)
    }
}
