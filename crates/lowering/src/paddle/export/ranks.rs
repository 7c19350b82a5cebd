//! Operators that process sequences step by step, as PaddlePaddle 1.x loops over sequences of different lengths.
//!
//! A rank table is two tensors: the indices of the sequences, the longest first, and their lengths in this order.
//! Rows are gathered by steps, so no loop is needed:
//!
//! ```text
//! sequences  a b c | d | e f     lengths 3 1 2     ranks 0 2 1
//! by steps   a e d | b f | c     rows    0 4 3 | 1 5 | 2
//! ```

use lodstone_model::{AttributeValue, DType, TensorType, ValueType};

use super::variables::Bound;
use super::walk::{Own, Site, Walk};
use crate::frame::Step;
use crate::onnx::{Graph, Value, int, ints};
use crate::paddle::operator::Outcome;
use crate::paddle::sequences::{compress, lengths, longest, offsets, starts};

pub(super) const OPERATORS: &[(&str, Own)] = &[
    ("array_to_lod_tensor", |walk, site| join(walk, site)),
    ("lod_rank_table", |walk, site| rank(walk, site)),
    ("lod_tensor_to_array", |walk, site| split(walk, site)),
    ("max_sequence_len", |walk, site| max_length(walk, site)),
    ("reorder_lod_tensor_by_rank", |walk, site| reorder(walk, site)),
    ("shrink_rnn_memory", |walk, site| shrink(walk, site)),
];

/// The sequences of a rank table, the longest first.
struct Ranks {
    /// Their indices.
    order: Value,
    lengths: Value,
}

fn ranks<'p>(walk: &Walk<'p>, site: &Site<'_, 'p>) -> Step<Ranks> {
    match walk.read(site, "RankTable")? {
        Bound::Ranks(order, lengths) => Ok(Ranks { order, lengths }),
        _ => Err("expected a rank table as `RankTable`".into()),
    }
}

/// Returns the steps of sequences, and which of them have a row at which step: `[steps, sequences]`.
fn steps(graph: &mut Graph, lengths: &Value) -> Outcome<(Value, Value)> {
    let (zero, one) = (graph.long(0), graph.long(1));
    let end = longest(graph, lengths, 0)?;
    let steps = graph.call("Range", &[&zero, &end, &one], [])?;
    let steps = graph.unsqueeze(&steps, &[1])?;
    let has = graph.call("Less", &[&steps, lengths], [])?;
    Ok((steps, has))
}

/// Returns the rows of sequences in the order of steps, given where each sequence begins, and the number of rows of each
/// step.
fn by_steps(graph: &mut Graph, starts: &Value, lengths: &Value) -> Outcome<(Value, Value)> {
    let (steps, has) = steps(graph, lengths)?;
    let rows = graph.add(&steps, starts)?;
    let rows = compress(graph, &rows, &has)?;
    let counted = graph.cast(&has, DType::Int64)?;
    let counts = graph.reduce("ReduceSum", &counted, &[1], false)?;
    Ok((rows, counts))
}

/// Returns the order that sorts integers, as many as there are in `lengths` or in the value itself.
fn sorting(graph: &mut Graph, value: &Value, largest: bool) -> Outcome<(Value, Value)> {
    let count = graph.call("Shape", &[value], [])?;
    let attributes = [int("axis", 0), int("largest", i64::from(largest))];
    let [sorted, order] = graph.emit_all("TopK", &[Some(value), Some(&count)], attributes)?;
    Ok((sorted, order))
}

fn rank<'p>(walk: &mut Walk<'p>, site: &mut Site<'_, 'p>) -> Step {
    let (_, lod) = walk.tensor(site, "X")?;
    let level = match site.op.attribute("level") {
        Some(AttributeValue::Int(level)) => usize::try_from(*level).ok(),
        None => Some(0),
        _ => None,
    };
    let level = level.and_then(|level| lod.get(level)).ok_or("the LoD does not have this level")?;
    let Some(name) = walk.result(site, "Out") else { return Ok(()) };
    let lengths = lengths(&mut walk.graph, level)?;
    // Of equal lengths, the lower index comes first.
    let (lengths, order) = sorting(&mut walk.graph, &lengths, true)?;
    walk.set(site, name, Bound::Ranks(order, lengths))
}

fn max_length<'p>(walk: &mut Walk<'p>, site: &mut Site<'_, 'p>) -> Step {
    let ranks = ranks(walk, site)?;
    let Some(name) = walk.result(site, "Out") else { return Ok(()) };
    let longest = longest(&mut walk.graph, &ranks.lengths, 0)?;
    let longest = walk.graph.reshape(&longest, &[1])?;
    walk.bind(site, name, &longest, Vec::new())
}

fn split<'p>(walk: &mut Walk<'p>, site: &mut Site<'_, 'p>) -> Step {
    let ranks = ranks(walk, site)?;
    let (x, lod) = walk.tensor(site, "X")?;
    let [level] = lod.as_slice() else { return Err("expected one level of LoD".into()) };
    let Some(name) = walk.result(site, "Out") else { return Ok(()) };
    let graph = &mut walk.graph;
    let starts = starts(graph, level)?;
    let starts = graph.gather(&starts, &ranks.order, 0)?;
    let (rows, counts) = by_steps(graph, &starts, &ranks.lengths)?;
    let rows = graph.gather(&x, &rows, 0)?;
    let element = rows.value_type().tensor_type().cloned().unwrap_or_default();
    let list = ValueType::list(ValueType::Tensor(TensorType { shape: None, ..element.clone() }));
    let list = list.map_err(|_| "the type is too deep")?;
    let inputs = [Some(&rows), Some(&counts)];
    let made = graph.emit_one("SplitToSequence", &inputs, [int("axis", 0)], list)?;
    walk.set(site, name, Bound::Array(made, Some(rowless(element))))
}

/// Returns the type of tensors with another number of rows.
fn rowless(mut tensor: TensorType) -> TensorType {
    if let Some(rows) = tensor.shape.as_mut().and_then(|dims| dims.first_mut()) {
        *rows = lodstone_model::Dim::Unknown;
    }
    tensor
}

fn join<'p>(walk: &mut Walk<'p>, site: &mut Site<'_, 'p>) -> Step {
    let ranks = ranks(walk, site)?;
    let (array, element) = walk.array(site, "X")?;
    let Some(name) = walk.result(site, "Out") else { return Ok(()) };
    let element = rowless(element.ok_or("the array has no members")?);
    let graph = &mut walk.graph;
    let (along, of) = ([int("axis", 0)], ValueType::Tensor(element));
    let packed = graph.emit_one("ConcatFromSequence", &[Some(&array)], along, of)?;
    // The lengths in the order of the sequences.
    let (_, back) = sorting(graph, &ranks.order, false)?;
    let lengths = graph.gather(&ranks.lengths, &back, 0)?;
    let level = offsets(graph, &lengths)?;
    let starts = starts(graph, &level)?;
    let starts = graph.gather(&starts, &ranks.order, 0)?;
    let (rows, _) = by_steps(graph, &starts, &ranks.lengths)?;
    let (_, back) = sorting(graph, &rows, false)?;
    let made = graph.gather(&packed, &back, 0)?;
    walk.bind(site, name, &made, vec![level])
}

fn reorder<'p>(walk: &mut Walk<'p>, site: &mut Site<'_, 'p>) -> Step {
    let ranks = ranks(walk, site)?;
    let (x, lod) = walk.tensor(site, "X")?;
    let Some(name) = walk.result(site, "Out") else { return Ok(()) };
    let graph = &mut walk.graph;
    let (made, lod) = match lod.as_slice() {
        [] => (graph.gather(&x, &ranks.order, 0)?, Vec::new()),
        [level] => {
            let (starts, lengths) = (starts(graph, level)?, lengths(graph, level)?);
            let starts = graph.gather(&starts, &ranks.order, 0)?;
            let lengths = graph.gather(&lengths, &ranks.order, 0)?;
            // Sequence by sequence: the transpose of step by step.
            let (steps, has) = steps(graph, &lengths)?;
            let rows = graph.add(&steps, &starts)?;
            let order = [ints("perm", &[1, 0]), ints("perm", &[1, 0])];
            let [rows_order, has_order] = order;
            let rows = graph.call("Transpose", &[&rows], [rows_order])?;
            let has = graph.call("Transpose", &[&has], [has_order])?;
            let rows = compress(graph, &rows, &has)?;
            let level = offsets(graph, &lengths)?;
            (graph.gather(&x, &rows, 0)?, vec![level])
        }
        _ => return Err("expected at most one level of LoD".into()),
    };
    walk.bind(site, name, &made, lod)
}

/// Keeps the rows of the sequences that have a row at a step.
fn shrink<'p>(walk: &mut Walk<'p>, site: &mut Site<'_, 'p>) -> Step {
    let ranks = ranks(walk, site)?;
    let (x, _) = walk.tensor(site, "X")?;
    let (step, _) = walk.tensor(site, "I")?;
    let Some(name) = walk.result(site, "Out") else { return Ok(()) };
    let graph = &mut walk.graph;
    let step = graph.cast(&step, DType::Int64)?;
    let step = graph.reshape(&step, &[1])?;
    let has = graph.call("Less", &[&step, &ranks.lengths], [])?;
    let counted = graph.cast(&has, DType::Int64)?;
    let count = graph.reduce("ReduceSum", &counted, &[0], true)?;
    let (zero, axis) = (graph.longs(&[0]), graph.longs(&[0]));
    let made = graph.call("Slice", &[&x, &zero, &count, &axis], [])?;
    walk.bind(site, name, &made, Vec::new())
}
