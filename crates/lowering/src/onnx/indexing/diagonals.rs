//! Diagonals of matrices.

use lodstone_model::DType;
use lodstone_schema::Finding;

use super::{BEYOND, Made};
use crate::onnx::{Graph, Size, Value, required};

/// The maximum length of a diagonal whose places are constants.
const MAX_DIAGONAL: i64 = 1 << 20;

/// Returns the first row and the first column of a diagonal.
fn first(offset: i64) -> Made<[i64; 2]> {
    match offset.clamp(-BEYOND, BEYOND) {
        clamped if clamped != offset => Err(format!("the offset {offset} is too large").into()),
        below @ ..0 => Ok([-below, 0]),
        right => Ok([0, right]),
    }
}

/// Returns the indices of two axes, which must differ.
fn two_axes(rank: i64, axes: [i64; 2]) -> Made<[i64; 2]> {
    let [rows, columns] = axes;
    match [required::place_in(rank, rows)?, required::place_in(rank, columns)?] {
        [rows, columns] if rows == columns => {
            Err(format!("expected two axes, found {rows} twice").into())
        }
        axes => Ok(axes),
    }
}

impl Graph {
    /// Returns a diagonal of the matrices in two axes, rows and columns, as the last axis. An offset beyond the matrix has no
    /// elements.
    pub(crate) fn diagonal(&mut self, x: &Value, axes: [i64; 2], offset: i64) -> Made {
        let rank = x.rank()?.number();
        let axes = two_axes(rank, axes)?;
        let [row, column] = first(offset)?;
        let order: Vec<i64> =
            axes.into_iter().chain((0..rank).filter(|axis| !axes.contains(axis))).collect();
        // [rows, columns, ..]
        let turned = self.transpose(x, &order)?;
        let found = match (turned.size(0)?, turned.size(1)?) {
            (Some(rows), Some(columns)) if (rows - row).min(columns - column) <= MAX_DIAGONAL => {
                let length = (rows - row).min(columns - column).max(0);
                let all = self.product_of(&Size::Known(rows), &Size::Known(columns))?;
                let inner = self.sizes_of(&turned)?.into_iter().skip(2);
                // [rows * columns, ..]
                let flat = self
                    .reshape_to(&turned, &std::iter::once(all).chain(inner).collect::<Vec<_>>())?;
                let place = |step| (row + step) * columns + column + step;
                let places = self.longs(&(0..length).map(place).collect::<Vec<_>>());
                self.gather(&flat, &places, 0)?
            }
            _ => {
                // The matrix begins with the diagonal, whose length is the shorter side.
                let part = self.slices(&turned, &[0, 1], &[row, column], &[BEYOND, BEYOND])?;
                let (rows, columns) = (self.dim(&part, 0)?, self.dim(&part, 1)?);
                let count = self.call("Min", &[&rows, &columns], [])?;
                let count = self.reshape(&count, &[])?;
                let numbers = self.counting(&count, DType::Int64)?;
                let numbers = self.unsqueeze(&numbers, &[1])?;
                // [count, 2]
                let places = self.concat(&[&numbers, &numbers], 1)?;
                self.call("GatherND", &[&part, &places], [])?
            }
        };
        let order: Vec<i64> = (1..rank - 1).chain([0]).collect();
        self.transpose(&found, &order)
    }

    /// Returns matrices in two axes, rows and columns, with the elements of the last axis on a diagonal, and `number`
    /// elsewhere.
    pub(crate) fn on_diagonal(
        &mut self,
        x: &Value,
        axes: [i64; 2],
        offset: i64,
        number: f64,
    ) -> Made {
        let rank = required::rank(x)? + 1;
        let ([rows, columns], [row, column]) = (two_axes(rank, axes)?, first(offset)?);
        let count = self.extent(x, -1)?;
        let along = self.counting(&count, DType::Int64)?;
        let down = self.unsqueeze(&along, &[1])?;
        let is_diagonal = self.call("Equal", &[&down, &along], [])?;
        // [.., 1, n]
        let wide = self.unsqueeze(x, &[-2])?;
        let number = self.number(x.dtype(), number)?;
        let mut y = self.choose(&is_diagonal, &wide, &number)?;
        if offset != 0 {
            let lead = vec![0; x.rank()?.count() - 1];
            let pads = self.longs(&[&lead[..], &[row, column], &lead, &[column, row]].concat());
            y = self.call("Pad", &[&y, &pads, &number], [])?;
        }
        let mut others = 0..rank - 2;
        let source = |axis: i64| match axis {
            _ if axis == rows => Some(rank - 2),
            _ if axis == columns => Some(rank - 1),
            _ => others.next(),
        };
        let order: Option<Vec<i64>> = (0..rank).map(source).collect();
        let order = order.ok_or_else(|| Finding::internal("an axis was lost"))?;
        self.transpose(&y, &order)
    }
}
