//! Indexing: gathering, scattering, searching.

use lodstone_model::DType;

use super::node::{Node, Outcome, Rule, no_equivalent};
use crate::onnx::{Size, Value, int};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("BatchSparseToDense", sparse_to_dense),
    ("Bucketize", bucketize),
    ("Embedding", embedding),
    ("FillExamplesWithIndicator", fill_examples),
    ("Gather", gather),
    ("GatherElements", gather_elements),
    ("GatherND", gather_nd),
    ("IndexAdd", index_add),
    ("NonZero", non_zero),
    ("ScatterData", scatter),
    ("SparseLabelSplit", split_labels),
];

/// Gathers along the dim after the batch dims, which share the indices.
fn gather(n: &mut Node<'_>) -> Outcome {
    let axis = n.axis("BatchDims", 0)?;
    let numbers = n.raw(1)?;
    n.moved("Gather", &[&numbers], [int("axis", axis)])
}

fn gather_elements(n: &mut Node<'_>) -> Outcome {
    let axis = n.axis_attribute("Dim", 0)?;
    let numbers = n.raw(1)?;
    n.moved("GatherElements", &[&numbers], [axis])
}

fn gather_nd(n: &mut Node<'_>) -> Outcome {
    let batch = int("batch_dims", n.int("BatchDims")?);
    let numbers = n.raw(1)?;
    let numbers = n.cast(&numbers, DType::Int64)?;
    n.moved("GatherND", &[&numbers], [batch])
}

/// Writes or adds slices to data at the positions in the rows of a matrix.
fn scatter(n: &mut Node<'_>) -> Outcome {
    let cumulative = n.flag("Cumulative")?;
    let result = n.out(0)?;
    let [count, depth] = n.ranked::<2>(1)?;
    let inner = usize::try_from(depth).ok().and_then(|depth| result.shape.get(depth..));
    let inner = inner.ok_or_else(|| format!("indices of {depth} values exceed the rank"))?;
    let dims: Vec<i64> = std::iter::once(count).chain(inner.iter().copied()).collect();
    let places = n.raw(1)?;
    if cumulative {
        let (data, slices) = (n.real(0)?, n.real(2)?);
        let slices = n.cast(&slices, data.dtype())?;
        let slices = n.reshape(&slices, &dims)?;
        let added = n.put_slices(&data, &places, &slices, "add")?;
        return n.put(0, &added);
    }
    let (data, slices) = (n.raw(0)?, n.raw_like(2, &result)?);
    let slices = n.reshape(&slices, &dims)?;
    let written = n.put_slices(&data, &places, &slices, "none")?;
    n.put_raw(0, &written)
}

/// Looks up rows of weights; that of `PadIdx` is zero.
fn embedding(n: &mut Node<'_>) -> Outcome {
    let pad = n.int("PadIdx")?;
    let (weights, numbers) = (n.real(0)?, n.raw(1)?);
    let rows = n.gather(&weights, &numbers, 0)?;
    if pad < 0 {
        return n.put(0, &rows);
    }
    let pad = n.long(pad);
    let wide = n.cast(&numbers, DType::Int64)?;
    let is_pad = n.call("Equal", &[&wide, &pad], [])?;
    let is_pad = n.unsqueeze(&is_pad, &[-1])?;
    let zero = n.number(rows.dtype(), 0.0)?;
    let rows = n.choose(&is_pad, &zero, &rows)?;
    n.put(0, &rows)
}

/// Counts the boundaries that are not above each element.
fn bucketize(n: &mut Node<'_>) -> Outcome {
    let value = n.real_as(0, DType::Float32)?;
    let boundaries = n.floats("Boundaries")?;
    let boundaries = n.singles(boundaries);
    let value = n.unsqueeze(&value, &[-1])?;
    let passed = n.call("LessOrEqual", &[&boundaries, &value], [])?;
    let passed = n.cast(&passed, DType::Int32)?;
    let count = n.reduce("ReduceSum", &passed, &[-1], false)?;
    n.put(0, &count)
}

/// Adds `Alpha` times slices at indices along an axis.
fn index_add(n: &mut Node<'_>) -> Outcome {
    let (axis, alpha) = (n.axis("Dim", 0)?, f64::from(n.float("Alpha")?));
    let (data, numbers, added) = (n.real(0)?, n.raw(1)?, n.real(2)?);
    let added = n.times(&added, alpha)?;
    let value = n.put_along(&data, &numbers, &added, axis, "add")?;
    n.put(0, &value)
}

/// Returns the indices of elements that are true, padded with zeros.
fn non_zero(n: &mut Node<'_>) -> Outcome {
    let result = n.out(0)?;
    let value = n.raw(0)?;
    let [rows, columns] = n.out_ranked::<2>(0)?;
    let found = n.call("NonZero", &[&value], [])?;
    let found = n.transpose(&found, &[1, 0])?;
    let found = n.cast(&found, result.kind.dtype())?;
    let padded = padded(n, &found, rows, columns)?;
    n.put(0, &padded)
}

/// Returns the first rows of a matrix, padded with zeros.
pub(super) fn padded(n: &mut Node<'_>, value: &Value, rows: i64, columns: i64) -> Outcome<Value> {
    let zeros = n.filled(value.dtype(), 0.0, &[rows, columns])?;
    let all = n.concat(&[value, &zeros], 0)?;
    let first = n.slice(&all, 0, 0, rows)?;
    n.reshape(&first, &[rows, columns])
}

/// Writes rows where an indicator is true, and zeros elsewhere.
fn fill_examples(n: &mut Node<'_>) -> Outcome {
    let result = n.out(0)?;
    if result.kind.is_quantized() {
        return no_equivalent("the filled rows must be floats");
    }
    let (data, indicator) = (n.raw(0)?, n.raw(1)?);
    let truth = n.cast(&indicator, DType::Bool)?;
    let counted = n.cast(&truth, DType::Int64)?;
    let axis = n.long(0);
    let number = n.call("CumSum", &[&counted, &axis], [])?;
    let minus = n.long(-1);
    let number = n.add(&number, &minus)?;
    let zero = n.long(0);
    let number = n.call("Max", &[&number, &zero], [])?;
    let rows = n.gather(&data, &number, 0)?;
    let mut dims = vec![1; result.shape.len()];
    if let (Some(first), Some(many)) = (dims.first_mut(), result.shape.first()) {
        *first = *many;
    }
    let truth = n.reshape(&truth, &dims)?;
    let nothing = n.number(data.dtype(), 0.0)?;
    let value = n.choose(&truth, &rows, &nothing)?;
    n.put_raw(0, &value)
}

/// Scatters values to rows by lengths and columns by index.
fn sparse_to_dense(n: &mut Node<'_>) -> Outcome {
    let default = f64::from(n.float("DefaultValue")?);
    let result = n.out(0)?;
    let [rows, columns] = n.out_ranked::<2>(0)?;
    let (lengths, numbers, values) = (n.raw(0)?, n.raw(1)?, n.real(2)?);
    let [many] = n.ranked::<1>(1)?;
    let segments = n.segments_of(&lengths, &Size::Known(many))?;
    let numbers = n.cast(&numbers, DType::Int64)?;
    let row = n.unsqueeze(&segments.number, &[-1])?;
    let column = n.unsqueeze(&numbers, &[-1])?;
    let places = n.concat(&[&row, &column], 1)?;
    // Values of no row go to an additional row.
    let all = n.filled(result.kind.dtype(), default, &[rows.saturating_add(1), columns])?;
    let values = n.cast(&values, all.dtype())?;
    let written = n.put_slices(&all, &places, &values, "none")?;
    let value = n.slice(&written, 0, 0, rows)?;
    n.put(0, &value)
}

/// Splits pairs of a label and a value, in rows by lengths. Outputs: for each label its values and their rows, in order,
/// and for each pair its position within its label.
fn split_labels(n: &mut Node<'_>) -> Outcome {
    let labels = n.int("NumLabels")?;
    let [many] = n.ranked::<1>(1)?;
    let (lengths, label, value) = (n.raw(0)?, n.raw(1)?, n.raw(2)?);
    let segments = n.segments_of(&lengths, &Size::Known(many))?;
    let label = n.cast(&label, DType::Int64)?;
    let label = n.unsqueeze(&label, &[1])?;
    let known = n.range(labels)?;
    let known = n.reshape(&known, &[1, labels])?;
    let is_label = n.call("Equal", &[&label, &known], [])?;
    let is_label = n.cast(&is_label, DType::Int64)?;
    let axis = n.long(0);
    let before = n.call("CumSum", &[&is_label, &axis], [int("exclusive", 1)])?;
    let before = n.mul(&before, &is_label)?;
    let number = n.reduce("ReduceSum", &before, &[1], false)?;
    let column = n.unsqueeze(&number, &[1])?;
    let places = n.concat(&[&label, &column], 1)?;
    let example = segments.number;
    for (result, from) in [(0, value), (1, example)] {
        let ty = n.out(result)?;
        let from = n.cast(&from, ty.kind.dtype())?;
        let zeros = n.filled(ty.kind.dtype(), 0.0, &ty.shape)?;
        let value = n.put_slices(&zeros, &places, &from, "none")?;
        n.put(result, &value)?;
    }
    n.put(2, &number)
}
