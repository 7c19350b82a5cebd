//! Fused recurrent networks: `[time, batch, features]`, with all parameters in a single vector.
//!
//! The vector has the weights of each layer and direction, of the input and of the state; then their biases in the
//! same order. ONNX orders gates differently.

use lodstone_model::DType;

use crate::mxnet::attributes::{Attributes, wrong};
use crate::mxnet::node::{Node, Outcome, Rule, dim_of, rank, required_dim};
use crate::onnx::{Value, int, text};
use lodstone_model::{Attribute, AttributeValue, ByteString};
use lodstone_schema::numbers::length;

pub(super) const RULES: &[(&str, Rule)] = &[("RNN", Rule::Many(recurrent))];

const MAX_LAYERS: i64 = 1 << 10;

/// A kind of cell.
pub(in crate::mxnet) struct Cell {
    kind: &'static str,
    /// The order of the gates in ONNX, as their places in MXNet.
    gates: &'static [i64],
    activation: &'static str,
}

const CELLS: [(&str, Cell); 4] = [
    ("rnn_relu", Cell { kind: "RNN", gates: &[0], activation: "Relu" }),
    ("rnn_tanh", Cell { kind: "RNN", gates: &[0], activation: "Tanh" }),
    ("lstm", Cell { kind: "LSTM", gates: &[0, 3, 1, 2], activation: "" }),
    ("gru", Cell { kind: "GRU", gates: &[1, 0, 2], activation: "" }),
];

/// The dims of a network.
pub(in crate::mxnet) struct Network {
    cell: &'static Cell,
    pub(in crate::mxnet) hidden: i64,
    /// The size of the hidden state, if it is projected.
    pub(in crate::mxnet) projection: Option<i64>,
    pub(in crate::mxnet) layers: i64,
    pub(in crate::mxnet) directions: i64,
}

/// The weights of a layer in one direction, with the gates in the order of MXNet.
pub(in crate::mxnet) struct Layer {
    /// `[gates * hidden, features]`.
    pub(in crate::mxnet) input: Value,
    /// `[gates * hidden, state]`.
    pub(in crate::mxnet) state: Value,
    /// `[state, hidden]`.
    pub(in crate::mxnet) projection: Option<Value>,
    /// `[gates * hidden]`: the sum of both biases.
    pub(in crate::mxnet) bias: Value,
}

/// Returns the weights of all layers, each with its directions.
pub(in crate::mxnet) fn layers(
    node: &mut Node<'_>,
    network: &Network,
    all: &Value,
    first: i64,
) -> Outcome<Vec<Layer>> {
    network.check(all, first)?;
    let mut at = 0;
    let mut part = |node: &mut Node<'_>, rows: i64, columns: i64| {
        let part = node.slice(all, 0, at, at + rows * columns)?;
        at += rows * columns;
        node.reshape(&part, &[rows, columns])
    };
    let mut weights = Vec::new();
    for layer in 0..network.layers {
        for _ in 0..network.directions {
            let input = part(node, network.rows(), network.features(layer, first))?;
            let state = part(node, network.rows(), network.state())?;
            let projection = match network.projection {
                Some(size) => Some(part(node, size, network.hidden)?),
                None => None,
            };
            weights.push((input, state, projection));
        }
    }
    let mut layers = Vec::new();
    for (input, state, projection) in weights {
        let (of_input, of_state) = (part(node, 1, network.rows())?, part(node, 1, network.rows())?);
        let bias = node.add(&of_input, &of_state)?;
        let bias = node.reshape(&bias, &[network.rows()])?;
        layers.push(Layer { input, state, projection, bias });
    }
    Ok(layers)
}

impl Network {
    pub(in crate::mxnet) fn of(attributes: &Attributes<'_>) -> Outcome<Self> {
        static TABLE: [(&str, Cell); 4] = CELLS;
        let names = TABLE.each_ref().map(|(name, _)| *name);
        let mode = attributes.required_word("mode", &names)?;
        let cell = TABLE.iter().find(|(name, _)| *name == mode).map(|(_, cell)| cell);
        let hidden = attributes.int("state_size", None)?;
        let projection = attributes.int_or_none("projection_size")?;
        let layers = attributes.int("num_layers", None)?;
        let is_double = attributes.flag("bidirectional", false)?;
        attributes.ignore(&["p"]);
        for name in ["lstm_state_clip_min", "lstm_state_clip_max"] {
            if let Some(value) = attributes.find(name)?.filter(|value| *value != "None") {
                return Err(wrong(name, "`None`: MXNet clips on some devices only", value));
            }
        }
        attributes.flag("lstm_state_clip_nan", false)?;
        if let Some(size) = projection.filter(|size| !(1..=1 << 20).contains(size)) {
            return Err(wrong("projection_size", "a positive number", &size.to_string()));
        }
        if !(1..=1 << 20).contains(&hidden) || !(1..=MAX_LAYERS).contains(&layers) {
            let found = format!("{hidden} and {layers}");
            return Err(wrong("state_size` and `num_layers", "positive numbers", &found));
        }
        let cell = cell.ok_or("the mode is unknown")?;
        Ok(Self { cell, hidden, projection, layers, directions: if is_double { 2 } else { 1 } })
    }

    pub(in crate::mxnet) fn is_lstm(&self) -> bool {
        self.cell.kind == "LSTM"
    }

    fn gates(&self) -> i64 {
        length(self.cell.gates.len())
    }

    /// Returns the features that a layer reads.
    fn features(&self, layer: i64, first: i64) -> i64 {
        if layer == 0 { first } else { self.state() * self.directions }
    }

    /// Returns the size of the hidden state.
    pub(in crate::mxnet) fn state(&self) -> i64 {
        self.projection.unwrap_or(self.hidden)
    }

    /// Checks the number of parameters.
    fn check(&self, all: &Value, first: i64) -> Outcome<()> {
        let biases = self.layers * self.directions * 2 * self.rows();
        let wanted = self.weights_before(self.layers, first).saturating_add(biases);
        match rank(all)? == 1 && required_dim(all, 0)? == wanted {
            true => Ok(()),
            false => Err(format!("expected {wanted} parameters, found {:?}", all.shape()?).into()),
        }
    }

    fn rows(&self) -> i64 {
        self.gates() * self.hidden
    }

    /// Returns the number of weights of all layers before one.
    fn weights_before(&self, layer: i64, first: i64) -> i64 {
        // Without a projection, there are no weights of one.
        let projected = self.projection.map_or(0, |size| size * self.hidden);
        let of = |layer| {
            let weights = self.rows() * (self.features(layer, first) + self.state());
            self.directions * (weights + projected)
        };
        (0..layer).map(of).sum()
    }
}

/// Takes a part of the parameters as a matrix, with the gates in the order of ONNX.
fn matrix(node: &mut Node<'_>, network: &Network, all: &Value, at: i64, columns: i64) -> Outcome {
    let size = network.rows() * columns;
    let part = node.slice(all, 0, at, at + size)?;
    let part = node.reshape(&part, &[network.gates(), network.hidden, columns])?;
    let part = if network.gates() == 1 {
        part
    } else {
        let order = node.longs(network.cell.gates);
        node.gather(&part, &order, 0)?
    };
    node.reshape(&part, &[network.rows(), columns])
}

/// Stacks the parts of both directions along a new first dim.
fn stacked(node: &mut Node<'_>, parts: &[Value]) -> Outcome {
    let parts = parts.iter().map(|part| node.unsqueeze(part, &[0])).collect::<Outcome<Vec<_>>>()?;
    if let [only] = parts.as_slice() {
        return Ok(only.clone());
    }
    node.concat(&parts.iter().collect::<Vec<_>>(), 0)
}

/// The weights of a layer: `[directions, rows, features]`, `[directions, rows, hidden]` and `[directions, 2 * rows]`.
fn weights(
    node: &mut Node<'_>,
    network: &Network,
    all: &Value,
    layer: i64,
    first: i64,
) -> Outcome<[Value; 3]> {
    let features = network.features(layer, first);
    let begin = network.weights_before(layer, first);
    let biases = network.weights_before(network.layers, first);
    let (mut inputs, mut states, mut offsets) = (Vec::new(), Vec::new(), Vec::new());
    for direction in 0..network.directions {
        let at = begin + direction * network.rows() * (features + network.hidden);
        inputs.push(matrix(node, network, all, at, features)?);
        let at = at + network.rows() * features;
        states.push(matrix(node, network, all, at, network.hidden)?);
        let at = biases + (layer * network.directions + direction) * 2 * network.rows();
        let of_input = matrix(node, network, all, at, 1)?;
        let of_state = matrix(node, network, all, at + network.rows(), 1)?;
        let both = node.concat(&[&of_input, &of_state], 0)?;
        offsets.push(node.reshape(&both, &[2 * network.rows()])?);
    }
    Ok([stacked(node, &inputs)?, stacked(node, &states)?, stacked(node, &offsets)?])
}

fn attributes(network: &Network) -> Vec<Attribute> {
    let mut attributes = vec![int("hidden_size", network.hidden)];
    if network.directions == 2 {
        attributes.push(text("direction", "bidirectional"));
    }
    if network.cell.kind == "GRU" {
        attributes.push(int("linear_before_reset", 1));
    }
    if network.cell.kind == "RNN" {
        let names = (0..network.directions).map(|_| ByteString::from(network.cell.activation));
        let value = AttributeValue::Strings(names.collect());
        attributes.push(Attribute { name: "activations".to_owned(), value });
    }
    attributes
}

fn recurrent(node: &mut Node<'_>) -> Outcome<Vec<Value>> {
    let network = Network::of(&node.attributes)?;
    let (x, all, state) = (node.input(0)?, node.input(1)?, begun(node.input(2)?));
    let returns_state = node.attributes.flag("state_outputs", false)?;
    let uses_length = node.attributes.flag("use_sequence_length", false)?;
    let count = 3 + usize::from(network.is_lstm());
    node.at_most(count + usize::from(uses_length))?;
    let memory = if network.is_lstm() { begun(node.input(3)?) } else { None };
    let lengths = match uses_length {
        true => {
            let lengths = node.input(count)?;
            Some(node.cast(&lengths, DType::Int32)?)
        }
        false => None,
    };
    if rank(&x)? != 3 {
        return Err(format!("expected data of rank 3, found {}", rank(&x)?).into());
    }
    let first = required_dim(&x, 2)?;
    network.check(&all, first)?;
    let (mut y, mut states, mut memories) = (x, Vec::new(), Vec::new());
    for layer in 0..network.layers {
        let [inputs, recurrent, offsets] = weights(node, &network, &all, layer, first)?;
        let range = (layer * network.directions, (layer + 1) * network.directions);
        let before = state.as_ref().map(|it| node.slice(it, 0, range.0, range.1)).transpose()?;
        let memory = memory.as_ref().map(|it| node.slice(it, 0, range.0, range.1)).transpose()?;
        let mut operands = vec![
            Some(&y),
            Some(&inputs),
            Some(&recurrent),
            Some(&offsets),
            lengths.as_ref(),
            before.as_ref(),
            memory.as_ref(),
        ];
        operands.truncate(if network.is_lstm() { 7 } else { 6 });
        let results = 2 + usize::from(network.is_lstm());
        let made = node.emit(network.cell.kind, &operands, attributes(&network), results)?;
        // [time, directions, batch, hidden]
        let out = made.first().ok_or("a layer has no result")?;
        let turned = node.transpose(out, &[0, 2, 1, 3])?;
        y = node.recoded(&turned, &[0, 0, -3])?;
        states.extend(made.get(1).cloned());
        memories.extend(made.get(2).cloned());
    }
    let mut results = vec![y];
    if returns_state {
        results.push(joined(node, &states)?);
        if network.is_lstm() {
            results.push(joined(node, &memories)?);
        }
    }
    Ok(results)
}

/// Returns an initial state. One whose batch has size 0 is filled with zeros, and MXNet infers the size: ONNX begins with
/// zeros if there is none.
pub(in crate::mxnet) fn begun(state: Value) -> Option<Value> {
    Some(state).filter(|state| dim_of(state, 1) != Some(0))
}

fn joined(node: &mut Node<'_>, parts: &[Value]) -> Outcome {
    match parts {
        [only] => Ok(only.clone()),
        _ => node.concat(&parts.iter().collect::<Vec<_>>(), 0),
    }
}
