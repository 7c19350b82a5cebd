//! Comparisons of whole tensors.

use lodstone_model::DType;

use super::operator::{Operator, Outcome, Rule};
use crate::onnx::Value;

pub(super) const RULES: &[(&str, Rule)] =
    &[("allclose", all_close), ("equal_all", equal_all), ("isclose", is_close)];

/// Whether both tensors have the same dims and elements.
fn equal_all(op: &mut Operator<'_>) -> Outcome {
    let (x, y) = (op.input("X")?, op.input("Y")?);
    if x.rank()? != y.rank()? {
        let y = op.filled(DType::Bool, 0.0, &[])?;
        return op.put("Out", &y);
    }
    let out = match (x.known_dims(), y.known_dims()) {
        (Some(left), Some(right)) if left == right => {
            let same = op.call("Equal", &[&x, &y], [])?;
            all(op, &same)?
        }
        (Some(_), Some(_)) => op.filled(DType::Bool, 0.0, &[])?,
        _ => {
            let (left, right) = (op.call("Shape", &[&x], [])?, op.call("Shape", &[&y], [])?);
            let same = op.call("Equal", &[&left, &right], [])?;
            let same = all(op, &same)?;
            // Elements are compared as lists of equal lengths.
            let (x, y) = (op.reshape(&x, &[-1])?, op.reshape(&y, &[-1])?);
            let (left, right) = (op.dim(&x, 0)?, op.dim(&y, 0)?);
            let count = op.call("Min", &[&left, &right], [])?;
            let zero = op.longs(&[0]);
            let x = op.call("Slice", &[&x, &zero, &count], [])?;
            let y = op.call("Slice", &[&y, &zero, &count], [])?;
            let equal = op.call("Equal", &[&x, &y], [])?;
            let equal = all(op, &equal)?;
            op.call("And", &[&same, &equal], [])?
        }
    };
    op.put("Out", &out)
}

/// Whether all elements of a tensor are true, as a scalar.
fn all(op: &mut Operator<'_>, truths: &Value) -> Outcome<Value> {
    let list = op.reshape(truths, &[-1])?;
    // Without elements, the minimum is that of the type.
    let numbers = op.cast(&list, DType::Int32)?;
    let least = op.reduce("ReduceMin", &numbers, &[0], false)?;
    op.cast(&least, DType::Bool)
}

/// Returns a tolerance: a tensor of one element, or a decimal number.
fn tolerance(op: &mut Operator<'_>, slot: &str, name: &str) -> Outcome<Value> {
    if let Some(value) = op.optional(slot)? {
        let value = op.reshape(&value, &[])?;
        return op.cast(&value, DType::Float64);
    }
    let text = op.text(name)?;
    let number: f64 = text
        .trim()
        .parse()
        .map_err(|_| format!("expected a number as `{name}`, found `{text}`"))?;
    op.number(DType::Float64, number)
}

/// Returns which elements are equal or differ by at most `atol + rtol |other|`, in double precision.
fn close(op: &mut Operator<'_>) -> Outcome<Value> {
    let (x, other) = (op.input("Input")?, op.input("Other")?);
    let (relative, absolute) = (tolerance(op, "Rtol", "rtol")?, tolerance(op, "Atol", "atol")?);
    let same = op.call("Equal", &[&x, &other], [])?;
    let (left, right) = (op.cast(&x, DType::Float64)?, op.cast(&other, DType::Float64)?);
    let away = op.sub(&left, &right)?;
    let away = op.call("Abs", &[&away], [])?;
    let size = op.call("Abs", &[&right], [])?;
    let room = op.mul(&relative, &size)?;
    let room = op.add(&absolute, &room)?;
    let near = op.call("LessOrEqual", &[&away, &room], [])?;
    let near = op.call("Or", &[&same, &near], [])?;
    if !op.flag("equal_nan")? || !x.dtype().is_float() {
        return Ok(near);
    }
    let (left, right) = (op.call("IsNaN", &[&x], [])?, op.call("IsNaN", &[&other], [])?);
    let both = op.call("And", &[&left, &right], [])?;
    op.call("Or", &[&near, &both], [])
}

fn is_close(op: &mut Operator<'_>) -> Outcome {
    let close = close(op)?;
    op.put("Out", &close)
}

fn all_close(op: &mut Operator<'_>) -> Outcome {
    let close = close(op)?;
    let y = all(op, &close)?;
    let y = op.scalar(&y)?;
    op.put("Out", &y)
}
