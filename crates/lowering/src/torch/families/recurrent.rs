//! Recurrent networks.
//!
//! PyTorch has a weight of the input, one of the state, and their biases for each layer and direction. ONNX orders the
//! gates differently.

use lodstone_model::{Attribute, AttributeValue, ByteString};
use lodstone_schema::numbers::length;

use super::linear::linear_of;
use super::pieces::concat_all;
use crate::onnx::{Value, int, text};
use crate::torch::arguments::{Size, wrong};
use crate::torch::node::{Node, Outcome, Rule, rank, required_dim};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("aten::gru", Rule::Many(|node| network(node, &GRU))),
    ("aten::gru_cell", Rule::One(gru_cell)),
    ("aten::lstm", Rule::Many(|node| network(node, &LSTM))),
    ("aten::lstm_cell", Rule::Many(lstm_cell)),
    ("aten::rnn_relu", Rule::Many(|node| network(node, &RELU))),
    ("aten::rnn_relu_cell", Rule::One(|node| plain_cell(node, "Relu"))),
    ("aten::rnn_tanh", Rule::Many(|node| network(node, &TANH))),
    ("aten::rnn_tanh_cell", Rule::One(|node| plain_cell(node, "Tanh"))),
];

/// A kind of cell.
struct Cell {
    kind: &'static str,
    /// The order of the gates in ONNX, as their places in PyTorch.
    gates: &'static [i64],
    activation: &'static str,
}

const LSTM: Cell = Cell { kind: "LSTM", gates: &[0, 3, 1, 2], activation: "" };
const GRU: Cell = Cell { kind: "GRU", gates: &[1, 0, 2], activation: "" };
const TANH: Cell = Cell { kind: "RNN", gates: &[0], activation: "Tanh" };
const RELU: Cell = Cell { kind: "RNN", gates: &[0], activation: "Relu" };

/// Puts the gates into the order of ONNX: `[gates * hidden, ..]`.
fn ordered(node: &mut Node<'_>, cell: &Cell, x: &Value, hidden: i64) -> Outcome {
    if cell.gates.len() == 1 {
        return Ok(x.clone());
    }
    let mut parts = Vec::new();
    for gate in cell.gates {
        parts.push(node.slice(x, 0, gate * hidden, (gate + 1) * hidden)?);
    }
    concat_all(node, &parts, 0)
}

/// Stacks the parts of all directions along a new first dim.
fn stacked(node: &mut Node<'_>, parts: &[Value]) -> Outcome {
    let parts = parts.iter().map(|part| node.unsqueeze(part, &[0])).collect::<Outcome<Vec<_>>>()?;
    concat_all(node, &parts, 0)
}

fn network(node: &mut Node<'_>, cell: &Cell) -> Outcome<Vec<Value>> {
    if node.arguments.overload() == "data" {
        return Err("packed sequences are not supported".into());
    }
    let x = node.tensor("input")?;
    let states = match cell.kind {
        "LSTM" => node.tensors("hx")?,
        _ => vec![node.tensor("hx")?],
    };
    let weights = node.tensors("params")?;
    let has_biases = node.arguments.flag("has_biases")?;
    let layers = node.arguments.int("num_layers")?;
    let dropout = node.arguments.float("dropout")?;
    if node.arguments.flag("train")? && dropout != 0.0 {
        return Err("it draws random numbers in training".into());
    }
    let directions = if node.arguments.flag("bidirectional")? { 2 } else { 1 };
    let batch_first = node.arguments.flag("batch_first")?;
    let each = if has_biases { 4 } else { 2 };
    let of_layer: usize = each * directions;
    let count = usize::try_from(layers).ok().filter(|layers| (1..=1 << 10).contains(layers));
    if count.map(|layers| layers * of_layer) != Some(weights.len()) {
        // Projections of the state have one weight more.
        let expected =
            format!("{each} weights for each of {layers} layers and {directions} directions");
        return Err(wrong("params", &expected, &weights.len().to_string()));
    }
    let wanted = if cell.kind == "LSTM" { 2 } else { 1 };
    if states.len() != wanted {
        return Err(wrong("hx", &format!("{wanted} states"), &states.len().to_string()));
    }
    // One sequence without a batch.
    let is_single = rank(&x)? == 2;
    let mut y = match is_single {
        true => node.unsqueeze(&x, &[1])?,
        false if batch_first => node.transpose(&x, &[1, 0, 2])?,
        false => x,
    };
    let states = match is_single {
        true => states.iter().map(|it| node.unsqueeze(it, &[1])).collect::<Outcome<Vec<_>>>()?,
        false => states,
    };
    let mut last: Vec<Vec<Value>> = vec![Vec::new(); wanted];
    let (mut of_layers, directions) = (weights.chunks(of_layer), length(directions));
    for layer in 0..layers {
        let own = of_layers.next().ok_or("a weight is missing")?;
        let (first, end) = (layer * directions, (layer + 1) * directions);
        let starts =
            states.iter().map(|it| node.slice(it, 0, first, end)).collect::<Outcome<Vec<_>>>()?;
        let made = layer_of(node, cell, &y, (own, each), &starts, directions)?;
        let mut made = made.into_iter();
        // [time, directions, batch, hidden]
        let out = made.next().ok_or("a layer has no result")?;
        let turned = node.transpose(&out, &[0, 2, 1, 3])?;
        let mut shape = node.sizes_of(&turned)?;
        shape.truncate(2);
        let hidden = required_dim(&turned, 3)?;
        shape.push(Size::Known(hidden * directions));
        y = node.reshape_to(&turned, &shape)?;
        for (all, value) in last.iter_mut().zip(made) {
            all.push(value);
        }
    }
    if is_single {
        let axes = node.longs(&[1]);
        y = node.call("Squeeze", &[&y, &axes], [])?;
    } else if batch_first {
        y = node.transpose(&y, &[1, 0, 2])?;
    }
    let mut results = vec![y];
    for all in last {
        let joined = concat_all(node, &all, 0)?;
        results.push(match is_single {
            true => {
                let axes = node.longs(&[1]);
                node.call("Squeeze", &[&joined, &axes], [])?
            }
            false => joined,
        });
    }
    Ok(results)
}

/// Runs a layer over `[time, batch, features]`.
fn layer_of(
    node: &mut Node<'_>,
    cell: &Cell,
    x: &Value,
    (weights, each): (&[Value], usize),
    states: &[Value],
    directions: i64,
) -> Outcome<Vec<Value>> {
    let (mut inputs, mut recurrent, mut biases) = (Vec::new(), Vec::new(), Vec::new());
    let mut hidden = 0;
    for own in weights.chunks(each) {
        let [of_input, of_state, rest @ ..] = own else { return Err("a weight is missing".into()) };
        hidden = required_dim(of_state, 1)?;
        inputs.push(ordered(node, cell, of_input, hidden)?);
        recurrent.push(ordered(node, cell, of_state, hidden)?);
        if let [of_input, of_state] = rest {
            let of_input = ordered(node, cell, of_input, hidden)?;
            let of_state = ordered(node, cell, of_state, hidden)?;
            biases.push(node.concat(&[&of_input, &of_state], 0)?);
        }
    }
    let (inputs, recurrent) = (stacked(node, &inputs)?, stacked(node, &recurrent)?);
    let biases = if biases.is_empty() { None } else { Some(stacked(node, &biases)?) };
    let mut attributes: Vec<Attribute> = vec![int("hidden_size", hidden)];
    if directions == 2 {
        attributes.push(text("direction", "bidirectional"));
    }
    if cell.kind == "GRU" {
        attributes.push(int("linear_before_reset", 1));
    }
    if cell.kind == "RNN" {
        let names = (0..directions).map(|_| ByteString::from(cell.activation));
        let value = AttributeValue::Strings(names.collect());
        attributes.push(Attribute { name: "activations".to_owned(), value });
    }
    let mut operands = vec![Some(x), Some(&inputs), Some(&recurrent), biases.as_ref(), None];
    operands.extend(states.iter().map(Some));
    node.emit(cell.kind, &operands, attributes, 1 + states.len())
}

/// Returns the gates of a cell: the products of the input and of the state.
fn gates(node: &mut Node<'_>, hidden: &Value) -> Outcome<(Value, Value)> {
    let x = node.tensor("input")?;
    let (of_input, of_state) = (node.tensor("w_ih")?, node.tensor("w_hh")?);
    let (input_bias, state_bias) = (node.optional("b_ih")?, node.optional("b_hh")?);
    let left = linear_of(node, &x, &of_input, input_bias.as_ref())?;
    let right = linear_of(node, hidden, &of_state, state_bias.as_ref())?;
    Ok((left, right))
}

/// Splits along the last axis.
fn parts<const N: usize>(node: &mut Node<'_>, x: &Value) -> Outcome<[Value; N]> {
    let count = length(N);
    node.emit_all("Split", &[Some(x)], [int("axis", -1), int("num_outputs", count)])
}

fn plain_cell(node: &mut Node<'_>, activation: &str) -> Outcome {
    let hidden = node.tensor("hx")?;
    let (left, right) = gates(node, &hidden)?;
    let sum = node.add(&left, &right)?;
    node.call(activation, &[&sum], [])
}

fn lstm_cell(node: &mut Node<'_>) -> Outcome<Vec<Value>> {
    let states = node.tensors("hx")?;
    let [hidden, memory] = states.as_slice() else { return Err("expected two states".into()) };
    let (left, right) = gates(node, hidden)?;
    let sum = node.add(&left, &right)?;
    let [input, forget, cell, output] = parts(node, &sum)?;
    let input = node.call("Sigmoid", &[&input], [])?;
    let forget = node.call("Sigmoid", &[&forget], [])?;
    let cell = node.call("Tanh", &[&cell], [])?;
    let output = node.call("Sigmoid", &[&output], [])?;
    let (kept, new) = (node.mul(&forget, memory)?, node.mul(&input, &cell)?);
    let memory = node.add(&kept, &new)?;
    let size = node.call("Tanh", &[&memory], [])?;
    Ok(vec![node.mul(&output, &size)?, memory])
}

fn gru_cell(node: &mut Node<'_>) -> Outcome {
    let hidden = node.tensor("hx")?;
    let (left, right) = gates(node, &hidden)?;
    let [reset_x, update_x, new_x] = parts(node, &left)?;
    let [reset_h, update_h, new_h] = parts(node, &right)?;
    let reset = node.add(&reset_x, &reset_h)?;
    let reset = node.call("Sigmoid", &[&reset], [])?;
    let update = node.add(&update_x, &update_h)?;
    let update = node.call("Sigmoid", &[&update], [])?;
    let gated = node.mul(&reset, &new_h)?;
    let new = node.add(&new_x, &gated)?;
    let new = node.call("Tanh", &[&new], [])?;
    let difference = node.sub(&hidden, &new)?;
    let kept = node.mul(&update, &difference)?;
    node.add(&new, &kept)
}
