//! Recurrent operators of PaddlePaddle 1.x over sequences, whose inputs are already projected, for export.
//!
//! ONNX's operators project their inputs themselves, so the weights of the projection reorder the gates.

use lodstone_schema::paddle::Activation;

use super::cells::gru_weights;
use super::operator::{Operator, Outcome, Rule};
use super::sequences::{Steps, level, narrow, steps_first};
use crate::onnx::recurrence::{Cell, Layer, PEEPHOLES, Run};
use crate::onnx::{Graph, Value};

pub(super) const RULES: &[(&str, Rule)] = &[("gru", gru), ("lstm", lstm)];

/// Returns the ONNX name of an activation.
fn activation(op: &Operator<'_>, name: &str, default: Activation) -> Outcome<&'static str> {
    Ok(match Activation::of(op.attribute(name), name, default)? {
        Activation::Identity => "Affine",
        Activation::Relu => "Relu",
        Activation::Sigmoid => "Sigmoid",
        Activation::Tanh => "Tanh",
    })
}

/// Returns the initial state `[1, sequences, size]`, if there is one.
fn initial(op: &mut Operator<'_>, slot: &str) -> Outcome<Option<Value>> {
    match op.optional(slot)? {
        Some(state) => op.unsqueeze(&state, &[0]).map(Some),
        None => Ok(None),
    }
}

/// Returns a bias `[1, columns]` as that of ONNX, which has another one for the state.
fn biases(graph: &mut Graph, bias: &Value, cell: &Cell, size: i64) -> Outcome<Value> {
    let own = graph.ordered(bias, 1, cell.gates(), size)?;
    let none = graph.constant_like(&own, own.dtype(), 0.0)?;
    graph.concat(&[&own, &none], 1)
}

/// Returns weights `[size, gates * size]` as those of ONNX.
fn of_state(graph: &mut Graph, weight: &Value, cell: &Cell, size: i64) -> Outcome<Value> {
    let weight = graph.ordered(weight, 1, cell.gates(), size)?;
    let weight = graph.transpose(&weight, &[1, 0])?;
    graph.unsqueeze(&weight, &[0])
}

fn refuse(op: &Operator<'_>, slots: &[&str]) -> Outcome {
    match slots.iter().find(|slot| op.wants(slot)) {
        Some(slot) => Err(format!("ONNX has no operator for the output `{slot}`").into()),
        None => Ok(()),
    }
}

fn lstm(op: &mut Operator<'_>) -> Outcome {
    let (x, weight, cell) = (op.input("Input")?, op.input("Weight")?, Cell::FLUID_LSTM);
    refuse(op, &["Cell", "BatchGate", "BatchCellPreAct"])?;
    let width = *weight.dims()?.last().ok_or("expected a matrix as `Weight`, found a scalar")?;
    let size = cell.gate_size(width)?;
    let has_peepholes = op.flag("use_peepholes")?;
    let bias = match op.optional("Bias")? {
        Some(bias) => Some(op.reshape(&bias, &[1, if has_peepholes { 7 } else { 4 } * size])?),
        None if has_peepholes => return Err("the weights of peepholes are missing".into()),
        None => None,
    };
    let graph = &mut **op;
    let input = graph.gate_weights(&cell, size, x.dtype())?;
    let state = of_state(graph, &weight, &cell, size)?;
    let (mut own, mut peepholes) = (None, None);
    if let Some(bias) = &bias {
        own = Some(biases(graph, bias, &cell, size)?);
        if has_peepholes {
            peepholes = Some(graph.ordered(bias, 1, PEEPHOLES, size)?);
        }
    }
    let starts = vec![initial(op, "H0")?, initial(op, "C0")?];
    let activations = [
        activation(op, "gate_activation", Activation::Sigmoid)?,
        activation(op, "candidate_activation", Activation::Tanh)?,
        activation(op, "cell_activation", Activation::Tanh)?,
    ];
    let layer = Layer { input, state, biases: own, lengths: None, starts, peepholes };
    over_sequences(op, &cell, size, &x, layer, &activations)
}

/// Runs a layer over the sequences of `x`, and sets `Hidden` to the states of all rows.
fn over_sequences(
    op: &mut Operator<'_>,
    cell: &Cell,
    hidden: i64,
    x: &Value,
    mut layer: Layer,
    activations: &[&str],
) -> Outcome {
    let offsets = level(op, "Input")?;
    let lod = op.lod("Input");
    let direction = if op.flag("is_reverse")? { "reverse" } else { "forward" };
    let graph = &mut **op;
    let steps = Steps::of(graph, &offsets, 1)?;
    let padded = steps.padded(graph, x, 0.0)?;
    let padded = steps_first(graph, &padded)?;
    layer.lengths = Some(narrow(graph, &steps.lengths)?);
    let run = Run { direction, hidden, resets_product: false, activations };
    let states = graph.layer(&padded, cell, &layer, &run, 1)?;
    let states = states.first().ok_or("a layer has no result")?;
    // [steps, 1, sequences, size] -> [rows, size]
    let axis = graph.longs(&[1]);
    let states = graph.call("Squeeze", &[states, &axis], [])?;
    let states = steps_first(graph, &states)?;
    let states = steps.unpadded(graph, &states)?;
    op.put("Hidden", &states)?;
    op.put_lod("Hidden", &lod);
    Ok(())
}

fn gru(op: &mut Operator<'_>) -> Outcome {
    let (x, weight) = (op.input("Input")?, op.input("Weight")?);
    refuse(op, &["BatchGate", "BatchResetHiddenPrev", "BatchHidden"])?;
    let is_origin = op.flag("origin_mode")?;
    let cell = if is_origin { Cell::ORIGIN_GRU } else { Cell::FLUID_GRU };
    let gate = activation(op, "gate_activation", Activation::Sigmoid)?;
    let candidate = activation(op, "activation", Activation::Tanh)?;
    if !is_origin && gate != "Sigmoid" {
        return Err(format!("ONNX cannot invert a gate with activation `{gate}`").into());
    }
    let (size, gates, new) = gru_weights(op, &weight)?;
    let input = op.gate_weights(&cell, size, x.dtype())?;
    let whole = op.concat(&[&gates, &new], 1)?;
    let state = of_state(op, &whole, &cell, size)?;
    let bias = match op.optional("Bias")? {
        Some(bias) => {
            let bias = op.reshape(&bias, &[1, 3 * size])?;
            Some(biases(op, &bias, &cell, size)?)
        }
        None => None,
    };
    let starts = vec![initial(op, "H0")?];
    let layer = Layer { input, state, biases: bias, lengths: None, starts, peepholes: None };
    over_sequences(op, &cell, size, &x, layer, &[gate, candidate])
}
