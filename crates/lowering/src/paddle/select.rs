//! Operators that select one element of each row by its value.

use lodstone_model::DType;

use super::operator::{Operator, Outcome, Rule};
use crate::onnx::{Value, int};

pub(super) const RULES: &[(&str, Rule)] = &[("kthvalue", kth_value), ("mode", mode)];

/// Sets the element of each row, and its index.
fn put_found(op: &mut Operator<'_>, value: &Value, place: &Value) -> Outcome {
    op.put("Out", value)?;
    op.put("Indices", place)
}

/// The `k`th smallest element along a dim, and its index.
fn kth_value(op: &mut Operator<'_>) -> Outcome {
    let (x, k, keep) = (op.input("X")?, op.int("k")?, op.flag("keepdim")?);
    if x.rank()? == 0 {
        let place = op.long(0);
        return put_found(op, &x, &place);
    }
    let axis = op.place(op.int("axis")?, &x)?;
    let count = op.longs(&[k]);
    let attributes = [int("axis", axis), int("largest", 0)];
    let [values, places] = op.emit_all("TopK", &[Some(&x), Some(&count)], attributes)?;
    let last = k.saturating_sub(1);
    let last = if keep { op.longs(&[last]) } else { op.long(last) };
    let (value, place) = (op.gather(&values, &last, axis)?, op.gather(&places, &last, axis)?);
    put_found(op, &value, &place)
}

/// The most frequent element along a dim, of several the smallest, and its last index.
fn mode(op: &mut Operator<'_>) -> Outcome {
    let (x, keep) = (op.input("X")?, op.flag("keepdim")?);
    if x.rank()? == 0 {
        let place = op.long(0);
        return put_found(op, &x, &place);
    }
    let axis = op.place(op.int("axis")?, &x)?;
    let (left, right) = (op.unsqueeze(&x, &[axis])?, op.unsqueeze(&x, &[axis + 1])?);
    let same = op.call("Equal", &[&left, &right], [])?;
    let same = op.cast(&same, DType::Int32)?;
    let counts = op.reduce("ReduceSum", &same, &[axis], false)?;
    let most = op.reduce("ReduceMax", &counts, &[axis], true)?;
    let is_frequent = op.call("Equal", &[&counts, &most], [])?;
    let highest = op.number(x.dtype(), f64::INFINITY)?;
    let candidates = op.choose(&is_frequent, &x, &highest)?;
    let value = op.reduce("ReduceMin", &candidates, &[axis], true)?;
    let is_value = op.call("Equal", &[&x, &value], [])?;
    let count = op.extent(&x, axis)?;
    let numbers = op.counting(&count, DType::Int64)?;
    let behind = x.rank()?.number() - axis;
    let behind: Vec<i64> = (1..behind).collect();
    let numbers = if behind.is_empty() { numbers } else { op.unsqueeze(&numbers, &behind)? };
    let zero = op.long(0);
    let places = op.choose(&is_value, &numbers, &zero)?;
    let place = op.reduce("ReduceMax", &places, &[axis], keep)?;
    let value = match keep {
        true => value,
        false => {
            let gone = op.longs(&[axis]);
            op.call("Squeeze", &[&value, &gone], [])?
        }
    };
    put_found(op, &value, &place)
}
