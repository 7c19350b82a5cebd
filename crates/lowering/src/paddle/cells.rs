//! Recurrent networks on dense tensors, and single steps of cells.

use super::operator::{Operator, Outcome, Rule};
use crate::onnx::recurrence::{CELLS, Cell, Network, Weights};
use crate::onnx::{Graph, Value};

pub(super) const RULES: &[(&str, Rule)] =
    &[("gru_unit", gru_unit), ("lstm_unit", lstm_unit), ("rnn", rnn)];

/// Layers of recurrent cells, possibly in both directions. Weights precede biases; each layer and direction has
/// one for the input and one for the hidden state.
fn rnn(op: &mut Operator<'_>) -> Outcome {
    let (x, states, weights) =
        (op.input("Input")?, op.inputs("PreState")?, op.inputs("WeightList")?);
    let (mode, layers) = (op.text("mode")?, op.int("num_layers")?);
    let cell = CELLS.iter().find(|(name, _)| name.to_uppercase() == mode);
    let (_, cell) = cell.ok_or_else(|| format!("unknown `mode` `{mode}`"))?;
    if !op.flag("is_test")? && op.float("dropout_prob")? != 0.0 && layers > 1 {
        return Err("dropout between layers is only supported with `is_test`".into());
    }
    let network = Network::new(*cell, op.int("hidden_size")?, layers, op.flag("is_bidirec")?)?;
    let (pairs, rest) = weights.as_chunks::<2>();
    let (weights, biases) = pairs.split_at(pairs.len() / 2);
    if weights.len() != biases.len() || !rest.is_empty() {
        return Err("expected as many weights as biases".into());
    }
    let pairs = weights.iter().zip(biases);
    let weights = pairs.map(|([input, state], biases)| Weights {
        input: input.clone(),
        state: state.clone(),
        projection: None,
        biases: Some(biases.clone()),
    });
    let weights: Vec<Weights> = weights.collect();
    let lengths = op.optional("SequenceLength")?;
    let starts: Vec<Option<Value>> = states.into_iter().map(Some).collect();
    let results = op.network(&x, &network, &weights, lengths.as_ref(), &starts)?;
    let (y, last) = results.split_first().ok_or("a network has no result")?;
    op.put("Out", y)?;
    op.put_all("State", last)
}

/// Applies the activation of an attribute, by number.
fn activated(op: &mut Operator<'_>, name: &str, default: i64, x: &Value) -> Outcome<Value> {
    let kind = match op.attribute(name) {
        Some(_) => op.int(name)?,
        None => default,
    };
    match kind {
        0 => Ok(x.clone()),
        1 => op.call("Sigmoid", &[x], []),
        2 => op.call("Tanh", &[x], []),
        3 => op.call("Relu", &[x], []),
        other => Err(format!("unknown activation {other} as `{name}`").into()),
    }
}

/// Returns the size of a GRU's state, and its weights: `[size, 2 * size]` of update and reset gate, and `[size, size]` of the
/// candidate. The elements of the first precede those of the second.
pub(super) fn gru_weights(graph: &mut Graph, weight: &Value) -> Outcome<(i64, Value, Value)> {
    let [size, width] = *weight.dims()? else { return Err("expected a matrix as `Weight`".into()) };
    if Some(width) != size.checked_mul(3) {
        return Err(format!("expected {size} rows of 3 gates, found {width} columns").into());
    }
    let list = graph.reshape(weight, &[-1])?;
    let middle = size.saturating_mul(2).saturating_mul(size);
    let gates = graph.slice(&list, 0, 0, middle)?;
    let gates = graph.reshape(&gates, &[size, 2 * size])?;
    let candidate = graph.slice(&list, 0, middle, i64::MAX)?;
    Ok((size, gates, graph.reshape(&candidate, &[size, size])?))
}

/// One step of a GRU whose reset gate applies to the previous state.
fn gru_unit(op: &mut Operator<'_>) -> Outcome {
    let (x, before, weight) = (op.input("Input")?, op.input("HiddenPrev")?, op.input("Weight")?);
    let x = match op.optional("Bias")? {
        Some(bias) => {
            let bias = op.reshape(&bias, &[-1])?;
            op.add(&x, &bias)?
        }
        None => x,
    };
    let (size, gates, candidate) = gru_weights(op, &weight)?;
    let product = op.call("MatMul", &[&before, &gates], [])?;
    let given = op.slice(&x, 1, 0, 2 * size)?;
    let sum = op.add(&given, &product)?;
    let both = activated(op, "gate_activation", 1, &sum)?;
    let (update, reset) = (op.slice(&both, 1, 0, size)?, op.slice(&both, 1, size, 2 * size)?);
    let kept = op.mul(&reset, &before)?;
    let product = op.call("MatMul", &[&kept, &candidate], [])?;
    let given = op.slice(&x, 1, 2 * size, 3 * size)?;
    let sum = op.add(&given, &product)?;
    let new = activated(op, "activation", 2, &sum)?;
    let (from, to) = if op.flag("origin_mode")? { (&new, &before) } else { (&before, &new) };
    let hidden = op.between(from, to, &update)?;
    let gate = op.concat(&[&update, &reset, &new], 1)?;
    op.put("Gate", &gate)?;
    op.put("ResetHiddenPrev", &kept)?;
    op.put("Hidden", &hidden)
}

/// One step of an LSTM, given the sums of its gates.
fn lstm_unit(op: &mut Operator<'_>) -> Outcome {
    let (x, before, bias) = (op.input("X")?, op.input("C_prev")?, op.float("forget_bias")?);
    let [input, output, forget, candidate] = op.split_gates(&Cell::UNIT_LSTM, &x)?;
    let forget = op.plus(&forget, bias.into())?;
    let [hidden, cell] = op.lstm_step([input, output, forget, candidate], &before)?;
    op.put("C", &cell)?;
    op.put("H", &hidden)
}
