//! Diagonals of matrices, and the indices of triangles.

use lodstone_model::{DType, Tensor};
use lodstone_schema::paddle::Release;
use lodstone_store::Blob;

use super::operator::{Operator, Outcome, Rule};
use crate::onnx::Value;

pub(super) const RULES: &[(&str, Rule)] = &[
    ("diag_embed", diag_embed),
    ("diag_v2", diag),
    ("diagonal", diagonal),
    ("trace", trace),
    ("tril_indices", |op| triangle(op, ["rows", "cols"], true)),
    ("triu_indices", |op| triangle(op, ["row", "col"], false)),
];

/// The maximum number of elements of a triangle, which is stored.
const LARGEST: i64 = 1 << 20;

impl Operator<'_> {
    /// Moves two axes to the end.
    fn axes_to_back(&mut self, x: &Value, [first, second]: [i64; 2]) -> Outcome<Value> {
        let others = x.rank()?.numbers().filter(|axis| ![first, second].contains(axis));
        let order: Vec<i64> = others.chain([first, second]).collect();
        self.transpose(x, &order)
    }

    /// Returns the numbers from 0 to the dim of an axis.
    fn places_along(&mut self, x: &Value, axis: i64) -> Outcome<Value> {
        let (zero, one, count) = (self.long(0), self.long(1), self.extent(x, axis)?);
        self.call("Range", &[&zero, &count, &one], [])
    }

    /// Returns the elements of a diagonal of the matrices in the last two dims.
    fn diagonal_of(&mut self, x: &Value, offset: i64) -> Outcome<Value> {
        let rank = x.rank()?.number();
        let (below, right) = (offset.saturating_neg().max(0), offset.max(0));
        // The matrix begins with the diagonal, whose length is the shorter side.
        let last = [i64::MAX, i64::MAX];
        let x = self.slices(x, &[rank - 2, rank - 1], &[below, right], &last)?;
        let (rows, columns) = (self.dim(&x, rank - 2)?, self.dim(&x, rank - 1)?);
        let count = self.call("Min", &[&rows, &columns], [])?;
        let count = self.reshape(&count, &[])?;
        let (zero, one) = (self.long(0), self.long(1));
        let numbers = self.call("Range", &[&zero, &count, &one], [])?;
        let places = self.unsqueeze(&numbers, &[1])?;
        // [count, 2]
        let places = self.concat(&[&places, &places], 1)?;
        // [rows, columns, ...]
        let front: Vec<i64> = [rank - 2, rank - 1].into_iter().chain(0..rank - 2).collect();
        let turned = self.transpose(&x, &front)?;
        let found = self.call("GatherND", &[&turned, &places], [])?;
        let back: Vec<i64> = (1..rank - 1).chain([0]).collect();
        self.transpose(&found, &back)
    }

    /// Returns matrices with the elements of the last dim on a diagonal, and `number` elsewhere.
    fn on_diagonal(&mut self, x: &Value, offset: i64, number: f64) -> Outcome<Value> {
        let rank = x.rank()?.number();
        let places = self.places_along(x, rank - 1)?;
        let rows = self.unsqueeze(&places, &[1])?;
        let is_diagonal = self.call("Equal", &[&rows, &places], [])?;
        let wide = self.unsqueeze(x, &[rank - 1])?;
        let number = self.number(x.dtype(), number)?;
        let y = self.choose(&is_diagonal, &wide, &number)?;
        if offset == 0 {
            return Ok(y);
        }
        let (below, right) = (offset.saturating_neg().max(0), offset.max(0));
        let around: Vec<i64> = [vec![0; x.rank()?.count() - 1], vec![below, right]].concat();
        let pads = [around, vec![0; x.rank()?.count() - 1], vec![right, below]].concat();
        let pads = self.longs(&pads);
        self.call("Pad", &[&y, &pads, &number], [])
    }
}

/// A matrix with a diagonal, or the diagonal of a matrix.
fn diag(op: &mut Operator<'_>) -> Outcome {
    let (x, offset) = (op.input("X")?, op.int("offset")?);
    let x = if x.rank()? == 0 { op.reshape(&x, &[1])? } else { x };
    let y = match x.rank()?.count() {
        1 => {
            let number = op.float("padding_value")?;
            op.on_diagonal(&x, offset, number.into())?
        }
        2 => op.diagonal_of(&x, offset)?,
        other => return Err(format!("expected at most rank 2, found {other}").into()),
    };
    op.put("Out", &y)
}

/// Makes matrices of the last dim, whose rows are the dim `dim1` and whose columns are `dim2`.
fn diag_embed(op: &mut Operator<'_>) -> Outcome {
    let (x, offset) = (op.input("Input")?, op.int("offset")?);
    let y = op.on_diagonal(&x, offset, 0.0)?;
    let (rows, columns) = (op.place(op.int("dim1")?, &y)?, op.place(op.int("dim2")?, &y)?);
    let rank = y.rank()?.number();
    let mut others = 0..rank - 2;
    let source = |axis: i64| match axis {
        _ if axis == rows => Some(rank - 2),
        _ if axis == columns => Some(rank - 1),
        _ => others.next(),
    };
    let order: Option<Vec<i64>> = (0..rank).map(source).collect();
    let order = order.ok_or_else(|| format!("expected two axes, found {rows} twice"))?;
    let y = op.transpose(&y, &order)?;
    op.put("Out", &y)
}

/// Returns the diagonals of the matrices in two dims, as the last dim. With `in_order`, the rows are the dim that comes
/// first.
fn diagonals(op: &mut Operator<'_>, in_order: bool) -> Outcome<Value> {
    let (x, offset) = (op.input("Input")?, op.int("offset")?);
    let (rows, columns) = (op.place(op.int("axis1")?, &x)?, op.place(op.int("axis2")?, &x)?);
    let (rows, columns) =
        if in_order { (rows.min(columns), rows.max(columns)) } else { (rows, columns) };
    if rows == columns {
        return Err(format!("expected two axes, found {rows} twice").into());
    }
    let x = op.axes_to_back(&x, [rows, columns])?;
    op.diagonal_of(&x, offset)
}

fn diagonal(op: &mut Operator<'_>) -> Outcome {
    let y = diagonals(op, false)?;
    op.put("Out", &y)
}

/// The sum of a diagonal. Up to 3.0, the rows are the dim that comes first.
fn trace(op: &mut Operator<'_>) -> Outcome {
    let y = diagonals(op, op.is_older_than(Release::new(3, 1)))?;
    let y = op.reduce("ReduceSum", &y, &[-1], false)?;
    let y = op.scalar(&y)?;
    op.put("Out", &y)
}

/// The rows and the columns of the elements of a triangle.
fn triangle(op: &mut Operator<'_>, [rows, columns]: [&str; 2], lower: bool) -> Outcome {
    let (rows, columns, offset) = (op.int(rows)?, op.int(columns)?, op.int("offset")?);
    let dtype = op.required_dtype("dtype")?;
    let is_side = |side: i64| (0..=LARGEST).contains(&side);
    if !is_side(rows) || !is_side(columns) || rows.saturating_mul(columns) > LARGEST {
        let found = format!("{rows} by {columns}");
        return Err(format!("expected at most {LARGEST} elements, found {found}").into());
    }
    let all = (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column)));
    let is_part = |(row, column): &(i64, i64)| {
        let place = column - row;
        if lower { place <= offset } else { place >= offset }
    };
    let (rows, columns): (Vec<i64>, Vec<i64>) = all.filter(is_part).unzip();
    let shape = vec![2, rows.len() as u64];
    let places = rows.iter().chain(&columns);
    let bytes: Vec<u8> = places.flat_map(|place| place.to_le_bytes()).collect();
    let places = Tensor::dense(DType::Int64, shape, Blob::memory(bytes));
    let places = op.tensor(places, "places");
    let y = op.cast(&places, dtype)?;
    op.put("out", &y)
}
