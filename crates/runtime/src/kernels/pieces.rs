//! Other extents, other orders, pieces, and what is put together of them; what is filled and counted.

use burn_backend::{Backend, Slice};
use lodstone_model::{AttributeValue, Tensor};
use lodstone_store::Blob;

use super::tensor::{MOST_ELEMENTS, extents};
use super::{Call, Run, axis, count};
use crate::item::{Item, Outcome};

type One<B> = Outcome<Vec<Item<B>>>;

pub(super) fn kernel<B: Backend>(kind: &str) -> Option<Run<B>> {
    Some(match kind {
        "Concat" => concat,
        "ConstantOfShape" => constant_of_shape,
        "Expand" => expand,
        "Flatten" => |call| {
            let x = call.input(0)?.clone();
            let (shape, axis) = (x.shape(), call.int("axis", 1));
            let rank = i64::try_from(shape.len()).unwrap_or(i64::MAX);
            let split = count(if axis < 0 { axis + rank } else { axis })?.min(shape.len());
            let (rows, columns) = shape.split_at(split);
            let flat = vec![rows.iter().product(), columns.iter().product()];
            Ok(vec![x.reshaped(flat)])
        },
        "Range" => range,
        "Reshape" => reshape,
        "Shape" => shape,
        "Slice" => slice,
        "Split" => split,
        "Squeeze" => squeeze,
        "Transpose" => |call| {
            let x = call.input(0)?.clone();
            let rank = x.shape().len();
            let order: Vec<usize> = match call.ints("perm") {
                Some(order) => order.iter().map(|at| axis(*at, rank)).collect::<Outcome<_>>()?,
                None => (0..rank).rev().collect(),
            };
            Ok(vec![x.permuted(&order)])
        },
        "Unsqueeze" => unsqueeze,
        _ => return None,
    })
}

fn concat<B: Backend>(call: &Call<'_, B>) -> One<B> {
    let items = call.all();
    let rank = items.first().map_or(0, |item| item.shape().len());
    let at = axis(call.int("axis", 0), rank)?;
    // Nothing is added by what has no elements.
    let some: Vec<_> = items.iter().filter(|item| !item.shape().contains(&0)).cloned().collect();
    Ok(vec![Item::concatenated(if some.is_empty() { items } else { some }, at)?])
}

fn constant_of_shape<B: Backend>(call: &Call<'_, B>) -> One<B> {
    let dims = extents(&call.longs(0)?.unwrap_or_default())?;
    let zero = || Tensor::dense(lodstone_model::DType::Float32, vec![1], Blob::memory(vec![0; 4]));
    let value = match call.op.attribute("value") {
        Some(AttributeValue::Tensor(value)) => Tensor::clone(value),
        _ => zero(),
    };
    let one = Item::enter(&value)?.reshaped(vec![1; dims.len()]);
    Ok(vec![one.expanded(&dims)])
}

fn expand<B: Backend>(call: &Call<'_, B>) -> One<B> {
    let dims = extents(&call.longs(1)?.unwrap_or_default())?;
    let x = call.input(0)?.clone();
    let shape = super::tensor::common(&x.shape(), &dims)?;
    extents(&shape.iter().map(|dim| dim.cast_signed() as i64).collect::<Vec<_>>())?;
    Ok(vec![x.expanded(&shape)])
}

fn range<B: Backend>(call: &Call<'_, B>) -> One<B> {
    let one = |number: usize| call.input(number);
    let (start, limit, step) = (one(0)?, one(1)?, one(2)?);
    let to = crate::item::burn_type(start.dtype()?)?;
    if let Item::Int(_) = start {
        let number = |item: &Item<B>| {
            item.to_longs()?.first().copied().ok_or_else(|| "it is empty".to_owned())
        };
        let (start, limit, step) = (number(start)?, number(limit)?, number(step)?);
        if step == 0 {
            return Err("it does not advance".to_owned());
        }
        let distance = i128::from(limit) - i128::from(start);
        let step_wide = i128::from(step);
        let count = (distance / step_wide + i128::from(distance % step_wide != 0)).max(0);
        let count = i64::try_from(if (distance > 0) == (step > 0) { count } else { 0 });
        let dims = extents(&[count.unwrap_or(i64::MAX)])?;
        let values = (0..dims.iter().product::<usize>() as i64).map(|number| start + number * step);
        let values: Vec<i64> = values.collect();
        return Ok(vec![super::tensor::converted(Item::longs(&values), to)?]);
    }
    let number = |item: &Item<B>| {
        item.to_doubles()?.first().copied().ok_or_else(|| "it is empty".to_owned())
    };
    let (start, limit, step) = (number(start)?, number(limit)?, number(step)?);
    let count = ((limit - start) / step).ceil().max(0.0);
    if !count.is_finite() || count > MOST_ELEMENTS as f64 {
        return Err(format!("from {start} to {limit} by {step} is no number of elements"));
    }
    let values: Vec<f64> = (0..count as usize).map(|number| start + number as f64 * step).collect();
    let made = burn_backend::TensorData::new(values.clone(), [values.len()]);
    Ok(vec![super::tensor::converted(Item::from_data(made), to)?])
}

fn reshape<B: Backend>(call: &Call<'_, B>) -> One<B> {
    let x = call.input(0)?.clone();
    let (shape, dims) = (x.shape(), call.longs(1)?.unwrap_or_default());
    let keeps = call.int("allowzero", 0) == 0;
    let known = |(place, dim): (usize, &i64)| match dim {
        0 if keeps => shape.get(place).copied().ok_or("there is no extent to keep".to_owned()),
        -1 => Ok(1),
        dim => count(*dim),
    };
    let mut dims_now: Vec<usize> = dims.iter().enumerate().map(known).collect::<Outcome<_>>()?;
    let whole: usize = shape.iter().product();
    let so_far = dims_now.iter().try_fold(1_usize, |all, dim| all.checked_mul(*dim));
    let so_far = so_far.ok_or("it is too large")?;
    if let Some(rest) = dims.iter().position(|dim| *dim == -1) {
        let missing = whole.checked_div(so_far).unwrap_or(0);
        if let Some(dim) = dims_now.get_mut(rest) {
            *dim = missing;
        }
    }
    if dims_now.iter().product::<usize>() != whole {
        return Err(format!("{shape:?} has other elements than {dims:?}"));
    }
    Ok(vec![x.reshaped(dims_now)])
}

fn shape<B: Backend>(call: &Call<'_, B>) -> One<B> {
    let shape = call.input(0)?.shape();
    let rank = i64::try_from(shape.len()).unwrap_or(i64::MAX);
    let place = |at: i64| usize::try_from(if at < 0 { at + rank } else { at }).unwrap_or(0);
    let (start, end) = (place(call.int("start", 0)), place(call.int("end", rank)).min(shape.len()));
    let dims: Vec<i64> = shape
        .get(start..end.max(start))
        .unwrap_or_default()
        .iter()
        .map(|dim| *dim as i64)
        .collect();
    Ok(vec![Item::longs(&dims)])
}

fn slice<B: Backend>(call: &Call<'_, B>) -> One<B> {
    let x = call.input(0)?.clone();
    let shape = x.shape();
    let starts = call.longs(1)?.unwrap_or_default();
    let ends = call.longs(2)?.unwrap_or_default();
    let axes = call.longs(3)?.unwrap_or_else(|| (0..).take(starts.len()).collect());
    let steps = call.longs(4)?.unwrap_or_else(|| vec![1; starts.len()]);
    let mut slices: Vec<Slice> =
        shape.iter().map(|dim| Slice::new(0, Some(dim.cast_signed()), 1)).collect();
    for (((at, start), end), step) in axes.iter().zip(&starts).zip(&ends).zip(&steps) {
        let at = axis(*at, shape.len())?;
        let dim = shape.get(at).copied().unwrap_or(0) as i64;
        let place = |number: i64| if number < 0 { number.saturating_add(dim) } else { number };
        let (mut start, mut end) = (place(*start), place(*end));
        if *step == 0 {
            return Err("it does not advance".to_owned());
        }
        let piece = if *step > 0 {
            (start, end) = (start.clamp(0, dim), end.clamp(0, dim));
            Slice::new(start as isize, Some(end.max(start) as isize), *step as isize)
        } else {
            // From the last to the first: burn takes the same stretch, and goes through it backwards.
            (start, end) = (start.clamp(-1, dim - 1), end.clamp(-1, dim - 1));
            Slice::new((end + 1) as isize, Some((start + 1).max(end + 1) as isize), *step as isize)
        };
        if let Some(slot) = slices.get_mut(at) {
            *slot = piece;
        }
    }
    Ok(vec![x.sliced(&slices)])
}

fn split<B: Backend>(call: &Call<'_, B>) -> One<B> {
    let x = call.input(0)?;
    let shape = x.shape();
    let at = axis(call.int("axis", 0), shape.len())?;
    let dim = shape.get(at).copied().unwrap_or(0);
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
        let end = start + size;
        if end > dim {
            return Err(format!("{sizes:?} are more than {dim}"));
        }
        let piece = x.clone().narrowed(at, start, end);
        start = end;
        Ok(piece)
    };
    sizes.iter().map(piece).collect()
}

fn squeeze<B: Backend>(call: &Call<'_, B>) -> One<B> {
    let x = call.input(0)?.clone();
    let shape = x.shape();
    let gone: Vec<usize> = match call.longs(1)? {
        Some(axes) => axes.iter().map(|at| axis(*at, shape.len())).collect::<Outcome<_>>()?,
        None => (0..shape.len()).filter(|at| shape.get(*at) == Some(&1)).collect(),
    };
    if gone.iter().any(|at| shape.get(*at) != Some(&1)) {
        return Err(format!("{gone:?} of {shape:?} are not all 1"));
    }
    let rest = shape.iter().enumerate().filter(|(at, _)| !gone.contains(at));
    let rest = rest.map(|(_, dim)| *dim).collect();
    Ok(vec![x.reshaped(rest)])
}

fn unsqueeze<B: Backend>(call: &Call<'_, B>) -> One<B> {
    let x = call.input(0)?.clone();
    let axes = call.longs(1)?.unwrap_or_default();
    let rank = x.shape().len() + axes.len();
    let new: Vec<usize> = axes.iter().map(|at| axis(*at, rank)).collect::<Outcome<_>>()?;
    let mut old = x.shape().into_iter();
    let dims = (0..rank).map(|at| if new.contains(&at) { 1 } else { old.next().unwrap_or(1) });
    Ok(vec![x.reshaped(dims.collect())])
}
