//! Extremes of elements of which some are no numbers.
//!
//! PaddlePaddle's loops let each element take the place of the one before unless that is greater, which nothing is than
//! what is no number: the greatest is that of the elements behind the last one that is none. Where a tensor is reduced
//! to one element, its library goes through as many elements at once as 256 bits hold, and leaves those that are no
//! numbers out; the rest at the end goes one by one. ONNX's operators do all others.

use lodstone_engine::Dense;
use lodstone_model::{AttributeValue, DType, Op, Tensor};
use lodstone_schema::paddle::attribute;
use lodstone_store::Blob;

use super::{Outcome, TryRun, input, output};
use crate::executor::plan::Step;
use crate::executor::run::Frame;

pub(super) fn of(kind: &str, op: &Op) -> Option<TryRun> {
    match kind {
        "reduce_max" => Some(|frame, step, op| reduce(frame, step, op, true)),
        "reduce_min" => Some(|frame, step, op| reduce(frame, step, op, false)),
        "p_norm" if order(op).is_infinite() => Some(norm),
        _ => None,
    }
}

fn order(op: &Op) -> f32 {
    match attribute(op, "porder") {
        Some(AttributeValue::Float(order)) => *order,
        _ => 2.0,
    }
}

fn flag(op: &Op, name: &str) -> bool {
    matches!(attribute(op, name), Some(AttributeValue::Bool(true)))
}

/// The elements of a tensor if some of them are no numbers.
fn odd(frame: &Frame<'_>, tensor: &Tensor) -> Outcome<Option<Vec<f64>>> {
    let bytes = tensor.data.bytes()?;
    let is_odd = match tensor.dtype {
        DType::Float32 => bytes.as_chunks().0.iter().any(|it| f32::from_le_bytes(*it).is_nan()),
        DType::Float64 => bytes.as_chunks().0.iter().any(|it| f64::from_le_bytes(*it).is_nan()),
        _ => false,
    };
    if !is_odd {
        return Ok(None);
    }
    let elements = tensor.shape.iter().product::<u64>();
    frame.reserve(elements.saturating_mul(16))?;
    Ok(Some(Dense::of(tensor)?.to_f64()?))
}

fn reduce(frame: &mut Frame<'_>, step: &Step, op: &Op, greatest: bool) -> Outcome<bool> {
    let tensor = frame.tensor(input(step, "X")?)?;
    let Some(values) = odd(frame, tensor)? else { return Ok(false) };
    let rank = tensor.shape.len();
    let axes: Vec<i64> = match attribute(op, "dim") {
        Some(AttributeValue::Ints(axes)) => axes.iter().copied().map(i64::from).collect(),
        Some(AttributeValue::Longs(axes)) => axes.clone(),
        _ => Vec::new(),
    };
    let axes = places(&axes, rank)?;
    let is_whole = flag(op, "reduce_all") || axes.is_empty() || axes.len() == rank;
    let found = match is_whole {
        true => vec![whole(&values, lanes(tensor.dtype), greatest)],
        false => partial(&values, &tensor.shape, &axes, greatest),
    };
    let is_reduced = |axis: usize| is_whole || axes.contains(&axis);
    let shape = reduced(&tensor.shape, is_reduced, flag(op, "keep_dim"));
    put(frame, step, tensor.dtype, shape, &found)
}

/// The greatest or the least size along an axis, or of all elements.
fn norm(frame: &mut Frame<'_>, step: &Step, op: &Op) -> Outcome<bool> {
    let tensor = frame.tensor(input(step, "X")?)?;
    let Some(mut values) = odd(frame, tensor)? else { return Ok(false) };
    values.iter_mut().for_each(|value| *value = value.abs());
    let greatest = order(op) > 0.0;
    let rank = tensor.shape.len();
    let axis = match attribute(op, "axis") {
        Some(AttributeValue::Int(axis)) => i64::from(*axis),
        _ => -1,
    };
    let (axes, is_vector) = (places(&[axis], rank)?, flag(op, "asvector"));
    let found = match is_vector {
        true => vec![one_by_one(values.into_iter(), greatest)],
        false => partial(&values, &tensor.shape, &axes, greatest),
    };
    let is_reduced = |axis: usize| is_vector || axes.contains(&axis);
    let shape = reduced(&tensor.shape, is_reduced, flag(op, "keepdim"));
    put(frame, step, tensor.dtype, shape, &found)
}

/// Axes, counted from the first, in order.
fn places(axes: &[i64], rank: usize) -> Outcome<Vec<usize>> {
    let place = |axis: &i64| {
        let from_end = if *axis < 0 { i64::try_from(rank).unwrap_or(i64::MAX) } else { 0 };
        let place = usize::try_from(axis.saturating_add(from_end)).ok();
        place.filter(|place| *place < rank)
    };
    let places: Option<Vec<usize>> = axes.iter().map(place).collect();
    let mut places = places.ok_or_else(|| format!("expected some of {rank} extents: {axes:?}"))?;
    places.sort_unstable();
    places.dedup();
    Ok(places)
}

fn reduced(shape: &[u64], is_reduced: impl Fn(usize) -> bool, keeps: bool) -> Vec<u64> {
    let dims = shape.iter().enumerate().filter(|(axis, _)| keeps || !is_reduced(*axis));
    dims.map(|(axis, dim)| if is_reduced(axis) { 1 } else { *dim }).collect()
}

/// How many elements the library goes through at once.
fn lanes(dtype: DType) -> usize {
    if dtype == DType::Float32 { 8 } else { 4 }
}

/// The one of both that counts: the new one, unless the other is greater (or less).
fn taken(best: f64, value: f64, greatest: bool) -> f64 {
    let stays = if greatest { best > value } else { best < value };
    if stays { best } else { value }
}

/// What stands before anything is compared.
fn bottom(greatest: bool) -> f64 {
    if greatest { f64::NEG_INFINITY } else { f64::INFINITY }
}

fn one_by_one(values: impl Iterator<Item = f64>, greatest: bool) -> f64 {
    values.fold(bottom(greatest), |best, value| taken(best, value, greatest))
}

/// All elements: those that are taken several at once, and the rest.
fn whole(values: &[f64], lanes: usize, greatest: bool) -> f64 {
    let (front, rest) = values.split_at(values.len() / lanes * lanes);
    let front = front.iter().copied().filter(|value| !value.is_nan());
    let front = one_by_one(front, greatest);
    let rest = one_by_one(rest.iter().copied(), greatest);
    if rest.is_nan() { rest } else { taken(rest, front, greatest) }
}

/// Along some axes: the last of them goes the slowest.
fn partial(values: &[f64], shape: &[u64], axes: &[usize], greatest: bool) -> Vec<f64> {
    let extents: Vec<usize> =
        shape.iter().map(|dim| usize::try_from(*dim).unwrap_or(usize::MAX)).collect();
    let mut strides = vec![1_usize; extents.len()];
    for axis in (1..extents.len()).rev() {
        let (Some(dim), Some(stride)) = (extents.get(axis), strides.get(axis)) else { continue };
        let stride = dim.saturating_mul(*stride);
        if let Some(before) = strides.get_mut(axis - 1) {
            *before = stride;
        }
    }
    let at = |list: &[usize], axis: usize| list.get(axis).copied().unwrap_or(1);
    let walk = |axes: &[usize]| {
        // The first of these axes goes the slowest.
        axes.iter().fold(vec![0_usize], |offsets, axis| {
            let (dim, stride) = (at(&extents, *axis), at(&strides, *axis));
            let steps = |offset: usize| (0..dim).map(move |step| offset + step * stride);
            offsets.into_iter().flat_map(steps).collect()
        })
    };
    let rest: Vec<usize> = (0..extents.len()).filter(|axis| !axes.contains(axis)).collect();
    let along: Vec<usize> = axes.iter().rev().copied().collect();
    let along = walk(&along);
    let extreme = |begin: usize| {
        let line = along.iter().filter_map(|offset| values.get(begin + offset).copied());
        one_by_one(line, greatest)
    };
    walk(&rest).into_iter().map(extreme).collect()
}

fn put(
    frame: &mut Frame<'_>,
    step: &Step,
    dtype: DType,
    shape: Vec<u64>,
    values: &[f64],
) -> Outcome<bool> {
    let bytes: Vec<u8> = match dtype {
        #[expect(clippy::cast_possible_truncation, reason = "they were of single precision")]
        DType::Float32 => values.iter().flat_map(|it| (*it as f32).to_le_bytes()).collect(),
        _ => values.iter().flat_map(|it| it.to_le_bytes()).collect(),
    };
    let made = Tensor::dense(dtype, shape, Blob::memory(bytes));
    frame.make(output(step, "Out")?, made)?;
    Ok(true)
}
