//! Matrix products and embedding lookups.

use lodstone_model::{DType, Dim};
use lodstone_schema::numbers::{exact, known, length};
use lodstone_schema::paddle::Release;

use super::operator::{Operator, Outcome, Rule};
use crate::onnx::{Value, int, text};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("addmm", addmm),
    ("bilinear_tensor_product", bilinear),
    ("bmm", |op| matmul(op, None, None)),
    ("cross", cross),
    ("dot", dot),
    ("einsum", einsum),
    ("fc", fully_connected),
    ("lookup_table", |op| lookup(op, true)),
    ("lookup_table_v2", |op| lookup(op, false)),
    ("matmul", |op| matmul(op, Some("transpose_X"), Some("transpose_Y"))),
    ("matmul_v2", |op| matmul(op, Some("trans_x"), Some("trans_y"))),
    ("mul", mul),
    ("multi_dot", multi_dot),
    ("mv", matrix_by_vector),
];

impl Operator<'_> {
    /// Flattens a tensor to a matrix: the first `rows` dims become its rows.
    pub(super) fn matrix(&mut self, value: &Value, rows: i64) -> Outcome<Value> {
        let rank = value.rank()?.number();
        if !(1..rank).contains(&rows) {
            return Err(
                format!("expected a number of row dims below rank {rank}, found {rows}").into()
            );
        }
        match rank {
            2 => Ok(value.clone()),
            _ => self.call("Flatten", &[value], [int("axis", rows)]),
        }
    }

    /// Returns the index of the row of an embedding table that counts as 0, if there is one.
    pub(super) fn padding_row(&self, table: &Value) -> Outcome<Option<i64>> {
        Ok(match (self.int("padding_idx")?, table.shape()?.first()) {
            (-1, _) => None,
            (padding @ 0.., _) => Some(padding),
            (padding, Some(Dim::Known(rows))) => {
                Some(exact::<i64, u64>(*rows)?.saturating_add(padding))
            }
            _ => return Err("the number of rows of the table must be known".into()),
        })
    }
}

/// `X` and `Y` as matrices: their dims up to `x_num_col_dims` and `y_num_col_dims` are rows, the others
/// columns. The result has the row dims of `X` and the column dims of `Y`.
fn mul(op: &mut Operator<'_>) -> Outcome {
    let (x, y) = (op.input("X")?, op.input("Y")?);
    let (x_rows, y_rows) = (op.int("x_num_col_dims")?, op.int("y_num_col_dims")?);
    let is_matrix = y.rank()? == 2;
    if x_rows == x.rank()?.number() - 1 && y_rows == 1 && is_matrix {
        let product = op.call("MatMul", &[&x, &y], [])?;
        return op.put("Out", &product);
    }
    let (left, right) = (op.matrix(&x, x_rows)?, op.matrix(&y, y_rows)?);
    let product = op.call("MatMul", &[&left, &right], [])?;
    if x_rows == 1 && is_matrix {
        return op.put("Out", &product);
    }
    let (front, back) =
        (x.shape()?.iter().take(exact(x_rows)?), y.shape()?.iter().skip(exact(y_rows)?));
    let dims = front.chain(back).map(known).collect::<Outcome<Option<Vec<i64>>>>()?;
    let out = match dims {
        Some(dims) => op.reshape(&product, &dims)?,
        None => {
            let front = op.call("Shape", &[&x], [int("end", x_rows)])?;
            let back = op.call("Shape", &[&y], [int("start", y_rows)])?;
            let dims = op.concat(&[&front, &back], 0)?;
            op.call("Reshape", &[&product, &dims], [int("allowzero", 1)])?
        }
    };
    op.put("Out", &out)
}

fn matmul(op: &mut Operator<'_>, transpose_x: Option<&str>, transpose_y: Option<&str>) -> Outcome {
    let (x, y) = (op.input("X")?, op.input("Y")?);
    let turned = |op: &mut Operator<'_>, value: Value, flag: Option<&str>| match value.rank()? >= 2
        && flag.map_or(Ok(false), |flag| op.flag(flag))?
    {
        true => op.turned(&value),
        false => Ok(value),
    };
    let (x, y) = (turned(op, x, transpose_x)?, turned(op, y, transpose_y)?);
    let y = if op.kind() == "matmul" { paired(op, &x, y)? } else { y };
    let mut out = op.call("MatMul", &[&x, &y], [])?;
    if op.kind() == "matmul" {
        let alpha = op.float("alpha")?;
        if alpha != 1.0 {
            out = op.times(&out, alpha.into())?;
        }
    }
    // Up to 2.4, the product of two vectors had shape [1].
    if out.rank()? == 0 && op.is_older_than(Release::new(2, 5)) {
        out = op.reshape(&out, &[1])?;
    }
    op.put("Out", &out)
}

/// The older product pairs matrices by index, whatever the shapes of the batch dims: `Y` gets those of `X`.
pub(super) fn paired(op: &mut Operator<'_>, x: &Value, y: Value) -> Outcome<Value> {
    let (Ok(of_x), Ok(of_y)) = (x.dims(), y.dims()) else { return Ok(y) };
    let ([batch @ .., _, _], [other @ .., rows, columns]) = (of_x.as_slice(), of_y.as_slice())
    else {
        return Ok(y);
    };
    let count = |dims: &[i64]| dims.iter().product::<i64>();
    if batch == other || other.is_empty() || batch.is_empty() || count(batch) != count(other) {
        return Ok(y);
    }
    let dims = [batch, &[*rows, *columns]].concat();
    op.reshape(&y, &dims)
}

/// Looks up rows of a table by index; that of `padding_idx` is 0.
fn lookup(op: &mut Operator<'_>, column: bool) -> Outcome {
    let (table, ids) = (op.input("W")?, op.input("Ids")?);
    // In the older form, ids have a last dim of 1.
    let ids = if column {
        let last = op.longs(&[-1]);
        op.call("Squeeze", &[&ids, &last], [])?
    } else {
        ids
    };
    let mut out = op.gather(&table, &ids, 0)?;
    if let Some(rows) = op.padding_row(&table)? {
        let wide = op.cast(&ids, DType::Int64)?;
        let rows = op.long(rows);
        let is_padding = op.call("Equal", &[&wide, &rows], [])?;
        let is_padding = op.unsqueeze(&is_padding, &[-1])?;
        let zero = op.number(table.dtype(), 0.0)?;
        out = op.choose(&is_padding, &zero, &out)?;
    }
    op.put("Out", &out)
}

fn matrix_by_vector(op: &mut Operator<'_>) -> Outcome {
    let (x, vector) = (op.input("X")?, op.input("Vec")?);
    let y = op.call("MatMul", &[&x, &vector], [])?;
    op.put("Out", &y)
}

/// Products of vectors in the last dim, which is kept up to 2.4.
fn dot(op: &mut Operator<'_>) -> Outcome {
    let (x, y) = (op.input("X")?, op.input("Y")?);
    let products = op.mul(&x, &y)?;
    let keeps = op.is_older_than(Release::new(2, 5));
    let y = op.reduce("ReduceSum", &products, &[-1], keeps)?;
    op.put("Out", &y)
}

/// `Beta` times the input plus `Alpha` times a product.
fn addmm(op: &mut Operator<'_>) -> Outcome {
    let (sum, x, y) = (op.input("Input")?, op.input("X")?, op.input("Y")?);
    let (alpha, beta) = (op.float("Alpha")?, op.float("Beta")?);
    let product = op.call("MatMul", &[&x, &y], [])?;
    let product = if alpha == 1.0 { product } else { op.times(&product, alpha.into())? };
    let sum = if beta == 1.0 { sum } else { op.times(&sum, beta.into())? };
    let out = op.add(&sum, &product)?;
    op.put("Out", &out)
}

/// The other outputs only serve the gradient.
fn einsum(op: &mut Operator<'_>) -> Outcome {
    let (operands, equation) = (op.inputs("Operands")?, op.text("equation")?);
    let operands: Vec<Option<&Value>> = operands.iter().map(Some).collect();
    let [y] = op.emit_all("Einsum", &operands, [text("equation", &equation)])?;
    op.put("Out", &y)
}

/// A product, of which the first `in_num_col_dims` dims are rows, plus a bias. Padded weights have 4 more rows and
/// columns.
fn fully_connected(op: &mut Operator<'_>) -> Outcome {
    let (x, weights, rows) = (op.input("Input")?, op.input("W")?, op.int("in_num_col_dims")?);
    let weights = match op.flag("padding_weights")? {
        true => op.slices(&weights, &[0, 1], &[0, 0], &[-4, -4])?,
        false => weights,
    };
    let matrix = op.matrix(&x, rows)?;
    let mut y = op.call("MatMul", &[&matrix, &weights], [])?;
    if let Some(bias) = op.optional("Bias")? {
        let bias = op.reshape(&bias, &[-1])?;
        y = op.add(&y, &bias)?;
    }
    match op.text("activation_type")?.as_str() {
        "" => {}
        "relu" => y = op.call("Relu", &[&y], [])?,
        other => return Err(format!("unknown activation `{other}`").into()),
    }
    if rows > 1 {
        let (front, back) = (
            op.call("Shape", &[&x], [int("end", rows)])?,
            op.call("Shape", &[&y], [int("start", 1)])?,
        );
        let dims = op.concat(&[&front, &back], 0)?;
        y = op.call("Reshape", &[&y, &dims], [int("allowzero", 1)])?;
    }
    op.put("Out", &y)
}

/// The product of a chain of matrices; the first and the last may be vectors.
fn multi_dot(op: &mut Operator<'_>) -> Outcome {
    let chain = op.inputs("X")?;
    let (first, rest) = chain.split_first().ok_or("it has no `X`")?;
    let mut product = first.clone();
    for next in rest {
        product = op.call("MatMul", &[&product, next], [])?;
    }
    op.put("Out", &product)
}

/// The cross products of vectors of three elements along `dim`; 9 stands for the first dim of 3.
fn cross(op: &mut Operator<'_>) -> Outcome {
    let (x, y) = (op.input("X")?, op.input("Y")?);
    let axis = match op.int("dim")? {
        9 => {
            let dims = x.dims()?;
            let three = dims.iter().position(|dim| *dim == 3).ok_or("no dim is 3")?;
            length(three)
        }
        axis => axis,
    };
    let (next, last) = (op.longs(&[1, 2, 0]), op.longs(&[2, 0, 1]));
    let product = |op: &mut Operator<'_>, [left, right]: [&Value; 2]| {
        let (left, right) = (op.gather(&x, left, axis)?, op.gather(&y, right, axis)?);
        op.mul(&left, &right)
    };
    let (plus, minus) = (product(op, [&next, &last])?, product(op, [&last, &next])?);
    let out = op.sub(&plus, &minus)?;
    op.put("Out", &out)
}

/// The products of each row of `X`, each matrix of `Weight`, and the row of `Y`, plus `Bias`.
fn bilinear(op: &mut Operator<'_>) -> Outcome {
    let (x, y, weight) = (op.input("X")?, op.input("Y")?, op.input("Weight")?);
    // [matrices, batch, columns]
    let left = op.call("MatMul", &[&x, &weight], [])?;
    let products = op.mul(&left, &y)?;
    let sums = op.reduce("ReduceSum", &products, &[-1], false)?;
    let mut out = op.transpose(&sums, &[1, 0])?;
    if let Some(bias) = op.optional("Bias")? {
        out = op.add(&out, &bias)?;
    }
    op.put("Out", &out)
}
