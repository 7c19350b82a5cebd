//! Reductions along axes: sums, extrema, their indices, and `TopK`.

use lodstone_model::DType;
use lodstone_schema::glow::{ElemKind, Type};

use super::node::{Node, Outcome, Rule};
use crate::onnx::int;
use crate::onnx::quantization::Grid;

pub(super) const RULES: &[(&str, Rule)] = &[
    ("ArgMax", |n| position(n, "ArgMax")),
    ("ArgMin", |n| position(n, "ArgMin")),
    ("BatchedReduceAdd", |n| one(n, "ReduceSum")),
    ("BatchedReduceMax", |n| several(n, "ReduceMax")),
    ("BatchedReduceMean", |n| several(n, "ReduceMean")),
    ("BatchedReduceMin", |n| several(n, "ReduceMin")),
    ("BatchedReduceProd", |n| one(n, "ReduceProd")),
    ("BatchedReduceSumSquare", |n| one(n, "ReduceSumSquare")),
    ("CumSum", cumulated),
    ("TopK", largest),
    ("VectorNorm", norm),
];

fn one(n: &mut Node<'_>, kind: &str) -> Outcome {
    let axis = n.axis("Axis", 0)?;
    reduced(n, kind, &[axis])
}

fn several(n: &mut Node<'_>, kind: &str) -> Outcome {
    let axes = n.ints("Axes")?;
    reduced(n, kind, axes)
}

/// Reduced dims are removed, unless the result has them.
fn reduced(n: &mut Node<'_>, kind: &str, axes: &[i64]) -> Outcome {
    let value = n.real(0)?;
    let keep = n.out(0)?.shape.len() == n.dims(0)?.len();
    let value = n.reduce(kind, &value, axes, keep)?;
    n.put(0, &value)
}

fn position(n: &mut Node<'_>, kind: &str) -> Outcome {
    let axis = n.axis_attribute("Axis", 0)?;
    let keep = int("keepdims", n.int("KeepDims")?);
    let mut value = n.raw(0)?;
    if n.ty(0)?.kind.is_quantized() {
        // Integers have the order of their values; not all runtimes support the narrow ones.
        value = n.cast(&value, DType::Int32)?;
    }
    let value = n.call(kind, &[&value], [axis, keep])?;
    n.put(0, &value)
}

fn cumulated(n: &mut Node<'_>) -> Outcome {
    let value = n.real(0)?;
    let axis = n.axis("Dim", 0)?;
    let (exclusive, reverse) = (n.int("Exclusive")?, n.int("Reverse")?);
    let axis = n.long(axis);
    let attributes = [int("exclusive", exclusive), int("reverse", reverse)];
    let value = n.call("CumSum", &[&value, &axis], attributes)?;
    n.put(0, &value)
}

/// The largest integers have the largest values, whose quantization does not change.
fn largest(n: &mut Node<'_>) -> Outcome {
    let result = n.out(0)?;
    let count = n.int("K")?;
    let count = n.longs(&[count]);
    let given = n.ty(0)?;
    let is_same = (given.kind, given.quantization) == (result.kind, result.quantization);
    if is_same && keeps_order(&result) {
        let value = n.real(0)?;
        let inputs = [Some(&value), Some(&count)];
        let [values, places] = n.emit_all("TopK", &inputs, [int("axis", -1)])?;
        n.put(0, &values)?;
        return n.put(1, &places);
    }
    let mut value = n.raw_like(0, &result)?;
    if n.ty(0)?.kind.is_quantized() {
        value = n.cast(&value, DType::Int32)?;
    }
    let inputs = [Some(&value), Some(&count)];
    let [values, places] = n.emit_all("TopK", &inputs, [int("axis", -1)])?;
    let dtype = n.out(0)?.kind.dtype();
    let values = n.cast(&values, dtype)?;
    n.put_raw(0, &values)?;
    n.put(1, &places)
}

/// Whether integers of a type have the order of the values that they stand for, all of which differ and quantize to the
/// same integer again.
fn keeps_order(ty: &Type) -> bool {
    let is_narrow = [ElemKind::Int8Q, ElemKind::UInt8Q, ElemKind::Int16Q].contains(&ty.kind);
    let in_range = |grid: Grid| (f32::MIN_POSITIVE..1e30).contains(&grid.scale) && grid.is_linear();
    is_narrow && super::node::grid_of(ty).is_ok_and(|grid| grid.is_some_and(in_range))
}

/// The root of the sum of squares; Glow computes no other power.
fn norm(n: &mut Node<'_>) -> Outcome {
    let value = n.real(0)?;
    let axis = n.axis("Axis", 0)?;
    if n.int("P")? != 2 {
        return super::node::no_equivalent("norms of powers other than 2 are undefined");
    }
    let axes = n.longs(&[axis]);
    let value = n.call("ReduceL2", &[&value, &axes], [int("keepdims", 0)])?;
    n.put(0, &value)
}
