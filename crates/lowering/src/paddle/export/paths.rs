//! Viterbi's algorithm, as two loops over the steps of all sequences: one finds the best predecessor of each label, the
//! other follows the predecessors from the best last label.

use lodstone_model::{Attribute, DType, Dim, Op};
use lodstone_schema::Finding;
use lodstone_schema::numbers::length;
use lodstone_schema::onnx::infer::ValueInfo;
use lodstone_schema::paddle::EMPTY;

use super::walk::{Own, Site, Walk};
use crate::frame::Step;
use crate::onnx::{Graph, Value, int, ints};
use crate::paddle::operator::Outcome;
use crate::paddle::sequences::{Steps, steps_first};

pub(super) const OPERATORS: &[(&str, Own)] = &[("crf_decoding", |walk, site| decode(walk, site))];

impl<'p> Walk<'p> {
    /// Returns the tensor in the variable of an input slot, if the slot has one.
    fn optional(&self, site: &Site<'_, 'p>, slot: &str) -> Step<Option<Value>> {
        let is_there = |name: &&String| !name.is_empty() && *name != EMPTY;
        match site.op.input(slot).first().filter(is_there) {
            Some(_) => self.tensor(site, slot).map(|(value, _)| Some(value)),
            None => Ok(None),
        }
    }
}

/// Returns the best path of each sequence, or, with `Label`, where it agrees with the labels.
fn decode<'p>(walk: &mut Walk<'p>, site: &mut Site<'_, 'p>) -> Step {
    let (emission, lod) = walk.tensor(site, "Emission")?;
    let (transition, _) = walk.tensor(site, "Transition")?;
    let (labels, lengths) = (walk.optional(site, "Label")?, walk.optional(site, "Length")?);
    let Some(name) = walk.result(site, "ViterbiPath") else { return Ok(()) };
    let (path, lod) = match lengths {
        Some(lengths) => {
            if emission.rank()? != 3 {
                return Err(format!("expected rank 3, found {}", emission.rank()?).into());
            }
            let has = has_label(&mut walk.graph, &emission, &lengths)?;
            let path = best(walk, &emission, &has, &transition)?;
            let path = agreement(&mut walk.graph, path, labels.as_ref(), false)?;
            let zero = walk.graph.long(0);
            (walk.graph.choose(&has, &path, &zero)?, Vec::new())
        }
        None => {
            let level = lod.last().ok_or("expected LoD or lengths")?;
            let steps = Steps::of(&mut walk.graph, level, 1)?;
            let scores = steps.padded(&mut walk.graph, &emission, 0.0)?;
            let path = best(walk, &scores, &steps.has, &transition)?;
            let path = steps.unpadded(&mut walk.graph, &path)?;
            let path = walk.graph.reshape(&path, &[-1, 1])?;
            (agreement(&mut walk.graph, path, labels.as_ref(), true)?, lod)
        }
    };
    walk.bind(site, name, &path, lod)
}

/// Returns which steps of `[sequences, steps, labels]` are within the lengths: `[sequences, steps]`.
fn has_label(graph: &mut Graph, emission: &Value, lengths: &Value) -> Outcome<Value> {
    let lengths = graph.cast(lengths, DType::Int64)?;
    let lengths = graph.reshape(&lengths, &[-1, 1])?;
    let dims = graph.call("Shape", &[emission], [])?;
    let count = graph.gather_scalar(&dims, 1)?;
    let numbers = graph.counting(&count, DType::Int64)?;
    graph.call("Less", &[&numbers, &lengths], [])
}

/// Returns a path, or where it agrees with labels.
fn agreement(
    graph: &mut Graph,
    path: Value,
    labels: Option<&Value>,
    is_column: bool,
) -> Outcome<Value> {
    let Some(labels) = labels else { return Ok(path) };
    let mut labels = graph.cast(labels, DType::Int64)?;
    if is_column {
        labels = graph.reshape(&labels, &[-1, 1])?;
    } else {
        // Labels may have a third dim of 1.
        let dims = graph.call("Shape", &[&path], [])?;
        labels = graph.call("Reshape", &[&labels, &dims], [int("allowzero", 1)])?;
    }
    let same = graph.call("Equal", &[&path, &labels], [])?;
    graph.cast(&same, DType::Int64)
}

/// Returns the best paths `[sequences, steps]`, given scores `[sequences, steps, labels]` and which steps count. The
/// first rows of the transitions are the weights of the first and of the last label.
fn best(walk: &mut Walk<'_>, scores: &Value, has: &Value, transition: &Value) -> Step<Value> {
    let graph = &mut walk.graph;
    let scores = steps_first(graph, scores)?;
    let has = graph.transpose(has, &[1, 0])?;
    let [steps, sequences, labels] = scores.shape()? else {
        return Err("expected scores of rank 2 with LoD, or of rank 3 with lengths".into());
    };
    let (steps, sequences, labels) = (steps.clone(), sequences.clone(), labels.clone());
    let first = graph.slice(transition, 0, 0, 1)?;
    let last = graph.slice(transition, 0, 1, 2)?;
    let pairs = graph.slice(transition, 0, 2, i64::MAX)?;
    let dims = graph.call("Shape", &[&scores], [])?;
    let count = graph.gather_scalar(&dims, 0)?;
    let numbers = graph.counting(&count, DType::Int64)?;
    let count = graph.gather_scalar(&dims, 2)?;
    let same = graph.counting(&count, DType::Int64)?;
    let dims = graph.slice(&dims, 0, 1, i64::MAX)?;
    let initial = graph.filled_as(scores.dtype(), 0.0, &dims)?;

    // State: the scores of the best paths to each label.
    let table = |dtype, dims: &[&Dim]| {
        ValueInfo::tensor(dtype, Some(dims.iter().copied().cloned().collect()))
    };
    let totals = table(scores.dtype(), &[&sequences, &labels]);
    let state = walk.block_input("totals", totals.clone());
    let number = walk.block_input("step", table(DType::Int64, &[]));
    let own = walk.block_input("scores", totals.clone());
    let is_own = walk.block_input("has_label", table(DType::Bool, &[&sequences]));
    let (ops, results) = walk.apart("block", |walk| {
        let graph = &mut walk.graph;
        let sums = graph.unsqueeze(&state, &[2])?;
        let sums = graph.add(&sums, &pairs)?;
        let most = graph.reduce("ReduceMax", &sums, &[1], false)?;
        let from = graph.call("ArgMax", &[&sums], [int("axis", 1), int("keepdims", 0)])?;
        let zero = graph.long(0);
        let is_first = graph.call("Equal", &[&number, &zero], [])?;
        let before = graph.choose(&is_first, &first, &most)?;
        let next = graph.add(&before, &own)?;
        // After the end of a sequence, each label follows itself.
        let is_own = graph.unsqueeze(&is_own, &[1])?;
        let next = graph.choose(&is_own, &next, &state)?;
        Ok([next, graph.choose(&is_own, &from, &same)?])
    })?;
    let inputs = [state, number, own, is_own];
    let infos = vec![totals, table(DType::Int64, &[&steps, &sequences, &labels])];
    let given = [&initial, &numbers, &scores, &has];
    let made = scan(walk, (ops, &inputs, &results), &given, infos, false)?;
    let [totals, tracks] = made.as_slice() else {
        return Err(Finding::internal("a loop lost a result").into());
    };

    // State: the label of the step.
    let graph = &mut walk.graph;
    graph.begin("crf_decoding");
    let totals = graph.add(totals, &last)?;
    let ends = graph.call("ArgMax", &[&totals], [int("axis", 1), int("keepdims", 0)])?;
    let info = table(DType::Int64, &[&sequences]);
    let label = walk.block_input("label", info.clone());
    let track = walk.block_input("track", table(DType::Int64, &[&sequences, &labels]));
    let (ops, results) = walk.apart("block", |walk| {
        let graph = &mut walk.graph;
        let place = graph.unsqueeze(&label, &[1])?;
        let from = graph.call("GatherElements", &[&track, &place], [int("axis", 1)])?;
        let axis = graph.longs(&[1]);
        Ok([graph.call("Squeeze", &[&from, &axis], [])?, label.clone()])
    })?;
    let infos = vec![info, table(DType::Int64, &[&steps, &sequences])];
    let made = scan(walk, (ops, &[label, track], &results), &[&ends, tracks], infos, true)?;
    walk.graph.begin("crf_decoding");
    let path = made.last().ok_or_else(|| Finding::internal("a loop lost a result"))?;
    Ok(walk.graph.transpose(path, &[1, 0])?)
}

/// Emits a `Scan` with one state. `block` has operators, inputs and results; it runs over the other inputs from the first
/// or the last step.
fn scan(
    walk: &mut Walk<'_>,
    (ops, inputs, results): (Vec<Op>, &[Value], &[Value]),
    given: &[&Value],
    infos: Vec<ValueInfo>,
    is_reverse: bool,
) -> Step<Vec<Value>> {
    let body = walk.block("block", inputs, ops, results)?;
    let count = given.len().saturating_sub(1);
    let mut attributes = vec![
        Attribute { name: "body".to_owned(), value: body },
        int("num_scan_inputs", length(count)),
    ];
    if is_reverse {
        attributes.push(ints("scan_input_directions", &vec![1; count]));
        attributes.push(ints("scan_output_directions", &[1]));
    }
    walk.graph.begin("crf_decoding");
    let given: Vec<Option<&Value>> = given.iter().copied().map(Some).collect();
    Ok(walk.graph.emit_typed("Scan", &given, attributes, infos))
}
