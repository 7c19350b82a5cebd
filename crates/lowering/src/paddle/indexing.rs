//! Gathering and scattering by index.

use lodstone_model::DType;

use super::operator::{Operator, Outcome, Rule};
use crate::onnx::{Value, int};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("gather_nd", gather_nd),
    ("index_add", index_add),
    ("index_put", index_put),
    ("index_sample", index_sample),
    ("index_select", index_select),
    ("masked_select", masked_select),
    ("multiplex", multiplex),
    ("put_along_axis", put_along_axis),
    ("scatter", scatter),
    ("scatter_nd_add", scatter_nd_add),
    ("take_along_axis", take_along_axis),
    ("where_index", where_index),
];

fn along(op: &mut Operator<'_>, [from, to]: [&str; 2], axis: i64) -> Outcome {
    let (x, index) = (op.input(from)?, op.input("Index")?);
    let y = op.call("GatherElements", &[&x, &index], [int("axis", axis)])?;
    op.put(to, &y)
}

pub(super) fn index_sample(op: &mut Operator<'_>) -> Outcome {
    along(op, ["X", "Out"], 1)
}

pub(super) fn take_along_axis(op: &mut Operator<'_>) -> Outcome {
    along(op, ["Input", "Result"], op.int("Axis")?)
}

pub(super) fn index_select(op: &mut Operator<'_>) -> Outcome {
    let (x, index) = (op.input("X")?, op.input("Index")?);
    let axis = op.int("dim")?;
    let y = op.gather(&x, &index, axis)?;
    op.put("Out", &y)
}

pub(super) fn gather_nd(op: &mut Operator<'_>) -> Outcome {
    let (x, index) = (op.input("X")?, op.input("Index")?);
    let index = op.cast(&index, DType::Int64)?;
    let y = op.call("GatherND", &[&x, &index], [])?;
    op.put("Out", &y)
}

pub(super) fn masked_select(op: &mut Operator<'_>) -> Outcome {
    let (x, mask) = (op.input("X")?, op.input("Mask")?);
    let (x, mask) = (op.reshape(&x, &[-1])?, op.reshape(&mask, &[-1])?);
    let y = op.call("Compress", &[&x, &mask], [int("axis", 0)])?;
    op.put("Y", &y)
}

/// Rows are overwritten, or, if updates are added up, replaced by the sum of the updates only.
fn scatter(op: &mut Operator<'_>) -> Outcome {
    let (x, ids, updates) = (op.input("X")?, op.input("Ids")?, op.input("Updates")?);
    let y = match op.flag("overwrite")? {
        true => op.put_rows(&x, &ids, &updates, "none")?,
        false => {
            let none = op.constant_like(&updates, updates.dtype(), 0.0)?;
            let cleared = op.put_rows(&x, &ids, &none, "none")?;
            op.put_rows(&cleared, &ids, &updates, "add")?
        }
    };
    op.put("Out", &y)
}

fn scatter_nd_add(op: &mut Operator<'_>) -> Outcome {
    let (x, index, updates) = (op.input("X")?, op.input("Index")?, op.input("Updates")?);
    let y = op.put_slices(&x, &index, &updates, "add")?;
    op.put("Out", &y)
}

/// Returns the indices of non-zero elements, one row for each.
fn where_index(op: &mut Operator<'_>) -> Outcome {
    let x = op.input("Condition")?;
    let places = op.call("NonZero", &[&x], [])?;
    let y = op.transpose(&places, &[1, 0])?;
    op.put("Out", &y)
}

/// Selects each row from the tensor whose number `Ids` has.
fn multiplex(op: &mut Operator<'_>) -> Outcome {
    let (ids, inputs) = (op.input("Ids")?, op.inputs("X")?);
    let ids = op.cast(&ids, DType::Int64)?;
    let wide = |input: &Value| op.unsqueeze(input, &[1]);
    let all = inputs.iter().map(wide).collect::<Outcome<Vec<_>>>()?;
    let all = op.concat(&all.iter().collect::<Vec<_>>(), 1)?;
    let y = op.call("GatherND", &[&all, &ids], [int("batch_dims", 1)])?;
    op.put("Out", &y)
}

/// Adds slices to those of the given indices along an axis.
fn index_add(op: &mut Operator<'_>) -> Outcome {
    let (x, index, more) = (op.input("X")?, op.input("Index")?, op.input("AddValue")?);
    let axis = op.place(op.int("axis")?, &x)?;
    let y = op.put_along(&x, &index, &more, axis, "add")?;
    op.put("Out", &y)
}

/// Assigns values to the elements that indices and masks select, or adds them; the values are broadcast.
fn index_put(op: &mut Operator<'_>) -> Outcome {
    let (x, value) = (op.input("x")?, op.input("value")?);
    let list: Vec<Option<Value>> = op.inputs("indices")?.into_iter().map(Some).collect();
    let indexed = op.indexed(&x, &list)?;
    let how = if op.flag("accumulate")? { "add" } else { "none" };
    let y = op.put_at(&x, &indexed, &value, how)?;
    op.put("out", &y)
}

/// Assigns, adds or otherwise combines elements along an axis; without `Include_self`, only those that are new.
fn put_along_axis(op: &mut Operator<'_>) -> Outcome {
    let (x, index, value) = (op.input("Input")?, op.input("Index")?, op.input("Value")?);
    let axis = op.place(op.int("Axis")?, &x)?;
    let (how, neutral) = match op.text("Reduce")?.as_str() {
        "assign" => ("none", None),
        "add" => ("add", Some(0.0)),
        "mul" | "multiply" => ("mul", Some(1.0)),
        "amin" => ("min", Some(f64::INFINITY)),
        "amax" => ("max", Some(f64::NEG_INFINITY)),
        other => return Err(format!("unknown `Reduce` `{other}`").into()),
    };
    let includes_self = op.flag_or_true("Include_self")?;
    let x = match neutral.filter(|_| !includes_self) {
        Some(neutral) => {
            let cleared = op.constant_like(&value, value.dtype(), neutral)?;
            op.put_elements(&x, &index, &cleared, axis, "none")?
        }
        None => x,
    };
    let y = op.put_elements(&x, &index, &value, axis, how)?;
    op.put("Result", &y)
}
