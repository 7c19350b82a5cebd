//! Fused recurrent networks: `[time, batch, features]`, with all parameters in a single vector.

use crate::mxnet::attributes::{Attributes, wrong};
use crate::mxnet::node::{Node, Outcome, Rule, dim_of, rank, required_dim};
use crate::onnx::Value;
use crate::onnx::recurrence::{CELLS, Network};

pub(super) const RULES: &[(&str, Rule)] = &[("RNN", Rule::Many(recurrent))];

/// Returns the network that attributes describe.
pub(in crate::mxnet) fn network(attributes: &Attributes<'_>) -> Outcome<Network> {
    let mode = attributes.required_word("mode", &CELLS.map(|(name, _)| name))?;
    let cell = CELLS.iter().find(|(name, _)| *name == mode);
    let (_, cell) = cell.ok_or("the mode is unknown")?;
    let (hidden, layers) =
        (attributes.int("state_size", None)?, attributes.int("num_layers", None)?);
    let network = Network::new(*cell, hidden, layers, attributes.flag("bidirectional", false)?)?;
    // Dropout between layers, in training.
    attributes.ignore(&["p"]);
    for name in ["lstm_state_clip_min", "lstm_state_clip_max"] {
        if let Some(value) = attributes.find(name)?.filter(|value| *value != "None") {
            return Err(wrong(name, "`None`: MXNet clips on some devices only", value));
        }
    }
    attributes.flag("lstm_state_clip_nan", false)?;
    match attributes.int_or_none("projection_size")? {
        Some(size) => network.projected(size),
        None => Ok(network),
    }
}

fn recurrent(node: &mut Node<'_>) -> Outcome<Vec<Value>> {
    let network = network(&node.attributes)?;
    let (x, all) = (node.input(0)?, node.input(1)?);
    let returns_state = node.attributes.flag("state_outputs", false)?;
    let uses_length = node.attributes.flag("use_sequence_length", false)?;
    let states = network.cell.states();
    let starts = (2..2 + states).map(|index| node.input(index).map(begun));
    let starts = starts.collect::<Outcome<Vec<_>>>()?;
    node.at_most(2 + states + usize::from(uses_length))?;
    let lengths = if uses_length { Some(node.input(2 + states)?) } else { None };
    if rank(&x)? != 3 {
        return Err(format!("expected data of rank 3, found {}", rank(&x)?).into());
    }
    let weights = node.unpacked(&all, &network, required_dim(&x, 2)?)?;
    let mut results = node.network(&x, &network, &weights, lengths.as_ref(), &starts)?;
    results.truncate(if returns_state { 1 + states } else { 1 });
    Ok(results)
}

/// Returns an initial state. One whose batch has size 0 is filled with zeros, and MXNet infers the size: ONNX begins with
/// zeros if there is none.
pub(in crate::mxnet) fn begun(state: Value) -> Option<Value> {
    Some(state).filter(|state| dim_of(state, 1) != Some(0))
}
