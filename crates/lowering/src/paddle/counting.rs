//! Operators that count elements: histograms, and places in sorted lists.

use lodstone_model::DType;

use super::operator::{Operator, Outcome, Rule};
use crate::onnx::Value;

pub(super) const RULES: &[(&str, Rule)] =
    &[("bincount", bincount), ("histogram", histogram), ("searchsorted", search_sorted)];

/// Adds `updates` at `places` of a list of zeros.
fn added_up(
    op: &mut Operator<'_>,
    count: &Value,
    places: &Value,
    updates: &Value,
) -> Outcome<Value> {
    let zeros = op.filled_by(updates.dtype(), 0.0, count)?;
    op.put_elements(&zeros, places, updates, 0, "add")
}

/// The number of occurrences of each integer, or the sum of the weights of each.
fn bincount(op: &mut Operator<'_>) -> Outcome {
    let (x, least) = (op.input("X")?, op.int("minlength")?);
    if x.known_dims().as_deref() == Some(&[0]) {
        // Without elements, the result has the type of the list.
        return op.put("Out", &x);
    }
    let x = op.cast(&x, DType::Int64)?;
    let updates = match op.optional("Weights")? {
        Some(weights) if weights.dtype() == DType::Float32 => weights,
        Some(weights) => op.cast(&weights, DType::Float64)?,
        None => {
            let dims = op.call("Shape", &[&x], [])?;
            op.filled_by(DType::Int64, 1.0, &dims)?
        }
    };
    let (before, one) = (op.longs(&[-1]), op.longs(&[1]));
    let all = op.concat(&[&before, &x], 0)?;
    let most = op.reduce("ReduceMax", &all, &[0], true)?;
    let count = op.add(&most, &one)?;
    // An empty list has an empty result, whatever the minimum.
    let some = op.dim(&x, 0)?;
    let some = op.call("Min", &[&some, &one], [])?;
    let least = op.longs(&[least]);
    let least = op.mul(&least, &some)?;
    let count = op.call("Max", &[&count, &least], [])?;
    let y = added_up(op, &count, &x, &updates)?;
    op.put("Out", &y)
}

/// The number of elements in each of the equal parts of a range, which is that of the elements if `min` equals `max`.
fn histogram(op: &mut Operator<'_>) -> Outcome {
    let (x, bins) = (op.input("X")?, op.int("bins")?);
    let (least, most) = (op.int("min")?, op.int("max")?);
    let (x, dtype) = (op.reshape(&x, &[-1])?, x.dtype());
    #[expect(clippy::cast_precision_loss, reason = "the attributes have 32 bits")]
    let (least, most) = match least == most {
        true => {
            let least = op.reduce("ReduceMin", &x, &[0], false)?;
            (least, op.reduce("ReduceMax", &x, &[0], false)?)
        }
        false => (op.number(dtype, least as f64)?, op.number(dtype, most as f64)?),
    };
    let is_point = op.call("Equal", &[&least, &most], [])?;
    let (lower, upper) = (op.plus(&least, -1.0)?, op.plus(&most, 1.0)?);
    let least = op.choose(&is_point, &lower, &least)?;
    let most = op.choose(&is_point, &upper, &most)?;
    let above = op.call("GreaterOrEqual", &[&x, &least], [])?;
    let below = op.call("LessOrEqual", &[&x, &most], [])?;
    let is_inside = op.call("And", &[&above, &below], [])?;
    let x = op.choose(&is_inside, &x, &least)?;
    let (away, range) = (op.sub(&x, &least)?, op.sub(&most, &least)?);
    #[expect(clippy::cast_precision_loss, reason = "no list has as many elements")]
    let scaled = op.times(&away, bins as f64)?;
    let place = op.div(&scaled, &range)?;
    let place = op.cast(&place, DType::Int64)?;
    let last = op.long(bins.saturating_sub(1));
    let place = op.call("Min", &[&place, &last], [])?;
    let updates = op.cast(&is_inside, DType::Int64)?;
    let count = op.longs(&[bins]);
    let y = added_up(op, &count, &place, &updates)?;
    op.put("Out", &y)
}

/// The number of elements of a sorted list that are less than each value, or with `right` not greater.
fn search_sorted(op: &mut Operator<'_>) -> Outcome {
    let (sorted, values) = (op.input("SortedSequence")?, op.input("Values")?);
    let than = if op.flag("right")? { "LessOrEqual" } else { "Less" };
    let rows = if sorted.rank()? == 1 { sorted.clone() } else { op.unsqueeze(&sorted, &[-2])? };
    let wide = op.unsqueeze(&values, &[-1])?;
    let is_before = op.call(than, &[&rows, &wide], [])?;
    let numbers = op.cast(&is_before, DType::Int64)?;
    let mut y = op.reduce("ReduceSum", &numbers, &[-1], false)?;
    if values.dtype().is_float() && !op.is_exported() {
        // Infinities and NaN are after all elements.
        let (nan, infinite) =
            (op.call("IsNaN", &[&values], [])?, op.call("IsInf", &[&values], [])?);
        let is_odd = op.call("Or", &[&nan, &infinite], [])?;
        let axis = sorted.rank()?.last()?.number();
        let count = op.extent(&sorted, axis)?;
        y = op.choose(&is_odd, &count, &y)?;
    }
    let to = if op.flag("out_int32")? { DType::Int32 } else { DType::Int64 };
    let y = op.cast(&y, to)?;
    op.put("Out", &y)
}
