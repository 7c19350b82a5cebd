//! Recurrent operators over sequences of PaddlePaddle 1.x: `lstm` and `gru`, whose inputs are projected already; and
//! their gradients.
//!
//! What the gradients need of what was computed is in outputs that nobody else reads: gates (`BatchGate`), and others.
//! Their rows are those of all sequences in the order in which PaddlePaddle computes them together: step by step, the
//! longest sequence first; those of one length stay in their order. (Of more than 16 sequences PaddlePaddle has those of
//! one length in another order.)

mod gru;
mod lstm;

use std::cmp::Reverse;
use std::ops::Range;

use lodstone_model::{AttributeValue, Lod, Op};
use lodstone_schema::Finding;
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

/// A function of each number.
#[derive(Clone, Copy)]
enum Curve {
    Identity,
    Relu,
    Sigmoid,
    Tanh,
}

impl Curve {
    fn named(op: &Op, name: &str, otherwise: &str) -> Outcome<Self> {
        let kind = match op.attribute(name) {
            Some(AttributeValue::String(kind)) => kind.to_string(),
            // Gated units of 1.x tell it by number.
            Some(AttributeValue::Int(kind)) => ["identity", "sigmoid", "tanh", "relu"]
                .get(usize::try_from(*kind).unwrap_or(usize::MAX))
                .map_or_else(|| kind.to_string(), |kind| (*kind).to_owned()),
            _ => otherwise.to_owned(),
        };
        Ok(match kind.as_str() {
            "identity" => Self::Identity,
            "relu" => Self::Relu,
            "sigmoid" => Self::Sigmoid,
            "tanh" => Self::Tanh,
            other => {
                return Err(format!("expected an activation as `{name}`, found `{other}`").into());
            }
        })
    }

    fn at(self, x: f32) -> f32 {
        match self {
            Self::Identity => x,
            Self::Relu => x.max(0.0),
            Self::Sigmoid => 1.0 / (1.0 + (-x).exp()),
            Self::Tanh => x.tanh(),
        }
    }

    /// How steep it is where it has a value.
    fn slope(self, value: f32) -> f32 {
        match self {
            Self::Identity => 1.0,
            Self::Relu => f32::from(value > 0.0),
            Self::Sigmoid => value * (1.0 - value),
            Self::Tanh => 1.0 - value * value,
        }
    }
}

/// What each sequence begins with: rows of a variable, or zeros.
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

/// Keeps the numbers of a row among those of all rows; there is no place for them if nobody asks for them.
fn keep(all: &mut [f32], row: usize, values: &[f32]) -> Result<(), Finding> {
    if !all.is_empty() {
        copy(part_mut(all, row, values.len())?, values);
    }
    Ok(())
}

/// Rows from the first to the last, or the other way round.
fn in_order(rows: Range<usize>, reversed: bool) -> Vec<usize> {
    if reversed { rows.rev().collect() } else { rows.collect() }
}

/// The place of each row among those of all sequences, step by step.
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

/// The variable of an output slot that somebody reads later.
fn asked(step: &Step, slot: &str) -> Option<Slot> {
    output(step, slot).ok().filter(|slot| !step.last.contains(slot))
}

/// Tells how much each element of an input counts, if that is asked for; it has no LoD.
fn put_gradient(frame: &mut Frame<'_>, step: &Step, slot: &str, values: &[f32]) -> Outcome {
    let Ok(out) = output(step, &format!("{slot}@GRAD")) else { return Ok(()) };
    let shape = frame.tensor(input(step, slot)?)?.shape.clone();
    let made = made(values, shape, Lod::default());
    Ok(frame.make(out, made)?)
}
