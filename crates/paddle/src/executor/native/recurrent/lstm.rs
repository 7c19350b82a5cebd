//! `lstm`: the gates are candidate, input, forget and output. With peepholes, the bias has three more parts: the weights
//! of the cell for the last three gates.
//!
//! | for gradients | |
//! | --- | --- |
//! | `BatchGate` | the gates after their activations |
//! | `BatchCellPreAct` | the cell before its activation |

use lodstone_engine::RightMatrix;
use lodstone_model::{Lod, Op};
use lodstone_schema::Finding;
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

    /// Returns the weights of the cell for the last three gates, or zeros.
    fn peepholes(&self) -> Result<[Vec<f32>; 3], Finding> {
        let of = |gate: usize| match self.peepholes {
            true => Ok::<_, Finding>(part(&self.bias, gate, self.size)?.to_vec()),
            false => Ok(vec![0.0; self.size]),
        };
        Ok([of(4)?, of(5)?, of(6)?])
    }
}

/// Returns the parts of a row for each gate.
fn quarters(row: &[f32], size: usize) -> Result<[&[f32]; 4], Finding> {
    Ok([part(row, 0, size)?, part(row, 1, size)?, part(row, 2, size)?, part(row, 3, size)?])
}

/// As [`quarters`], to change them.
fn quarters_mut(row: &mut [f32], size: usize) -> [&mut [f32]; 4] {
    let (first, second) = row.split_at_mut(2 * size);
    let ((new, enter), (forget, leave)) = (first.split_at_mut(size), second.split_at_mut(size));
    [new, enter, forget, leave]
}

pub(super) fn lstm(frame: &mut Frame<'_>, step: &Step, op: &Op) -> Outcome {
    let this = Lstm::of(frame, step, op)?;
    let (rows, size) = (&this.rows, this.size);
    let total = rows.count();
    let batch = Batch::of(rows, this.reversed)?;
    let (mut hiddens, mut cells) = (zeros(frame, total * size)?, zeros(frame, total * size)?);
    let mut active = zeros(frame, total * size)?;
    let mut gates = batch.gathered(&rows.values, 4 * size)?;
    let mut hidden = gathered(&this.first_hidden, size, &batch.ranked)?;
    let mut cell = gathered(&this.first_cell, size, &batch.ranked)?;
    let bias = part(&this.bias, 0, 4 * size)?;
    let [of_enter, of_forget, of_leave] = this.peepholes()?;
    let weight = RightMatrix::new(&this.weight, [size, 4 * size], false)?;
    for (number, now) in batch.steps.iter().enumerate() {
        let gates = span_mut(&mut gates, now, 4 * size)?;
        hidden.truncate(now.len() * size);
        cell.truncate(now.len() * size);
        if size > 0 && (number > 0 || input(step, "H0").is_ok()) {
            add(gates, &weight.multiply(&hidden, &frame.threads)?);
        }
        let parts = gates.chunks_exact_mut((4 * size).max(1));
        let actives = span_mut(&mut active, now, size)?.chunks_exact_mut(size.max(1));
        let states = hidden.chunks_exact_mut(size.max(1)).zip(cell.chunks_exact_mut(size.max(1)));
        for ((gates, active), (hidden, cell)) in parts.zip(actives).zip(states) {
            add(gates, bias);
            let [new, enter, forget, leave] = quarters_mut(gates, size);
            let gates = new.iter_mut().zip(enter).zip(forget).zip(leave);
            let states = hidden.iter_mut().zip(cell).zip(active);
            let looks = of_enter.iter().zip(&of_forget).zip(&of_leave);
            for ((gates, states), looks) in gates.zip(states).zip(looks) {
                let (((new, enter), forget), leave) = gates;
                let ((hidden, cell), active) = states;
                let ((of_enter, of_forget), of_leave) = looks;
                let before = *cell;
                *new = this.candidate.at(*new);
                *enter = this.gate.at(*enter + before * of_enter);
                *forget = this.gate.at(*forget + before * of_forget);
                *cell = *new * *enter + before * *forget;
                *leave = this.gate.at(*leave + *cell * of_leave);
                *active = this.cell.at(*cell);
                *hidden = *leave * *active;
            }
        }
        copy(span_mut(&mut hiddens, now, size)?, &hidden);
        copy(span_mut(&mut cells, now, size)?, &cell);
    }
    let (hiddens, cells) = (batch.scattered(&hiddens, size)?, batch.scattered(&cells, size)?);
    let shape = |width: usize| vec![total as u64, width as u64];
    let lod = rows.lod.clone();
    frame.make(output(step, "Hidden")?, made(hiddens, shape(size), lod.clone()))?;
    if let Ok(slot) = output(step, "Cell") {
        frame.make(slot, made(cells, shape(size), lod))?;
    }
    for (slot, width, values) in [("BatchGate", 4 * size, gates), ("BatchCellPreAct", size, active)]
    {
        if let Some(slot) = requested(step, slot) {
            frame.make(slot, made(values, shape(width), Lod::default()))?;
        }
    }
    Ok(())
}

/// Processes the steps from the last to the first. PaddlePaddle ignores the gradient of the cell output.
pub(super) fn gradient(frame: &mut Frame<'_>, step: &Step, op: &Op) -> Outcome {
    let this = Lstm::of(frame, step, op)?;
    let (rows, size) = (&this.rows, this.size);
    let total = rows.count();
    let batch = Batch::of(rows, this.reversed)?;
    let in_batch = |slot: &str| -> Outcome<Vec<f32>> {
        Ok(batch.gathered(&numbers(frame, step, slot, total * size)?, size)?)
    };
    let (hiddens, cells) = (in_batch("Hidden")?, in_batch("Cell")?);
    let given = in_batch("Hidden@GRAD")?;
    let all_gates = numbers(frame, step, "BatchGate", total * 4 * size)?;
    let all_active = numbers(frame, step, "BatchCellPreAct", total * size)?;
    let first = |states: &[f32]| gathered(states, size, &batch.ranked);
    let hiddens = batch.before(&first(&this.first_hidden)?, &hiddens, size)?;
    let cells_before = batch.before(&first(&this.first_cell)?, &cells, size)?;
    let mut slopes = zeros(frame, total * 4 * size)?;
    let mut of_bias = zeros(frame, this.bias.len())?;
    // The gradients of the hidden state and the cell from later steps.
    let (mut later, mut later_cell) =
        (zeros(frame, this.first_hidden.len())?, zeros(frame, this.first_cell.len())?);
    let looks = this.peepholes()?;
    let mut of_looks = [0; 3].map(|_| vec![0.0; size]);
    let weight = RightMatrix::new(&this.weight, [4 * size, size], true)?;
    for now in batch.steps.iter().rev().filter(|_| size > 0) {
        let active = 0..now.len();
        let (later, later_cell) =
            (span_mut(&mut later, &active, size)?, span_mut(&mut later_cell, &active, size)?);
        add(later, span(&given, now, size)?);
        for (at, row) in now.clone().enumerate() {
            let [new, enter, forget, leave] = quarters(part(&all_gates, row, 4 * size)?, size)?;
            let (active, before) = (part(&all_active, row, size)?, part(&cells_before, row, size)?);
            let cell = part(&cells, row, size)?;
            let (later, later_cell) = (part(later, at, size)?, part_mut(later_cell, at, size)?);
            let [new_slopes, enter_slopes, forget_slopes, leave_slopes] =
                quarters_mut(part_mut(&mut slopes, row, 4 * size)?, size);
            let gates = new.iter().zip(enter).zip(forget).zip(leave);
            let states = active.iter().zip(before).zip(later).zip(later_cell);
            let changed =
                new_slopes.iter_mut().zip(enter_slopes).zip(forget_slopes).zip(leave_slopes);
            let [of_enter, of_forget, of_leave] = &looks;
            let looks = of_enter.iter().zip(of_forget).zip(of_leave);
            for (((gates, states), changed), looks) in gates.zip(states).zip(changed).zip(looks) {
                let (((new, enter), forget), leave) = gates;
                let (((active, before), later), later_cell) = states;
                let (((new_slope, enter_slope), forget_slope), leave_slope) = changed;
                let ((of_enter, of_forget), of_leave) = looks;
                *leave_slope = later * active * this.gate.slope(*leave);
                let of_cell = *later_cell
                    + later * leave * this.cell.slope(*active)
                    + *leave_slope * of_leave;
                *new_slope = of_cell * enter * this.candidate.slope(*new);
                *enter_slope = of_cell * new * this.gate.slope(*enter);
                *forget_slope = of_cell * before * this.gate.slope(*forget);
                *later_cell =
                    of_cell * forget + *enter_slope * of_enter + *forget_slope * of_forget;
            }
            let [_, of_enter, of_forget, of_leave] = quarters(part(&slopes, row, 4 * size)?, size)?;
            let looked = [(of_enter, before), (of_forget, before), (of_leave, cell)];
            for (sums, (slopes, states)) in of_looks.iter_mut().zip(looked) {
                let terms = slopes.iter().zip(states).map(|(slope, state)| slope * state);
                sums.iter_mut().zip(terms).for_each(|(sum, term)| *sum += term);
            }
        }
        copy(later, &weight.multiply(span(&slopes, now, 4 * size)?, &frame.threads)?);
    }
    let (of_all, of_peepholes) = of_bias.split_at_mut((4 * size).min(this.bias.len()));
    add_columns(of_all, &slopes);
    copy(of_peepholes, &of_looks.concat());
    let of_input = batch.scattered(&slopes, 4 * size)?;
    let of_weight = match total > 0 && size > 0 {
        true => weight_gradient([(hiddens, size), (slopes, 4 * size)], &frame.threads)?,
        false => zeros(frame, this.weight.len())?,
    };
    let of_hidden = scattered(&later, size, &batch.ranked)?;
    let of_cell = scattered(&later_cell, size, &batch.ranked)?;
    put_gradient(frame, step, "Input", of_input)?;
    put_gradient(frame, step, "Weight", of_weight)?;
    put_gradient(frame, step, "Bias", of_bias)?;
    put_gradient(frame, step, "H0", of_hidden)?;
    put_gradient(frame, step, "C0", of_cell)
}
