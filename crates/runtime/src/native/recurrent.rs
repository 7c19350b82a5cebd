//! Recurrent operators over sequences of PaddlePaddle 1.x: `lstm` and `gru`, whose inputs are projected already.
//!
//! The gates of `lstm` are candidate, input, forget and output; its bias has, with peepholes, three more parts. Those
//! of `gru` are update, reset and candidate; the memory of its weights is a matrix for the first two, then one for
//! the candidate, whatever extents it is declared with.

use lodstone_model::{AttributeValue, Lod, Op};

use super::sequences::{Rows, add_product, made, singles};
use super::{Outcome, Run, flag, input, output};
use crate::plan::Step;
use crate::run::Frame;

pub(super) fn of(kind: &str) -> Option<Run> {
    Some(match kind {
        "gru" => gru,
        "lstm" => lstm,
        _ => return None,
    })
}

/// A function of each number.
type Curve = fn(f32) -> f32;

fn curve(op: &Op, name: &str, otherwise: &str) -> Outcome<Curve> {
    let kind = match op.attribute(name) {
        Some(AttributeValue::String(kind)) => kind.to_string(),
        // Gated units of 1.x tell it by number.
        Some(AttributeValue::Int(kind)) => ["identity", "sigmoid", "tanh", "relu"]
            .get(usize::try_from(*kind).unwrap_or(usize::MAX))
            .map_or_else(|| kind.to_string(), |kind| (*kind).to_owned()),
        _ => otherwise.to_owned(),
    };
    Ok(match kind.as_str() {
        "identity" => |x| x,
        "relu" => |x| x.max(0.0),
        "sigmoid" => sigmoid,
        "tanh" => f32::tanh,
        other => return Err(format!("expected an activation as `{name}`, found `{other}`").into()),
    })
}

fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + (-x).exp())
}

/// What each sequence begins with: rows of a variable, or zeros.
fn beginning(
    frame: &Frame<'_>,
    step: &Step,
    slot: &str,
    sequences: usize,
    size: usize,
) -> Outcome<Vec<f32>> {
    let Ok(slot) = input(step, slot) else { return Ok(vec![0.0; sequences * size]) };
    let values = singles(frame.tensor(slot)?)?;
    match values.len() == sequences * size {
        true => Ok(values),
        false => {
            let found = values.len();
            Err(format!("expected {sequences} states of {size}, found {found} numbers").into())
        }
    }
}

/// Fails unless there are so many numbers.
fn sized(values: &[f32], wanted: usize, what: &str) -> Outcome {
    match values.len() == wanted {
        true => Ok(()),
        false => Err(format!("expected {wanted} numbers as {what}, found {}", values.len()).into()),
    }
}

fn part(values: &[f32], number: usize, size: usize) -> &[f32] {
    values.get(number * size..(number + 1) * size).unwrap_or_default()
}

fn lstm(frame: &mut Frame<'_>, step: &Step, op: &Op) -> Outcome {
    let rows = Rows::of(frame, input(step, "Input")?)?;
    let size = rows.width / 4;
    let weight = singles(frame.tensor(input(step, "Weight")?)?)?;
    let bias = singles(frame.tensor(input(step, "Bias")?)?)?;
    let peepholes = flag(op, "use_peepholes", true);
    sized(&weight, size * 4 * size, "weights")?;
    sized(&bias, if peepholes { 7 } else { 4 } * size, "bias")?;
    if size * 4 != rows.width {
        return Err(format!("expected four gates, found rows of {}", rows.width).into());
    }
    let gate = curve(op, "gate_activation", "sigmoid")?;
    let cell_curve = curve(op, "cell_activation", "tanh")?;
    let candidate = curve(op, "candidate_activation", "tanh")?;
    let count = rows.sequences.len();
    let hidden_first = beginning(frame, step, "H0", count, size)?;
    let cell_first = beginning(frame, step, "C0", count, size)?;
    let total = rows.sequences.last().map_or(0, |last| last.end);
    let (mut hiddens, mut cells) = (vec![0.0; total * size], vec![0.0; total * size]);
    for (number, sequence) in rows.sequences.iter().enumerate() {
        let mut hidden = part(&hidden_first, number, size).to_vec();
        let mut cell = part(&cell_first, number, size).to_vec();
        for row in in_order(sequence.clone(), flag(op, "is_reverse", false)) {
            let mut gates = rows.row(row).to_vec();
            add_product(&mut gates, &hidden, &weight, 0);
            gates.iter_mut().zip(&bias).for_each(|(value, bias)| *value += bias);
            let mut next = Vec::with_capacity(size);
            for at in 0..size {
                let of = |which: usize| part(&gates, which, size).get(at).copied().unwrap_or(0.0);
                let peep = |which: usize| match peepholes {
                    true => part(&bias, which, size).get(at).copied().unwrap_or(0.0),
                    false => 0.0,
                };
                let before = cell.get(at).copied().unwrap_or(0.0);
                let enter = gate(of(1) + before * peep(4));
                let forget = gate(of(2) + before * peep(5));
                let now = candidate(of(0)) * enter + before * forget;
                let leave = gate(of(3) + now * peep(6));
                next.push((now, leave * cell_curve(now)));
            }
            (cell, hidden) = next.into_iter().unzip();
            put(&mut hiddens, row, &hidden);
            put(&mut cells, row, &cell);
        }
    }
    let shape = || vec![total as u64, size as u64];
    frame.make(output(step, "Hidden")?, made(&hiddens, shape(), rows.lod.clone()))?;
    if let Ok(slot) = output(step, "Cell") {
        frame.make(slot, made(&cells, shape(), rows.lod))?;
    }
    Ok(())
}

fn gru(frame: &mut Frame<'_>, step: &Step, op: &Op) -> Outcome {
    let rows = Rows::of(frame, input(step, "Input")?)?;
    let size = rows.width / 3;
    let weight = singles(frame.tensor(input(step, "Weight")?)?)?;
    sized(&weight, size * 3 * size, "weights")?;
    if size * 3 != rows.width {
        return Err(format!("expected three gates, found rows of {}", rows.width).into());
    }
    let bias = match input(step, "Bias") {
        Ok(slot) => singles(frame.tensor(slot)?)?,
        Err(_) => vec![0.0; 3 * size],
    };
    sized(&bias, 3 * size, "bias")?;
    let gate = curve(op, "gate_activation", "sigmoid")?;
    let candidate = curve(op, "activation", "tanh")?;
    let origin = flag(op, "origin_mode", false);
    let (of_gates, of_candidate) = weight.split_at(size * 2 * size);
    let first = beginning(frame, step, "H0", rows.sequences.len(), size)?;
    let total = rows.sequences.last().map_or(0, |last| last.end);
    let mut hiddens = vec![0.0; total * size];
    for (number, sequence) in rows.sequences.iter().enumerate() {
        let mut hidden = part(&first, number, size).to_vec();
        for row in in_order(sequence.clone(), flag(op, "is_reverse", false)) {
            let mut values = rows.row(row).to_vec();
            values.iter_mut().zip(&bias).for_each(|(value, bias)| *value += bias);
            let (gates, rest) = values.split_at_mut(2 * size);
            add_product(gates, &hidden, of_gates, 0);
            gates.iter_mut().for_each(|value| *value = gate(*value));
            let (update, reset) = gates.split_at(size);
            let kept: Vec<f32> = hidden.iter().zip(reset).map(|(h, r)| h * r).collect();
            add_product(rest, &kept, of_candidate, 0);
            let next =
                hidden.iter().zip(update).zip(rest.iter()).map(|((before, update), value)| {
                    let new = candidate(*value);
                    match origin {
                        true => update * before + (1.0 - update) * new,
                        false => (1.0 - update) * before + update * new,
                    }
                });
            hidden = next.collect();
            put(&mut hiddens, row, &hidden);
        }
    }
    let lod: Lod = rows.lod;
    frame.make(output(step, "Hidden")?, made(&hiddens, vec![total as u64, size as u64], lod))?;
    Ok(())
}

/// Rows from the first to the last, or the other way round.
fn in_order(rows: std::ops::Range<usize>, reversed: bool) -> Vec<usize> {
    if reversed { rows.rev().collect() } else { rows.collect() }
}

fn put(values: &mut [f32], row: usize, new: &[f32]) {
    let start = row * new.len();
    if let Some(place) = values.get_mut(start..start + new.len()) {
        place.copy_from_slice(new);
    }
}
