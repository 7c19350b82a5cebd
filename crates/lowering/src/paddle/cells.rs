//! Recurrent networks on dense tensors.
//!
//! `rnn` has the gates of an LSTM in the order input, forget, cell, output, and those of a GRU in the order reset, update,
//! candidate; ONNX has input, output, forget, cell, and update, reset, hidden.

use lodstone_model::{Attribute, AttributeValue, ByteString, DType};
use lodstone_schema::numbers::{exact, length};

use super::operator::{Operator, Outcome, Rule};
use crate::onnx::{Value, int, text};

pub(super) const RULES: &[(&str, Rule)] =
    &[("gru_unit", gru_unit), ("lstm_unit", lstm_unit), ("rnn", rnn)];

/// The maximum number of layers: each becomes operators.
const DEEPEST: i64 = 1 << 10;

/// The kind of the cells.
struct Cell {
    kind: &'static str,
    /// The index, among the gates of PaddlePaddle, of each of ONNX's.
    gates: &'static [i64],
    activation: Option<&'static str>,
}

impl Cell {
    fn of(mode: &str) -> Outcome<Self> {
        Ok(match mode {
            "LSTM" => Self { kind: "LSTM", gates: &[0, 3, 1, 2], activation: None },
            "GRU" => Self { kind: "GRU", gates: &[1, 0, 2], activation: None },
            "RNN_TANH" => Self { kind: "RNN", gates: &[0], activation: Some("Tanh") },
            "RNN_RELU" => Self { kind: "RNN", gates: &[0], activation: Some("Relu") },
            other => return Err(format!("unknown `mode` `{other}`").into()),
        })
    }

    /// Puts the gates of a weight or a bias in ONNX's order.
    fn ordered(&self, op: &mut Operator<'_>, value: &Value, hidden: i64) -> Outcome<Value> {
        if self.gates.is_sorted() {
            return Ok(value.clone());
        }
        let part = |gate: &i64| op.slice(value, 0, gate * hidden, (gate + 1) * hidden);
        let parts = self.gates.iter().map(part).collect::<Outcome<Vec<_>>>()?;
        op.concat(&parts.iter().collect::<Vec<_>>(), 0)
    }
}

/// Layers of recurrent cells, possibly in both directions. Weights precede biases; each layer and direction has
/// one for the input and one for the hidden state.
fn rnn(op: &mut Operator<'_>) -> Outcome {
    let (mut x, states, weights) =
        (op.input("Input")?, op.inputs("PreState")?, op.inputs("WeightList")?);
    let (layers, hidden) = (op.int("num_layers")?, op.int("hidden_size")?);
    let cell = Cell::of(&op.text("mode")?)?;
    let is_both = op.flag("is_bidirec")?;
    let directions: usize = if is_both { 2 } else { 1 };
    if !op.flag("is_test")? && op.float("dropout_prob")? != 0.0 && layers > 1 {
        return Err("dropout between layers is only supported with `is_test`".into());
    }
    if !(1..=DEEPEST).contains(&layers) || !(1..=1 << 24).contains(&hidden) {
        return Err(format!("expected layers of cells, found {layers} of {hidden}").into());
    }
    let count = 2 * directions * exact::<usize, i64>(layers)?;
    let expected = if cell.kind == "LSTM" { 2 } else { 1 };
    if weights.len() != 2 * count || states.len() < expected {
        return Err(format!(
            "expected {} weights and {expected} states, found {} and {}",
            2 * count,
            weights.len(),
            states.len()
        )
        .into());
    }
    let lengths = match op.optional("SequenceLength")? {
        Some(lengths) => Some(op.cast(&lengths, DType::Int32)?),
        None => None,
    };
    let (weights, biases) = weights.split_at(count);
    let (per_layer, directions) = (2 * directions, length(directions));
    let mut last: Vec<Vec<Value>> = vec![Vec::new(); expected];
    let parts = weights.chunks(per_layer).zip(biases.chunks(per_layer));
    for (layer, (weights, biases)) in (0_i64..).zip(parts) {
        let mut own = [Vec::new(), Vec::new(), Vec::new()];
        let (weights, biases) = (weights.as_chunks::<2>().0, biases.as_chunks::<2>().0);
        for ([input, state], [more, rest]) in weights.iter().zip(biases) {
            let [of_input, of_state, of_biases] = &mut own;
            let input = cell.ordered(op, input, hidden)?;
            of_input.push(op.unsqueeze(&input, &[0])?);
            let state = cell.ordered(op, state, hidden)?;
            of_state.push(op.unsqueeze(&state, &[0])?);
            let (more, rest) = (cell.ordered(op, more, hidden)?, cell.ordered(op, rest, hidden)?);
            let both = op.concat(&[&more, &rest], 0)?;
            of_biases.push(op.unsqueeze(&both, &[0])?);
        }
        let mut joined = |parts: &Vec<Value>| match parts.as_slice() {
            [one] => Ok(one.clone()),
            all => op.concat(&all.iter().collect::<Vec<_>>(), 0),
        };
        let [of_input, of_state, of_biases] = &own;
        let (w, r, b) = (joined(of_input)?, joined(of_state)?, joined(of_biases)?);
        let begin = layer * directions;
        let mut starts = Vec::new();
        for state in states.iter().take(expected) {
            starts.push(match layers {
                1 => state.clone(),
                _ => op.slice(state, 0, begin, begin + directions)?,
            });
        }
        let mut inputs = vec![Some(&x), Some(&w), Some(&r), Some(&b), lengths.as_ref()];
        inputs.extend(starts.iter().map(Some));
        let attributes = attributes(&cell, hidden, is_both);
        let results = op.emit(cell.kind, &inputs, attributes, 1 + expected)?;
        let (y, ends) = results.split_first().ok_or("a layer has no result")?;
        // [steps, directions, batch, hidden] to [steps, batch, directions * hidden]
        x = match directions {
            1 => {
                let axis = op.longs(&[1]);
                op.call("Squeeze", &[y, &axis], [])?
            }
            _ => {
                let turned = op.transpose(y, &[0, 2, 1, 3])?;
                let dims = op.longs(&[0, 0, directions * hidden]);
                op.call("Reshape", &[&turned, &dims], [])?
            }
        };
        last.iter_mut().zip(ends).for_each(|(all, end)| all.push(end.clone()));
    }
    op.put("Out", &x)?;
    let mut ends = Vec::new();
    for all in &last {
        ends.push(match all.as_slice() {
            [one] => one.clone(),
            all => op.concat(&all.iter().collect::<Vec<_>>(), 0)?,
        });
    }
    op.put_all("State", &ends)
}

fn attributes(cell: &Cell, hidden: i64, is_both: bool) -> Vec<Attribute> {
    let direction = if is_both { "bidirectional" } else { "forward" };
    let mut attributes = vec![int("hidden_size", hidden), text("direction", direction)];
    if cell.kind == "GRU" {
        attributes.push(int("linear_before_reset", 1));
    }
    if let Some(activation) = cell.activation {
        let all = vec![ByteString::from(activation); if is_both { 2 } else { 1 }];
        let value = AttributeValue::Strings(all);
        attributes.push(Attribute { name: "activations".to_owned(), value });
    }
    attributes
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

/// One step of a GRU whose reset gate applies to the previous state. The weight of update and reset gates is a matrix
/// that precedes that of the candidate in memory.
fn gru_unit(op: &mut Operator<'_>) -> Outcome {
    let (x, before, weight) = (op.input("Input")?, op.input("HiddenPrev")?, op.input("Weight")?);
    let size = op.known_dim(&weight, 0)?;
    if op.known_dim(&weight, 1)? != size.saturating_mul(3) {
        return Err("expected a weight of three times as many columns as rows".into());
    }
    let x = match op.optional("Bias")? {
        Some(bias) => {
            let bias = op.reshape(&bias, &[-1])?;
            op.add(&x, &bias)?
        }
        None => x,
    };
    let list = op.reshape(&weight, &[-1])?;
    let middle = size.saturating_mul(2).saturating_mul(size);
    let gates = op.slice(&list, 0, 0, middle)?;
    let gates = op.reshape(&gates, &[size, 2 * size])?;
    let candidate = op.slice(&list, 0, middle, i64::MAX)?;
    let candidate = op.reshape(&candidate, &[size, size])?;
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
    let way = op.sub(to, from)?;
    let moved = op.mul(&update, &way)?;
    let hidden = op.add(from, &moved)?;
    let gate = op.concat(&[&update, &reset, &new], 1)?;
    op.put("Gate", &gate)?;
    op.put("ResetHiddenPrev", &kept)?;
    op.put("Hidden", &hidden)
}

/// One step of an LSTM, given the sums of its gates in the order input, forget, output, cell.
fn lstm_unit(op: &mut Operator<'_>) -> Outcome {
    let (x, before, bias) = (op.input("X")?, op.input("C_prev")?, op.float("forget_bias")?);
    let size = op.known_dim(&before, 1)?;
    let mut gate = |number: i64| op.slice(&x, 1, number * size, (number + 1) * size);
    let [input, forget, output, new] = [gate(0)?, gate(1)?, gate(2)?, gate(3)?];
    let forget = op.plus(&forget, bias.into())?;
    let [input, forget, output] =
        [input, forget, output].map(|sum| op.call("Sigmoid", &[&sum], []));
    let (input, forget, output) = (input?, forget?, output?);
    let new = op.call("Tanh", &[&new], [])?;
    let (kept, added) = (op.mul(&forget, &before)?, op.mul(&input, &new)?);
    let cell = op.add(&kept, &added)?;
    let size = op.call("Tanh", &[&cell], [])?;
    let hidden = op.mul(&output, &size)?;
    op.put("C", &cell)?;
    op.put("H", &hidden)
}
