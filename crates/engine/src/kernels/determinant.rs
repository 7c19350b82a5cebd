//! Determinants of square matrices.

use crate::call::{Call, Outputs, one};
use crate::dims::bounded;
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
            x.to_doubles()?.chunks_exact_mut(size * size).map(|it| determinant(it, size)).collect()
        }
    };
    one(Dense::numbers(made, x.dtype(), stack)?)
}

/// Returns the product of the pivots of Gaussian elimination, which takes the largest element of a column as its pivot.
fn determinant(matrix: &mut [f64], size: usize) -> f64 {
    let mut rows: Vec<&mut [f64]> = matrix.chunks_exact_mut(size).collect();
    let element = |row: &[f64], at: usize| row.get(at).copied().unwrap_or(0.0);
    let mut product = 1.0;
    for column in 0..size {
        let sizes =
            rows.iter().enumerate().skip(column).map(|(at, row)| (at, element(row, column).abs()));
        let pivot = sizes.max_by(|a, b| a.1.total_cmp(&b.1)).map_or(column, |(at, _)| at);
        if pivot != column {
            rows.swap(pivot, column);
            product = -product;
        }
        let (above, below) = rows.split_at_mut(column + 1);
        let Some(pivot) = above.last() else { break };
        let lead = element(pivot, column);
        product *= lead;
        if lead == 0.0 {
            return 0.0;
        }
        for row in below {
            let factor = element(row, column) / lead;
            let line = row.iter_mut().zip(pivot.iter()).skip(column);
            line.for_each(|(element, pivot)| *element -= factor * pivot);
        }
    }
    product
}
