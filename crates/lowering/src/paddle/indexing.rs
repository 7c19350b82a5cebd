//! Gathering and scattering by index.

use lodstone_model::DType;

use super::operator::{Operator, Outcome, Rule};
use crate::onnx::{Value, int, text};

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
    let ids = op.cast(&ids, DType::Int64)?;
    let ids = op.reshape(&ids, &[-1, 1])?;
    let put = |op: &mut Operator<'_>, to: &Value, updates: &Value, how: &str| {
        op.call("ScatterND", &[to, &ids, updates], [text("reduction", how)])
    };
    let y = match op.flag("overwrite")? {
        true => put(op, &x, &updates, "none")?,
        false => {
            let none = op.filled_like(&updates, 0.0)?;
            let cleared = put(op, &x, &none, "none")?;
            put(op, &cleared, &updates, "add")?
        }
    };
    op.put("Out", &y)
}

fn scatter_nd_add(op: &mut Operator<'_>) -> Outcome {
    let (x, index, updates) = (op.input("X")?, op.input("Index")?, op.input("Updates")?);
    let index = op.cast(&index, DType::Int64)?;
    let y = op.call("ScatterND", &[&x, &index, &updates], [text("reduction", "add")])?;
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
    let index = op.cast(&index, DType::Int64)?;
    let index = op.reshape(&index, &[-1, 1])?;
    let rank = x.rank()?.number();
    let order: Vec<i64> = [axis].into_iter().chain((0..rank).filter(|at| *at != axis)).collect();
    let (x, more) = (op.transpose(&x, &order)?, op.transpose(&more, &order)?);
    let y = op.call("ScatterND", &[&x, &index, &more], [text("reduction", "add")])?;
    let back: Vec<i64> = (1..=axis).chain([0]).chain(axis + 1..rank).collect();
    let y = op.transpose(&y, &back)?;
    op.put("Out", &y)
}

/// Returns the indices of the elements that lists of indices and masks select: `[..., dims]`.
fn selected(op: &mut Operator<'_>, slot: &str) -> Outcome<Value> {
    let mut lists = Vec::new();
    for index in op.inputs(slot)? {
        if index.dtype() != DType::Bool {
            lists.push(op.cast(&index, DType::Int64)?);
            continue;
        }
        // [rank, selected]
        let places = op.call("NonZero", &[&index], [])?;
        for axis in index.rank()?.numbers() {
            let number = op.long(axis);
            lists.push(op.gather(&places, &number, 0)?);
        }
    }
    let dims = |list: &Value| op.call("Shape", &[list], []);
    let dims = lists.iter().map(dims).collect::<Outcome<Vec<_>>>()?;
    let mut columns = Vec::new();
    for (place, list) in lists.iter().enumerate() {
        let mut column = list.clone();
        for (_, dims) in dims.iter().enumerate().filter(|(other, _)| *other != place) {
            column = op.call("Expand", &[&column, dims], [])?;
        }
        columns.push(op.unsqueeze(&column, &[-1])?);
    }
    op.concat(&columns.iter().collect::<Vec<_>>(), -1)
}

/// Assigns values to the elements that indices and masks select, or adds them; the values are broadcast.
fn index_put(op: &mut Operator<'_>) -> Outcome {
    let (x, value) = (op.input("x")?, op.input("value")?);
    let places = selected(op, "indices")?;
    let depth = places.size(-1)?.ok_or("the number of indices must be known")?;
    let front = op.call("Shape", &[&places], [int("start", 0), int("end", -1)])?;
    let rest = op.call("Shape", &[&x], [int("start", depth)])?;
    let dims = op.concat(&[&front, &rest], 0)?;
    let value = op.call("Expand", &[&value, &dims], [])?;
    let how = if op.flag("accumulate")? { "add" } else { "none" };
    let y = op.call("ScatterND", &[&x, &places, &value], [text("reduction", how)])?;
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
    let put = |op: &mut Operator<'_>, to: &Value, value: &Value, how: &str| {
        let attributes = [int("axis", axis), text("reduction", how)];
        op.call("ScatterElements", &[to, &index, value], attributes)
    };
    let x = match neutral.filter(|_| !includes_self) {
        Some(neutral) => {
            let cleared = op.filled_like(&value, neutral)?;
            put(op, &x, &cleared, "none")?
        }
        None => x,
    };
    let y = put(op, &x, &value, how)?;
    op.put("Result", &y)
}
