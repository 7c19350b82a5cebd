//! Recurrent operators of PaddlePaddle 1.x over sequences, `lstm` and `gru`, whose inputs are already projected; and
//! their gradients.
//!
//! Intermediate results for the gradients are outputs that no other operator reads: gates (`BatchGate`) and others.
//! Their rows are those of all sequences in the order in which PaddlePaddle computes them together: step by step, the
//! longest sequence first; sequences of equal length keep their order. A step of all sequences is one product. (With more
//! than 16 sequences, PaddlePaddle orders those of equal length differently.)

mod gru;
mod lstm;

use std::cmp::Reverse;
use std::ops::Range;

use lodstone_engine::{Dense, Threads, Value, bytes_of_singles};
use lodstone_model::{Attribute, AttributeValue, DType, Lod, Op};
use lodstone_schema::Finding;
use lodstone_schema::paddle::{Activation, attribute};

use super::sequences::{Rows, add, copy, made, numbers, part, part_mut, singles, zeros};
use super::{Outcome, Run, evaluated, input, output};
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
        Err(_) => zeros(frame, sequences.saturating_mul(size)),
    }
}

/// The rows of all sequences in the order in which they are computed together: step by step, the longest sequence first.
struct Batch {
    /// The sequences, the longest first.
    ranked: Vec<usize>,
    /// The number of each row in the variable.
    rows: Vec<usize>,
    /// The rows of each step: those of the first of the ranked sequences.
    steps: Vec<Range<usize>>,
}

impl Batch {
    fn of(all: &Rows, reversed: bool) -> Result<Self, Finding> {
        let mut ranked: Vec<(usize, &Range<usize>)> = all.sequences.iter().enumerate().collect();
        ranked.sort_by_key(|(_, sequence)| Reverse(sequence.len()));
        let (mut rows, mut steps) = (Vec::new(), Vec::new());
        for at in 0..all.sequences.iter().map(Range::len).fold(0, usize::max) {
            let begin = rows.len();
            let sequences = ranked.iter().map(|(_, sequence)| sequence);
            let active = sequences.take_while(|sequence| sequence.len() > at);
            rows.extend(active.map(|it| if reversed { it.end - 1 - at } else { it.start + at }));
            steps.push(begin..rows.len());
        }
        let ranked = ranked.into_iter().map(|(number, _)| number).collect();
        match rows.len() == all.count() {
            true => Ok(Self { ranked, rows, steps }),
            false => Err("the sequences do not have all rows of the input".into()),
        }
    }

    /// Returns rows of a variable in this order.
    fn gathered(&self, values: &[f32], width: usize) -> Result<Vec<f32>, Finding> {
        gathered(values, width, &self.rows)
    }

    /// Returns rows in the order of the variable.
    fn scattered(&self, values: &[f32], width: usize) -> Result<Vec<f32>, Finding> {
        scattered(values, width, &self.rows)
    }

    /// Returns the state before each row: that of the row of the same sequence a step earlier, or one of the `first`, which
    /// are ranked.
    fn before(&self, first: &[f32], states: &[f32], size: usize) -> Result<Vec<f32>, Finding> {
        let mut all = Vec::with_capacity(states.len());
        for (number, step) in self.steps.iter().enumerate() {
            let earlier = number.checked_sub(1).and_then(|number| self.steps.get(number));
            let (known, begin) = match earlier {
                Some(earlier) => (states, earlier.start),
                None => (first, 0),
            };
            all.extend_from_slice(span(known, &(begin..begin + step.len()), size)?);
        }
        Ok(all)
    }
}

/// Returns the rows with the given numbers.
fn gathered(values: &[f32], width: usize, rows: &[usize]) -> Result<Vec<f32>, Finding> {
    let mut all = Vec::with_capacity(rows.len() * width);
    for row in rows {
        all.extend_from_slice(part(values, *row, width)?);
    }
    Ok(all)
}

/// Returns rows in the order of their numbers.
fn scattered(values: &[f32], width: usize, rows: &[usize]) -> Result<Vec<f32>, Finding> {
    let mut all = vec![0.0; values.len()];
    for (number, row) in rows.iter().enumerate() {
        copy(part_mut(&mut all, *row, width)?, part(values, number, width)?);
    }
    Ok(all)
}

/// Returns some rows of `width` elements.
fn span<'v>(values: &'v [f32], rows: &Range<usize>, width: usize) -> Result<&'v [f32], Finding> {
    let found = values.get(rows.start * width..rows.end * width);
    found.ok_or_else(|| Finding::internal(format!("rows {rows:?} do not exist")))
}

/// As [`span`], to change them.
fn span_mut<'v>(
    values: &'v mut [f32],
    rows: &Range<usize>,
    width: usize,
) -> Result<&'v mut [f32], Finding> {
    let found = values.get_mut(rows.start * width..rows.end * width);
    found.ok_or_else(|| Finding::internal(format!("rows {rows:?} do not exist")))
}

/// Returns the gradient of a weight: the transposed states, times the gradients of what they were multiplied to. Each has as many
/// rows, of its width.
fn weight_gradient(factors: [(Vec<f32>, usize); 2], threads: &Threads) -> Outcome<Vec<f32>> {
    let matrix = |(values, width): (Vec<f32>, usize)| -> Outcome<_> {
        let dims = vec![values.len() / width.max(1), width];
        let dense = Dense::new(DType::Float32, dims, bytes_of_singles(values))?;
        Ok(Some(Value::from(dense)))
    };
    let transposed = Attribute { name: "transA".to_owned(), value: AttributeValue::Long(1) };
    let op = Op { kind: "Gemm".to_owned(), attributes: vec![transposed], ..Op::default() };
    let [states, gradients] = factors;
    singles(&evaluated(&op, &[matrix(states)?, matrix(gradients)?], threads)?)
}

/// Adds the sums of columns.
fn add_columns(sums: &mut [f32], values: &[f32]) {
    values.chunks_exact(sums.len().max(1)).for_each(|row| add(sums, row));
}

/// Returns the variable of an output slot if it is read later.
fn requested(step: &Step, slot: &str) -> Option<Slot> {
    output(step, slot).ok().filter(|slot| !step.last.contains(slot))
}

/// Sets the gradient of an input, if it is requested; it has no LoD.
fn put_gradient(frame: &mut Frame<'_>, step: &Step, slot: &str, values: Vec<f32>) -> Outcome {
    let Ok(out) = output(step, &format!("{slot}@GRAD")) else { return Ok(()) };
    let shape = frame.tensor(input(step, slot)?)?.shape.clone();
    let made = made(values, shape, Lod::default());
    Ok(frame.make(out, made)?)
}
