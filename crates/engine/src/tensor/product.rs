//! Products of matrices.

use std::iter::repeat;

use lodstone_model::DType;
use lodstone_schema::Finding;

use super::dense::Dense;
use super::element::{Number, integers_of, unsupported};
use super::numbers::check_alike;
use super::order::{Order, elements};
use super::storage::{bytes_of, zeroed};
use crate::dims::{bounded, common};
use crate::error::Outcome;
use crate::gemm::{Buffer, Epilogue, PackedMatrix, StridedRows};
use crate::threads::{each_chunk, sharing};

/// The minimum number of rows for which it is worth it to pack the right matrix.
const MIN_ROWS: usize = 8;

/// The minimum number of columns: the vectors of a tile would be almost empty.
const MIN_COLUMNS: usize = 4;

/// The number of multiplications of a thread, at least.
const PART: usize = 1 << 16;

/// The size of matrices, and the numbers of those that are multiplied.
struct Stacks {
    rows: usize,
    inner: usize,
    columns: usize,
    /// The numbers of a left and a right matrix, for each product.
    pairs: Vec<(usize, usize)>,
}

/// Multiplies stacks of matrices, which are broadcast; a vector is a row on the left and a column on the right. Integers wrap
/// around.
///
/// # Errors
/// If the dims do not fit, kernels do not support the element type, or memory is insufficient.
pub(crate) fn product(a: &Dense, b: &Dense) -> Outcome<Dense> {
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
    check_alike(a, b)?;
    let over = common(stack, other)?;
    let mut dims = [over.as_slice(), &[*rows, *columns]].concat();
    bounded(&dims)?;
    // A right matrix for all is multiplied with the rows of all.
    let is_one = other.iter().all(|dim| *dim == 1) && stack.len() == over.len();
    let stacks = match is_one {
        true => {
            let rows = stack.iter().product::<usize>().saturating_mul(*rows);
            Stacks { rows, inner: *inner, columns: *columns, pairs: vec![(0, 0)] }
        }
        false => {
            let pairs = numbers(stack, &over).zip(numbers(other, &over)).collect();
            Stacks { rows: *rows, inner: *inner, columns: *columns, pairs }
        }
    };
    let made = match a.dtype() {
        DType::Bool => return Err(unsupported(DType::Bool)),
        _ if dims.contains(&0) || *inner == 0 => a.zeros(&dims)?,
        DType::Float32 => of_singles(a, b, &stacks, &dims)?,
        DType::Float64 => of_all::<f64>(a, b, &stacks, &dims)?,
        half @ (DType::Float16 | DType::BFloat16) => {
            of_singles(&a.widened()?, &b.widened()?, &stacks, &dims)?.cast_to(half)?
        }
        dtype => integers_of!(
            dtype,
            T => of_all::<T>(a, b, &stacks, &dims)?,
            return Err(unsupported(dtype))
        ),
    };
    if is_column {
        dims.pop();
    }
    if is_row {
        dims.remove(over.len());
    }
    made.reshaped(&dims)
}

/// Returns the number of the matrix of a stack at each place of the dims that it is broadcast to.
fn numbers<'d>(stack: &'d [usize], over: &'d [usize]) -> impl Iterator<Item = usize> + 'd {
    let count: usize = over.iter().product();
    (0..count).map(move |mut place| {
        let (mut number, mut step) = (0, 1);
        // Dims that are missing at the front are 1.
        for (dim, own) in over.iter().rev().zip(stack.iter().rev().chain(repeat(&1))) {
            if *own > 1 {
                number += place % dim * step;
            }
            step *= own;
            place /= dim;
        }
        number
    })
}

/// Returns the elements of a matrix of a stack.
fn matrix<T>(all: &[T], number: usize, size: usize) -> Outcome<&[T]> {
    let found = all.get(number * size..(number + 1) * size);
    found.ok_or_else(|| Finding::internal("a matrix is outside of its stack"))
}

/// Multiplies element after element: each row of the result is a sum of rows of the right matrix.
fn of_all<T: Number>(a: &Dense, b: &Dense, stacks: &Stacks, dims: &[usize]) -> Outcome<Dense> {
    let Stacks { rows, inner, columns, pairs } = stacks;
    let (a, b) = (elements::<T>(a, Order::RowMajor)?, elements::<T>(b, Order::RowMajor)?);
    let mut made = zeroed::<T>(pairs.len() * rows * columns)?;
    let at_once = PART.div_ceil(inner * columns);
    each_chunk(&mut made, at_once * columns, |(): &mut (), number, into| {
        for (row, into) in (number * at_once..).zip(into.chunks_exact_mut(*columns)) {
            let pair = pairs.get(row / rows);
            let (left, right) = pair.ok_or_else(|| Finding::internal("a product too many"))?;
            let left = matrix(&a, left * rows + row % rows, *inner)?;
            add_product(left, matrix(&b, *right, inner * columns)?, into);
        }
        Ok(())
    })?;
    Dense::of_elements(T::DTYPE, dims, bytes_of(made))
}

/// Adds the product of a row with a matrix to a row of the result, four rows of the matrix at a time.
pub(crate) fn add_product<T: Number>(left: &[T], right: &[T], into: &mut [T]) {
    let columns = into.len();
    let (fours, rest) = left.as_chunks::<4>();
    let mut blocks = right.chunks_exact(4 * columns);
    for ([a, b, c, d], rows) in fours.iter().zip(&mut blocks) {
        let (first, rows) = rows.split_at(columns);
        let (second, rows) = rows.split_at(columns);
        let (third, fourth) = rows.split_at(columns);
        let rows = first.iter().zip(second).zip(third.iter().zip(fourth));
        for (into, ((w, x), (y, z))) in into.iter_mut().zip(rows) {
            let sum = into.plus(a.times(*w)).plus(b.times(*x));
            *into = sum.plus(c.times(*y)).plus(d.times(*z));
        }
    }
    for (a, row) in rest.iter().zip(blocks.remainder().chunks_exact(columns)) {
        into.iter_mut().zip(row).for_each(|(into, element)| *into = into.plus(a.times(*element)));
    }
}

/// Multiplies matrices in single precision; the right one is packed, if there are enough rows and columns.
fn of_singles(a: &Dense, b: &Dense, stacks: &Stacks, dims: &[usize]) -> Outcome<Dense> {
    let Stacks { rows, inner, columns, pairs } = stacks;
    if *rows < MIN_ROWS || *columns < MIN_COLUMNS {
        return of_all::<f32>(a, b, stacks, dims);
    }
    let (a, b) = (elements::<f32>(a, Order::RowMajor)?, elements::<f32>(b, Order::RowMajor)?);
    let mut made = zeroed::<f32>(pairs.len() * rows * columns)?;
    // A thread that waits for parts of a product may begin another one: then each thread multiplies alone.
    let is_shared = pairs.len() < sharing();
    each_chunk(&mut made, rows * columns, |unfolded: &mut Vec<_>, number, into| {
        let pair = pairs.get(number);
        let (left, right) = pair.ok_or_else(|| Finding::internal("a product too many"))?;
        let (values, right) =
            (matrix(&a, *left, rows * inner)?, matrix(&b, *right, inner * columns)?);
        let size = [1, *inner, *columns];
        let packed =
            PackedMatrix::new(size, *inner, Buffer::transient, |[_, row, column], into| {
                let from = right.get(row * columns + column..).unwrap_or_default();
                into.iter_mut().zip(from).for_each(|(into, from)| *into = *from);
            })?;
        let lines = StridedRows { stride: *inner, group_width: *inner, values };
        match is_shared {
            true => packed.multiply(&lines, Epilogue::default(), into, |_, _| Ok(())),
            false => {
                packed.multiply_alone(&lines, 0, Epilogue::default(), unfolded, into);
                Ok(())
            }
        }
    })?;
    Dense::of_elements(DType::Float32, dims, bytes_of(made))
}
