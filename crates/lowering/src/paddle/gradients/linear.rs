//! Gradients of matrix products and embedding lookups.

use lodstone_model::DType;

use super::super::linear::paired;
use super::super::operator::{Operator, Outcome, Rule};
use crate::onnx::Value;

pub(super) const RULES: &[(&str, Rule)] = &[
    ("bmm_grad", |op| matmul(op, None, None)),
    ("lookup_table_grad", lookup),
    ("lookup_table_v2_grad", lookup),
    ("matmul_grad", |op| matmul(op, Some("transpose_X"), Some("transpose_Y"))),
    ("matmul_v2_grad", |op| matmul(op, Some("trans_x"), Some("trans_y"))),
    ("mul_grad", mul),
];

fn mul(op: &mut Operator<'_>) -> Outcome {
    let (x, y, given) = (op.input("X")?, op.input("Y")?, op.gradient("Out")?);
    let (x_rows, y_rows) = (op.int("x_num_col_dims")?, op.int("y_num_col_dims")?);
    let (left, right) = (op.matrix(&x, x_rows)?, op.matrix(&y, y_rows)?);
    let given = op.matrix(&given, x_rows)?;
    if op.wants_gradient("X") {
        let right = op.turned(&right)?;
        let product = op.call("MatMul", &[&given, &right], [])?;
        let product = op.reshape_as(&product, &x)?;
        op.put_gradient("X", &product)?;
    }
    if op.wants_gradient("Y") {
        let left = op.turned(&left)?;
        let product = op.call("MatMul", &[&left, &given], [])?;
        let product = op.reshape_as(&product, &y)?;
        op.put_gradient("Y", &product)?;
    }
    Ok(())
}

/// A factor of a product.
struct Factor {
    /// The factor as matrices.
    value: Value,
    is_turned: bool,
}

impl Factor {
    /// A vector is a row on the left, and a column on the right.
    fn of(op: &mut Operator<'_>, value: Value, flag: Option<&str>, list: i64) -> Outcome<Self> {
        let is_turned = value.rank()? > 1 && flag.map_or(Ok(false), |flag| op.flag(flag))?;
        let value = match value.rank()?.count() {
            0 => return Err("expected at least rank 1 of the factors, found 0".into()),
            1 => op.unsqueeze(&value, &[list])?,
            _ if is_turned => op.turned(&value)?,
            _ => value,
        };
        Ok(Self { value, is_turned })
    }

    /// Sets the gradient of the factor, given that of its matrices.
    fn put(&self, op: &mut Operator<'_>, slot: &str, product: &Value) -> Outcome {
        let own = op.input(slot)?;
        let sums = op.gathered(product, &self.value)?;
        let sums = if self.is_turned { op.turned(&sums)? } else { sums };
        let sums = op.reshape_as(&sums, &own)?;
        op.put_gradient(slot, &sums)
    }
}

fn matmul(op: &mut Operator<'_>, turns_x: Option<&str>, turns_y: Option<&str>) -> Outcome {
    let (x, y, given) = (op.input("X")?, op.input("Y")?, op.gradient("Out")?);
    let lists = (x.rank()? == 1, y.rank()? == 1);
    let (left, mut right) = (Factor::of(op, x, turns_x, 0)?, Factor::of(op, y, turns_y, 1)?);
    let mut given = match lists {
        (true, true) => op.reshape(&given, &[1, 1])?,
        (true, false) => op.unsqueeze(&given, &[-2])?,
        (false, true) => op.unsqueeze(&given, &[-1])?,
        (false, false) => given,
    };
    if op.kind() == "matmul_grad" {
        right.value = paired(op, &left.value, right.value)?;
        let alpha = op.float("alpha")?;
        if alpha != 1.0 {
            given = op.times(&given, alpha.into())?;
        }
    }
    if op.wants_gradient("X") {
        let other = op.turned(&right.value)?;
        let product = op.call("MatMul", &[&given, &other], [])?;
        left.put(op, "X", &product)?;
    }
    if op.wants_gradient("Y") {
        let other = op.turned(&left.value)?;
        let product = op.call("MatMul", &[&other, &given], [])?;
        right.put(op, "Y", &product)?;
    }
    Ok(())
}

/// Sums the gradients for each row of the table, except for `padding_idx`.
fn lookup(op: &mut Operator<'_>) -> Outcome {
    let (table, ids, given) = (op.input("W")?, op.input("Ids")?, op.gradient("Out")?);
    let [_, width] = table.dims()?[..] else {
        return Err(format!("expected a table of rank 2, found {}", table.rank()?).into());
    };
    let ids = op.cast(&ids, DType::Int64)?;
    let ids = op.reshape(&ids, &[-1, 1])?;
    let mut given = op.reshape(&given, &[-1, width])?;
    if let Some(row) = op.padding_row(&table)? {
        let row = op.long(row);
        let is_padding = op.call("Equal", &[&ids, &row], [])?;
        given = op.except(&is_padding, &given)?;
    }
    let zeros = op.constant_like(&table, table.dtype(), 0.0)?;
    let sums = op.put_rows(&zeros, &ids, &given, "add")?;
    op.put_gradient("W", &sums)
}
