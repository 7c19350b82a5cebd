//! Sums over groups of rows, and operators on lengths of groups.

use lodstone_model::{self as model, DType};
use lodstone_schema::Finding;
use lodstone_schema::numbers::length;

use super::node::{Node, Outcome, Rule, no_equivalent};
use crate::onnx::packed_rows::Packing;
use crate::onnx::required::required_dim;
use crate::onnx::segments::Segments;
use crate::onnx::{Size, Value, int};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("BatchOneHot", one_hot),
    ("BatchedUnaryEmbeddingsBags", unary_bags),
    ("EmbeddingBag", |n| bags(n, rows_of)),
    ("EmbeddingBagByteRowwiseOffsets", |n| bags(n, fused_rows)),
    ("FusedRowwiseQuantizedSparseLengthsSum", |n| lengths_sum(n, None, 1, 2, fused_rows)),
    ("FusedRowwiseQuantizedSparseLengthsWeightedSum", |n| {
        lengths_sum(n, Some(1), 2, 3, fused_rows)
    }),
    ("GatherRanges", gather_ranges),
    ("LengthsRangeFill", range_fill),
    ("LengthsSum", rows_sum),
    ("LengthsToRanges", ranges),
    ("PermutePooledEmbeddings", permuted),
    ("RowwiseQuantizedSparseLengthsWeightedSum", |n| lengths_sum(n, Some(3), 4, 5, scaled_rows)),
    ("SparseLengthsSum", |n| lengths_sum(n, None, 1, 2, rows_of)),
    ("SparseLengthsWeightedSum", |n| lengths_sum(n, Some(1), 2, 3, rows_of)),
    ("SparseToDenseMask", dense_mask),
];

/// Returns rows of data by index, dequantized: `[rows, ..]`.
type Rows = fn(&mut Node<'_>, &Value) -> Outcome<Value>;

/// Rows of floats.
fn rows_of(n: &mut Node<'_>, numbers: &Value) -> Outcome<Value> {
    let data = n.raw(0)?;
    let rows = n.gather(&data, numbers, 0)?;
    let rows = n.dequantized(&rows, n.ty(0)?)?;
    n.cast(&rows, DType::Float32)
}

/// Rows of integers with scales and offsets in separate inputs; the offset is added.
fn scaled_rows(n: &mut Node<'_>, numbers: &Value) -> Outcome<Value> {
    let (data, scales, offsets) = (n.raw(0)?, n.raw(1)?, n.raw(2)?);
    let rows = n.gather(&data, numbers, 0)?;
    let rows = n.cast(&rows, DType::Float32)?;
    let mut parts = Vec::new();
    for part in [scales, offsets] {
        let part = n.gather(&part, numbers, 0)?;
        let part = n.cast(&part, DType::Float32)?;
        parts.push(n.along_rows(&part, &rows)?);
    }
    let [scale, offset] = &parts[..] else {
        return Err(Finding::internal("a row does not have exactly a scale and an offset"));
    };
    let rows = n.mul(&rows, scale)?;
    n.add(&rows, offset)
}

/// Rows of integers that end with their scale and their offset, as the bytes of two floats.
fn fused_rows(n: &mut Node<'_>, numbers: &Value) -> Outcome<Value> {
    n.ranked::<2>(0)?;
    let kind = n.ty(0)?.kind;
    let Some(model::Packing::RowwiseFused { bits, scale }) = kind.packing() else {
        return Err(format!("expected rows with scales, found `{}`", kind.name()).into());
    };
    let size = if scale == DType::Float16 { 2 } else { 4 };
    let data = n.raw(0)?;
    let rows = n.gather(&data, numbers, 0)?;
    n.unpacked_rows(&rows, Packing { bits: bits.into(), size })
}

/// Sums weighted rows by index, in groups.
fn grouped(
    n: &mut Node<'_>,
    segments: &Segments,
    weights: Option<usize>,
    indices: usize,
    rows: Rows,
) -> Outcome {
    let numbers = n.raw(indices)?;
    let numbers = segments.numbers(n, &numbers)?;
    let mut values = rows(n, &numbers)?;
    if let Some(weights) = weights {
        let weights = n.real_as(weights, DType::Float32)?;
        let weights = n.along_rows(&weights, &values)?;
        values = n.mul(&values, &weights)?;
    }
    let sums = segments.sum(n, &values)?;
    n.put(0, &sums)
}

fn lengths_sum(
    n: &mut Node<'_>,
    weights: Option<usize>,
    indices: usize,
    lengths: usize,
    rows: Rows,
) -> Outcome {
    let [many] = n.ranked::<1>(indices)?;
    let lengths = n.raw(lengths)?;
    let segments = n.segments_of(&lengths, &Size::Known(many))?;
    grouped(n, &segments, weights, indices, rows)
}

fn bags(n: &mut Node<'_>, rows: Rows) -> Outcome {
    let [many] = n.ranked::<1>(2)?;
    let has_end = n.flag("HasEndOffset")?;
    let offsets = n.raw(3)?;
    let segments = n.segments_from(&offsets, &Size::Known(many), has_end)?;
    grouped(n, &segments, Some(1), 2, rows)
}

fn rows_sum(n: &mut Node<'_>) -> Outcome {
    let data = n.real(0)?;
    let many = required_dim(&data, 0)?;
    let lengths = n.raw(1)?;
    let segments = n.segments_of(&lengths, &Size::Known(many))?;
    let sums = segments.sum(n, &data)?;
    n.put(0, &sums)
}

/// The start and the length of each group.
fn ranges(n: &mut Node<'_>) -> Outcome {
    let lengths = n.raw(0)?;
    let axis = n.long(0);
    let starts = n.call("CumSum", &[&lengths, &axis], [int("exclusive", 1)])?;
    let (starts, lengths) = (n.unsqueeze(&starts, &[1])?, n.unsqueeze(&lengths, &[1])?);
    let value = n.concat(&[&starts, &lengths], 1)?;
    n.put(0, &value)
}

/// The position of each row within its group, padded with zeros.
fn range_fill(n: &mut Node<'_>) -> Outcome {
    let [rows] = n.out_ranked::<1>(0)?;
    let lengths = n.raw(0)?;
    let segments = n.segments_of(&lengths, &Size::Known(rows))?;
    let within = segments.within(n)?;
    let value = segments.numbers(n, &within)?;
    n.put(0, &value)
}

/// Concatenates ranges of data, padded with zeros.
fn gather_ranges(n: &mut Node<'_>) -> Outcome {
    let [examples, each, _] = n.ranked::<3>(1)?;
    let [many] = n.out_ranked::<1>(0)?;
    let (data, ranges) = (n.raw(0)?, n.raw(1)?);
    let count = examples.checked_mul(each).ok_or("there are too many ranges")?;
    let ranges = n.cast(&ranges, DType::Int64)?;
    let lengths = n.slice(&ranges, 2, 1, 2)?;
    let starts = n.slice(&ranges, 2, 0, 1)?;
    let (flat, starts) = (n.reshape(&lengths, &[count])?, n.reshape(&starts, &[count])?);
    let segments = n.segments_of(&flat, &Size::Known(many))?;
    let (within, start) = (segments.within(n)?, segments.spread(n, &starts)?);
    let number = n.add(&within, &start)?;
    let number = segments.numbers(n, &number)?;
    let found = n.gather(&data, &number, 0)?;
    let inside = segments.is_inside(n)?;
    let nothing = n.number(data.dtype(), 0.0)?;
    let found = n.choose(&inside, &found, &nothing)?;
    n.put_raw(0, &found)?;
    let totals = n.reduce("ReduceSum", &lengths, &[1, 2], false)?;
    n.put(1, &totals)
}

/// Whether each feature has each of its values, which are concatenated by lengths.
fn one_hot(n: &mut Node<'_>) -> Outcome {
    let [many] = n.ranked::<1>(2)?;
    let (data, lengths, values) = (n.raw(0)?, n.raw(1)?, n.raw(2)?);
    let segments = n.segments_of(&lengths, &Size::Known(many))?;
    let groups = required_dim(&segments.starts, 0)?;
    let last = n.long(groups.saturating_sub(1));
    let feature = n.call("Min", &[&segments.number, &last], [])?;
    let found = n.gather(&data, &feature, 1)?;
    // Raw integers are compared, as in Glow.
    let (found, values) = match data.dtype() {
        DType::Int8 => (n.cast(&found, DType::Int32)?, n.cast(&values, DType::Int32)?),
        _ => (found, values),
    };
    let same = n.call("Equal", &[&found, &values], [])?;
    let dtype = n.out(0)?.kind.dtype();
    let value = n.cast(&same, dtype)?;
    n.put_raw(0, &value)
}

/// Writes values to the columns that a mask assigns to their indices, with a default elsewhere.
fn dense_mask(n: &mut Node<'_>) -> Outcome {
    let mask = n.ints("Mask")?;
    let columns = length(mask.len());
    let result = n.out(0)?;
    let (numbers, values) = (n.raw(0)?, n.raw_like(1, &result)?);
    let (default, lengths) = (n.raw_like(2, &result)?, n.raw(3)?);
    let [many] = n.ranked::<1>(0)?;
    if mask.is_empty() {
        return no_equivalent("its mask is empty");
    }
    let segments = n.segments_of(&lengths, &Size::Known(many))?;
    let numbers = n.cast(&numbers, DType::Int64)?;
    let numbers = n.unsqueeze(&numbers, &[1])?;
    let mask = n.longs(mask);
    let is_column = n.call("Equal", &[&numbers, &mask], [])?;
    let is_column = n.cast(&is_column, DType::Int32)?;
    let column = n.call("ArgMax", &[&is_column], [int("axis", 1), int("keepdims", 0)])?;
    let has_column = n.reduce("ReduceMax", &is_column, &[1], false)?;
    let has_column = n.cast(&has_column, DType::Bool)?;
    let inside = segments.is_inside(n)?;
    let has_place = n.call("And", &[&has_column, &inside], [])?;
    let groups = required_dim(&segments.starts, 0)?;
    // Values without a column are written to an additional one at the end.
    let all = groups.checked_mul(columns).and_then(|all| all.checked_add(1));
    let all = all.ok_or("the result is too large")?;
    let (wide, nowhere) = (n.long(columns), n.long(all - 1));
    let row = n.mul(&segments.number, &wide)?;
    let place = n.add(&row, &column)?;
    let place = n.choose(&has_place, &place, &nowhere)?;
    let inner = default.dims()?;
    let dims: Vec<i64> = std::iter::once(all).chain(inner.iter().copied()).collect();
    let background = n.expand(&default, &dims)?;
    let written = n.put_rows(&background, &place, &values, "none")?;
    let written = n.slice(&written, 0, 0, all - 1)?;
    let value = n.reshape(&written, &result.shape)?;
    n.put_raw(0, &value)
}

/// Permutes blocks of columns.
fn permuted(n: &mut Node<'_>) -> Outcome {
    let [_, columns] = n.ranked::<2>(0)?;
    let (data, offsets, order) = (n.raw(0)?, n.raw(1)?, n.raw(2)?);
    let offsets = n.cast(&offsets, DType::Int64)?;
    let many = required_dim(&offsets, 0)?;
    if many < 1 {
        return Err("expected offsets of blocks".into());
    }
    let starts = n.slice(&offsets, 0, 0, many - 1)?;
    let ends = n.slice(&offsets, 0, 1, many)?;
    let lengths = n.sub(&ends, &starts)?;
    let (starts, lengths) = (n.gather(&starts, &order, 0)?, n.gather(&lengths, &order, 0)?);
    let segments = n.segments_of(&lengths, &Size::Known(columns))?;
    let (within, start) = (segments.within(n)?, segments.spread(n, &starts)?);
    let number = n.add(&within, &start)?;
    let value = n.gather(&data, &number, 1)?;
    n.put_raw(0, &value)
}

/// Sums tables of scalar weights in groups: `[tasks, all tables, 1]` become `[tasks, batch, tables]`.
fn unary_bags(n: &mut Node<'_>) -> Outcome {
    let [tasks, batch, tables] = n.out_ranked::<3>(0)?;
    let weights = n.real_as(0, DType::Float32)?;
    let size = weights.dims()?.iter().skip(1).try_fold(1i64, |all, dim| all.checked_mul(*dim));
    let size = size.ok_or("the tables are too large")?;
    let weights = n.reshape(&weights, &[tasks, size])?;
    let (table_offsets, offsets, numbers) = (n.raw(1)?, n.raw(2)?, n.raw(3)?);
    let [many] = n.ranked::<1>(3)?;
    let segments = n.segments_from(&offsets, &Size::Known(many), true)?;
    let table_offsets = n.cast(&table_offsets, DType::Int64)?;
    let batches = n.long(batch.max(1));
    let table = n.div(&segments.number, &batches)?;
    let last = n.long(tables.saturating_sub(1));
    let table = n.call("Min", &[&table, &last], [])?;
    let start = n.gather(&table_offsets, &table, 0)?;
    let numbers = n.cast(&numbers, DType::Int64)?;
    let numbers = n.add(&numbers, &start)?;
    let numbers = segments.numbers(n, &numbers)?;
    let found = n.gather(&weights, &numbers, 1)?;
    let found = n.transpose(&found, &[1, 0])?;
    let sums = segments.sum(n, &found)?;
    let sums = n.reshape(&sums, &[tables, batch, tasks])?;
    let value = n.transpose(&sums, &[2, 1, 0])?;
    n.put(0, &value)
}
