//! Matrix products.

use burn_backend::ops::{FloatTensorOps, IntTensorOps};
use burn_backend::{DType as BurnType, Scalar};
use burn_flex::Flex;
use lodstone_schema::Finding;

use super::tensor::{alike, bounded, common};
use super::{Call, Made, Run, one};
use crate::item::{Item, Outcome};

pub(super) fn kernel(kind: &str) -> Option<Run> {
    Some(match kind {
        "Gemm" => gemm,
        "MatMul" => |call| one(product(call.input(0)?.clone(), call.input(1)?.clone())?),
        _ => return None,
    })
}

/// Multiplies batches of matrices; a vector is a row on the left and a column on the right.
pub(super) fn product(a: Item, b: Item) -> Outcome<Item> {
    let (mut left, mut right) = (a.shape(), b.shape());
    let (is_row, is_column) = (left.len() == 1, right.len() == 1);
    if is_row {
        left.insert(0, 1);
    }
    if is_column {
        right.push(1);
    }
    let (Some((stack, [rows, inner])), Some((other, [same, columns]))) =
        (left.split_last_chunk::<2>(), right.split_last_chunk::<2>())
    else {
        return Err("expected matrices".into());
    };
    if inner != same {
        let wrong = "expected equal inner dims (columns of the first, rows of the second)";
        return Err(format!("{wrong}, found {left:?} and {right:?}").into());
    }
    alike(&a, &b)?;
    let over = common(stack, other)?;
    let full = |a: usize, b: usize| [over.as_slice(), &[a, b]].concat();
    let mut shape = full(*rows, *columns);
    bounded(&shape)?;
    bounded(&full(*rows, *inner))?;
    bounded(&full(*inner, *columns))?;
    let (rows, inner, columns) = (*rows, *inner, *columns);
    let made = if shape.contains(&0) || inner == 0 {
        let zero = match &a {
            Item::Float(_) => Item::from_data(burn_backend::TensorData::new(vec![0f32], [1])),
            _ => Item::longs(&[0]),
        };
        let to = crate::item::burn_type(a.dtype()?)?;
        super::tensor::converted(zero, to)?.reshaped(vec![1; shape.len()]).expanded(&shape)
    } else {
        let a = a.reshaped(left.clone()).expanded(&full(rows, inner));
        let b = b.reshaped(right.clone()).expanded(&full(inner, columns));
        match (a, b) {
            (Item::Float(a), Item::Float(b)) => Item::Float(Flex::float_matmul(a, b)),
            // Truncation at the end gives the same bits as truncation in between.
            (a, b) => {
                let (kind, wide) = (a.kind()?, BurnType::I64);
                Item::Int(Flex::int_matmul(a.cast(wide)?.int()?, b.cast(wide)?.int()?))
                    .cast(kind)?
            }
        }
    };
    if is_column {
        shape.pop();
    }
    if is_row {
        shape.remove(over.len());
    }
    Ok(made.reshaped(shape))
}

fn gemm(call: &Call<'_>) -> Made {
    let turned = |number: usize, name: &str| {
        let x = call.input(number)?.clone();
        Ok::<_, Finding>(if call.int(name, 0) != 0 { x.permuted(&[1, 0]) } else { x })
    };
    let (a, b) = (turned(0, "transA")?, turned(1, "transB")?);
    let mut y = product(a, b)?.float()?;
    let alpha = call.float("alpha", 1.0);
    if alpha != 1.0 {
        y = Flex::float_mul_scalar(y, Scalar::Float(alpha.into()));
    }
    if let Some(c) = call.optional(2) {
        let shape = Item::Float(y.clone()).shape();
        let c = c.clone().fitted(&shape)?.float()?;
        let c = Flex::float_mul_scalar(c, Scalar::Float(call.float("beta", 1.0).into()));
        y = Flex::float_add(y, c);
    }
    one(Item::Float(y))
}
