//! Groups of rows that lengths or indices of groups describe: their reduction, selection and padding.

use lodstone_model::DType;
use lodstone_schema::Finding;

use super::node::{Node, Outcome, Rule, rank};
use super::sparse::{expect_integers, rows_of};
use crate::onnx::segments::Segments;
use crate::onnx::{Size, Value, int};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("LengthsGather", Rule::One(gather)),
    ("LengthsMax", Rule::One(max)),
    ("LengthsMean", Rule::One(mean)),
    ("LengthsPad", Rule::One(pad)),
    ("LengthsSplit", Rule::One(split)),
    ("LengthsTile", Rule::One(tile)),
    ("LengthsToOffsets", Rule::One(offsets)),
    ("LengthsToShape", Rule::One(shape)),
    ("LengthsToWeights", Rule::One(weights)),
    ("LengthsTopK", Rule::Many(highest)),
    ("LengthsWeightedSum", Rule::One(weighted)),
    ("PackSegments", Rule::Many(pack)),
    ("SegmentIdsToLengths", Rule::One(counts)),
    ("SegmentIdsToRanges", Rule::One(ranges)),
    ("SortedSegmentMean", Rule::One(|node| by_index(node, true))),
    ("SortedSegmentSum", Rule::One(|node| by_index(node, false))),
    ("SparseLengthsMean", Rule::One(sparse_mean)),
    ("SparseLengthsPositionalWeightedSum", Rule::One(positional)),
    ("UnpackSegments", Rule::One(unpack)),
    ("UnsortedSegmentMean", Rule::One(|node| by_index(node, true))),
    ("UnsortedSegmentSum", Rule::One(|node| by_index(node, false))),
];

/// Returns an input that is a list of lengths.
fn lengths(node: &Node<'_>, index: usize) -> Outcome {
    let lengths = node.input(index)?;
    expect_integers(&lengths, "lengths")?;
    Ok(lengths)
}

/// Returns an input that has rows.
fn data(node: &Node<'_>, index: usize) -> Outcome {
    let data = node.input(index)?;
    match rank(&data)? {
        0 => Err("expected rows, found a scalar".into()),
        _ => Ok(data),
    }
}

/// Returns groups whose lengths are those of all rows together.
fn all_rows(node: &mut Node<'_>, lengths: &Value) -> Outcome<Segments> {
    let rows = rows_of(node, lengths)?;
    node.segments_of(lengths, &rows)
}

/// Returns the groups of the rows of an input.
fn groups(node: &mut Node<'_>, data: &Value, lengths: &Value) -> Outcome<Segments> {
    let rows = node.size_of(data, 0)?;
    node.segments_of(lengths, &rows)
}

/// Divides sums by the number of rows of each group; those of empty groups are 0.
fn divided(node: &mut Node<'_>, sums: &Value, counts: &Value) -> Outcome {
    let counts = node.cast(counts, sums.dtype())?;
    let one = node.number(sums.dtype(), 1.0)?;
    let counts = node.call("Max", &[&counts, &one], [])?;
    let counts = node.along_rows(&counts, sums)?;
    node.div(sums, &counts)
}

fn mean(node: &mut Node<'_>) -> Outcome {
    let (data, lengths) = (data(node, 0)?, lengths(node, 1)?);
    let groups = groups(node, &data, &lengths)?;
    let sums = groups.sum(node, &data)?;
    divided(node, &sums, &lengths)
}

fn max(node: &mut Node<'_>) -> Outcome {
    let (data, lengths) = (data(node, 0)?, lengths(node, 1)?);
    let groups = groups(node, &data, &lengths)?;
    let greatest = groups.greatest(node, &data)?;
    let (zero, none) = (node.number(data.dtype(), 0.0)?, node.number(lengths.dtype(), 0.0)?);
    let is_empty = node.call("Equal", &[&lengths, &none], [])?;
    let is_empty = node.along_rows(&is_empty, &greatest)?;
    node.choose(&is_empty, &zero, &greatest)
}

fn weighted(node: &mut Node<'_>) -> Outcome {
    let (data, lengths) = (data(node, 0)?, lengths(node, 2)?);
    let weights = node.input(1)?;
    let weights = node.along_rows(&weights, &data)?;
    let data = node.mul(&data, &weights)?;
    groups(node, &data, &lengths)?.sum(node, &data)
}

fn sparse_mean(node: &mut Node<'_>) -> Outcome {
    let (table, lengths) = (data(node, 0)?, lengths(node, 2)?);
    let indices = node.input(1)?;
    let groups = groups(node, &indices, &lengths)?;
    let numbers = groups.numbers(node, &indices)?;
    let rows = node.gather(&table, &numbers, 0)?;
    let sums = groups.sum(node, &rows)?;
    divided(node, &sums, &lengths)
}

/// Sums rows of a table, of which each is weighted by its place in its group.
fn positional(node: &mut Node<'_>) -> Outcome {
    let (table, lengths) = (data(node, 0)?, lengths(node, 3)?);
    let (weights, indices) = (node.input(1)?, node.input(2)?);
    let groups = groups(node, &indices, &lengths)?;
    let numbers = groups.numbers(node, &indices)?;
    let rows = node.gather(&table, &numbers, 0)?;
    let within = groups.within(node)?;
    let within = groups.numbers(node, &within)?;
    let weights = node.gather(&weights, &within, 0)?;
    let weights = node.along_rows(&weights, &rows)?;
    let rows = node.mul(&rows, &weights)?;
    groups.sum(node, &rows)
}

/// The rows of selected groups.
fn gather(node: &mut Node<'_>) -> Outcome {
    let (data, lengths) = (data(node, 0)?, lengths(node, 1)?);
    let indices = node.input(2)?;
    expect_integers(&indices, "indices")?;
    let all = groups(node, &data, &lengths)?;
    let own = node.gather(&lengths, &indices, 0)?;
    let starts = node.gather(&all.starts, &indices, 0)?;
    let chosen = all_rows(node, &own)?;
    let start = chosen.spread(node, &starts)?;
    let within = chosen.within(node)?;
    let places = node.add(&start, &within)?;
    node.gather(&data, &places, 0)
}

/// Pads each group to the same number of rows.
fn pad(node: &mut Node<'_>) -> Outcome {
    let (data, lengths) = (data(node, 0)?, lengths(node, 1)?);
    let target = Size::Known(node.int_in("target_length", 1..=1 << 24, -1)?);
    let fill = node.float("padding_value", -1.0)?;
    let groups = groups(node, &data, &lengths)?;
    groups.padded(node, &data, &target, fill.into())
}

/// Divides each length into a number of almost equal ones; the first ones are longer.
fn split(node: &mut Node<'_>) -> Outcome {
    let lengths = lengths(node, 0)?;
    let count = match node.count() {
        1 => node.int_in("n_split", 1..=1 << 24, -1)?,
        _ => match node.known_ints(1)?.as_deref() {
            Some([count]) if (1..=1 << 24).contains(count) => *count,
            Some(found) => {
                return Err(format!("expected a number of parts, found {found:?}").into());
            }
            None => return Err("expected a known number of parts, found a computed one".into()),
        },
    };
    let dtype = lengths.dtype();
    #[expect(clippy::cast_precision_loss, reason = "it is a number of parts")]
    let by = node.number(dtype, count as f64)?;
    let column = node.unsqueeze(&lengths, &[1])?;
    let (part, rest) = (node.div(&column, &by)?, node.call("Mod", &[&column, &by], [])?);
    let numbers = node.range(count)?;
    let numbers = node.cast(&numbers, dtype)?;
    let is_longer = node.call("Less", &[&numbers, &rest], [])?;
    let more = node.cast(&is_longer, dtype)?;
    let parts = node.add(&part, &more)?;
    node.reshape(&parts, &[-1])
}

/// Repeats each row.
fn tile(node: &mut Node<'_>) -> Outcome {
    let (data, lengths) = (data(node, 0)?, lengths(node, 1)?);
    let groups = all_rows(node, &lengths)?;
    node.gather(&data, &groups.number, 0)
}

fn offsets(node: &mut Node<'_>) -> Outcome {
    let lengths = lengths(node, 0)?;
    let axis = node.long(0);
    if !node.flag("include_last_offset", false)? {
        return node.call("CumSum", &[&lengths, &axis], [int("exclusive", 1)]);
    }
    let ends = node.call("CumSum", &[&lengths, &axis], [])?;
    let first = node.filled(lengths.dtype(), 0.0, &[1])?;
    node.concat(&[&first, &ends], 0)
}

/// The number of groups, and their length, which all have.
fn shape(node: &mut Node<'_>) -> Outcome {
    let lengths = lengths(node, 0)?;
    let count = node.size_of(&lengths, 0)?;
    let count = node.list_of(&[count])?;
    let count = node.cast(&count, lengths.dtype())?;
    let first = node.slice(&lengths, 0, 0, 1)?;
    node.concat(&[&count, &first], 0)
}

/// A weight for each row: a power of the length of its group.
fn weights(node: &mut Node<'_>) -> Outcome {
    let lengths = lengths(node, 0)?;
    let power = node.float("power", 0.5)?;
    let groups = all_rows(node, &lengths)?;
    let lengths = node.cast(&lengths, DType::Float32)?;
    // Empty groups have no rows.
    let one = node.number(DType::Float32, 1.0)?;
    let lengths = node.call("Max", &[&lengths, &one], [])?;
    let power = node.number(DType::Float32, power.into())?;
    let powers = node.call("Pow", &[&lengths, &power], [])?;
    let weights = node.call("Reciprocal", &[&powers], [])?;
    groups.spread(node, &weights)
}

/// The greatest elements of each group, and their places in it; groups with fewer have 0 and -1 behind them.
fn highest(node: &mut Node<'_>) -> Outcome<Vec<Value>> {
    let (data, lengths) = (data(node, 0)?, lengths(node, 1)?);
    if rank(&data)? != 1 {
        return Err(format!("expected a list of elements, found rank {}", rank(&data)?).into());
    }
    let count = node.int_in("k", 1..=1 << 24, -1)?;
    let groups = groups(node, &data, &lengths)?;
    // Each group is filled up to at least as many elements as are returned.
    let longs = node.cast(&lengths, DType::Int64)?;
    let least = node.longs(&[count]);
    let longs = node.concat(&[&longs, &least], 0)?;
    let length = Size::Value(node.reduce("ReduceMax", &longs, &[0], false)?);
    let padded = groups.padded(node, &data, &length, f64::NEG_INFINITY)?;
    let rows = node.reshape_to(&padded, &[groups.groups, length])?;
    let many = node.longs(&[count]);
    let [values, places] = node.emit_all("TopK", &[Some(&rows), Some(&many)], [])?;
    let numbers = node.range(count)?;
    let numbers = node.cast(&numbers, lengths.dtype())?;
    let column = node.unsqueeze(&lengths, &[1])?;
    let is_present = node.call("Less", &[&numbers, &column], [])?;
    let places = node.cast(&places, DType::Int32)?;
    let (zero, none) = (node.number(values.dtype(), 0.0)?, node.number(DType::Int32, -1.0)?);
    let (values, places) =
        (node.choose(&is_present, &values, &zero)?, node.choose(&is_present, &places, &none)?);
    Ok(vec![values, places])
}

/// Returns how many groups indices have: as many as rows of another input, or as the greatest index has before it.
fn group_count(node: &mut Node<'_>, indices: &Value, like: Option<usize>) -> Outcome<Size> {
    if let Some(like) = like.filter(|like| *like < node.count()) {
        let like = node.input(like)?;
        return node.size_of(&like, 0);
    }
    let indices = node.cast(indices, DType::Int64)?;
    // Without rows, there are no groups.
    let none = node.longs(&[-1]);
    let indices = node.concat(&[&indices, &none], 0)?;
    let last = node.reduce("ReduceMax", &indices, &[0], false)?;
    node.sum_of(&Size::Value(last), &Size::Known(1))
}

/// Counts the rows of each group.
fn counted(node: &mut Node<'_>, indices: &Value, groups: &Size) -> Outcome {
    let zeros = node.filled_to(DType::Int64, 0.0, std::slice::from_ref(groups))?;
    let ones = node.constant_like(indices, DType::Int64, 1.0)?;
    let indices = node.cast(indices, DType::Int64)?;
    node.put_elements(&zeros, &indices, &ones, 0, "add")
}

fn counts(node: &mut Node<'_>) -> Outcome {
    let indices = lengths(node, 0)?;
    let groups = group_count(node, &indices, Some(1))?;
    let counts = counted(node, &indices, &groups)?;
    node.cast(&counts, DType::Int32)
}

fn ranges(node: &mut Node<'_>) -> Outcome {
    let indices = lengths(node, 0)?;
    let groups = group_count(node, &indices, Some(1))?;
    let counts = counted(node, &indices, &groups)?;
    let axis = node.long(0);
    let starts = node.call("CumSum", &[&counts, &axis], [int("exclusive", 1)])?;
    let ranges = node.stacked(&[&starts, &counts])?;
    node.cast(&ranges, DType::Int32)
}

/// Sums or averages the rows of each group by the index of each.
fn by_index(node: &mut Node<'_>, is_mean: bool) -> Outcome {
    let (data, indices) = (data(node, 0)?, lengths(node, 1)?);
    let groups = match node.int("num_segments", -1)? {
        -1 => group_count(node, &indices, None)?,
        count if count >= 0 => Size::Known(count),
        found => {
            return Err(Finding::from(format!("expected a number of groups, found {found}"))
                .about_attribute("num_segments"));
        }
    };
    let mut sizes = node.sizes_of(&data)?;
    if let Some(first) = sizes.first_mut() {
        *first = groups.clone();
    }
    let zeros = node.filled_to(data.dtype(), 0.0, &sizes)?;
    let sums = node.put_along(&zeros, &indices, &data, 0, "add")?;
    if !is_mean {
        return Ok(sums);
    }
    let counts = counted(node, &indices, &groups)?;
    divided(node, &sums, &counts)
}

/// Pads groups to the longest one, or cuts them to `max_length`: `[groups, length, ..]`. The second output is where there
/// are rows.
fn pack(node: &mut Node<'_>) -> Outcome<Vec<Value>> {
    let (lengths, data) = (lengths(node, 0)?, data(node, 1)?);
    let fill = if node.flag("pad_minf", false)? { f64::NEG_INFINITY } else { 0.0 };
    let groups = groups(node, &data, &lengths)?;
    let length = match node.int("max_length", -1)? {
        -1 => {
            let longs = node.cast(&lengths, DType::Int64)?;
            let none = node.longs(&[0]);
            let longs = node.concat(&[&longs, &none], 0)?;
            Size::Value(node.reduce("ReduceMax", &longs, &[0], false)?)
        }
        found => Size::Known(node.int_in("max_length", 1..=1 << 24, found)?),
    };
    let padded = groups.padded(node, &data, &length, fill)?;
    let mut sizes = node.sizes_of(&data)?;
    sizes.splice(..1, [groups.groups, length.clone()]);
    let packed = node.reshape_to(&padded, &sizes)?;
    let count = node.scalar_of(&length)?;
    let numbers = node.counting(&count, lengths.dtype())?;
    let column = node.unsqueeze(&lengths, &[1])?;
    let is_present = node.call("Less", &[&numbers, &column], [])?;
    Ok(vec![packed, is_present])
}

/// The rows of padded groups.
fn unpack(node: &mut Node<'_>) -> Outcome {
    let (mut lengths, data) = (lengths(node, 0)?, data(node, 1)?);
    let most = node.int("max_length", -1)?;
    if most != -1 {
        #[expect(clippy::cast_precision_loss, reason = "it is a number of rows")]
        let most = node.number(lengths.dtype(), most as f64)?;
        lengths = node.call("Min", &[&lengths, &most], [])?;
    }
    let groups = all_rows(node, &lengths)?;
    let within = groups.within(node)?;
    let places = node.stacked(&[&groups.number, &within])?;
    node.call("GatherND", &[&data, &places], [])
}
