//! Sums of selected rows of tables: the sparse lengths operators, also of tables whose rows are quantized.

use lodstone_model::DType;

use super::node::{Node, Outcome, Rule, expect_dim, expect_rank, rank};
use crate::onnx::packed_rows::Packing;
use crate::onnx::segments::Segments;
use crate::onnx::{Size, Value, int};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("BatchBoxCox", Rule::One(box_cox)),
    ("Embedding", Rule::One(embedding)),
    ("EmbeddingBag", Rule::One(bag)),
    ("LengthsRangeFill", Rule::One(range_fill)),
    ("LengthsSum", Rule::One(lengths_sum)),
    ("LengthsToRanges", Rule::One(to_ranges)),
    ("LengthsToSegmentIds", Rule::One(to_numbers)),
    ("SparseLengthsSum", Rule::One(|node| looked_up(node, false, plain))),
    ("SparseLengthsSum8BitsRowwise", Rule::One(|node| looked_up(node, false, scaled))),
    ("SparseLengthsSumFused4BitRowwise", Rule::One(|node| looked_up(node, false, packed_4))),
    ("SparseLengthsSumFused8BitRowwise", Rule::One(|node| looked_up(node, false, packed_8))),
    ("SparseLengthsWeightedSum", Rule::One(|node| looked_up(node, true, plain))),
    ("SparseLengthsWeightedSum8BitsRowwise", Rule::One(|node| looked_up(node, true, scaled))),
    ("SparseLengthsWeightedSumFused4BitRowwise", Rule::One(|node| looked_up(node, true, packed_4))),
    ("SparseLengthsWeightedSumFused8BitRowwise", Rule::One(|node| looked_up(node, true, packed_8))),
];

/// Returns rows of the table by index, as floats. The number is that of an input with scales of rows, if there is one.
type Rows = fn(&mut Node<'_>, &Value, usize) -> Outcome;

fn plain(node: &mut Node<'_>, indices: &Value, _: usize) -> Outcome {
    let data = node.input(0)?;
    node.gather(&data, indices, 0)
}

/// Rows of bytes whose scale and offset are a row of another input; the offset is added.
fn scaled(node: &mut Node<'_>, indices: &Value, scales: usize) -> Outcome {
    let (data, scales) = (node.input(0)?, node.input(scales)?);
    expect_bytes(&data)?;
    expect_dim(&scales, 1, 2, "a scale and a bias: a row")?;
    if let Some(rows) = data.size(0)? {
        expect_dim(&scales, 0, rows, "a scale and a bias for each row: a table")?;
    }
    let rows = node.gather(&data, indices, 0)?;
    let mut rows = node.cast(&rows, DType::Float32)?;
    let scales = node.gather(&scales, indices, 0)?;
    for (kind, column) in [("Mul", 0), ("Add", 1)] {
        let part = node.slice(&scales, 1, column, column + 1)?;
        let part = match rank(&rows)? {
            2 => part,
            _ => {
                let part = node.reshape(&part, &[-1])?;
                node.along_rows(&part, &rows)?
            }
        };
        rows = node.call(kind, &[&rows, &part], [])?;
    }
    Ok(rows)
}

fn packed_8(node: &mut Node<'_>, indices: &Value, _: usize) -> Outcome {
    packed(node, indices, Packing { bits: 8, size: 4 })
}

fn packed_4(node: &mut Node<'_>, indices: &Value, _: usize) -> Outcome {
    packed(node, indices, Packing { bits: 4, size: 2 })
}

fn packed(node: &mut Node<'_>, indices: &Value, packing: Packing) -> Outcome {
    let data = node.input(0)?;
    expect_bytes(&data)?;
    expect_rank(&data, 2, "a table of rows")?;
    let rows = node.gather(&data, indices, 0)?;
    node.unpacked_rows(&rows, packing)
}

fn expect_bytes(data: &Value) -> Outcome<()> {
    match data.dtype() {
        DType::Uint8 => Ok(()),
        other => Err(format!("expected a table of uint8, found {other}").into()),
    }
}

/// Fails unless a value is a list of integers of 32 or 64 bits.
pub(super) fn expect_integers(value: &Value, what: &str) -> Outcome<()> {
    expect_rank(value, 1, what)?;
    match value.dtype() {
        DType::Int32 | DType::Int64 => Ok(()),
        other => Err(format!("expected integers as {what}, found {other}").into()),
    }
}

/// Sums rows, weighted or not, by the groups of the lengths.
fn looked_up(node: &mut Node<'_>, is_weighted: bool, rows: Rows) -> Outcome {
    let shift = usize::from(is_weighted);
    let data = node.input(0)?;
    let (indices, lengths) = (node.input(1 + shift)?, node.input(2 + shift)?);
    expect_integers(&indices, "indices")?;
    expect_integers(&lengths, "lengths")?;
    if rank(&data)? == 0 {
        return Err("expected a table, found a scalar".into());
    }
    let weights = if is_weighted { Some(node.input(1)?) } else { None };
    let count = node.size_of(&indices, 0)?;
    let segments = node.segments_of(&lengths, &count)?;
    grouped(node, &segments, weights.as_ref(), &indices, (rows, 3 + shift))
}

/// Sums the rows of each group.
fn grouped(
    node: &mut Node<'_>,
    segments: &Segments,
    weights: Option<&Value>,
    indices: &Value,
    (rows, scales): (Rows, usize),
) -> Outcome {
    let numbers = segments.numbers(node, indices)?;
    let mut values = rows(node, &numbers, scales)?;
    if let Some(weights) = weights {
        expect_rank(weights, 1, "weights")?;
        if let (Some(found), Some(count)) = (weights.size(0)?, indices.size(0)?)
            && found != count
        {
            return Err(
                format!("expected a weight for each of {count} indices, found {found}").into()
            );
        }
        let weights = node.cast(weights, values.dtype())?;
        let weights = node.along_rows(&weights, &values)?;
        values = node.mul(&values, &weights)?;
    }
    segments.sum(node, &values)
}

fn embedding(node: &mut Node<'_>) -> Outcome {
    let [weights, indices] = node.exactly()?;
    expect_rank(&weights, 2, "weights")?;
    for name in ["scale", "sparse"] {
        if node.flag(name, false)? {
            return Err(format!("`{name}` is not supported").into());
        }
    }
    node.gather(&weights, &indices, 0)
}

fn bag(node: &mut Node<'_>) -> Outcome {
    let [data, weights, indices, offsets] = node.exactly()?;
    for (value, what) in [(&indices, "indices"), (&offsets, "offsets")] {
        expect_integers(value, what)?;
    }
    if rank(&data)? == 0 {
        return Err("expected a table, found a scalar".into());
    }
    let count = node.size_of(&indices, 0)?;
    let segments = node.segments_from(&offsets, &count, false)?;
    grouped(node, &segments, Some(&weights), &indices, (plain, 0))
}

/// The start and the length of each group.
fn to_ranges(node: &mut Node<'_>) -> Outcome {
    let lengths = node.input(0)?;
    expect_integers(&lengths, "lengths")?;
    let axis = node.long(0);
    let starts = node.call("CumSum", &[&lengths, &axis], [int("exclusive", 1)])?;
    node.stacked(&[&starts, &lengths])
}

/// The number of the group of each row.
fn to_numbers(node: &mut Node<'_>) -> Outcome {
    let lengths = node.input(0)?;
    expect_integers(&lengths, "lengths")?;
    let rows = rows_of(node, &lengths)?;
    let segments = node.segments_of(&lengths, &rows)?;
    node.cast(&segments.number, DType::Int32)
}

/// The position of each row within its group. There are as many as `maxOutputSize` in Glow.
fn range_fill(node: &mut Node<'_>) -> Outcome {
    let lengths = node.input(0)?;
    expect_integers(&lengths, "lengths")?;
    let rows = rows_of(node, &lengths)?;
    let segments = node.segments_of(&lengths, &rows)?;
    let within = segments.within(node)?;
    let numbers = segments.numbers(node, &within)?;
    node.cast(&numbers, lengths.dtype())
}

/// Returns how many rows groups have together, or `maxOutputSize`, which Glow needs.
pub(super) fn rows_of(node: &mut Node<'_>, lengths: &Value) -> Outcome<Size> {
    if node.has("maxOutputSize") {
        return node.int_in("maxOutputSize", 0..=i64::from(u32::MAX), 0).map(Size::Known);
    }
    let lengths = node.cast(lengths, DType::Int64)?;
    let axes: Vec<i64> = (0..rank(&lengths)?).collect();
    node.reduce("ReduceSum", &lengths, &axes, false).map(Size::Value)
}

fn lengths_sum(node: &mut Node<'_>) -> Outcome {
    let [data, lengths] = node.exactly()?;
    expect_integers(&lengths, "lengths")?;
    if rank(&data)? == 0 {
        return Err("expected rows, found a scalar".into());
    }
    let rows = node.size_of(&data, 0)?;
    let segments = node.segments_of(&lengths, &rows)?;
    segments.sum(node, &data)
}

/// `(max(x + shift, 1e-6)^lambda - 1) / lambda`, and the logarithm where lambda is 0.
fn box_cox(node: &mut Node<'_>) -> Outcome {
    const LEAST: f64 = 1e-6;
    let [x, lambda, shift] = node.exactly()?;
    expect_rank(&x, 2, "data")?;
    if let Some(columns) = x.size(1)? {
        expect_dim(&lambda, 0, columns, "the first parameter")?;
        expect_dim(&shift, 0, columns, "the second parameter")?;
    }
    let moved = node.add(&x, &shift)?;
    let least = node.number(x.dtype(), LEAST)?;
    let moved = node.call("Max", &[&moved, &least], [])?;
    let (zero, one) = (node.number(x.dtype(), 0.0)?, node.number(x.dtype(), 1.0)?);
    let is_zero = node.call("Equal", &[&lambda, &zero], [])?;
    let divisor = node.choose(&is_zero, &one, &lambda)?;
    let power = node.call("Pow", &[&moved, &divisor], [])?;
    let power = node.plus(&power, -1.0)?;
    let power = node.div(&power, &divisor)?;
    let logarithm = node.call("Log", &[&moved], [])?;
    node.choose(&is_zero, &logarithm, &power)
}
