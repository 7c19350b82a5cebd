//! Distinct elements.

use lodstone_model::DType;

use super::operator::{Operator, Outcome, Rule};
use crate::onnx::{Value, int};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("unique", unique),
    ("unique_consecutive", unique_consecutive),
    ("unique_with_counts", unique),
];

impl Operator<'_> {
    /// Sets an output of indices or counts, whose type is an attribute.
    fn put_numbers(&mut self, slot: &str, value: &Value) -> Outcome {
        if !self.wants(slot) {
            return Ok(());
        }
        let dtype = self.dtype("dtype")?.unwrap_or(DType::Int64);
        let dtype = if dtype == DType::Int32 { dtype } else { DType::Int64 };
        let value = self.cast(value, dtype)?;
        self.put(slot, &value)
    }

    /// Returns the axis of the attribute `axis`, which is empty for the flattened tensor.
    fn only_axis(&self, x: &Value) -> Outcome<Option<i64>> {
        let axes = match self.attribute("axis") {
            Some(_) => self.ints("axis")?,
            None => Vec::new(),
        };
        match axes.as_slice() {
            [] => Ok(None),
            [axis] => self.place(*axis, x).map(Some),
            other => Err(format!("expected at most one `axis`, found {other:?}").into()),
        }
    }
}

/// Distinct elements, sorted, or in the order of their first occurrences. Slices along an axis are compared by their
/// elements in the order in which they are after the axis is exchanged with the first one.
fn unique(op: &mut Operator<'_>) -> Outcome {
    let x = op.input("X")?;
    let axis = op.only_axis(&x)?;
    let sorted = int("sorted", i64::from(op.flag("is_sorted")?));
    // ONNX moves the axis to the front, which is the same for the first two axes.
    let exchanged = match axis {
        Some(axis @ 2..) => {
            let rank = x.rank()?.number();
            let order = (0..rank).map(|it| match it {
                0 => axis,
                _ if it == axis => 0,
                other => other,
            });
            Some(order.collect::<Vec<i64>>())
        }
        _ => None,
    };
    let along = if exchanged.is_some() { Some(0) } else { axis };
    let x = exchanged.as_ref().map_or(Ok(x.clone()), |order| op.transpose(&x, order))?;
    let attributes = [Some(sorted), along.map(|axis| int("axis", axis))].into_iter().flatten();
    let [y, first, inverse, counts] = op.emit_all("Unique", &[Some(&x)], attributes)?;
    let y = exchanged.map_or(Ok(y.clone()), |order| op.transpose(&y, &order))?;
    op.put("Out", &y)?;
    op.put_numbers("Index", &inverse)?;
    let counted = if op.kind() == "unique" { "Counts" } else { "Count" };
    op.put_numbers("Indices", &first)?;
    op.put_numbers(counted, &counts)
}

/// Elements that differ from the previous one.
fn unique_consecutive(op: &mut Operator<'_>) -> Outcome {
    let x = op.input("X")?;
    let axis = op.only_axis(&x)?;
    let runs = op.runs(&x, axis)?;
    op.put("Out", &runs.values)?;
    if op.wants("Index") {
        let numbers = runs.numbers(op)?;
        op.put_numbers("Index", &numbers)?;
    }
    if op.wants("Counts") {
        let counts = runs.lengths(op)?;
        op.put_numbers("Counts", &counts)?;
    }
    Ok(())
}
