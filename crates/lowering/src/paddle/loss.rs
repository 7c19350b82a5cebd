//! Losses, and how often a program is right.

use lodstone_model::DType;

use super::operator::{Operator, Outcome, Rule};
use crate::onnx::Value;

pub(super) const RULES: &[(&str, Rule)] = &[
    ("accuracy", accuracy),
    ("cross_entropy", cross_entropy),
    ("cross_entropy2", cross_entropy2),
    ("softmax_with_cross_entropy", softmax_with_cross_entropy),
];

/// The share of rows of which one of `Indices` is the label.
fn accuracy(op: &mut Operator<'_>) -> Outcome {
    let (indices, label) = (op.input("Indices")?, op.input("Label")?);
    let (indices, label) = (op.cast(&indices, DType::Int64)?, op.cast(&label, DType::Int64)?);
    let right = op.call("Equal", &[&indices, &label], [])?;
    let right = op.cast(&right, DType::Int32)?;
    let right = op.reduce("ReduceMax", &right, &[1], false)?;
    let shape: &[i64] = if op.is_older_than(2_005_000) { &[1] } else { &[] };
    let count = op.reduce("ReduceSum", &right, &[0], false)?;
    let count = op.reshape(&count, shape)?;
    let total = op.extent(&indices, 0)?;
    let total = op.cast(&total, DType::Int32)?;
    let total = op.reshape(&total, shape)?;
    let (counted, all) = (op.cast(&count, DType::Float32)?, op.cast(&total, DType::Float32)?);
    let share = op.div(&counted, &all)?;
    op.put("Accuracy", &share)?;
    op.put("Correct", &count)?;
    op.put("Total", &total)
}

/// What a label picks along an axis, and 0 where it is `ignore_index`.
fn picked(op: &mut Operator<'_>, values: &Value, label: &Value, axis: i64) -> Outcome<Value> {
    let label = op.cast(label, DType::Int64)?;
    let ignored = op.int("ignore_index")?;
    let ignored = op.long(ignored);
    let skip = op.call("Equal", &[&label, &ignored], [])?;
    let zero = op.long(0);
    let place = op.choose(&skip, &zero, &label)?;
    let found = op.call("GatherElements", &[values, &place], [crate::onnx::int("axis", axis)])?;
    let none = op.number(values.dtype(), 0.0)?;
    op.choose(&skip, &none, &found)
}

/// Labels as a column: those of extents of their own get one of 1.
fn as_column(op: &mut Operator<'_>, values: &Value, label: Value, axis: i64) -> Outcome<Value> {
    match label.rank()? + 1 == values.rank()? {
        true => op.unsqueeze(&label, &[axis]),
        false => Ok(label),
    }
}

fn cross_entropy(op: &mut Operator<'_>) -> Outcome {
    let (x, label) = (op.input("X")?, op.input("Label")?);
    // What is 0 has the logarithm of the least number there is, as it has there.
    let log = op.call("Log", &[&x], [])?;
    let least = op.number(x.dtype(), -1e20)?;
    let log = op.call("Max", &[&log, &least], [])?;
    let negative = op.call("Neg", &[&log], [])?;
    let y = match op.flag("soft_label")? {
        true => {
            let product = op.mul(&negative, &label)?;
            op.reduce("ReduceSum", &product, &[-1], true)?
        }
        false => {
            let flat = label.rank()? + 1 == x.rank()?;
            let label = as_column(op, &x, label, -1)?;
            let found = picked(op, &negative, &label, -1)?;
            let last = op.longs(&[-1]);
            if flat { op.call("Squeeze", &[&found, &last], [])? } else { found }
        }
    };
    op.put("Y", &y)
}

fn cross_entropy2(op: &mut Operator<'_>) -> Outcome {
    let (x, label) = (op.input("X")?, op.input("Label")?);
    let label = as_column(op, &x, label, -1)?;
    let found = picked(op, &x, &label, -1)?;
    let log = op.call("Log", &[&found], [])?;
    let least = op.number(x.dtype(), -1e20)?;
    let log = op.call("Max", &[&log, &least], [])?;
    let y = op.call("Neg", &[&log], [])?;
    op.put("Y", &y)?;
    op.put("MatchX", &found)?;
    if op.wants("XShape") {
        let (zero, dims) = (op.longs(&[0]), op.call("Shape", &[&x], [])?);
        let dims = op.concat(&[&zero, &dims], 0)?;
        let shape = op.filled_by(x.dtype(), 0.0, &dims)?;
        op.put("XShape", &shape)?;
    }
    Ok(())
}

fn softmax_with_cross_entropy(op: &mut Operator<'_>) -> Outcome {
    let (x, label, axis) = (op.input("Logits")?, op.input("Label")?, op.int("axis")?);
    let attribute = || [crate::onnx::int("axis", axis)];
    let (softmax, log) = match op.flag("use_softmax")? {
        true => {
            let softmax = op.call("Softmax", &[&x], attribute())?;
            (softmax, op.call("LogSoftmax", &[&x], attribute())?)
        }
        false => (x.clone(), op.call("Log", &[&x], [])?),
    };
    let loss = match op.flag("soft_label")? {
        true => {
            let product = op.mul(&log, &label)?;
            let sum = op.reduce("ReduceSum", &product, &[axis], true)?;
            op.call("Neg", &[&sum], [])?
        }
        false => {
            let label = as_column(op, &x, label, axis)?;
            let found = picked(op, &log, &label, axis)?;
            op.call("Neg", &[&found], [])?
        }
    };
    op.put("Softmax", &softmax)?;
    op.put("Loss", &loss)
}
