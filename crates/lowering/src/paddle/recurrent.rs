//! Recurrent operators of PaddlePaddle 1.x over sequences, whose inputs are already projected, for export.
//!
//! ONNX's operators project their inputs themselves, so the weights of the projection reorder the gates, and negate one
//! where the frameworks weigh the old state by a gate or by what it leaves:
//!
//! | | PaddlePaddle | ONNX |
//! |---|---|---|
//! | LSTM | candidate, input, forget, output | input, output, forget, candidate |
//! | GRU | update, reset, candidate | 1 - update, reset, candidate |

use lodstone_model::{AttributeValue, ByteString, DType, Tensor};
use lodstone_schema::numbers::{exact, length};
use lodstone_schema::paddle::Activation;
use lodstone_store::Blob;

use super::operator::{Operator, Outcome, Rule};
use super::sequences::{Steps, level, narrow, steps_first};
use crate::onnx::{Graph, Value, int, text};

pub(super) const RULES: &[(&str, Rule)] = &[("gru", gru), ("lstm", lstm)];

/// The maximum number of elements of the matrix that reorders gates.
const MAX_GATES: i64 = 1 << 13;

/// Returns the ONNX name of an activation.
fn activation(op: &Operator<'_>, name: &str, default: Activation) -> Outcome<&'static str> {
    Ok(match Activation::of(op.attribute(name), name, default)? {
        Activation::Identity => "Affine",
        Activation::Relu => "Relu",
        Activation::Sigmoid => "Sigmoid",
        Activation::Tanh => "Tanh",
    })
}

/// Returns the matrix `[1, gates * size, gates * size]` that takes the gates of the input in another order, times a factor.
fn reorder(graph: &mut Graph, order: &[(usize, f32)], size: usize) -> Value {
    let width = order.len() * size;
    let rows = order
        .iter()
        .flat_map(|(from, factor)| (0..size).map(move |place| (from * size + place, *factor)));
    let row = |(place, factor): (usize, f32)| {
        (0..width).map(move |column| if column == place { factor } else { 0.0 })
    };
    let bytes: Vec<u8> = rows.flat_map(row).flat_map(f32::to_le_bytes).collect();
    let shape = vec![1, width as u64, width as u64];
    graph.tensor(Tensor::dense(DType::Float32, shape, Blob::memory(bytes)), "gates")
}

/// Returns parts of a value along its last axis in another order, times factors.
fn parts(graph: &mut Graph, value: &Value, order: &[(usize, f32)], size: i64) -> Outcome<Value> {
    let axis = value.rank()?.last()?.number();
    let mut made = Vec::new();
    for (from, factor) in order {
        let from = length(*from);
        let part = graph.slice(value, axis, from * size, (from + 1) * size)?;
        made.push(if *factor == 1.0 { part } else { graph.times(&part, f64::from(*factor))? });
    }
    graph.concat(&made.iter().collect::<Vec<_>>(), axis)
}

/// Returns the number of elements of a gate: the last dim of a weight, divided by the number of gates.
fn gate_size(width: i64, gates: i64) -> Outcome<i64> {
    match width {
        width if width > 0 && width % gates == 0 && width <= MAX_GATES => Ok(width / gates),
        other => Err(format!(
            "expected rows of {gates} gates, at most {MAX_GATES} elements, found {other}"
        )
        .into()),
    }
}

/// Returns the initial state `[1, sequences, size]`, if there is one.
fn initial(op: &mut Operator<'_>, slot: &str) -> Outcome<Option<Value>> {
    match op.optional(slot)? {
        Some(state) => op.unsqueeze(&state, &[0]).map(Some),
        None => Ok(None),
    }
}

fn directions(op: &Operator<'_>, activations: &[&str]) -> Outcome<Vec<lodstone_model::Attribute>> {
    let names = activations.iter().map(|name| ByteString::from(*name)).collect();
    let is_affine = activations.contains(&"Affine");
    let mut attributes = vec![
        text("direction", if op.flag("is_reverse")? { "reverse" } else { "forward" }),
        lodstone_model::Attribute {
            name: "activations".to_owned(),
            value: AttributeValue::Strings(names),
        },
    ];
    if is_affine {
        for (name, value) in [("activation_alpha", 1.0), ("activation_beta", 0.0)] {
            let affine = activations.iter().filter(|kind| **kind == "Affine");
            let values = AttributeValue::Floats(affine.map(|_| value).collect());
            attributes.push(lodstone_model::Attribute { name: name.to_owned(), value: values });
        }
    }
    Ok(attributes)
}

fn lstm(op: &mut Operator<'_>) -> Outcome {
    let (x, weight) = (op.input("Input")?, op.input("Weight")?);
    for slot in ["Cell", "BatchGate", "BatchCellPreAct"] {
        if op.wants(slot) {
            return Err(format!("ONNX has no operator for the output `{slot}`").into());
        }
    }
    let width = *weight.dims()?.last().ok_or("expected a matrix as `Weight`, found a scalar")?;
    let size = gate_size(width, 4)?;
    let order = [(1, 1.0), (3, 1.0), (2, 1.0), (0, 1.0)];
    let peepholes = op.flag("use_peepholes")?;
    let bias = match op.optional("Bias")? {
        Some(bias) => Some(op.reshape(&bias, &[1, -1])?),
        None => None,
    };
    let graph = &mut **op;
    let reordered = reorder(graph, &order, exact(size)?);
    // [size, 4 * size] -> [1, 4 * size, size]
    let recurrence = parts(graph, &weight, &order, size)?;
    let recurrence = graph.transpose(&recurrence, &[1, 0])?;
    let recurrence = graph.unsqueeze(&recurrence, &[0])?;
    let (mut biases, mut looks) = (None, None);
    if let Some(bias) = &bias {
        let own = parts(graph, bias, &order, size)?;
        let none = graph.filled(x.dtype(), 0.0, &[1, width])?;
        biases = Some(graph.concat(&[&own, &none], 1)?);
        if peepholes {
            // Of the input, output and forget gate.
            looks = Some(parts(graph, bias, &[(4, 1.0), (6, 1.0), (5, 1.0)], size)?);
        }
    }
    let (hidden, cell) = (initial(op, "H0")?, initial(op, "C0")?);
    let activations = [
        activation(op, "gate_activation", Activation::Sigmoid)?,
        activation(op, "candidate_activation", Activation::Tanh)?,
        activation(op, "cell_activation", Activation::Tanh)?,
    ];
    let mut attributes = directions(op, &activations)?;
    attributes.push(int("hidden_size", size));
    let weights = [Some(&reordered), Some(&recurrence), biases.as_ref()];
    let state = [hidden.as_ref(), cell.as_ref(), looks.as_ref()];
    over_sequences(op, "LSTM", &x, weights, &state, attributes)
}

/// Runs a recurrent operator of ONNX over the sequences of `x`, and sets `Hidden` to the states of all rows. `weights` are
/// those of the input, of the state, and the bias; `state` are the inputs behind the lengths of the sequences.
fn over_sequences(
    op: &mut Operator<'_>,
    kind: &str,
    x: &Value,
    weights: [Option<&Value>; 3],
    state: &[Option<&Value>],
    attributes: Vec<lodstone_model::Attribute>,
) -> Outcome {
    let offsets = level(op, "Input")?;
    let lod = op.lod("Input");
    let graph = &mut **op;
    let steps = Steps::of(graph, &offsets, 1)?;
    let padded = steps.padded(graph, x, 0.0)?;
    let padded = steps_first(graph, &padded)?;
    let lengths = narrow(graph, &steps.lengths)?;
    let mut inputs = vec![Some(&padded)];
    inputs.extend(weights);
    inputs.push(Some(&lengths));
    inputs.extend(state);
    while inputs.last().is_some_and(Option::is_none) {
        inputs.pop();
    }
    let [states] = graph.emit_all(kind, &inputs, attributes)?;
    // [steps, 1, sequences, size] -> [rows, size]
    let axis = graph.longs(&[1]);
    let states = graph.call("Squeeze", &[&states, &axis], [])?;
    let states = steps_first(graph, &states)?;
    let states = steps.unpadded(graph, &states)?;
    op.put("Hidden", &states)?;
    op.put_lod("Hidden", &lod);
    Ok(())
}

fn gru(op: &mut Operator<'_>) -> Outcome {
    let (x, weight) = (op.input("Input")?, op.input("Weight")?);
    for slot in ["BatchGate", "BatchResetHiddenPrev", "BatchHidden"] {
        if op.wants(slot) {
            return Err(format!("ONNX has no operator for the output `{slot}`").into());
        }
    }
    let count: i64 = weight.dims()?.iter().product();
    // The weights of size * 3 * size, as one list.
    let width = match x.size(-1)? {
        Some(width) => width,
        None => {
            let dims = weight.dims()?;
            dims.first().ok_or("expected weights, found a scalar")?.saturating_mul(3)
        }
    };
    let size = gate_size(width, 3)?;
    if count != size * 3 * size {
        return Err(format!("expected {} weights, found {count}", size * 3 * size).into());
    }
    let keeps = op.flag("origin_mode")?;
    let gate = activation(op, "gate_activation", Activation::Sigmoid)?;
    let candidate = activation(op, "activation", Activation::Tanh)?;
    if !keeps && gate != "Sigmoid" {
        return Err(format!("ONNX cannot invert a gate with activation `{gate}`").into());
    }
    // sigmoid(-x) = 1 - sigmoid(x)
    let sign = if keeps { 1.0 } else { -1.0 };
    let order = [(0, sign), (1, 1.0), (2, 1.0)];
    let bias = match op.optional("Bias")? {
        Some(bias) => Some(op.reshape(&bias, &[1, -1])?),
        None => None,
    };
    let hidden = initial(op, "H0")?;
    let mut attributes = directions(op, &[gate, candidate])?;
    attributes.push(int("hidden_size", size));
    attributes.push(int("linear_before_reset", 0));
    let graph = &mut **op;
    let reordered = reorder(graph, &order, exact(size)?);
    let list = graph.reshape(&weight, &[-1])?;
    let gates = graph.slice(&list, 0, 0, size * 2 * size)?;
    let gates = graph.reshape(&gates, &[size, 2 * size])?;
    let gates = parts(graph, &gates, &[(0, sign), (1, 1.0)], size)?;
    let new = graph.slice(&list, 0, size * 2 * size, i64::MAX)?;
    let new = graph.reshape(&new, &[size, size])?;
    let recurrence = graph.concat(&[&gates, &new], 1)?;
    let recurrence = graph.transpose(&recurrence, &[1, 0])?;
    let recurrence = graph.unsqueeze(&recurrence, &[0])?;
    let mut biases = None;
    if let Some(bias) = &bias {
        let own = parts(graph, bias, &order, size)?;
        let none = graph.filled(x.dtype(), 0.0, &[1, 3 * size])?;
        biases = Some(graph.concat(&[&own, &none], 1)?);
    }
    let weights = [Some(&reordered), Some(&recurrence), biases.as_ref()];
    over_sequences(op, "GRU", &x, weights, &[hidden.as_ref()], attributes)
}
