//! Operators that move, repeat, drop or accumulate elements.

use crate::call::{Call, Outputs, one};
use crate::dims::{at_mut, axis, bounded, count, dim_at, dims_from, inverse, long};
use crate::error::Outcome;
use crate::operator::Operator;
use crate::tensor::{Dense, Fold};

/// The operators of this family.
pub(super) const OPERATORS: &[Operator] = &[
    Operator::dense("CumProd", |call| cumulative(call, Fold::Product, 1.0)).working(0, 28),
    Operator::dense("CumSum", |call| cumulative(call, Fold::Sum, 0.0)).working(0, 28),
    Operator::dense("DepthToSpace", depth_to_space).moves(),
    Operator::dense("ReverseSequence", reverse_sequence).working(2, 16).moves(),
    Operator::dense("Size", element_count),
    Operator::dense("SpaceToDepth", space_to_depth).moves(),
    Operator::dense("Tile", tile).moves(),
    Operator::dense("Trilu", trilu),
];

fn element_count(call: &Call<'_>) -> Outputs {
    let size = bounded(&call.input(0)?.shape())?;
    one(Dense::longs(&[long(size)]).reshaped(Vec::new())?)
}

/// Cumulative operators: `exclusive` leaves out the element itself, `reverse` starts at the end.
fn cumulative(call: &Call<'_>, how: Fold, first: f64) -> Outputs {
    let x = call.input(0)?.clone();
    let shape = x.shape();
    let at = call.longs(1)?.and_then(|at| at.first().copied()).ok_or("the axis is missing")?;
    let at = axis(at, shape.len())?;
    if shape.contains(&0) {
        return one(x);
    }
    let (kind, dim) = (x.dtype(), dim_at(&shape, at)?);
    let backwards: Vec<i64> = (0..long(dim)).rev().collect();
    let reverse = call.int("reverse", 0) != 0;
    let mut x = if reverse { x.selected(at, &backwards)? } else { x };
    if call.int("exclusive", 0) != 0 {
        let mut one = shape;
        *at_mut(&mut one, at)? = 1;
        let begin = Dense::filled(first, kind, &one)?;
        x = match dim {
            1 => begin,
            _ => Dense::joined(&[begin, x.cut(at, 0, dim - 1)?], at)?,
        };
    }
    let y = x.cumulated(at, how)?;
    one(if reverse { y.selected(at, &backwards)? } else { y })
}

/// Returns the dims of an image (batch, channels, rows, columns), and the block size.
fn image(call: &Call<'_>) -> Outcome<([usize; 4], usize)> {
    let shape = call.input(0)?.shape();
    let dims = shape.as_slice().try_into().map_err(|_| format!("{shape:?} is not an image"))?;
    match count(call.int("blocksize", 0))? {
        0 => Err("expected a `blocksize` of at least 1, found 0".into()),
        block if block.checked_mul(block).is_none() => Err(format!("{block} is too large").into()),
        block => Ok((dims, block)),
    }
}

fn depth_to_space(call: &Call<'_>) -> Outputs {
    let ([examples, channels, rows, columns], block) = image(call)?;
    if !channels.is_multiple_of(block * block) {
        return Err(format!("{channels} channels do not divide into blocks of {block}").into());
    }
    let x = call.input(0)?.clone();
    let inner = channels / (block * block);
    let depth_first = ([examples, block, block, inner, rows, columns], [0, 3, 4, 1, 5, 2]);
    let columns_first = ([examples, inner, block, block, rows, columns], [0, 1, 4, 2, 5, 3]);
    let (apart, order) = call.choice("mode", &[("DCR", depth_first), ("CRD", columns_first)])?;
    let whole = vec![examples, inner, rows * block, columns * block];
    one(x.reshaped(apart)?.permuted(&order)?.reshaped(whole)?)
}

fn space_to_depth(call: &Call<'_>) -> Outputs {
    let ([examples, channels, rows, columns], block) = image(call)?;
    if !rows.is_multiple_of(block) || !columns.is_multiple_of(block) {
        return Err(format!("{rows} by {columns} do not divide into blocks of {block}").into());
    }
    let x = call.input(0)?.clone();
    let apart = vec![examples, channels, rows / block, block, columns / block, block];
    let orders = [("DCR", [0, 3, 5, 1, 2, 4]), ("CRD", [0, 1, 3, 5, 2, 4])];
    let order = call.choice("mode", &orders)?;
    let whole = vec![examples, channels * block * block, rows / block, columns / block];
    one(x.reshaped(apart)?.permuted(&order)?.reshaped(whole)?)
}

/// Reverses the first elements of each sequence, and keeps the others.
fn reverse_sequence(call: &Call<'_>) -> Outputs {
    let x = call.input(0)?.clone();
    let shape = x.shape();
    let (time, batch) = (call.int("time_axis", 0), call.int("batch_axis", 1));
    let (time, batch) = (axis(time, shape.len())?, axis(batch, shape.len())?);
    let mut order = vec![time, batch];
    order.extend((0..shape.len()).filter(|at| *at != time && *at != batch));
    let (steps, sequences) = (dim_at(&shape, time)?, dim_at(&shape, batch)?);
    let lengths = call.list(1)?;
    if time == batch || lengths.len() != sequences {
        return Err(
            format!("expected {sequences} sequence lengths, found {}", lengths.len()).into()
        );
    }
    if shape.contains(&0) {
        return one(x);
    }
    let turned = x.permuted(&order)?;
    let dims = turned.shape();
    let width = dims.iter().skip(2).product::<usize>();
    let lengths = lengths.iter().map(|length| count(*length)).collect::<Outcome<Vec<_>>>()?;
    let mut rows = Vec::with_capacity(steps * sequences);
    for step in 0..steps {
        for (number, length) in lengths.iter().enumerate() {
            if *length > steps {
                return Err(format!("expected at most {steps} elements, found {length}").into());
            }
            let from = if step < *length { length - 1 - step } else { step };
            rows.push(long(from * sequences + number));
        }
    }
    let y = turned.reshaped(vec![steps * sequences, width])?.selected(0, &rows)?;
    one(y.reshaped(dims)?.permuted(&inverse(&order))?)
}

/// Repeats each dim.
fn tile(call: &Call<'_>) -> Outputs {
    let x = call.input(0)?.clone();
    let shape = x.shape();
    let times = dims_from(&call.list(1)?)?;
    if times.len() != shape.len() {
        return Err(format!("expected {} repetitions, found {}", shape.len(), times.len()).into());
    }
    let whole: Vec<usize> =
        shape.iter().zip(&times).map(|(dim, times)| dim.saturating_mul(*times)).collect();
    bounded(&whole)?;
    let apart: Vec<usize> = shape.iter().flat_map(|dim| [1, *dim]).collect();
    let pairs = times.iter().zip(&shape).flat_map(|(times, dim)| [*times, *dim]);
    one(x.reshaped(apart)?.expanded(&pairs.collect::<Vec<_>>())?.reshaped(whole)?)
}

/// Keeps the elements below or above a diagonal of each matrix; the others become 0.
fn trilu(call: &Call<'_>) -> Outputs {
    let x = call.input(0)?.clone();
    let shape = x.shape();
    let Some((_, [rows, columns])) = shape.split_last_chunk::<2>() else {
        return Err(format!("expected matrices, found {shape:?}").into());
    };
    if shape.contains(&0) {
        return one(x);
    }
    let offset = call.long(1, 0)?;
    let upper = call.int("upper", 1) != 0;
    let keeps = |row: i64, column: i64| {
        let diagonal = row.saturating_add(offset);
        if upper { column >= diagonal } else { column <= diagonal }
    };
    let rows_of = |row: i64| (0_i64..).take(*columns).map(move |column| keeps(row, column));
    let mask: Vec<bool> = (0_i64..).take(*rows).flat_map(rows_of).collect();
    let mask = Dense::truths(&mask, &[*rows, *columns])?;
    let zero = x.zeros(&[])?;
    one(zero.masked(&mask, &x)?)
}
