//! Operators whose results accumulate along an axis.
//!
//! ONNX accumulates only sums. If the dim is known, each step combines results with those of a distance that doubles;
//! otherwise each result is the reduction of all elements up to its own.

use lodstone_model::{DType, Dim};

use super::operator::{Operator, Outcome, Rule};
use crate::onnx::Value;

pub(super) const RULES: &[(&str, Rule)] = &[
    ("cummax", |op| extremes(op, true)),
    ("cummin", |op| extremes(op, false)),
    ("cumprod", cumprod),
    ("logcumsumexp", logcumsumexp),
];

/// How elements are accumulated.
struct Scan {
    /// The operator that reduces an axis.
    reduction: &'static str,
    /// The number that changes nothing.
    neutral: f64,
}

impl Scan {
    /// Returns the accumulated elements along an axis.
    fn apply(&self, op: &mut Operator<'_>, x: &Value, axis: i64) -> Outcome<Value> {
        match x.size(axis)? {
            Some(count) => self.double(op, x, axis, count),
            None => self.reduce_all(op, x, axis),
        }
    }

    fn double(&self, op: &mut Operator<'_>, x: &Value, axis: i64, count: i64) -> Outcome<Value> {
        let (mut y, mut step) = (x.clone(), 1);
        while step < count {
            let head = op.slice(&y, axis, 0, step)?;
            let tail = op.slice(&y, axis, step, count)?;
            let shifted = op.slice(&y, axis, 0, count - step)?;
            let both = [op.unsqueeze(&shifted, &[0])?, op.unsqueeze(&tail, &[0])?];
            let both = op.concat(&both.each_ref(), 0)?;
            let tail = op.reduce(self.reduction, &both, &[0], false)?;
            y = op.concat(&[&head, &tail], axis)?;
            step = step.saturating_mul(2);
        }
        Ok(y)
    }

    /// Reduces, for each element, those up to it: `[..., count, count, ...]`.
    fn reduce_all(&self, op: &mut Operator<'_>, x: &Value, axis: i64) -> Outcome<Value> {
        let (from, at) = places_of(op, x, axis)?;
        let is_part = op.call("LessOrEqual", &[&from, &at], [])?;
        let wide = op.unsqueeze(x, &[axis])?;
        let neutral = op.number(x.dtype(), self.neutral)?;
        let parts = op.choose(&is_part, &wide, &neutral)?;
        op.reduce(self.reduction, &parts, &[axis + 1], false)
    }
}

/// Returns the places along an axis as `[count, 1, ...]`, with as many dims as there are from the axis on, and as
/// `[count, 1, 1, ...]`, with one more.
fn places_of(op: &mut Operator<'_>, x: &Value, axis: i64) -> Outcome<(Value, Value)> {
    let count = op.extent(x, axis)?;
    let numbers = op.counting(&count, DType::Int64)?;
    let behind = x.rank()?.number() - axis;
    let mut with = |dims: Vec<i64>| match dims.is_empty() {
        true => Ok(numbers.clone()),
        false => op.unsqueeze(&numbers, &dims),
    };
    Ok((with((1..behind).collect())?, with((1..=behind).collect())?))
}

fn cumprod(op: &mut Operator<'_>) -> Outcome {
    let x = op.input("X")?;
    if x.rank()? == 0 {
        return op.put("Out", &x);
    }
    let axis = op.place(op.int("dim")?, &x)?;
    let y = Scan { reduction: "ReduceProd", neutral: 1.0 }.apply(op, &x, axis)?;
    op.put("Out", &y)
}

/// The logarithm of the sums of exponentials; the lowest number stands for that of no element.
fn logcumsumexp(op: &mut Operator<'_>) -> Outcome {
    let x = op.input("X")?;
    let flat = op.flag("flatten")?;
    let y = if flat { op.reshape(&x, &[-1])? } else { x.clone() };
    // A single element is copied, whatever the attributes.
    let is_single = x.known_dims().is_some_and(|dims| dims.iter().all(|dim| *dim == 1));
    if is_single || y.rank()? == 0 {
        return op.put("Out", &y);
    }
    let axis = if flat { 0 } else { op.place(op.int("axis")?, &y)? };
    let (exclusive, reverse) = (op.flag("exclusive")?, op.flag("reverse")?);
    let lowest = match x.dtype() {
        DType::Float64 => f64::MIN,
        _ => f64::from(f32::MIN),
    };
    let y = if reverse { op.reversed(&y, &[axis])? } else { y };
    let y = if exclusive { shifted(op, &y, axis, lowest)? } else { y };
    let scan = Scan { reduction: "ReduceLogSumExp", neutral: f64::NEG_INFINITY };
    let y = scan.apply(op, &y, axis)?;
    let y = if reverse { op.reversed(&y, &[axis])? } else { y };
    let lowest = op.number(y.dtype(), lowest)?;
    let y = op.call("Max", &[&y, &lowest], [])?;
    op.put("Out", &y)
}

/// Moves elements along an axis by one, and fills the first place.
fn shifted(op: &mut Operator<'_>, x: &Value, axis: i64, number: f64) -> Outcome<Value> {
    let rest = op.slice(x, axis, 0, -1)?;
    let first = op.slice(x, axis, 0, 1)?;
    let first = op.constant_like(&first, first.dtype(), number)?;
    op.concat(&[&first, &rest], axis)
}

/// The maximum (or minimum) of the elements up to each one, and its last place. From the first NaN on, it is NaN.
fn extremes(op: &mut Operator<'_>, greatest: bool) -> Outcome {
    let x = op.input("x")?;
    let to = op.required_dtype("dtype")?;
    let (values, places) = if x.rank()? == 0 {
        (x, op.number(DType::Int64, 0.0)?)
    } else {
        let axis = op.place(op.int("axis")?, &x)?;
        match x.size(axis)? {
            Some(count) => doubled_extremes(op, &x, axis, count, greatest)?,
            None => reduced_extremes(op, &x, axis, greatest)?,
        }
    };
    let places = op.cast(&places, to)?;
    op.put("out", &values)?;
    op.put("indices", &places)
}

fn doubled_extremes(
    op: &mut Operator<'_>,
    x: &Value,
    axis: i64,
    count: i64,
    greatest: bool,
) -> Outcome<(Value, Value)> {
    let (from, _) = places_of(op, x, axis)?;
    let dims = op.call("Shape", &[x], [])?;
    let mut places = op.call("Expand", &[&from, &dims], [])?;
    // Without elements, there is nothing to compare.
    let count = if x.shape()?.contains(&Dim::Known(0)) { 0 } else { count };
    let (mut values, mut step) = (x.clone(), 1);
    let than = if greatest { "GreaterOrEqual" } else { "LessOrEqual" };
    while step < count {
        let later = op.slice(&values, axis, step, count)?;
        let earlier = op.slice(&values, axis, 0, count - step)?;
        let mut is_later = op.call(than, &[&later, &earlier], [])?;
        if x.dtype().is_float() && !op.is_exported() {
            let is_nan = op.call("IsNaN", &[&later], [])?;
            is_later = op.call("Or", &[&is_later, &is_nan], [])?;
        }
        let mut join = |all: &Value| {
            let head = op.slice(all, axis, 0, step)?;
            let later = op.slice(all, axis, step, count)?;
            let earlier = op.slice(all, axis, 0, count - step)?;
            let tail = op.choose(&is_later, &later, &earlier)?;
            op.concat(&[&head, &tail], axis)
        };
        (values, places) = (join(&values)?, join(&places)?);
        step = step.saturating_mul(2);
    }
    Ok((values, places))
}

fn reduced_extremes(
    op: &mut Operator<'_>,
    x: &Value,
    axis: i64,
    greatest: bool,
) -> Outcome<(Value, Value)> {
    let (reduction, neutral) = match greatest {
        true => ("ReduceMax", f64::NEG_INFINITY),
        false => ("ReduceMin", f64::INFINITY),
    };
    let values = Scan { reduction, neutral }.reduce_all(op, x, axis)?;
    let (from, at) = places_of(op, x, axis)?;
    let is_part = op.call("LessOrEqual", &[&from, &at], [])?;
    let (all, best) = (op.unsqueeze(x, &[axis])?, op.unsqueeze(&values, &[axis + 1])?);
    let is_best = op.call("Equal", &[&all, &best], [])?;
    let is_place = op.call("And", &[&is_part, &is_best], [])?;
    let zero = op.long(0);
    let places = op.choose(&is_place, &from, &zero)?;
    let places = op.reduce("ReduceMax", &places, &[axis + 1], false)?;
    Ok((values, places))
}
