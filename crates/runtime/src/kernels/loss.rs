//! Losses of classes.

use burn_backend::Backend;

use super::tensor::{bounded, long};
use super::{Call, Run};
use crate::item::{Item, Outcome};

pub(super) fn kernel<B: Backend>(kind: &str) -> Option<Run<B>> {
    Some(match kind {
        "NegativeLogLikelihoodLoss" => |call| Ok(vec![likelihood(call, call.input(0)?)?]),
        "SoftmaxCrossEntropyLoss" => |call| {
            let scores = call.input(0)?;
            if scores.shape().contains(&0) {
                return Err("there are no scores".into());
            }
            let logs = scores.widened()?.map(|scores| B::log_softmax(scores, 1))?;
            let logs = logs.cast(scores.kind()?)?;
            Ok(vec![likelihood(call, &logs)?, logs])
        },
        _ => return None,
    })
}

/// Minus the logarithms of the classes that are right, each by its weight.
fn likelihood<B: Backend>(call: &Call<'_, B>, logs: &Item<B>) -> Outcome<Item<B>> {
    let (target, kind) = (call.input(1)?, logs.kind()?);
    let (shape, over) = (logs.shape(), target.shape());
    let [_, classes, ..] = shape.as_slice() else {
        return Err(format!("expected examples and classes, found {shape:?}").into());
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
            return Err(format!("expected one of {limit} classes, found {number}").into());
        }
    }
    let mut column = over.clone();
    column.insert(1, 1);
    if bounded(&shape)? == 0 || numbers.is_empty() {
        return Err("there are no examples".into());
    }
    let places = Item::<B>::longs(&numbers).reshaped(column);
    let chosen = logs.clone().gathered(1, places.int()?)?;
    let mut weights = Item::numbers(counts, kind, &over)?;
    if let Some(each) = call.optional(2) {
        weights = each.clone().selected(0, &numbers)?.reshaped(over.clone()).times(&weights)?;
    }
    let losses = chosen.reshaped(over).times(&weights)?.scaled(-1.0)?.widened()?;
    let all: Vec<usize> = (0..losses.shape().len()).collect();
    let loss = match call.text("reduction").as_deref() {
        Some("none") => losses,
        Some("sum") => losses.total(&all)?.reshaped(Vec::new()),
        _ => {
            let sum = losses.total(&all)?;
            sum.over(&weights.widened()?.total(&all)?)?.reshaped(Vec::new())
        }
    };
    loss.cast(kind)
}
