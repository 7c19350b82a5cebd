//! Sums over groups of rows, and operators on lengths of groups.

use lodstone_model::{DType, Packing};
use lodstone_schema::Finding;
use lodstone_schema::numbers::length;

use super::node::{Node, Outcome, Rule, no_equivalent};
use super::segments::{Segments, by_lengths, by_offsets};
use crate::onnx::{Value, int};

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
        let mut dims = vec![1; rows.rank()?.count()];
        if let (Some(first), Some(many)) = (dims.first_mut(), rows.dims()?.first()) {
            *first = *many;
        }
        parts.push(n.reshape(&part, &dims)?);
    }
    let [scale, offset] = &parts[..] else {
        return Err(Finding::internal("a row does not have exactly a scale and an offset"));
    };
    let rows = n.mul(&rows, scale)?;
    n.add(&rows, offset)
}

/// Rows of integers that end with their scale and their offset, as the bytes of two floats.
fn fused_rows(n: &mut Node<'_>, numbers: &Value) -> Outcome<Value> {
    let [_, width] = n.ranked::<2>(0)?;
    let kind = n.ty(0)?.kind;
    let Some(Packing::RowwiseFused { bits, scale }) = kind.packing() else {
        return Err(format!("expected rows with scales, found `{}`", kind.name()).into());
    };
    let size = if scale == DType::Float16 { 2 } else { 4 };
    let elements = width - 2 * size;
    if elements < 0 {
        return Err("the rows are too short for a scale and an offset".into());
    }
    let data = n.raw(0)?;
    let rows = n.gather(&data, numbers, 0)?;
    let bytes = n.slice(&rows, 1, 0, elements)?;
    let mut values = n.cast(&bytes, DType::Float32)?;
    if bits == 4 {
        values = halves(n, &values)?;
    }
    let scale = n.slice(&rows, 1, elements, elements + size)?;
    let scale = number_of(n, &scale)?;
    let offset = n.slice(&rows, 1, elements + size, width)?;
    let offset = number_of(n, &offset)?;
    let values = n.mul(&values, &scale)?;
    n.add(&values, &offset)
}

/// Both halves of each byte, the low one first.
fn halves(n: &mut Node<'_>, bytes: &Value) -> Outcome<Value> {
    let sixteenth = n.times(bytes, 1.0 / 16.0)?;
    let high = n.call("Floor", &[&sixteenth], [])?;
    let shifted = n.times(&high, 16.0)?;
    let low = n.sub(bytes, &shifted)?;
    let (low, high) = (n.unsqueeze(&low, &[2])?, n.unsqueeze(&high, &[2])?);
    let both = n.concat(&[&low, &high], 2)?;
    let dims = bytes.dims()?;
    let [rows, many] = dims[..] else {
        return Err(format!("expected rows of bytes, found {dims:?}").into());
    };
    n.reshape(&both, &[rows, many.saturating_mul(2)])
}

/// Decodes the float in the four or two bytes of each row: `[rows, bytes]` become `[rows, 1]`.
///
/// ONNX has no operator for it. Sign, exponent and fraction are extracted by division; `float64` holds all intermediate
/// values exactly.
fn number_of(n: &mut Node<'_>, bytes: &Value) -> Outcome<Value> {
    let dims = bytes.dims()?;
    // The number of bytes, the bits of the fraction, the exponent bias.
    let (count, fraction_bits, bias) = match dims[..] {
        [_, 4] => (4, 23, 127.0),
        [_, 2] => (2, 10, 15.0),
        _ => return Err("expected 2 or 4 bytes".into()),
    };
    let places: Vec<f32> = (0..count).map(|byte| 256f32.powi(byte)).collect();
    let places = n.singles(&places);
    let places = n.cast(&places, DType::Float64)?;
    let bits = n.cast(bytes, DType::Float64)?;
    let bits = n.mul(&bits, &places)?;
    let bits = n.reduce("ReduceSum", &bits, &[1], true)?;
    let (sign, bits) = split(n, &bits, 2f64.powi(8 * count - 1))?;
    let unit = 2f64.powi(fraction_bits);
    let (exponent, fraction) = split(n, &bits, unit)?;
    let fraction = n.times(&fraction, 1.0 / unit)?;
    // Subnormal values have no leading one, and the exponent of the smallest normal value.
    let zero = n.number(DType::Float64, 0.0)?;
    let one = n.number(DType::Float64, 1.0)?;
    let is_small = n.call("Equal", &[&exponent, &zero], [])?;
    let leading = n.choose(&is_small, &zero, &one)?;
    let exponent = n.call("Max", &[&exponent, &one], [])?;
    let exponent = n.plus(&exponent, -bias)?;
    let two = n.number(DType::Float64, 2.0)?;
    let power = n.call("Pow", &[&two, &exponent], [])?;
    let size = n.add(&leading, &fraction)?;
    let size = n.mul(&size, &power)?;
    let sign = n.times(&sign, -2.0)?;
    let sign = n.plus(&sign, 1.0)?;
    let number = n.mul(&size, &sign)?;
    n.cast(&number, DType::Float32)
}

/// Splits integers into the parts above and below a power of two.
fn split(n: &mut Node<'_>, value: &Value, power: f64) -> Outcome<(Value, Value)> {
    let above = n.times(value, 1.0 / power)?;
    let above = n.call("Floor", &[&above], [])?;
    let taken = n.times(&above, power)?;
    let below = n.sub(value, &taken)?;
    Ok((above, below))
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
        let mut dims = vec![1; values.rank()?.count()];
        if let Some(first) = dims.first_mut() {
            *first = segments.rows;
        }
        let weights = n.reshape(&weights, &dims)?;
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
    let segments = by_lengths(n, &lengths, many)?;
    grouped(n, &segments, weights, indices, rows)
}

fn bags(n: &mut Node<'_>, rows: Rows) -> Outcome {
    let [many] = n.ranked::<1>(2)?;
    let has_end = n.flag("HasEndOffset")?;
    let offsets = n.raw(3)?;
    let segments = by_offsets(n, &offsets, many, has_end)?;
    grouped(n, &segments, Some(1), 2, rows)
}

fn rows_sum(n: &mut Node<'_>) -> Outcome {
    let data = n.real(0)?;
    let many = *data.dims()?.first().unwrap_or(&0);
    let lengths = n.raw(1)?;
    let segments = by_lengths(n, &lengths, many)?;
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
    let segments = by_lengths(n, &lengths, rows)?;
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
    let segments = by_lengths(n, &flat, many)?;
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
    let segments = by_lengths(n, &lengths, many)?;
    let last = n.long(segments.groups.saturating_sub(1));
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
    let segments = by_lengths(n, &lengths, many)?;
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
    // Values without a column are written to an additional one at the end.
    let all = segments.groups.checked_mul(columns).and_then(|all| all.checked_add(1));
    let all = all.ok_or("the result is too large")?;
    let (wide, nowhere) = (n.long(columns), n.long(all - 1));
    let row = n.mul(&segments.number, &wide)?;
    let place = n.add(&row, &column)?;
    let place = n.choose(&has_place, &place, &nowhere)?;
    let place = n.unsqueeze(&place, &[1])?;
    let inner = default.dims()?;
    let dims: Vec<i64> = std::iter::once(all).chain(inner.iter().copied()).collect();
    let background = n.expand(&default, &dims)?;
    let written = n.call("ScatterND", &[&background, &place, &values], [])?;
    let written = n.slice(&written, 0, 0, all - 1)?;
    let value = n.reshape(&written, &result.shape)?;
    n.put_raw(0, &value)
}

/// Permutes blocks of columns.
fn permuted(n: &mut Node<'_>) -> Outcome {
    let [_, columns] = n.ranked::<2>(0)?;
    let (data, offsets, order) = (n.raw(0)?, n.raw(1)?, n.raw(2)?);
    let offsets = n.cast(&offsets, DType::Int64)?;
    let many = *offsets.dims()?.first().unwrap_or(&0);
    if many < 1 {
        return Err("expected offsets of blocks".into());
    }
    let starts = n.slice(&offsets, 0, 0, many - 1)?;
    let ends = n.slice(&offsets, 0, 1, many)?;
    let lengths = n.sub(&ends, &starts)?;
    let (starts, lengths) = (n.gather(&starts, &order, 0)?, n.gather(&lengths, &order, 0)?);
    let segments = by_lengths(n, &lengths, columns)?;
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
    let segments = by_offsets(n, &offsets, many, true)?;
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
