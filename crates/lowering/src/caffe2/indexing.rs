//! Gathers and scatters.

use lodstone_model::DType;
use lodstone_schema::Finding;
use lodstone_schema::numbers::length;

use super::node::{Node, Outcome, Rule, expect_rank, rank, required_dim};
use super::sparse::{expect_integers, rows_of};
use crate::onnx::{Size, Value, int};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("BatchGather", Rule::One(|node| gather(node, 1))),
    ("BatchOneHot", Rule::One(one_hot)),
    ("BatchSparseToDense", Rule::One(to_dense)),
    ("BooleanMask", Rule::Many(masked)),
    ("FillExamplesWithIndicator", Rule::One(fill)),
    ("Gather", Rule::One(|node| gather(node, 0))),
    (
        "GatherND",
        Rule::One(|node| {
            let (data, places) = (node.input(0)?, indices(node, 1)?);
            let places = node.cast(&places, DType::Int64)?;
            node.call("GatherND", &[&data, &places], [])
        }),
    ),
    ("GatherRanges", Rule::Many(ranges)),
    ("ScatterAssign", Rule::One(assign)),
    ("SparseLabelSplit", Rule::Many(labels)),
    ("SparseToDense", Rule::One(sparse)),
    ("SparseToDenseMask", Rule::One(mask)),
];

/// Reads indices, converted to integers if they are not.
fn indices(node: &mut Node<'_>, index: usize) -> Outcome {
    let value = node.input(index)?;
    match value.dtype() {
        DType::Int32 | DType::Int64 => Ok(value),
        _ => node.cast(&value, DType::Int32),
    }
}

fn gather(node: &mut Node<'_>, default: i64) -> Outcome {
    let data = node.input(0)?;
    let axis = node.axis("axis", default, data.rank()?)?;
    let places = indices(node, 1)?;
    node.graph.gather(&data, &places, axis)
}

/// Concatenates ranges of data. The second output has how many elements each example has.
fn ranges(node: &mut Node<'_>) -> Outcome<Vec<Value>> {
    let [data, ranges] = node.exactly()?;
    expect_rank(&data, 1, "data")?;
    expect_rank(&ranges, 3, "ranges")?;
    let given = node.cast(&ranges, DType::Int64)?;
    let (starts, lengths) = (node.slice(&given, 2, 0, 1)?, node.slice(&given, 2, 1, 2)?);
    let (flat, starts) = (node.reshape(&lengths, &[-1])?, node.reshape(&starts, &[-1])?);
    let rows = rows_of(node, &flat)?;
    let segments = node.segments_of(&flat, &rows)?;
    let (within, start) = (segments.within(node)?, segments.spread(node, &starts)?);
    let place = node.add(&within, &start)?;
    let place = segments.numbers(node, &place)?;
    let found = node.graph.gather(&data, &place, 0)?;
    let inside = segments.is_inside(node)?;
    let nothing = node.number(data.dtype(), 0.0)?;
    let found = node.choose(&inside, &found, &nothing)?;
    let counts = node.reduce("ReduceSum", &lengths, &[1, 2], false)?;
    Ok(vec![found, node.cast(&counts, ranges.dtype())?])
}

/// Whether each feature has each of its values, which are concatenated by lengths.
fn one_hot(node: &mut Node<'_>) -> Outcome {
    let [data, lengths, values] = node.exactly()?;
    expect_rank(&data, 2, "data")?;
    expect_integers(&lengths, "lengths")?;
    expect_rank(&values, 1, "values")?;
    let count = node.size_of(&values, 0)?;
    let segments = node.segments_of(&lengths, &count)?;
    let groups = node.scalar_of(&segments.groups)?;
    let last = node.plus(&groups, -1.0)?;
    let feature = node.call("Min", &[&segments.number, &last], [])?;
    let found = node.graph.gather(&data, &feature, 1)?;
    let is_same = node.call("Equal", &[&found, &values], [])?;
    node.cast(&is_same, data.dtype())
}

fn assign(node: &mut Node<'_>) -> Outcome {
    let [data, places, slices] = node.exactly()?;
    expect_integers(&places, "indices")?;
    node.put_rows(&data, &places, &slices, "none")
}

/// Creates rows of zeros of the dims that those of another value have.
fn zero_rows(node: &mut Node<'_>, rows: Size, like: &Value) -> Outcome {
    let inner = (1..rank(like)?).map(|axis| node.size_of(like, axis));
    let sizes = std::iter::once(Ok(rows)).chain(inner).collect::<Outcome<Vec<_>>>()?;
    node.filled_to(like.dtype(), 0.0, &sizes)
}

/// Adds values to rows of zeros, as many as another operand has, or as the highest index requires.
fn sparse(node: &mut Node<'_>) -> Outcome {
    let (places, values) = (node.input(0)?, node.input(1)?);
    let places = match rank(&places)? {
        2 => node.reshape(&places, &[-1])?,
        _ => places,
    };
    expect_integers(&places, "indices")?;
    let rows = match node.optional(2)? {
        Some(like) => node.size_of(&like, 0)?,
        None => {
            let last = node.reduce("ReduceMax", &places, &[0], false)?;
            let last = node.cast(&last, DType::Int64)?;
            node.sum_of(&Size::Value(last), &Size::Known(1))?
        }
    };
    let zeros = zero_rows(node, rows, &values)?;
    node.put_rows(&zeros, &places, &values, "add")
}

/// Writes values to the columns that a mask assigns to their indices, with a default elsewhere.
fn mask(node: &mut Node<'_>) -> Outcome {
    let (places, values, default) = (node.input(0)?, node.input(1)?, node.input(2)?);
    expect_integers(&places, "indices")?;
    let mask = node.required_ints("mask")?;
    if mask.is_empty() {
        return Err("expected a `mask` of at least one index, found none".into());
    }
    let count = node.size_of(&places, 0)?;
    let lengths = match node.count() {
        3 => None,
        4 => Some(node.input(3)?),
        other => return Err(format!("expected 3 or 4 inputs, found {other}").into()),
    };
    let all = match &lengths {
        Some(lengths) => lengths.clone(),
        None => node.list_of(std::slice::from_ref(&count))?,
    };
    let segments = node.segments_of(&all, &count)?;
    let columns = length(mask.len());
    let numbers = node.cast(&places, DType::Int64)?;
    let numbers = node.unsqueeze(&numbers, &[1])?;
    let mask = node.longs(&mask);
    let is_column = node.call("Equal", &[&numbers, &mask], [])?;
    let is_column = node.cast(&is_column, DType::Int32)?;
    let column = node.call("ArgMax", &[&is_column], [int("axis", 1), int("keepdims", 0)])?;
    let has_column = node.reduce("ReduceMax", &is_column, &[1], false)?;
    let has_column = node.cast(&has_column, DType::Bool)?;
    let inside = segments.is_inside(node)?;
    let has_place = node.call("And", &[&has_column, &inside], [])?;
    // Values without a column are written to an additional one at the end.
    let cells = node.product_of(&segments.groups, &Size::Known(columns))?;
    let nowhere = node.scalar_of(&cells)?;
    let wide = node.long(columns);
    let row = node.mul(&segments.number, &wide)?;
    let place = node.add(&row, &column)?;
    let place = node.choose(&has_place, &place, &nowhere)?;
    let inner = node.sizes_of(&default)?;
    let more = node.sum_of(&cells, &Size::Known(1))?;
    let sizes: Vec<Size> = std::iter::once(more).chain(inner.iter().cloned()).collect();
    let background = node.expand_to(&default, &sizes)?;
    let written = node.put_rows(&background, &place, &values, "none")?;
    let written = node.cut(&written, 0, &Size::Known(0), &cells)?;
    // Without lengths, there is one row, which is no dim.
    let rows = lengths.map(|_| segments.groups.clone());
    let sizes: Vec<Size> = rows.into_iter().chain([Size::Known(columns)]).chain(inner).collect();
    node.reshape_to(&written, &sizes)
}

/// Keeps the rows that a mask marks. The second output has their indices.
fn masked(node: &mut Node<'_>) -> Outcome<Vec<Value>> {
    let [data, mask] = node.exactly()?;
    expect_rank(&mask, 1, "a mask")?;
    let places = node.places(&mask)?;
    let kept = node.graph.gather(&data, &places, 0)?;
    Ok(match node.outputs() {
        1 => vec![kept],
        _ => vec![kept, places],
    })
}

/// Returns the rows of an indicator that are not 0.
fn rows(node: &mut Node<'_>, indicator: &Value) -> Outcome {
    let marks = node.cast(indicator, DType::Bool)?;
    node.places(&marks)
}

/// Writes rows to where an indicator is not 0, and zeros elsewhere.
fn fill(node: &mut Node<'_>) -> Outcome {
    let [data, indicator] = node.exactly()?;
    expect_integers(&indicator, "an indicator")?;
    let places = rows(node, &indicator)?;
    let rows = node.size_of(&indicator, 0)?;
    let zeros = zero_rows(node, rows, &data)?;
    node.put_rows(&zeros, &places, &data, "none")
}

/// Writes values to the columns of their indices, in rows by lengths, with a default elsewhere. The number of columns is an
/// argument, or that of another operand.
fn to_dense(node: &mut Node<'_>) -> Outcome {
    let (lengths, places, values) = (node.input(0)?, node.input(1)?, node.input(2)?);
    expect_integers(&lengths, "lengths")?;
    expect_integers(&places, "indices")?;
    expect_rank(&values, 1, "values")?;
    let columns = match (node.optional(3)?, node.int("dense_last_dim", 0)?) {
        (_, last @ 1..) => Size::Known(last),
        (Some(like), _) => node.size_of(&like, 1)?,
        _ => return Err("expected `dense_last_dim` of at least 1".into()),
    };
    let default = node.float("default_value", 0.0)?;
    let count = node.size_of(&places, 0)?;
    let segments = node.segments_of(&lengths, &count)?;
    let row = node.unsqueeze(&segments.number, &[1])?;
    let column = node.cast(&places, DType::Int64)?;
    let column = node.unsqueeze(&column, &[1])?;
    let cells = node.graph.concat(&[&row, &column], 1)?;
    // Values of no row go to an additional row.
    let more = node.sum_of(&segments.groups, &Size::Known(1))?;
    let all = node.filled_to(values.dtype(), default.into(), &[more, columns])?;
    let written = node.put_slices(&all, &cells, &values, "none")?;
    node.cut(&written, 0, &Size::Known(0), &segments.groups)
}

/// Splits pairs of a label and a value, in rows by lengths. Outputs: the values of each label, then the rows of each label,
/// and then, for each pair, its position within its label.
fn labels(node: &mut Node<'_>) -> Outcome<Vec<Value>> {
    let mut operands = Vec::new();
    for index in 0..3 {
        let value = node.input(index)?;
        operands.push(match rank(&value)? {
            1 => value,
            2 => node.reshape(&value, &[-1])?,
            found => {
                return Err(format!("expected a list as input {index}, found rank {found}").into());
            }
        });
    }
    let [lengths, label, values] = &operands[..] else {
        return Err(Finding::internal("an operand was lost"));
    };
    let (count, outputs) = (node.int("num_labels", 0)?, length(node.outputs()));
    if count < 1 || count.checked_mul(2).is_none_or(|most| outputs < most) {
        return Err(format!(
            "expected `num_labels` of at most half of {outputs} outputs, found {count}"
        )
        .into());
    }
    let pairs = required_dim(label, 0)?;
    if pairs % count != 0 {
        return Err(format!("expected `num_labels` that divides {pairs}, found {count}").into());
    }
    let segments = node.segments_of(lengths, &Size::Known(pairs))?;
    let example = node.cast(&segments.number, DType::Int32)?;
    let label = node.cast(label, DType::Int64)?;
    let mut parts: [Vec<Value>; 2] = [Vec::new(), Vec::new()];
    let mut position = None;
    for number in 0..count {
        let number = node.long(number);
        let marks = node.call("Equal", &[&label, &number], [])?;
        let places = node.places(&marks)?;
        for (part, from) in parts.iter_mut().zip([values, &example]) {
            part.push(node.graph.gather(from, &places, 0)?);
        }
        if outputs > 2 * count {
            let marks = node.cast(&marks, DType::Int32)?;
            let axis = node.long(0);
            let before = node.call("CumSum", &[&marks, &axis], [int("exclusive", 1)])?;
            let own = node.mul(&before, &marks)?;
            position = Some(match position {
                None => own,
                Some(all) => node.add(&all, &own)?,
            });
        }
    }
    let position =
        position.filter(|_| node.flag("keep_gradient_offset_map", false).is_ok_and(|it| it));
    let [values, examples] = parts;
    Ok(values.into_iter().chain(examples).chain(position).collect())
}
