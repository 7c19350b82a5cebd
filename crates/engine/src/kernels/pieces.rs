//! Reshaping, transposing, slicing, splitting and concatenation.

use std::collections::BTreeSet;

use crate::call::{Call, Outputs, one};
use crate::dims::{at_mut, axis, common, count, dim_at, dims_from, long, rows_of};
use crate::error::Outcome;
use crate::fast;
use crate::operator::Operator;
use crate::tensor::{Dense, Slice};

/// The operators of this family.
pub(super) const OPERATORS: &[Operator] = &[
    Operator::dense("Concat", concat).fast(fast::images::CONCAT).channels_last().moves(),
    Operator::dense("Expand", expand).moves(),
    Operator::dense("Flatten", flatten).moves(),
    Operator::dense("Reshape", reshape).moves(),
    Operator::dense("Shape", shape),
    Operator::dense("Slice", slice).shares().moves(),
    Operator::dense("Split", split).shares().moves(),
    Operator::dense("Squeeze", squeeze).moves(),
    Operator::dense("Transpose", transposed).moves(),
    Operator::dense("Unsqueeze", unsqueeze).moves(),
];

fn flatten(call: &Call<'_>) -> Outputs {
    let x = call.input(0)?.clone();
    let (shape, axis) = (x.shape(), call.int("axis", 1));
    let rank = long(shape.len());
    let split = count(if axis < 0 { axis + rank } else { axis })?.min(shape.len());
    let (rows, columns) = shape.split_at(split);
    let flat = vec![rows.iter().product(), columns.iter().product()];
    one(x.reshaped(flat)?)
}

fn transposed(call: &Call<'_>) -> Outputs {
    let x = call.input(0)?.clone();
    let rank = x.shape().len();
    let order: Vec<usize> = match call.ints("perm") {
        Some(order) => order.iter().map(|at| axis(*at, rank)).collect::<Outcome<_>>()?,
        None => (0..rank).rev().collect(),
    };
    one(x.permuted(&order)?)
}

fn concat(call: &Call<'_>) -> Outputs {
    let items = call.all();
    let first = items.first().ok_or("the inputs are missing")?;
    let at = axis(call.int("axis", 0), first.dims().len())?;
    // Empty tensors contribute nothing.
    let some: Vec<_> = items.iter().filter(|item| !item.shape().contains(&0)).cloned().collect();
    one(Dense::joined(if some.is_empty() { &items } else { &some }, at)?)
}

fn expand(call: &Call<'_>) -> Outputs {
    let dims = dims_from(&call.list(1)?)?;
    let x = call.input(0)?.clone();
    let shape = common(x.dims(), &dims)?;
    one(x.expanded(&shape)?)
}

fn reshape(call: &Call<'_>) -> Outputs {
    let x = call.input(0)?.clone();
    let (shape, dims) = (x.shape(), call.list(1)?);
    let keeps = call.int("allowzero", 0) == 0;
    let kept = |place: usize| {
        let dim = shape.get(place).copied();
        dim.ok_or_else(|| {
            format!("expected dim {place} for a 0 in the shape, found {shape:?}").into()
        })
    };
    let known = |(place, dim): (usize, &i64)| match dim {
        0 if keeps => kept(place),
        -1 => Ok(1),
        dim => count(*dim),
    };
    let mut dims_now: Vec<usize> = dims.iter().enumerate().map(known).collect::<Outcome<_>>()?;
    let whole: usize = shape.iter().product();
    let so_far = dims_now.iter().try_fold(1_usize, |all, dim| all.checked_mul(*dim));
    let so_far = so_far.ok_or("the shape is too large")?;
    if let Some(rest) = dims.iter().position(|dim| *dim == -1) {
        // With another dim of 0 the tensor is empty, whatever this one is.
        *at_mut(&mut dims_now, rest)? = rows_of(so_far, whole);
    }
    if dims_now.iter().product::<usize>() != whole {
        let wrong = format!("expected the same number of elements as {shape:?}, found {dims:?}");
        return Err(wrong.into());
    }
    one(x.reshaped(dims_now)?)
}

fn shape(call: &Call<'_>) -> Outputs {
    let shape = call.input(0)?.shape();
    let rank = long(shape.len());
    // A range that starts before the first dim starts with it.
    let place = |at: i64| count(if at < 0 { (at + rank).max(0) } else { at });
    let (start, end) = (place(call.int("start", 0))?, place(call.int("end", rank))?);
    let part = shape.iter().take(end).skip(start);
    let dims: Vec<i64> = part.map(|dim| long(*dim)).collect();
    one(Dense::longs(&dims))
}

/// Selects ranges of elements, forwards or backwards.
fn slice(call: &Call<'_>) -> Outputs {
    let x = call.input(0)?.clone();
    let shape = x.shape();
    let starts = call.list(1)?;
    let ends = call.list(2)?;
    let axes = call.longs(3)?.unwrap_or_else(|| (0..).take(starts.len()).collect());
    let steps = call.longs(4)?.unwrap_or_else(|| vec![1; starts.len()]);
    if [ends.len(), axes.len(), steps.len()] != [starts.len(); 3] {
        return Err(format!("{starts:?} and {ends:?} do not match the axes and steps").into());
    }
    let mut slices: Vec<Slice> = shape.iter().map(|dim| Slice::whole(*dim)).collect();
    for (((at, start), end), step) in axes.iter().zip(&starts).zip(&ends).zip(&steps) {
        let at = axis(*at, shape.len())?;
        let dim = long(dim_at(&shape, at)?);
        let place = |number: i64| if number < 0 { number.saturating_add(dim) } else { number };
        let (start, end) = (place(*start), place(*end));
        // Larger steps select the same elements.
        let step = (*step).clamp(-dim - 1, dim + 1);
        let (start, reach) = match step {
            0 => return Err("a step is 0".into()),
            1.. => {
                let start = start.clamp(0, dim);
                (start, end.clamp(0, dim) - start)
            }
            _ if dim == 0 => (0, 0),
            _ => {
                let start = start.clamp(0, dim - 1);
                (start, start - end.clamp(-1, dim - 1))
            }
        };
        let count = count(reach.max(0))?.div_ceil(count(step.saturating_abs())?);
        let start = if count == 0 { 0 } else { crate::dims::count(start)? };
        let step = isize::try_from(step).map_err(|_| "a step is too large")?;
        *at_mut(&mut slices, at)? = Slice { start, count, step };
    }
    one(x.sliced(&slices)?)
}

fn split(call: &Call<'_>) -> Outputs {
    let x = call.input(0)?;
    let shape = x.shape();
    let at = axis(call.int("axis", 0), shape.len())?;
    let dim = dim_at(&shape, at)?;
    let sizes: Vec<usize> = match call.longs(1)? {
        Some(sizes) => sizes.iter().map(|size| count(*size)).collect::<Outcome<_>>()?,
        None => {
            let parts = call.outputs().max(1);
            let size = dim.div_ceil(parts);
            (0..parts).map(|part| dim.saturating_sub(part * size).min(size)).collect()
        }
    };
    let mut start = 0;
    let piece = |size: &usize| {
        let end = size.saturating_add(start);
        if end > dim {
            return Err(format!("splits {sizes:?} exceed dim {dim}").into());
        }
        let piece = x.cut(at, start, end)?;
        start = end;
        Ok(piece.into())
    };
    sizes.iter().map(piece).collect()
}

fn squeeze(call: &Call<'_>) -> Outputs {
    let x = call.input(0)?.clone();
    let shape = x.shape();
    let gone: Vec<usize> = match call.longs(1)? {
        Some(axes) => axes.iter().map(|at| axis(*at, shape.len())).collect::<Outcome<_>>()?,
        None => (0..shape.len()).filter(|at| shape.get(*at) == Some(&1)).collect(),
    };
    if gone.iter().any(|at| shape.get(*at) != Some(&1)) {
        return Err(format!("axes {gone:?} of {shape:?} are not all 1").into());
    }
    let rest = shape.iter().enumerate().filter(|(at, _)| !gone.contains(at));
    let rest: Vec<usize> = rest.map(|(_, dim)| *dim).collect();
    one(x.reshaped(rest)?)
}

fn unsqueeze(call: &Call<'_>) -> Outputs {
    let x = call.input(0)?.clone();
    let axes = call.list(1)?;
    let rank = x.shape().len() + axes.len();
    let new: BTreeSet<usize> = axes.iter().map(|at| axis(*at, rank)).collect::<Outcome<_>>()?;
    let mut dims = x.shape();
    // An axis that is listed twice leaves one more dim, of 1.
    dims.resize(rank - new.len(), 1);
    new.into_iter().for_each(|at| dims.insert(at, 1));
    one(x.reshaped(dims)?)
}
