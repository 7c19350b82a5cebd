//! `warpctc`: the cost of labels for scores of each step, whatever their alignment (Graves et al., 2006), and its gradient.
//!
//! `WarpCTCGrad` is the gradient of the costs, step by step: `[steps, sequences, classes]`. All is computed in double
//! precision, in logarithms.

use std::ops::Range;

use lodstone_model::{Op, Tensor};
use lodstone_schema::Finding;
use lodstone_schema::numbers::exact;

use super::super::{Outcome, flag, input, output, put, rounded};
use super::labels::{check_lengths, labels, lengths, ranges};
use super::{columns, doubles, int};
use crate::executor::frame::Frame;
use crate::executor::layout::Step;

/// The rows of logits of each sequence, in order.
struct Sequences {
    rows: Vec<Vec<usize>>,
    classes: usize,
    /// The number of rows in all.
    count: usize,
}

impl Sequences {
    /// By the LoD of `[rows, classes]`; or by lengths, of `[steps, sequences, classes]`.
    fn of(frame: &Frame<'_>, step: &Step, logits: &Tensor) -> Outcome<Self> {
        let classes = columns(logits)?;
        let elements = exact::<usize, _>(logits.shape.iter().product::<u64>())?;
        if classes == 0 {
            return Err("expected classes in `Logits`, found none".into());
        }
        let count = elements / classes;
        let Some(lengths) = lengths(frame, step, "LogitsLength")? else {
            let rows = ranges(logits, count)?.into_iter().map(Iterator::collect);
            return Ok(Self { rows: rows.collect(), classes, count });
        };
        let [steps, sequences, _] = logits.shape[..] else {
            return Err(format!("expected rank 3 as `Logits`, found {:?}", logits.shape).into());
        };
        let (steps, sequences) = (exact(steps)?, exact(sequences)?);
        check_lengths(&lengths, sequences, steps, "LogitsLength")?;
        let rows = lengths.iter().enumerate().map(|(sequence, length)| {
            (0..*length)
                .map(|step| step.saturating_mul(sequences).saturating_add(sequence))
                .collect()
        });
        Ok(Self { rows: rows.collect(), classes, count })
    }

    fn longest(&self) -> usize {
        self.rows.iter().map(Vec::len).fold(0, usize::max)
    }
}

/// Returns the logarithm of the sum of two numbers in logarithms.
fn either(a: f64, b: f64) -> f64 {
    let (most, least) = if a > b { (a, b) } else { (b, a) };
    if most == f64::NEG_INFINITY { most } else { most + (least - most).exp().ln_1p() }
}

/// Returns the cost of a sequence, and its gradient by the logits of each step.
fn cost(
    shares: &[Vec<f64>],
    labels: &[usize],
    blank: usize,
) -> Result<(f64, Vec<Vec<f64>>), Finding> {
    let lost = || Finding::internal("a state does not exist");
    // A blank before, between and after the labels.
    let mut states = vec![blank];
    labels.iter().for_each(|label| states.extend([*label, blank]));
    let score = |step: usize, state: usize| -> Result<f64, Finding> {
        let class = states.get(state).ok_or_else(lost)?;
        shares.get(step).and_then(|row| row.get(*class)).copied().ok_or_else(lost)
    };
    // A label may follow another one without a blank between them.
    let skips = |state: usize| {
        state >= 2
            && states.get(state) != Some(&blank)
            && states.get(state) != states.get(state - 2)
    };
    let (steps, count) = (shares.len(), states.len());
    let none = vec![f64::NEG_INFINITY; count];
    let mut alpha: Vec<Vec<f64>> = Vec::new();
    for step in 0..steps {
        let mut row = none.clone();
        for (state, place) in row.iter_mut().enumerate() {
            let before = match alpha.last() {
                None if state < 2 => 0.0,
                None => f64::NEG_INFINITY,
                Some(last) => {
                    let of =
                        |back: usize| state.checked_sub(back).and_then(|at| last.get(at)).copied();
                    let mut sum = of(0).unwrap_or(f64::NEG_INFINITY);
                    sum = either(sum, of(1).unwrap_or(f64::NEG_INFINITY));
                    if skips(state) { either(sum, of(2).unwrap_or(f64::NEG_INFINITY)) } else { sum }
                }
            };
            *place = before + score(step, state)?;
        }
        alpha.push(row);
    }
    // The scores of everything after a step.
    let mut beta = vec![none.clone(); steps];
    let mut after: Option<(usize, Vec<f64>)> = None;
    for (step, slot) in beta.iter_mut().enumerate().rev() {
        let mut row = none.clone();
        for (state, place) in row.iter_mut().enumerate() {
            *place = match &after {
                None if state + 2 >= count => 0.0,
                None => f64::NEG_INFINITY,
                Some((next, later)) => {
                    let of = |ahead: usize| -> Result<f64, Finding> {
                        match later.get(state + ahead) {
                            Some(beta) => Ok(beta + score(*next, state + ahead)?),
                            None => Ok(f64::NEG_INFINITY),
                        }
                    };
                    let sum = either(of(0)?, of(1)?);
                    if skips(state + 2) { either(sum, of(2)?) } else { sum }
                }
            };
        }
        slot.clone_from(&row);
        after = Some((step, row));
    }
    let ends =
        alpha.last().map_or(&[][..], |row| row.get(count.saturating_sub(2)..).unwrap_or_default());
    let all = ends.iter().copied().fold(f64::NEG_INFINITY, either);
    let mut gradient = Vec::new();
    for ((row, alpha), beta) in shares.iter().zip(&alpha).zip(&beta) {
        let mut own: Vec<f64> = row.iter().map(|share| share.exp()).collect();
        for ((class, alpha), beta) in states.iter().zip(alpha).zip(beta) {
            if let Some(place) = own.get_mut(*class) {
                *place -= (alpha + beta - all).exp();
            }
        }
        gradient.push(own);
    }
    Ok((-all, gradient))
}

/// Sets the cost of each sequence, and the gradient of the costs.
pub(super) fn loss(frame: &mut Frame<'_>, step: &Step, op: &Op) -> Outcome {
    let logits = frame.tensor(input(step, "Logits")?)?;
    let (scores, dtype) = (doubles(logits)?, logits.dtype);
    let sequences = Sequences::of(frame, step, logits)?;
    let classes = sequences.classes;
    let (labels, of_labels) = labels(frame, step, "Label", "LabelLength")?;
    if of_labels.len() != sequences.rows.len() {
        let (found, wanted) = (of_labels.len(), sequences.rows.len());
        return Err(format!("expected labels of {wanted} sequences, found {found}").into());
    }
    let blank = usize::try_from(int(op, "blank", 0)).ok().filter(|blank| *blank < classes);
    let blank = blank.ok_or_else(|| {
        format!("expected a `blank` of {classes} classes, found {}", int(op, "blank", 0))
    })?;
    let (steps, count) = (sequences.longest(), sequences.rows.len());
    let size = steps.saturating_mul(count).saturating_mul(classes);
    let longest = of_labels.iter().map(Range::len).fold(0, usize::max);
    let states = longest.saturating_mul(2).saturating_add(1);
    let needed = size
        .saturating_add(steps.saturating_mul(classes.saturating_add(states)))
        .saturating_mul(24);
    frame.reserve(needed as u64)?;
    let (mut costs, mut gradient) = (Vec::new(), vec![0.0; size]);
    for (sequence, (rows, own)) in sequences.rows.iter().zip(of_labels).enumerate() {
        let label = |label: &i64| {
            let found =
                usize::try_from(*label).ok().filter(|found| *found < classes && *found != blank);
            found.ok_or_else(|| {
                format!("label {label} is out of range: there are {classes}, one of them blank")
            })
        };
        let own = labels.get(own).unwrap_or_default();
        let own = own.iter().map(label).collect::<Result<Vec<usize>, String>>()?;
        let shares = rows.iter().map(|row| {
            let start = row.saturating_mul(classes);
            log_softmax(scores.get(start..start.saturating_add(classes)).unwrap_or_default())
        });
        let shares: Vec<Vec<f64>> = shares.collect();
        let (cost, own) = cost(&shares, &own, blank)?;
        // Labels that do not fit into the steps have no cost and no gradient, as in PaddlePaddle.
        let is_possible = cost.is_finite();
        costs.push(if is_possible { cost } else { 0.0 });
        if is_possible {
            for (step, row) in own.iter().enumerate() {
                let start =
                    step.saturating_mul(count).saturating_add(sequence).saturating_mul(classes);
                let places = gradient.get_mut(start..).unwrap_or_default();
                places.iter_mut().zip(row).for_each(|(place, value)| *place = *value);
            }
        }
    }
    let shape = vec![steps as u64, count as u64, classes as u64];
    put(frame, step, "WarpCTCGrad", rounded(&gradient, dtype, shape))?;
    Ok(frame.make(output(step, "Loss")?, rounded(&costs, dtype, vec![count as u64, 1]))?)
}

fn log_softmax(row: &[f64]) -> Vec<f64> {
    let most = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sum = row.iter().map(|score| (score - most).exp()).sum::<f64>().ln();
    row.iter().map(|score| score - most - sum).collect()
}

/// Multiplies the gradient of each cost by that of the results; with `norm_by_times`, divides by the number of steps.
pub(super) fn gradient(frame: &mut Frame<'_>, step: &Step, op: &Op) -> Outcome {
    let logits = frame.tensor(input(step, "Logits")?)?;
    let sequences = Sequences::of(frame, step, logits)?;
    let (classes, count) = (sequences.classes, sequences.rows.len());
    let kept = doubles(frame.tensor(input(step, "WarpCTCGrad")?)?)?;
    let given = doubles(frame.tensor(input(step, "Loss@GRAD")?)?)?;
    let size = sequences.longest().saturating_mul(count).saturating_mul(classes);
    if kept.len() != size || given.len() != count {
        return Err(format!(
            "expected {size} and {count} elements in `WarpCTCGrad` and `Loss@GRAD`, found {} and {}",
            kept.len(),
            given.len()
        )
        .into());
    }
    let all = sequences.count.saturating_mul(classes);
    frame.reserve((all as u64).saturating_mul(12))?;
    let by_times = flag(op, "norm_by_times", false);
    let mut made = vec![0.0; all];
    for (sequence, (rows, given)) in sequences.rows.iter().zip(given).enumerate() {
        #[expect(clippy::cast_precision_loss, reason = "few steps")]
        let factor = if by_times { given / rows.len() as f64 } else { given };
        for (step, row) in rows.iter().enumerate() {
            let start = step.saturating_mul(count).saturating_add(sequence).saturating_mul(classes);
            let own = kept.get(start..start.saturating_add(classes)).unwrap_or_default();
            let places = made.get_mut(row.saturating_mul(classes)..).unwrap_or_default();
            places.iter_mut().zip(own).for_each(|(place, value)| *place = value * factor);
        }
    }
    let mut tensor = rounded(&made, logits.dtype, logits.shape.clone());
    tensor.lod = logits.lod.clone();
    Ok(frame.make(output(step, "Logits@GRAD")?, tensor)?)
}
