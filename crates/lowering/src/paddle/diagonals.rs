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

/// A matrix with a diagonal, or the diagonal of a matrix.
fn diag(op: &mut Operator<'_>) -> Outcome {
    let (x, offset) = (op.input("X")?, op.int("offset")?);
    let x = if x.rank()? == 0 { op.reshape(&x, &[1])? } else { x };
    let y = match x.rank()?.count() {
        1 => {
            let number = op.float("padding_value")?;
            op.on_diagonal(&x, [0, 1], offset, number.into())?
        }
        2 => op.diagonal(&x, [0, 1], offset)?,
        other => return Err(format!("expected at most rank 2, found {other}").into()),
    };
    op.put("Out", &y)
}

/// Makes matrices of the last dim, whose rows are the dim `dim1` and whose columns are `dim2`.
fn diag_embed(op: &mut Operator<'_>) -> Outcome {
    let (x, offset) = (op.input("Input")?, op.int("offset")?);
    let axes = [op.int("dim1")?, op.int("dim2")?];
    let y = op.on_diagonal(&x, axes, offset, 0.0)?;
    op.put("Out", &y)
}

/// Returns the diagonals of the matrices in two dims, as the last dim. With `in_order`, the rows are the dim that comes
/// first.
fn diagonals(op: &mut Operator<'_>, in_order: bool) -> Outcome<Value> {
    let (x, offset) = (op.input("Input")?, op.int("offset")?);
    let (rows, columns) = (op.place(op.int("axis1")?, &x)?, op.place(op.int("axis2")?, &x)?);
    let (rows, columns) =
        if in_order { (rows.min(columns), rows.max(columns)) } else { (rows, columns) };
    op.diagonal(&x, [rows, columns], offset)
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
