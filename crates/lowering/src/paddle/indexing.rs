//! Gathering and scattering by index.

use lodstone_model::DType;

use super::operator::{Operator, Outcome, Rule};
use crate::onnx::{Value, int, text};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("gather_nd", gather_nd),
    ("index_sample", index_sample),
    ("index_select", index_select),
    ("masked_select", masked_select),
    ("multiplex", multiplex),
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
    let all = inputs.iter().map(wide).collect::<Result<Vec<_>, _>>()?;
    let all = op.concat(&all.iter().collect::<Vec<_>>(), 1)?;
    let y = op.call("GatherND", &[&all, &ids], [int("batch_dims", 1)])?;
    op.put("Out", &y)
}
