//! Determinants of square matrices.

use lodstone_schema::places::at;

use crate::call::{Call, Outputs, one};
use crate::dims::bounded;
use crate::error::Outcome;
use crate::operator::Operator;
use crate::tensor::Dense;

/// The operators of this family.
pub(super) const OPERATORS: &[Operator] = &[Operator::dense("Det", determinants).working(20, 0)];

fn determinants(call: &Call<'_>) -> Outputs {
    let x = call.input(0)?;
    let shape = x.shape();
    let Some((stack, &[size, columns])) = shape.split_last_chunk::<2>() else {
        return Err(format!("expected matrices, found {shape:?}").into());
    };
    if size != columns {
        return Err(format!("expected square matrices, found {size} by {columns}").into());
    }
    let made = match size {
        // The determinant of an empty matrix is 1.
        0 => vec![1.0; bounded(stack)?],
        _ => {
            let mut all = x.to_doubles()?;
            let made = all.chunks_exact_mut(size * size).map(|it| determinant(it, size));
            made.collect::<Outcome<_>>()?
        }
    };
    one(Dense::numbers(made, x.dtype(), stack)?)
}

/// Returns the product of the pivots of Gaussian elimination, which takes the largest element of a column as its pivot.
fn determinant(matrix: &mut [f64], size: usize) -> Outcome<f64> {
    let mut rows: Vec<&mut [f64]> = matrix.chunks_exact_mut(size).collect();
    let mut product = 1.0;
    for column in 0..size {
        let mut pivot = (column, 0.0);
        for (place, row) in rows.iter().enumerate().skip(column) {
            let size = at(row, column)?.abs();
            // The last of equal ones.
            if size.total_cmp(&pivot.1).is_ge() {
                pivot = (place, size);
            }
        }
        let (pivot, _) = pivot;
        if pivot != column {
            rows.swap(pivot, column);
            product = -product;
        }
        let (above, below) = rows.split_at_mut(column + 1);
        let Some(pivot) = above.last() else { break };
        let lead = at(pivot, column)?;
        product *= lead;
        if lead == 0.0 {
            return Ok(0.0);
        }
        for row in below {
            let factor = at(row, column)? / lead;
            let line = row.iter_mut().zip(pivot.iter()).skip(column);
            line.for_each(|(element, pivot)| *element -= factor * pivot);
        }
    }
    Ok(product)
}
