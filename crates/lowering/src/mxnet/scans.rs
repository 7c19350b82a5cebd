//! Operators that run over time with a state for which ONNX has no operator: a `Scan` each.
//!
//! | operator | state |
//! |---|---|
//! | `CTCLoss` | logarithms of the probabilities of all beginnings of the labels |
//! | `RNN` with `projection_size` | the projected hidden state, and the memory |
//! | `_contrib_quantized_rnn` | the hidden state on the grid of the data, and the memory |

use lodstone_model::{DType, Op};
use lodstone_schema::Finding;
use lodstone_schema::numbers::length;

use super::attributes::{Attributes, wrong};
use super::control::{ControlRule, check_read};
use super::families;
use super::families::recurrent::{begun, network};
use super::node::{Outcome, rank, required_dim};
use super::walk::{Walk, apply};
use crate::frame::Step;
use crate::frame::control::Slices;
use crate::onnx::quantization::{Bounds, Rounding, Scale};
use crate::onnx::recurrence::{Cell, Network, Weights};
use crate::onnx::{Graph, Value, int};

pub(super) const RULES: &[(&str, ControlRule)] = &[
    ("CTCLoss", |walk, op, inputs| Ok(vec![ctc_loss(walk, op, &inputs)?])),
    ("RNN", recurrent),
    ("_contrib_quantized_rnn", quantized),
];

/// A logarithm of the probability 0 that is finite, so that differences are numbers.
const IMPOSSIBLE: f64 = -1e30;

/// A network whose hidden state is projected becomes a loop; any other has an operator.
fn recurrent<'m>(walk: &mut Walk<'m>, op: &'m Op, inputs: Vec<Value>) -> Step<Vec<Value>> {
    if Attributes::new(op).int_or_none("projection_size")?.is_none() {
        let rule = families::rule("RNN").ok_or("there is no rule")?;
        let inputs = inputs.into_iter().map(Some).collect();
        return Ok(apply(&mut walk.graph, op, inputs, rule)?);
    }
    let attributes = Attributes::new(op);
    let network = network(&attributes)?;
    if attributes.flag("use_sequence_length", false)? {
        return Err(wrong(
            "use_sequence_length",
            "`False`: MXNet has no projection with lengths",
            "`True`",
        )
        .into());
    }
    let returns_state = attributes.flag("state_outputs", false)?;
    check_read(&attributes)?;
    let [x, all, state, memory] = inputs.as_slice() else {
        return Err(format!("expected 4 inputs, found {}", inputs.len()).into());
    };
    network_over_time(walk, op, &network, [x, all, state, memory], None, returns_state)
}

/// The grid of integers that data and hidden states are rounded to.
struct Grid {
    scale: Value,
    shift: Value,
}

impl Grid {
    /// Rounds numbers to those that unsigned bytes stand for.
    fn round(&self, graph: &mut Graph, x: &Value) -> Outcome {
        let scale = Scale::MultiplyBy(&self.scale);
        let steps = graph.steps_of(x, scale, Some(&self.shift), Rounding::EvenAfterZero)?;
        let steps = graph.bounded(&steps, Bounds::of(DType::Uint8)?, x.dtype())?;
        self.numbers(graph, &steps)
    }

    fn numbers(&self, graph: &mut Graph, x: &Value) -> Outcome {
        graph.numbers_of(x, Some(&self.shift), Scale::DivideBy(&self.scale))
    }
}

/// An LSTM network of quantized data. Weights are rounded to signed bytes, with one scale for each gate and unit, which
/// all layers share; hidden states are rounded like the data.
fn quantized<'m>(walk: &mut Walk<'m>, op: &'m Op, inputs: Vec<Value>) -> Step<Vec<Value>> {
    let attributes = Attributes::new(op);
    let network = network(&attributes)?;
    attributes.ignore(&["quantized"]);
    if !network.cell.is_lstm()
        || network.projection.is_some()
        || attributes.flag("use_sequence_length", false)?
    {
        return Err("expected the mode `lstm` without projection and lengths".into());
    }
    let returns_state = attributes.flag("state_outputs", false)?;
    check_read(&attributes)?;
    let [x, all, state, memory, scale, shift] = inputs.as_slice() else {
        return Err(format!("expected 6 inputs, found {}", inputs.len()).into());
    };
    if x.dtype() != DType::Uint8 {
        return Err(format!("expected uint8 data, found {}", x.dtype()).into());
    }
    let graph = &mut walk.graph;
    let grid = Grid { scale: graph.reshape(scale, &[])?, shift: graph.reshape(shift, &[])? };
    let x = graph.cast(x, DType::Float32)?;
    let x = grid.numbers(graph, &x)?;
    let given = [&x, all, state, memory];
    network_over_time(walk, op, &network, given, Some(&grid), returns_state)
}

/// Runs an LSTM network: `[time, batch, features]` to `[time, batch, directions * hidden]`.
fn network_over_time<'m>(
    walk: &mut Walk<'m>,
    op: &'m Op,
    network: &Network,
    [x, all, state, memory]: [&Value; 4],
    grid: Option<&Grid>,
    returns_state: bool,
) -> Step<Vec<Value>> {
    if rank(x)? != 3 {
        return Err(format!("expected data of rank 3, found {}", rank(x)?).into());
    }
    let first = required_dim(x, 2)?;
    let mut cells = walk.graph.unpacked(all, network, first)?;
    if grid.is_some() {
        round_weights(&mut walk.graph, &mut cells)?;
    }
    let mut starts = Vec::new();
    for (value, size) in [(state, network.state()), (memory, network.hidden)] {
        starts.push(match begun(value.clone()) {
            Some(value) => value,
            None => zeros(&mut walk.graph, x, network.cells(), size)?,
        });
    }
    let [state, memory] = starts.as_slice() else { return Err("a state is missing".into()) };
    let (mut y, mut states, mut memories) = (x.clone(), Vec::new(), Vec::new());
    let directions = network.directions();
    for (number, layer) in cells.chunks(directions).enumerate() {
        let mut parts = Vec::new();
        for (direction, weights) in layer.iter().enumerate() {
            let index = length(number * directions + direction);
            let graph = &mut walk.graph;
            let begin = [graph.row_of(state, index)?, graph.row_of(memory, index)?];
            let [h, c, out] = over_time(walk, op, (weights, grid), &y, begin, direction == 1)?;
            states.push(walk.graph.unsqueeze(&h, &[0])?);
            memories.push(walk.graph.unsqueeze(&c, &[0])?);
            parts.push(out);
        }
        y = walk.graph.joined(&parts, 2)?;
    }
    let mut results = vec![y];
    if returns_state {
        results.push(walk.graph.joined(&states, 0)?);
        results.push(walk.graph.joined(&memories, 0)?);
    }
    Ok(results)
}

/// Returns the state that a network begins with if none is given.
fn zeros(graph: &mut Graph, x: &Value, count: i64, size: i64) -> Outcome {
    let batch = graph.dim(x, 1)?;
    let (count, size) = (graph.longs(&[count]), graph.longs(&[size]));
    let dims = graph.concat(&[&count, &batch, &size], 0)?;
    graph.filled_as(x.dtype(), 0.0, &dims)
}

/// Rounds the weights of all layers to signed bytes, with one scale for each row.
fn round_weights(graph: &mut Graph, cells: &mut [Weights]) -> Outcome<()> {
    let mut most = None;
    for weights in cells.iter().flat_map(|cell| [&cell.input, &cell.state]) {
        let row = graph.magnitude(weights, &[1], true)?;
        most = Some(match most {
            None => row,
            Some(most) => graph.call("Max", &[&most, &row], [])?,
        });
    }
    let Some(most) = most else { return Ok(()) };
    let step = graph.times(&most, 1.0 / 127.0)?;
    for weights in cells.iter_mut().flat_map(|cell| [&mut cell.input, &mut cell.state]) {
        let steps = graph.steps_of(weights, Scale::DivideBy(&step), None, Rounding::Even)?;
        *weights = graph.numbers_of(&steps, None, Scale::MultiplyBy(&step))?;
    }
    Ok(())
}

/// Runs a layer in one direction; returns the last hidden state, the last memory, and all hidden states.
fn over_time<'m>(
    walk: &mut Walk<'m>,
    op: &'m Op,
    (weights, grid): (&Weights, Option<&Grid>),
    x: &Value,
    begin: [Value; 2],
    is_reverse: bool,
) -> Step<[Value; 3]> {
    let graph = &mut walk.graph;
    let gates = graph.input_gates(x, weights)?;
    let recurrent = graph.transpose(&weights.state, &[1, 0])?;
    let projection = match &weights.projection {
        Some(projection) => Some(graph.transpose(projection, &[1, 0])?),
        None => None,
    };
    let slices = Slices { data: &[gates], is_reverse };
    let looped = walk.scan(&op.name, &begin, slices, |walk, own, parts| {
        let graph = &mut walk.graph;
        let ([h, c], [gates]) = (own, parts) else {
            return Err(Finding::internal("a state of a loop was lost").into());
        };
        let before = match grid {
            Some(grid) => grid.round(graph, h)?,
            None => h.clone(),
        };
        let from = graph.call("MatMul", &[&before, &recurrent], [])?;
        let all = graph.add(gates, &from)?;
        let all = graph.split_gates(&Cell::LSTM, &all)?;
        let [hidden, memory] = graph.lstm_step(all, c)?;
        let hidden = match &projection {
            Some(projection) => graph.call("MatMul", &[&hidden, projection], [])?,
            None => hidden,
        };
        let hidden = match grid {
            Some(grid) => grid.round(graph, &hidden)?,
            None => hidden,
        };
        Ok((vec![hidden.clone(), memory], vec![hidden]))
    })?;
    let all = [looped.states, looped.stacked].concat();
    all.try_into().map_err(|_| Finding::internal("a loop lost a result").into())
}

/// The negative logarithm of the probability of labels, over all alignments: `[time, batch, classes]` to `[batch]`.
fn ctc_loss(walk: &mut Walk<'_>, op: &Op, inputs: &[Value]) -> Step<Value> {
    let attributes = Attributes::new(op);
    let has_times = attributes.flag("use_data_lengths", false)?;
    let has_counts = attributes.flag("use_label_lengths", false)?;
    let blank_is_first = attributes.word("blank_label", &["first", "last"], "first")? == "first";
    check_read(&attributes)?;
    let count = 2 + usize::from(has_times) + usize::from(has_counts);
    let [data, labels, lengths @ ..] = inputs else { return Err("an input is missing".into()) };
    if inputs.len() != count || rank(data)? != 3 || rank(labels)? != 2 {
        let found = inputs.len();
        return Err(format!(
            "expected {count} inputs, of which data of rank 3 and labels of rank 2, found {found}"
        )
        .into());
    }
    let graph = &mut walk.graph;
    let classes = graph.extent(data, 2)?;
    let one = graph.longs(&[1]);
    let blank = match blank_is_first {
        true => graph.longs(&[0]),
        false => graph.sub(&classes, &one)?,
    };
    let labels = graph.cast(labels, DType::Int64)?;
    let counts = match has_counts {
        true => {
            let counts = lengths.last().ok_or("the lengths of labels are missing")?;
            graph.cast(counts, DType::Int64)?
        }
        // Up to the first padding.
        false => {
            let padding = graph.longs(&[if blank_is_first { 0 } else { -1 }]);
            let is_padding = graph.call("Equal", &[&labels, &padding], [])?;
            let is_padding = graph.cast(&is_padding, DType::Int64)?;
            let axis = graph.long(1);
            let after = graph.call("CumSum", &[&is_padding, &axis], [])?;
            let zero = graph.longs(&[0]);
            let is_label = graph.call("Equal", &[&after, &zero], [])?;
            let is_label = graph.cast(&is_label, DType::Int64)?;
            graph.reduce("ReduceSum", &is_label, &[1], false)?
        }
    };
    // Blanks around all labels: [batch, 2 * length + 1].
    let length = graph.extent(&labels, 1)?;
    let length = graph.reshape(&length, &[])?;
    let places = graph.counting(&length, DType::Int64)?;
    let own = graph.unsqueeze(&counts, &[1])?;
    let is_own = graph.call("Less", &[&places, &own], [])?;
    let labels = graph.choose(&is_own, &labels, &blank)?;
    let pair = graph.unsqueeze(&labels, &[2])?;
    let zeros = graph.sub(&pair, &pair)?;
    let blanks = graph.add(&zeros, &blank)?;
    let pairs = graph.concat(&[&blanks, &pair], 2)?;
    let dims = graph.longs(&[0, -1]);
    let spread = graph.call("Reshape", &[&pairs, &dims], [])?;
    let last = graph.slice(&spread, 1, 0, 1)?;
    let spread = graph.concat(&[&spread, &last], 1)?;
    // A path may skip the blank between two labels that differ.
    let padded = |graph: &mut Graph, x: &Value, count: i64, number: &Value| {
        let pads = graph.longs(&[0, count, 0, 0]);
        let whole = graph.call("Pad", &[x, &pads, number], [])?;
        graph.slice(&whole, 1, 0, -count)
    };
    let none = graph.long(-1);
    let two_before = padded(graph, &spread, 2, &none)?;
    let is_same = graph.call("Equal", &[&spread, &two_before], [])?;
    let is_blank = graph.call("Equal", &[&spread, &blank], [])?;
    let cannot = graph.call("Or", &[&is_same, &is_blank], [])?;
    let (zero, never) =
        (graph.number(DType::Float32, 0.0)?, graph.number(DType::Float32, IMPOSSIBLE)?);
    let skip = graph.choose(&cannot, &never, &zero)?;

    let data = graph.cast(data, DType::Float32)?;
    let chances = graph.call("LogSoftmax", &[&data], [int("axis", 2)])?;
    let steps = graph.extent(&data, 0)?;
    let steps = graph.reshape(&steps, &[])?;
    let (zero_step, one_step) = (graph.long(0), graph.long(1));
    let numbers = graph.call("Range", &[&zero_step, &steps, &one_step], [])?;
    let times = match has_times {
        true => {
            let times = lengths.first().ok_or("the lengths of data are missing")?;
            graph.cast(times, DType::Int64)?
        }
        false => {
            let all = graph.sub(&counts, &counts)?;
            graph.add(&all, &steps)?
        }
    };
    let times = graph.unsqueeze(&times, &[1])?;
    let width = graph.extent(&spread, 1)?;
    let width = graph.reshape(&width, &[])?;
    let at_first = graph.counting(&width, DType::Int64)?;
    let zero_place = graph.longs(&[0]);
    let is_first = graph.call("Equal", &[&at_first, &zero_place], [])?;
    let start = graph.choose(&is_first, &zero, &never)?;
    let blank_row = graph.sub(&skip, &skip)?;
    let start = graph.add(&blank_row, &start)?;

    let slices = Slices { data: &[chances, numbers], is_reverse: false };
    let looped = walk.scan(&op.name, &[start], slices, |walk, own, parts| {
        let graph = &mut walk.graph;
        let ([state], [chance, number]) = (own, parts) else {
            return Err(Finding::internal("a state of a loop was lost").into());
        };
        let own = graph.call("GatherElements", &[chance, &spread], [int("axis", 1)])?;
        let one = padded(graph, state, 1, &never)?;
        let two = padded(graph, state, 2, &never)?;
        let two = graph.add(&two, &skip)?;
        let most = graph.call("Max", &[state, &one, &two], [])?;
        let mut sum = graph.sub(state, &most)?;
        sum = graph.call("Exp", &[&sum], [])?;
        for path in [&one, &two] {
            let less = graph.sub(path, &most)?;
            let part = graph.call("Exp", &[&less], [])?;
            sum = graph.add(&sum, &part)?;
        }
        let sum = graph.call("Log", &[&sum], [])?;
        let next = graph.add(&most, &sum)?;
        let next = graph.add(&next, &own)?;
        let is_there = graph.call("Less", &[number, &times], [])?;
        Ok((vec![graph.choose(&is_there, &next, state)?], Vec::new()))
    })?;
    let paths = looped.states.first().ok_or("a loop lost a result")?;
    // The last label, or the blank after it.
    let graph = &mut walk.graph;
    let end = graph.times(&counts, 2.0)?;
    let end = graph.unsqueeze(&end, &[1])?;
    let minus = graph.longs(&[-1]);
    let before = graph.add(&end, &minus)?;
    let zero_place = graph.longs(&[0]);
    let is_none = graph.call("Less", &[&before, &zero_place], [])?;
    let before = graph.call("Max", &[&before, &zero_place], [])?;
    let on_blank = graph.call("GatherElements", &[paths, &end], [int("axis", 1)])?;
    let on_label = graph.call("GatherElements", &[paths, &before], [int("axis", 1)])?;
    let on_label = graph.choose(&is_none, &never, &on_label)?;
    let both = graph.concat(&[&on_blank, &on_label], 1)?;
    let total = graph.reduce("ReduceLogSumExp", &both, &[1], false)?;
    Ok(graph.call("Neg", &[&total], [])?)
}
