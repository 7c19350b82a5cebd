//! `gru`: the gates are update, reset and candidate. The weights hold a matrix for the first two, then one for the
//! candidate, whatever their declared dims.
//!
//! | for gradients | |
//! | --- | --- |
//! | `BatchGate` | the gates after their activations |
//! | `BatchResetHiddenPrev` | the previous hidden state, multiplied by the reset gate |
//! | `BatchHidden` | the hidden states |

use lodstone_model::{Lod, Op};
use lodstone_schema::paddle::Activation;
use lodstone_schema::places::at;

use super::super::sequences::{
    Rows, add, add_outer, add_product, add_product_back, copy, made, numbers, part, part_mut, zeros,
};
use super::super::{Outcome, flag, input, output};
use super::{Curve, activation, beginning, in_order, keep, places, put_gradient, requested};
use crate::executor::frame::Frame;
use crate::executor::layout::Step;

/// The inputs of the operator and its gradient.
struct Gru {
    /// [rows, 3 * size]
    rows: Rows,
    size: usize,
    /// [size, 2 * size], then [size, size]
    weight: Vec<f32>,
    /// [3 * size]
    bias: Vec<f32>,
    reversed: bool,
    gate: Activation,
    candidate: Activation,
    /// Whether the update gate is the weight of the previous state, rather than of the candidate.
    keeps: bool,
    /// [sequences, size]
    first: Vec<f32>,
}

impl Gru {
    fn of(frame: &Frame<'_>, step: &Step, op: &Op) -> Outcome<Self> {
        let rows = Rows::of(frame, input(step, "Input")?)?;
        let size = rows.width / 3;
        if size * 3 != rows.width {
            return Err(format!("expected three gates, found rows of {}", rows.width).into());
        }
        Ok(Self {
            size,
            weight: numbers(frame, step, "Weight", size * 3 * size)?,
            bias: match input(step, "Bias") {
                Ok(_) => numbers(frame, step, "Bias", 3 * size)?,
                Err(_) => vec![0.0; 3 * size],
            },
            reversed: flag(op, "is_reverse", false),
            gate: activation(op, "gate_activation", Activation::Sigmoid)?,
            candidate: activation(op, "activation", Activation::Tanh)?,
            keeps: flag(op, "origin_mode", false),
            first: beginning(frame, step, "H0", rows.sequences.len(), size)?,
            rows,
        })
    }

    /// Returns the weight of the candidate, from the update gate.
    fn share(&self, update: f32) -> f32 {
        if self.keeps { 1.0 - update } else { update }
    }
}

/// Multiplies element-wise.
fn product(a: &[f32], b: &[f32]) -> Vec<f32> {
    a.iter().zip(b).map(|(a, b)| a * b).collect()
}

pub(super) fn gru(frame: &mut Frame<'_>, step: &Step, op: &Op) -> Outcome {
    let this = Gru::of(frame, step, op)?;
    let (rows, size) = (&this.rows, this.size);
    let total = rows.count();
    let mut hiddens = zeros(frame, total * size)?;
    let kept = [("BatchGate", 3 * size), ("BatchResetHiddenPrev", size), ("BatchHidden", size)];
    let kept = kept.map(|(slot, width)| (requested(step, slot), width));
    let [mut all_gates, mut all_left, mut all_hiddens] =
        kept.map(|(slot, width)| vec![0.0; slot.map_or(0, |_| total * width)]);
    let (of_gates, of_candidate) = this.weight.split_at(size * 2 * size);
    let places = places(&rows.sequences, this.reversed)?;
    for (number, sequence) in rows.sequences.iter().enumerate() {
        let mut hidden = part(&this.first, number, size)?.to_vec();
        for row in in_order(sequence.clone(), this.reversed) {
            let mut values = rows.row(row)?.to_vec();
            add(&mut values, &this.bias);
            let (gates, new) = values.split_at_mut(2 * size);
            add_product(gates, &hidden, of_gates, 0)?;
            gates.iter_mut().for_each(|value| *value = this.gate.at(*value));
            let (update, reset) = gates.split_at(size);
            let left = product(&hidden, reset);
            add_product(new, &left, of_candidate, 0)?;
            new.iter_mut().for_each(|value| *value = this.candidate.at(*value));
            for ((hidden, update), new) in hidden.iter_mut().zip(update).zip(new.iter()) {
                *hidden = match this.keeps {
                    true => update * *hidden + (1.0 - update) * new,
                    false => (1.0 - update) * *hidden + update * new,
                };
            }
            copy(part_mut(&mut hiddens, row, size)?, &hidden);
            let place = at(&places, row)?;
            keep(&mut all_gates, place, &values)?;
            keep(&mut all_left, place, &left)?;
            keep(&mut all_hiddens, place, &hidden)?;
        }
    }
    let shape = |width: usize| vec![total as u64, width as u64];
    frame.make(output(step, "Hidden")?, made(&hiddens, shape(size), rows.lod.clone()))?;
    for ((slot, width), values) in kept.into_iter().zip([all_gates, all_left, all_hiddens]) {
        if let Some(slot) = slot {
            frame.make(slot, made(&values, shape(width), Lod::default()))?;
        }
    }
    Ok(())
}

/// Processes the steps from the last to the first.
pub(super) fn gradient(frame: &mut Frame<'_>, step: &Step, op: &Op) -> Outcome {
    let this = Gru::of(frame, step, op)?;
    let (rows, size) = (&this.rows, this.size);
    let total = rows.count();
    let hiddens = numbers(frame, step, "Hidden", total * size)?;
    let all_gates = numbers(frame, step, "BatchGate", total * 3 * size)?;
    let all_left = numbers(frame, step, "BatchResetHiddenPrev", total * size)?;
    let given = numbers(frame, step, "Hidden@GRAD", total * size)?;
    let mut of_input = zeros(frame, rows.values.len())?;
    let mut of_weight = zeros(frame, this.weight.len())?;
    let mut of_bias = zeros(frame, this.bias.len())?;
    let mut of_first = zeros(frame, this.first.len())?;
    let (of_gates, of_candidate) = this.weight.split_at(size * 2 * size);
    let (gates_slopes, candidate_slopes) = of_weight.split_at_mut(size * 2 * size);
    let places = places(&rows.sequences, this.reversed)?;
    for (number, sequence) in rows.sequences.iter().enumerate() {
        // The gradient of the hidden state from later steps.
        let mut later = vec![0.0; size];
        let order = in_order(sequence.clone(), this.reversed);
        for (at_step, row) in order.iter().enumerate().rev() {
            let before = at_step.checked_sub(1).and_then(|before| order.get(before));
            let hidden = match before {
                Some(row) => part(&hiddens, *row, size)?,
                None => part(&this.first, number, size)?,
            };
            let place = at(&places, *row)?;
            let gates = part(&all_gates, place, 3 * size)?;
            let [update, reset, new] =
                [part(gates, 0, size)?, part(gates, 1, size)?, part(gates, 2, size)?];
            add(&mut later, part(&given, *row, size)?);
            let slopes = part_mut(&mut of_input, *row, 3 * size)?;
            let (gate_slopes, new_slopes) = slopes.split_at_mut((2 * size).min(slopes.len()));
            for (place, (slope, new)) in new_slopes.iter_mut().zip(new).enumerate() {
                let share = this.share(at(update, place)?);
                *slope = at(&later, place)? * share * this.candidate.slope(*new);
            }
            let mut of_left = vec![0.0; size];
            add_product_back(&mut of_left, new_slopes, of_candidate, 0)?;
            for place in 0..size {
                let (counts, before) = (at(&later, place)?, at(hidden, place)?);
                let (update, reset) = (at(update, place)?, at(reset, place)?);
                let apart = at(new, place)? - before;
                let of_update = counts * if this.keeps { -apart } else { apart };
                let of_reset = at(&of_left, place)? * before;
                let slopes =
                    [of_update * this.gate.slope(update), of_reset * this.gate.slope(reset)];
                for (which, slope) in slopes.iter().enumerate() {
                    copy(part_mut(gate_slopes, which * size + place, 1)?, &[*slope]);
                }
                let of_before = counts * (1.0 - this.share(update)) + at(&of_left, place)? * reset;
                copy(part_mut(&mut later, place, 1)?, &[of_before]);
            }
            add_product_back(&mut later, gate_slopes, of_gates, 0)?;
            add_outer(gates_slopes, hidden, gate_slopes, 0)?;
            add_outer(candidate_slopes, part(&all_left, place, size)?, new_slopes, 0)?;
            add(&mut of_bias, slopes);
        }
        copy(part_mut(&mut of_first, number, size)?, &later);
    }
    put_gradient(frame, step, "Input", &of_input)?;
    put_gradient(frame, step, "Weight", &of_weight)?;
    put_gradient(frame, step, "Bias", &of_bias)?;
    put_gradient(frame, step, "H0", &of_first)
}
