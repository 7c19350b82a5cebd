//! Maxima and minima of tensors with NaN.
//!
//! PaddlePaddle's loops replace the maximum by each element unless the maximum is greater. Comparisons with NaN are false,
//! so the result is the maximum of the elements after the last NaN. Where a tensor is reduced to one element, its library
//! processes as many elements at once as fit in 256 bits, and skips NaN; the remainder is processed one by one. ONNX's
//! operators compute all other cases.

use lodstone_engine::Dense;
use lodstone_model::{AttributeValue, DType, Op, Tensor};
use lodstone_schema::Finding;
use lodstone_schema::numbers::{Rank, exact};
use lodstone_schema::paddle::attribute;
use lodstone_schema::places::at;
use lodstone_store::Blob;

use super::{Outcome, Run, input, output};
use crate::executor::frame::Frame;
use crate::executor::layout::Step;

pub(super) const OPERATORS: &[(&str, Run)] = &[
    ("p_norm", norm),
    ("reduce_amax", |frame, step, op| reduce(frame, step, op, true)),
    ("reduce_amin", |frame, step, op| reduce(frame, step, op, false)),
    ("reduce_max", |frame, step, op| reduce(frame, step, op, true)),
    ("reduce_min", |frame, step, op| reduce(frame, step, op, false)),
];

fn order(op: &Op) -> f32 {
    match attribute(op, "porder") {
        Some(AttributeValue::Float(order)) => *order,
        _ => 2.0,
    }
}

fn flag(op: &Op, name: &str) -> bool {
    matches!(attribute(op, name), Some(AttributeValue::Bool(true)))
}

/// Returns the elements of a tensor.
fn elements(frame: &Frame<'_>, tensor: &Tensor) -> Outcome<Vec<f64>> {
    let elements = tensor.shape.iter().product::<u64>();
    frame.reserve(elements.saturating_mul(16))?;
    Ok(Dense::of(tensor)?.to_f64()?)
}

fn reduce(frame: &mut Frame<'_>, step: &Step, op: &Op, greatest: bool) -> Outcome {
    let tensor = frame.tensor(input(step, "X")?)?;
    let values = elements(frame, tensor)?;
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
        false => partial(&values, &tensor.shape, &axes, greatest)?,
    };
    let is_reduced = |axis: usize| is_whole || axes.contains(&axis);
    let shape = reduced(&tensor.shape, is_reduced, flag(op, "keep_dim"));
    put(frame, step, tensor.dtype, shape, &found)
}

/// The maximum or minimum absolute value along an axis, or of all elements.
fn norm(frame: &mut Frame<'_>, step: &Step, op: &Op) -> Outcome {
    let tensor = frame.tensor(input(step, "X")?)?;
    let mut values = elements(frame, tensor)?;
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
        false => partial(&values, &tensor.shape, &axes, greatest)?,
    };
    let is_reduced = |axis: usize| is_vector || axes.contains(&axis);
    let shape = reduced(&tensor.shape, is_reduced, flag(op, "keepdim"));
    put(frame, step, tensor.dtype, shape, &found)
}

/// Returns the axes as non-negative indices, sorted.
fn places(axes: &[i64], rank: usize) -> Outcome<Vec<usize>> {
    let place = |axis: &i64| Ok(Rank::new(rank).axis(*axis)?.index());
    let places = axes.iter().map(place).collect::<Result<Vec<usize>, Finding>>();
    let mut places = places.map_err(|_| format!("expected axes of rank {rank}, found {axes:?}"))?;
    places.sort_unstable();
    places.dedup();
    Ok(places)
}

fn reduced(shape: &[u64], is_reduced: impl Fn(usize) -> bool, keeps: bool) -> Vec<u64> {
    let dims = shape.iter().enumerate().filter(|(axis, _)| keeps || !is_reduced(*axis));
    dims.map(|(axis, dim)| if is_reduced(axis) { 1 } else { *dim }).collect()
}

/// Returns the number of elements that the library processes at once.
fn lanes(dtype: DType) -> usize {
    if dtype == DType::Float32 { 8 } else { 4 }
}

/// Returns the new value, unless the old one is greater (or less).
fn taken(best: f64, value: f64, greatest: bool) -> f64 {
    let stays = if greatest { best > value } else { best < value };
    if stays { best } else { value }
}

/// Returns the initial value of the comparison.
fn bottom(greatest: bool) -> f64 {
    if greatest { f64::NEG_INFINITY } else { f64::INFINITY }
}

fn one_by_one(values: impl Iterator<Item = f64>, greatest: bool) -> f64 {
    values.fold(bottom(greatest), |best, value| taken(best, value, greatest))
}

/// Reduces all elements: the vectorized part, and the remainder.
fn whole(values: &[f64], lanes: usize, greatest: bool) -> f64 {
    let (front, rest) = values.split_at(values.len() / lanes * lanes);
    let front = front.iter().copied().filter(|value| !value.is_nan());
    let front = one_by_one(front, greatest);
    let rest = one_by_one(rest.iter().copied(), greatest);
    if rest.is_nan() { rest } else { taken(rest, front, greatest) }
}

/// Reduces along some axes, in ascending order: the last of them is the outermost loop.
fn partial(
    values: &[f64],
    shape: &[u64],
    axes: &[usize],
    greatest: bool,
) -> Result<Vec<f64>, Finding> {
    let dims = shape.iter().map(|dim| exact(*dim)).collect::<Result<Vec<usize>, Finding>>()?;
    let stride = |axis: usize| dims.iter().skip(axis + 1).product();
    let lines: Vec<(usize, usize, usize)> =
        dims.iter().enumerate().map(|(axis, dim)| (axis, *dim, stride(axis))).collect();
    let rest = offsets(lines.iter().filter(|(axis, ..)| !axes.contains(axis)));
    let along = offsets(lines.iter().rev().filter(|(axis, ..)| axes.contains(axis)));
    let extreme = |begin: &usize| {
        along.iter().try_fold(bottom(greatest), |best, offset| {
            Ok(taken(best, at(values, begin + offset)?, greatest))
        })
    };
    rest.iter().map(extreme).collect()
}

/// Returns the offsets of elements along axes, given as (axis, dim, stride); the first of them is the outermost loop.
fn offsets<'l>(lines: impl Iterator<Item = &'l (usize, usize, usize)>) -> Vec<usize> {
    lines.fold(vec![0], |offsets, (_, dim, stride)| {
        let steps = |offset: usize| (0..*dim).map(move |step| offset + step * stride);
        offsets.into_iter().flat_map(steps).collect()
    })
}

fn put(
    frame: &mut Frame<'_>,
    step: &Step,
    dtype: DType,
    shape: Vec<u64>,
    values: &[f64],
) -> Outcome {
    let bytes: Vec<u8> = match dtype {
        #[expect(clippy::cast_possible_truncation, reason = "the values were float32")]
        DType::Float32 => values.iter().flat_map(|it| (*it as f32).to_le_bytes()).collect(),
        _ => values.iter().flat_map(|it| it.to_le_bytes()).collect(),
    };
    let made = Tensor::dense(dtype, shape, Blob::memory(bytes));
    Ok(frame.make(output(step, "Out")?, made)?)
}
