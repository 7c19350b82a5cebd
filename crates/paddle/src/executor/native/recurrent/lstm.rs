//! `lstm`: the gates are candidate, input, forget and output. With peepholes, the bias has three more parts: the weights
//! of the cell for the last three gates.
//!
//! | for gradients | |
//! | --- | --- |
//! | `BatchGate` | the gates after their activations |
//! | `BatchCellPreAct` | the cell before its activation |

use lodstone_model::{Lod, Op};
use lodstone_schema::Finding;
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
struct Lstm {
    /// [rows, 4 * size]
    rows: Rows,
    size: usize,
    /// [size, 4 * size]
    weight: Vec<f32>,
    /// [4 * size], or [7 * size] with peepholes.
    bias: Vec<f32>,
    peepholes: bool,
    reversed: bool,
    gate: Activation,
    cell: Activation,
    candidate: Activation,
    /// [sequences, size]
    first_hidden: Vec<f32>,
    first_cell: Vec<f32>,
}

impl Lstm {
    fn of(frame: &Frame<'_>, step: &Step, op: &Op) -> Outcome<Self> {
        let rows = Rows::of(frame, input(step, "Input")?)?;
        let (size, count) = (rows.width / 4, rows.sequences.len());
        if size * 4 != rows.width {
            return Err(format!("expected four gates, found rows of {}", rows.width).into());
        }
        let peepholes = flag(op, "use_peepholes", true);
        Ok(Self {
            size,
            weight: numbers(frame, step, "Weight", size * 4 * size)?,
            bias: numbers(frame, step, "Bias", if peepholes { 7 } else { 4 } * size)?,
            peepholes,
            reversed: flag(op, "is_reverse", false),
            gate: activation(op, "gate_activation", Activation::Sigmoid)?,
            cell: activation(op, "cell_activation", Activation::Tanh)?,
            candidate: activation(op, "candidate_activation", Activation::Tanh)?,
            first_hidden: beginning(frame, step, "H0", count, size)?,
            first_cell: beginning(frame, step, "C0", count, size)?,
            rows,
        })
    }

    /// Returns the peephole weight of an element of the cell for a gate (4 to 6).
    fn peephole(&self, gate: usize, place: usize) -> Result<f32, Finding> {
        if self.peepholes { at(part(&self.bias, gate, self.size)?, place) } else { Ok(0.0) }
    }
}

pub(super) fn lstm(frame: &mut Frame<'_>, step: &Step, op: &Op) -> Outcome {
    let this = Lstm::of(frame, step, op)?;
    let (rows, size) = (&this.rows, this.size);
    let total = rows.count();
    let (mut hiddens, mut cells) = (zeros(frame, total * size)?, zeros(frame, total * size)?);
    let kept = [("BatchGate", 4 * size), ("BatchCellPreAct", size)];
    let kept = kept.map(|(slot, width)| (requested(step, slot), width));
    let [mut all_gates, mut all_active] =
        kept.map(|(slot, width)| vec![0.0; slot.map_or(0, |_| total * width)]);
    let places = places(&rows.sequences, this.reversed)?;
    for (number, sequence) in rows.sequences.iter().enumerate() {
        let mut hidden = part(&this.first_hidden, number, size)?.to_vec();
        let mut cell = part(&this.first_cell, number, size)?.to_vec();
        for row in in_order(sequence.clone(), this.reversed) {
            let mut gates = rows.row(row)?.to_vec();
            add_product(&mut gates, &hidden, &this.weight, 0)?;
            add(&mut gates, &this.bias);
            let mut active = vec![0.0; size];
            for place in 0..size {
                let of = |which: usize| at(&gates, which * size + place);
                let before = at(&cell, place)?;
                let new = this.candidate.at(of(0)?);
                let enter = this.gate.at(of(1)? + before * this.peephole(4, place)?);
                let forget = this.gate.at(of(2)? + before * this.peephole(5, place)?);
                let now = new * enter + before * forget;
                let leave = this.gate.at(of(3)? + now * this.peephole(6, place)?);
                for (which, value) in [new, enter, forget, leave].into_iter().enumerate() {
                    copy(part_mut(&mut gates, which * size + place, 1)?, &[value]);
                }
                copy(part_mut(&mut cell, place, 1)?, &[now]);
                copy(part_mut(&mut active, place, 1)?, &[this.cell.at(now)]);
                copy(part_mut(&mut hidden, place, 1)?, &[leave * this.cell.at(now)]);
            }
            copy(part_mut(&mut hiddens, row, size)?, &hidden);
            copy(part_mut(&mut cells, row, size)?, &cell);
            let place = at(&places, row)?;
            keep(&mut all_gates, place, &gates)?;
            keep(&mut all_active, place, &active)?;
        }
    }
    let shape = |width: usize| vec![total as u64, width as u64];
    let lod = rows.lod.clone();
    frame.make(output(step, "Hidden")?, made(&hiddens, shape(size), lod.clone()))?;
    if let Ok(slot) = output(step, "Cell") {
        frame.make(slot, made(&cells, shape(size), lod))?;
    }
    for ((slot, width), values) in kept.into_iter().zip([all_gates, all_active]) {
        if let Some(slot) = slot {
            frame.make(slot, made(&values, shape(width), Lod::default()))?;
        }
    }
    Ok(())
}

/// Processes the steps from the last to the first. PaddlePaddle ignores the gradient of the cell output.
pub(super) fn gradient(frame: &mut Frame<'_>, step: &Step, op: &Op) -> Outcome {
    let this = Lstm::of(frame, step, op)?;
    let (rows, size) = (&this.rows, this.size);
    let total = rows.count();
    let hiddens = numbers(frame, step, "Hidden", total * size)?;
    let cells = numbers(frame, step, "Cell", total * size)?;
    let all_gates = numbers(frame, step, "BatchGate", total * 4 * size)?;
    let all_active = numbers(frame, step, "BatchCellPreAct", total * size)?;
    let given = numbers(frame, step, "Hidden@GRAD", total * size)?;
    let mut of_input = zeros(frame, rows.values.len())?;
    let mut of_weight = zeros(frame, this.weight.len())?;
    let mut of_bias = zeros(frame, this.bias.len())?;
    let mut of_hidden = zeros(frame, this.first_hidden.len())?;
    let mut of_cell = zeros(frame, this.first_cell.len())?;
    let places = places(&rows.sequences, this.reversed)?;
    for (number, sequence) in rows.sequences.iter().enumerate() {
        // The gradients of the hidden state and the cell from later steps.
        let (mut later, mut later_cell) = (vec![0.0; size], vec![0.0; size]);
        let order = in_order(sequence.clone(), this.reversed);
        for (at_step, row) in order.iter().enumerate().rev() {
            let before = at_step.checked_sub(1).and_then(|before| order.get(before));
            let (hidden, cell) = match before {
                Some(row) => (part(&hiddens, *row, size)?, part(&cells, *row, size)?),
                None => {
                    (part(&this.first_hidden, number, size)?, part(&this.first_cell, number, size)?)
                }
            };
            let place = at(&places, *row)?;
            let gates = part(&all_gates, place, 4 * size)?;
            let (active, now) = (part(&all_active, place, size)?, part(&cells, *row, size)?);
            add(&mut later, part(&given, *row, size)?);
            let slopes = part_mut(&mut of_input, *row, 4 * size)?;
            for place in 0..size {
                let gate = |which: usize| at(gates, which * size + place);
                let [new, enter, forget, leave] = [gate(0)?, gate(1)?, gate(2)?, gate(3)?];
                let (counts, before) = (at(&later, place)?, at(cell, place)?);
                let of_leave = counts * at(active, place)? * this.gate.slope(leave);
                let of_now = at(&later_cell, place)?
                    + counts * leave * this.cell.slope(at(active, place)?)
                    + of_leave * this.peephole(6, place)?;
                let of_new = of_now * enter * this.candidate.slope(new);
                let of_enter = of_now * new * this.gate.slope(enter);
                let of_forget = of_now * before * this.gate.slope(forget);
                let of_before = of_now * forget
                    + of_enter * this.peephole(4, place)?
                    + of_forget * this.peephole(5, place)?;
                copy(part_mut(&mut later_cell, place, 1)?, &[of_before]);
                for (which, value) in [of_new, of_enter, of_forget, of_leave].iter().enumerate() {
                    copy(part_mut(slopes, which * size + place, 1)?, &[*value]);
                }
                let looks = [of_enter * before, of_forget * before, of_leave * at(now, place)?];
                for (which, value) in looks.iter().enumerate().filter(|_| this.peepholes) {
                    add(part_mut(&mut of_bias, (4 + which) * size + place, 1)?, &[*value]);
                }
            }
            add(&mut of_bias, slopes);
            add_outer(&mut of_weight, hidden, slopes, 0)?;
            later.fill(0.0);
            add_product_back(&mut later, slopes, &this.weight, 0)?;
        }
        copy(part_mut(&mut of_hidden, number, size)?, &later);
        copy(part_mut(&mut of_cell, number, size)?, &later_cell);
    }
    put_gradient(frame, step, "Input", &of_input)?;
    put_gradient(frame, step, "Weight", &of_weight)?;
    put_gradient(frame, step, "Bias", &of_bias)?;
    put_gradient(frame, step, "H0", &of_hidden)?;
    put_gradient(frame, step, "C0", &of_cell)
}
