//! Recurrent networks, and single steps of their cells.

use lodstone_schema::numbers::length;

use super::linear::linear_of;
use crate::onnx::Value;
use crate::onnx::recurrence::{Cell, Network, Weights};
use crate::torch::arguments::wrong;
use crate::torch::node::{Node, Outcome, Rule, rank, required_dim};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("aten::gru", Rule::Many(|node| network(node, Cell::GRU))),
    ("aten::gru_cell", Rule::Many(|node| step(node, &Cell::GRU))),
    ("aten::lstm", Rule::Many(|node| network(node, Cell::LSTM))),
    ("aten::lstm_cell", Rule::Many(|node| step(node, &Cell::LSTM))),
    ("aten::rnn_relu", Rule::Many(|node| network(node, Cell::RELU))),
    ("aten::rnn_relu_cell", Rule::Many(|node| step(node, &Cell::RELU))),
    ("aten::rnn_tanh", Rule::Many(|node| network(node, Cell::TANH))),
    ("aten::rnn_tanh_cell", Rule::Many(|node| step(node, &Cell::TANH))),
];

/// Returns the weights of cells, which have `count` each.
fn weights(params: &[Value], count: usize) -> Outcome<Vec<Weights>> {
    let one = |own: &[Value]| {
        let [input, state, rest @ ..] = own else { return Err("a weight is missing".into()) };
        let (biases, rest) = match rest {
            [of_input, of_state, rest @ ..] => (Some([of_input.clone(), of_state.clone()]), rest),
            rest => (None, rest),
        };
        let projection = rest.first().cloned();
        Ok(Weights { input: input.clone(), state: state.clone(), projection, biases })
    };
    params.chunks(count).map(one).collect()
}

fn network(node: &mut Node<'_>, cell: Cell) -> Outcome<Vec<Value>> {
    if node.arguments.overload() == "data" {
        return Err("packed sequences are not supported".into());
    }
    let x = node.tensor("input")?;
    let states = match cell.states() {
        1 => vec![node.tensor("hx")?],
        _ => node.tensors("hx")?,
    };
    let params = node.tensors("params")?;
    let has_biases = node.arguments.flag("has_biases")?;
    let layers = node.arguments.int("num_layers")?;
    let dropout = node.arguments.float("dropout")?;
    if node.arguments.flag("train")? && dropout != 0.0 && layers > 1 {
        return Err("it draws random numbers in training".into());
    }
    let is_both = node.arguments.flag("bidirectional")?;
    let batch_first = node.arguments.flag("batch_first")?;
    let of_state = params.get(1).ok_or("the weight of the state is missing")?;
    let (hidden, size) = (cell.gate_size(required_dim(of_state, 0)?)?, required_dim(of_state, 1)?);
    let network = Network::new(cell, hidden, layers, is_both)?;
    let network = if size == hidden { network } else { network.projected(size)? };
    let each = if has_biases { 4 } else { 2 } + usize::from(size != hidden);
    if length(params.len()) != length(each) * network.cells() {
        let expected = format!("{each} weights for each of {} cells", network.cells());
        return Err(wrong("params", &expected, &params.len().to_string()));
    }
    // One sequence without a batch.
    let is_single = rank(&x)? == 2;
    let x = match is_single {
        true => node.unsqueeze(&x, &[1])?,
        false if batch_first => node.transpose(&x, &[1, 0, 2])?,
        false => x,
    };
    let mut starts = Vec::new();
    for state in states {
        starts.push(Some(if is_single { node.unsqueeze(&state, &[1])? } else { state }));
    }
    let mut results = node.network(&x, &network, &weights(&params, each)?, None, &starts)?;
    if is_single {
        let axes = node.longs(&[1]);
        for result in &mut results {
            *result = node.call("Squeeze", &[result, &axes], [])?;
        }
    } else if let Some(y) = results.first_mut().filter(|_| batch_first) {
        *y = node.transpose(y, &[1, 0, 2])?;
    }
    Ok(results)
}

/// Computes a step; returns the states.
fn step(node: &mut Node<'_>, cell: &Cell) -> Outcome<Vec<Value>> {
    let states = match cell.states() {
        1 => vec![node.tensor("hx")?],
        _ => node.tensors("hx")?,
    };
    let hidden = states.first().ok_or("a state is missing")?;
    let x = node.tensor("input")?;
    let (of_input, of_state) = (node.tensor("w_ih")?, node.tensor("w_hh")?);
    let (input_bias, state_bias) = (node.optional("b_ih")?, node.optional("b_hh")?);
    let of_input = linear_of(node, &x, &of_input, input_bias.as_ref())?;
    let of_state = linear_of(node, hidden, &of_state, state_bias.as_ref())?;
    node.step(cell, [&of_input, &of_state], &states)
}
