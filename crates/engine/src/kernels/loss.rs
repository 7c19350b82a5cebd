//! Classification losses.

use super::normalize::log_softmax;
use crate::call::{Call, Outputs, all, one};
use crate::dims::{bounded, long};
use crate::error::Outcome;
use crate::operator::Operator;
use crate::tensor::Dense;

/// The operators of this family.
pub(super) const OPERATORS: &[Operator] = &[
    Operator::dense("NegativeLogLikelihoodLoss", |call| one(likelihood(call, call.input(0)?)?))
        .working(6, 0),
    Operator::dense("SoftmaxCrossEntropyLoss", softmax_cross_entropy_loss).working(8, 0),
];

fn softmax_cross_entropy_loss(call: &Call<'_>) -> Outputs {
    let scores = call.input(0)?;
    if scores.shape().contains(&0) {
        return Err("the scores are missing".into());
    }
    let logs = log_softmax(scores, 1)?;
    all([likelihood(call, &logs)?, logs])
}

/// Returns the weighted negative log likelihood of the labels.
fn likelihood(call: &Call<'_>, logs: &Dense) -> Outcome<Dense> {
    let (target, kind) = (call.input(1)?, logs.dtype());
    let (shape, over) = (logs.shape(), target.shape());
    let [_, classes, ..] = shape.as_slice() else {
        return Err(format!("expected batch and class dims, found {shape:?}").into());
    };
    let limit = long(*classes);
    let ignored = call.maybe_int("ignore_index");
    let mut numbers = target.to_longs()?;
    let mut counts = Vec::with_capacity(numbers.len());
    for number in &mut numbers {
        let is_ignored = Some(*number) == ignored;
        counts.push(if is_ignored { 0.0 } else { 1.0 });
        if is_ignored {
            *number = 0;
        } else if !(0..limit).contains(number) {
            return Err(format!("class {number} is out of range for {limit} classes").into());
        }
    }
    let mut column = over.clone();
    column.insert(1, 1);
    if bounded(&shape)? == 0 || numbers.is_empty() {
        return Err("the batch is empty".into());
    }
    let chosen = logs.gathered_along(1, &numbers, &column)?;
    let mut weights = Dense::numbers(counts, kind, &over)?;
    if let Some(each) = call.optional(2) {
        weights = each.selected(0, &numbers)?.reshaped(over.clone())?.times(&weights)?;
    }
    let losses = chosen.reshaped(over)?.times(&weights)?.scaled(-1.0)?.widened()?;
    let all: Vec<usize> = (0..losses.shape().len()).collect();
    // Whether the sum is divided by the weights, if there is one.
    let reductions = [("mean", Some(true)), ("sum", Some(false)), ("none", None)];
    let loss = match call.choice("reduction", &reductions)? {
        Some(is_mean) => {
            let sum = losses.total(&all)?;
            let sum = if is_mean { sum.over(&weights.widened()?.total(&all)?)? } else { sum };
            sum.reshaped(Vec::new())?
        }
        None => losses,
    };
    loss.cast_to(kind)
}
