//! Recurrent operators of PaddlePaddle 1.x over sequences, `lstm` and `gru`, whose inputs are already projected; and
//! their gradients.
//!
//! Intermediate results for the gradients are outputs that no other operator reads: gates (`BatchGate`) and others.
//! Their rows are those of all sequences in the order in which PaddlePaddle computes them together: step by step, the
//! longest sequence first; sequences of equal length keep their order. (With more than 16 sequences, PaddlePaddle orders
//! those of equal length differently.)

mod gru;
mod lstm;

use std::cmp::Reverse;
use std::ops::Range;

use lodstone_model::{Lod, Op};
use lodstone_schema::Finding;
use lodstone_schema::paddle::{Activation, attribute};
use lodstone_schema::places::at_mut;

use super::sequences::{copy, made, numbers, part_mut};
use super::{Outcome, Run, input, output};
use crate::executor::frame::Frame;
use crate::executor::layout::{Slot, Step};

pub(super) const OPERATORS: &[(&str, Run)] = &[
    ("gru", gru::gru),
    ("gru_grad", gru::gradient),
    ("lstm", lstm::lstm),
    ("lstm_grad", lstm::gradient),
];

/// The values of an activation function.
trait Curve {
    fn at(self, x: f32) -> f32;

    /// Returns the derivative, given the value of the function.
    fn slope(self, value: f32) -> f32;
}

impl Curve for Activation {
    fn at(self, x: f32) -> f32 {
        match self {
            Activation::Identity => x,
            Activation::Relu => x.max(0.0),
            Activation::Sigmoid => 1.0 / (1.0 + (-x).exp()),
            Activation::Tanh => x.tanh(),
        }
    }

    fn slope(self, value: f32) -> f32 {
        match self {
            Activation::Identity => 1.0,
            Activation::Relu => f32::from(value > 0.0),
            Activation::Sigmoid => value * (1.0 - value),
            Activation::Tanh => 1.0 - value * value,
        }
    }
}

/// Returns the activation that an attribute of an operator selects, or `default`.
fn activation(op: &Op, name: &str, default: Activation) -> Outcome<Activation> {
    Ok(Activation::of(attribute(op, name), name, default)?)
}

/// Returns the initial state of each sequence: rows of a variable, or zeros.
fn beginning(
    frame: &Frame<'_>,
    step: &Step,
    slot: &str,
    sequences: usize,
    size: usize,
) -> Outcome<Vec<f32>> {
    match input(step, slot) {
        Ok(_) => numbers(frame, step, slot, sequences * size),
        Err(_) => Ok(vec![0.0; sequences * size]),
    }
}

/// Stores a row among those of all sequences; does nothing if the output is not requested.
fn keep(all: &mut [f32], row: usize, values: &[f32]) -> Result<(), Finding> {
    if !all.is_empty() {
        copy(part_mut(all, row, values.len())?, values);
    }
    Ok(())
}

/// Returns the rows in forward or reverse order.
fn in_order(rows: Range<usize>, reversed: bool) -> Vec<usize> {
    if reversed { rows.rev().collect() } else { rows.collect() }
}

/// Returns the index of each row among those of all sequences, step by step.
fn places(sequences: &[Range<usize>], reversed: bool) -> Result<Vec<usize>, Finding> {
    let mut ranked: Vec<&Range<usize>> = sequences.iter().collect();
    ranked.sort_by_key(|sequence| Reverse(sequence.len()));
    let mut places = vec![0; sequences.last().map_or(0, |last| last.end)];
    let mut next = 0;
    for at in 0..ranked.first().map_or(0, |longest| longest.len()) {
        for sequence in ranked.iter().take_while(|sequence| sequence.len() > at) {
            let row = if reversed { sequence.end - 1 - at } else { sequence.start + at };
            *at_mut(&mut places, row)? = next;
            next += 1;
        }
    }
    Ok(places)
}

/// Returns the variable of an output slot if it is read later.
fn requested(step: &Step, slot: &str) -> Option<Slot> {
    output(step, slot).ok().filter(|slot| !step.last.contains(slot))
}

/// Sets the gradient of an input, if it is requested; it has no LoD.
fn put_gradient(frame: &mut Frame<'_>, step: &Step, slot: &str, values: &[f32]) -> Outcome {
    let Ok(out) = output(step, &format!("{slot}@GRAD")) else { return Ok(()) };
    let shape = frame.tensor(input(step, slot)?)?.shape.clone();
    let made = made(values, shape, Lod::default());
    Ok(frame.make(out, made)?)
}
