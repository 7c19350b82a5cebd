//! `gru`: the gates are update, reset and candidate. The weights hold a matrix for the first two, then one for the
//! candidate, whatever their declared dims.
//!
//! | for gradients | |
//! | --- | --- |
//! | `BatchGate` | the gates after their activations |
//! | `BatchResetHiddenPrev` | the previous hidden state, multiplied by the reset gate |
//! | `BatchHidden` | the hidden states |

use lodstone_engine::RightMatrix;
use lodstone_model::{Lod, Op};
use lodstone_schema::paddle::Activation;

use super::super::sequences::{Rows, add, copy, made, numbers, part, part_mut, zeros};
use super::super::{Outcome, flag, input, output};
use super::{
    Batch, Curve, activation, add_columns, beginning, gathered, put_gradient, requested, scattered,
    span, span_mut, weight_gradient,
};
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

/// Returns the gates and the candidate of rows of three parts.
fn split(values: &[f32], size: usize) -> (Vec<f32>, Vec<f32>) {
    let rows = || values.chunks_exact((3 * size).max(1));
    let gates = rows().flat_map(|row| row.iter().take(2 * size)).copied().collect();
    (gates, rows().flat_map(|row| row.iter().skip(2 * size)).copied().collect())
}

/// Adds rows to a part of rows of three parts.
fn add_part(values: &mut [f32], size: usize, skipped: usize, rows: &[f32]) {
    let width = (3 - skipped).min(2) * size;
    let into = values.chunks_exact_mut((3 * size).max(1));
    for (into, row) in into.zip(rows.chunks_exact(width.max(1))) {
        into.iter_mut().skip(skipped * size).zip(row).for_each(|(sum, value)| *sum += value);
    }
}

pub(super) fn gru(frame: &mut Frame<'_>, step: &Step, op: &Op) -> Outcome {
    let this = Gru::of(frame, step, op)?;
    let (rows, size) = (&this.rows, this.size);
    let total = rows.count();
    let batch = Batch::of(rows, this.reversed)?;
    let (mut hiddens, mut lefts) = (zeros(frame, total * size)?, zeros(frame, total * size)?);
    let mut values = batch.gathered(&rows.values, 3 * size)?;
    values.chunks_exact_mut((3 * size).max(1)).for_each(|row| add(row, &this.bias));
    let mut hidden = gathered(&this.first, size, &batch.ranked)?;
    let (of_gates, of_candidate) = this.weight.split_at(size * 2 * size);
    let of_gates = RightMatrix::new(of_gates, [size, 2 * size], false)?;
    let of_candidate = RightMatrix::new(of_candidate, [size, size], false)?;
    for (number, now) in batch.steps.iter().enumerate() {
        let values = span_mut(&mut values, now, 3 * size)?;
        hidden.truncate(now.len() * size);
        let is_set = size > 0 && (number > 0 || input(step, "H0").is_ok());
        if is_set {
            add_part(values, size, 0, &of_gates.multiply(&hidden, &frame.threads)?);
        }
        let left = span_mut(&mut lefts, now, size)?;
        let states = left.chunks_exact_mut(size.max(1)).zip(hidden.chunks_exact(size.max(1)));
        for (row, (left, hidden)) in values.chunks_exact_mut((3 * size).max(1)).zip(states) {
            row.iter_mut().take(2 * size).for_each(|value| *value = this.gate.at(*value));
            for ((left, hidden), reset) in left.iter_mut().zip(hidden).zip(part(row, 1, size)?) {
                *left = hidden * reset;
            }
        }
        if is_set {
            add_part(values, size, 2, &of_candidate.multiply(left, &frame.threads)?);
        }
        let states = hidden.chunks_exact_mut(size.max(1));
        for (row, hidden) in values.chunks_exact_mut((3 * size).max(1)).zip(states) {
            let (gates, new) = row.split_at_mut(2 * size);
            for ((hidden, update), new) in hidden.iter_mut().zip(gates).zip(new) {
                *new = this.candidate.at(*new);
                *hidden = match this.keeps {
                    true => *update * *hidden + (1.0 - *update) * *new,
                    false => (1.0 - *update) * *hidden + *update * *new,
                };
            }
        }
        copy(span_mut(&mut hiddens, now, size)?, &hidden);
    }
    let shape = |width: usize| vec![total as u64, width as u64];
    let shown = made(batch.scattered(&hiddens, size)?, shape(size), rows.lod.clone());
    let kept = [
        ("BatchGate", 3 * size, values),
        ("BatchResetHiddenPrev", size, lefts),
        ("BatchHidden", size, hiddens),
    ];
    for (slot, width, values) in kept {
        if let Some(slot) = requested(step, slot) {
            frame.make(slot, made(values, shape(width), Lod::default()))?;
        }
    }
    Ok(frame.make(output(step, "Hidden")?, shown)?)
}

/// Processes the steps from the last to the first.
pub(super) fn gradient(frame: &mut Frame<'_>, step: &Step, op: &Op) -> Outcome {
    let this = Gru::of(frame, step, op)?;
    let (rows, size) = (&this.rows, this.size);
    let total = rows.count();
    let batch = Batch::of(rows, this.reversed)?;
    let in_batch = |slot: &str| -> Outcome<Vec<f32>> {
        Ok(batch.gathered(&numbers(frame, step, slot, total * size)?, size)?)
    };
    let first = gathered(&this.first, size, &batch.ranked)?;
    let (hiddens, given) = (in_batch("Hidden")?, in_batch("Hidden@GRAD")?);
    let hiddens = batch.before(&first, &hiddens, size)?;
    let all_gates = numbers(frame, step, "BatchGate", total * 3 * size)?;
    let lefts = numbers(frame, step, "BatchResetHiddenPrev", total * size)?;
    let mut slopes = zeros(frame, total * 3 * size)?;
    let mut of_bias = zeros(frame, this.bias.len())?;
    // The gradient of the hidden state from later steps.
    let mut later = zeros(frame, this.first.len())?;
    let (of_gates, of_candidate) = this.weight.split_at(size * 2 * size);
    let of_gates = RightMatrix::new(of_gates, [2 * size, size], true)?;
    let of_candidate = RightMatrix::new(of_candidate, [size, size], true)?;
    for now in batch.steps.iter().rev().filter(|_| size > 0) {
        let later = span_mut(&mut later, &(0..now.len()), size)?;
        add(later, span(&given, now, size)?);
        let gates = span(&all_gates, now, 3 * size)?;
        let slopes = span_mut(&mut slopes, now, 3 * size)?;
        let rows = gates.chunks_exact(3 * size).zip(slopes.chunks_exact_mut(3 * size));
        for ((gates, slopes), later) in rows.zip(later.chunks_exact(size)) {
            let (update, new) = (part(gates, 0, size)?, part(gates, 2, size)?);
            let slopes = part_mut(slopes, 2, size)?.iter_mut();
            for (((slope, update), new), later) in slopes.zip(update).zip(new).zip(later) {
                *slope = later * this.share(*update) * this.candidate.slope(*new);
            }
        }
        let of_left = of_candidate.multiply(&split(slopes, size).1, &frame.threads)?;
        let rows = gates.chunks_exact(3 * size).zip(slopes.chunks_exact_mut(3 * size));
        let states =
            later.chunks_exact_mut(size).zip(span(&hiddens, now, size)?.chunks_exact(size));
        for (((gates, slopes), of_left), (later, before)) in
            rows.zip(of_left.chunks_exact(size)).zip(states)
        {
            let (updates, others) = gates.split_at(size);
            let (update_slopes, other_slopes) = slopes.split_at_mut(size);
            let (resets, new) = others.split_at(size);
            let gates = updates.iter().zip(resets).zip(new).zip(of_left);
            let changed = update_slopes.iter_mut().zip(other_slopes).zip(later).zip(before);
            for ((((update, reset), new), of_left), (((of_update, of_reset), later), before)) in
                gates.zip(changed)
            {
                let (counts, apart) = (*later, new - before);
                let changed = counts * if this.keeps { -apart } else { apart };
                *of_update = changed * this.gate.slope(*update);
                *of_reset = of_left * before * this.gate.slope(*reset);
                *later = counts * (1.0 - this.share(*update)) + of_left * reset;
            }
        }
        add(later, &of_gates.multiply(&split(slopes, size).0, &frame.threads)?);
    }
    add_columns(&mut of_bias, &slopes);
    let of_weight = match total > 0 && size > 0 {
        true => {
            let (gates, candidate) = split(&slopes, size);
            let of_gates = weight_gradient([(hiddens, size), (gates, 2 * size)], &frame.threads)?;
            let of_candidate = weight_gradient([(lefts, size), (candidate, size)], &frame.threads)?;
            [of_gates, of_candidate].concat()
        }
        false => zeros(frame, this.weight.len())?,
    };
    let of_input = batch.scattered(&slopes, 3 * size)?;
    let of_first = scattered(&later, size, &batch.ranked)?;
    put_gradient(frame, step, "Input", of_input)?;
    put_gradient(frame, step, "Weight", of_weight)?;
    put_gradient(frame, step, "Bias", of_bias)?;
    put_gradient(frame, step, "H0", of_first)
}
