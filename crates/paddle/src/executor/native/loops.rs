//! Operators that run a block, and their gradients.
//!
//! A loop with gradients keeps the values that its block leaves in each iteration: the block's own variables, and the
//! previous values of outer variables that it changes. The gradient operator runs its block for each iteration, the last
//! one first, with these values restored. Gradients of outputs are copied into the block: `original_output_grad` names
//! the inner variables for `Out@GRAD`. The inner gradient of an input, named after the input, is added to `X@GRAD`, or
//! replaces it if the next iteration reads it again.
//!
//! Source of truth: `controlflow/while_op.cc` and `conditional_block_op.cc` of PaddlePaddle 2.6.2.

use std::sync::Arc;

use lodstone_model::{AttributeValue, Kind, Op};
use lodstone_schema::paddle::gradient_of;
use lodstone_schema::{Code, Finding};

use super::sums::{total, zeros_like_value};
use super::{Outcome, Run, flag, input, output};
use crate::executor::frame::Frame;
use crate::executor::layout::{Slot, Step};
use crate::executor::value::{Round, Rounds, Value};

/// The maximum number of iterations of a loop.
const MAX_ROUNDS: u64 = 1 << 32;

pub(super) const OPERATORS: &[(&str, Run)] = &[
    ("conditional_block", conditional_block),
    ("conditional_block_infer", conditional_block),
    ("conditional_block_grad", conditional_gradient),
    ("while", run_while),
    ("while_grad", while_gradient),
];

/// Returns the variable that keeps the values of a block, if gradients need it.
fn left(frame: &Frame<'_>, step: &Step, slot: &str) -> Option<Slot> {
    output(step, slot).ok().filter(|slot| frame.layout.left.contains(slot))
}

/// Keeps the values that a block left.
fn keep(frame: &Frame<'_>, rounds: &mut Rounds, values: Vec<(Slot, Value)>) -> Outcome {
    let members = |value: &Value| match value {
        Value::Array(array) => array.len(),
        _ => 0,
    };
    let count = values.iter().map(|(_, value)| 1 + members(value)).sum::<usize>() + 1;
    let charge = frame.charge((count * size_of::<(Slot, Value)>()) as u64)?;
    rounds.0.push(Arc::new(Round { values, _charge: charge }));
    Ok(())
}

/// Runs the block while the condition is true.
fn run_while(frame: &mut Frame<'_>, step: &Step, op: &Op) -> Outcome {
    let condition = input(step, "Condition")?;
    let left = left(frame, step, "StepScopes").filter(|_| !flag(op, "is_test", false));
    let changed = if left.is_some() { changed(frame, step)? } else { Vec::new() };
    let mut rounds = Rounds::default();
    for _ in 0..MAX_ROUNDS {
        frame.files.check_cancelled()?;
        if !frame.is_true(condition)? {
            if let Some(left) = left {
                frame.set(left, Value::Rounds(rounds))?;
            }
            return Ok(());
        }
        let is_dense =
            |value: &Value| value.tensor().is_ok_and(|tensor| matches!(tensor.kind, Kind::Dense));
        let before = changed.iter().filter_map(|slot| {
            let value = frame.value(*slot).ok().filter(|value| is_dense(value))?;
            Some((*slot, value.clone()))
        });
        let mut values: Vec<(Slot, Value)> = before.collect();
        let own = frame.inner(step)?;
        if left.is_some() {
            values.extend(own);
            keep(frame, &mut rounds, values)?;
        }
    }
    let wrong = format!("the loop exceeds {MAX_ROUNDS} iterations");
    Err(Finding::new(Code::Limit, wrong).into())
}

/// Returns the variables that a loop reads and writes, except those that an operator of its block changes in place, such
/// as a counter: their gradient operators restore them.
fn changed(frame: &Frame<'_>, step: &Step) -> Outcome<Vec<Slot>> {
    let steps = &frame.layout.block_of(step.block.ok_or("the operator has no block")?)?.steps;
    let in_place = |slot: &Slot| {
        steps.iter().any(|step| {
            step.reads().any(|read| read == *slot) && step.writes().any(|written| written == *slot)
        })
    };
    let written = step.outputs("Out");
    let read = step.inputs("X").iter().copied().flatten();
    Ok(read.filter(|slot| written.contains(&Some(*slot)) && !in_place(slot)).collect())
}

/// A gradient outside of a block, and the corresponding variable inside.
struct Link {
    outside: Slot,
    inside: Slot,
    /// The variable that it is the gradient of.
    of: Option<Slot>,
}

/// Returns the gradients of the outputs of a loop, with their names in the gradient block.
fn outputs_grad(frame: &Frame<'_>, step: &Step, op: &Op, block: usize) -> Outcome<Vec<Link>> {
    let names = match op.attribute("original_output_grad") {
        Some(AttributeValue::Strings(names)) => names.iter().map(ToString::to_string).collect(),
        _ => Vec::new(),
    };
    let outside = step.inputs("Out@GRAD");
    if names.len() != outside.len() {
        let (outputs_grad, found) = (names.len(), outside.len());
        return Err(
            format!("expected {outputs_grad} variables as `Out@GRAD`, found {found}").into()
        );
    }
    let link = |(outside, name): (&Option<Slot>, &String)| {
        let inside = frame.layout.slot(block, name)?;
        let of = name.strip_suffix("@GRAD").and_then(|of| frame.layout.slot(block, of));
        Some(Link { outside: (*outside)?, inside, of })
    };
    Ok(outside.iter().zip(&names).filter_map(link).collect())
}

/// Returns the requested gradients of inputs, with their names in the gradient block.
fn inputs_grad(frame: &Frame<'_>, step: &Step, op: &Op, slot: &str, block: usize) -> Vec<Link> {
    let outside = step.outputs(&gradient_of(slot)).iter().copied();
    let link = |((outside, of), name): ((Option<Slot>, &Option<Slot>), &String)| {
        let outside = outside?;
        let inside = frame.layout.slot(block, &gradient_of(name)).unwrap_or(outside);
        Some(Link { outside, inside, of: *of })
    };
    outside.zip(step.inputs(slot)).zip(op.input(slot)).filter_map(link).collect()
}

fn while_gradient(frame: &mut Frame<'_>, step: &Step, op: &Op) -> Outcome {
    let Some(block) = step.block else { return Err("the operator has no block".into()) };
    let rounds = rounds(frame, input(step, "StepScopes")?)?;
    let outputs_grad = outputs_grad(frame, step, op, block)?;
    let inputs_grad = inputs_grad(frame, step, op, "X", block);
    for link in &outputs_grad {
        if frame.value(link.outside).is_err()
            && let Some(zeros) = zeros_for(frame, link)?
        {
            frame.set(link.outside, zeros)?;
        }
    }
    let goes_on =
        |link: &Link| outputs_grad.iter().any(|outputs_grad| outputs_grad.outside == link.outside);
    for link in inputs_grad.iter().filter(|link| !goes_on(link)) {
        if link.inside == link.outside {
            let name = frame.layout.vars.get(link.inside).map_or("", |var| &var.name);
            return Err(format!("the block has no own variable `{name}` to sum").into());
        }
        // The sum starts anew, whatever another loop has left there.
        frame.clear(link.outside)?;
    }
    for round in rounds.0.iter().rev() {
        frame.files.check_cancelled()?;
        let given: Vec<(Slot, Option<Value>)> = outputs_grad
            .iter()
            .map(|link| (link.inside, frame.value(link.outside).ok().cloned()))
            .collect();
        let own = inside(frame, step, round, given)?;
        for link in &inputs_grad {
            let made = own.iter().find(|(slot, _)| *slot == link.inside).map(|(_, value)| value);
            let made = made.or_else(|| frame.value(link.inside).ok()).cloned();
            let Some(made) = made.filter(|_| link.inside != link.outside) else { continue };
            let sum = match frame.value(link.outside) {
                Ok(before) if !goes_on(link) => total(frame, &[before, &made])?,
                _ => made,
            };
            frame.set(link.outside, sum)?;
        }
    }
    put_zeros(frame, &inputs_grad)
}

/// Returns the values that a block left in each iteration.
fn rounds(frame: &Frame<'_>, slot: Slot) -> Outcome<Rounds> {
    match frame.value(slot)? {
        Value::Rounds(rounds) => Ok(rounds.clone()),
        other => Err(format!("expected the state of a block, found {}", other.kind()).into()),
    }
}

/// Runs the gradient block with the values of an iteration restored and the given gradients set; returns the block's own
/// variables.
fn inside(
    frame: &mut Frame<'_>,
    step: &Step,
    round: &Round,
    given: Vec<(Slot, Option<Value>)>,
) -> Outcome<Vec<(Slot, Value)>> {
    let mut before = Vec::with_capacity(round.values.len());
    for (slot, value) in &round.values {
        before.push((*slot, frame.take(*slot)?));
        frame.fill(*slot, value.clone())?;
    }
    for (slot, value) in given {
        match value {
            Some(value) => frame.set(slot, value)?,
            None => frame.clear(slot)?,
        }
    }
    let own = frame.inner(step)?;
    for (slot, value) in before {
        match value {
            Some(value) => frame.fill(slot, value)?,
            None => frame.clear(slot)?,
        }
    }
    Ok(own)
}

/// Returns zeros for a gradient, if its variable has a value.
fn zeros_for(frame: &Frame<'_>, link: &Link) -> Outcome<Option<Value>> {
    let of = link.of.and_then(|of| frame.value(of).ok());
    of.map(|of| zeros_like_value(frame, of)).transpose()
}

/// Sets requested gradients that were not computed to zero.
fn put_zeros(frame: &mut Frame<'_>, inputs_grad: &[Link]) -> Outcome {
    for link in inputs_grad {
        if frame.value(link.outside).is_err()
            && let Some(zeros) = zeros_for(frame, link)?
        {
            frame.set(link.outside, zeros)?;
        }
    }
    Ok(())
}

/// Whether the block runs: the condition is true, or, if it is not a scalar, has elements.
fn runs(frame: &Frame<'_>, step: &Step, op: &Op) -> Outcome<bool> {
    let condition =
        step.inputs("Cond").first().copied().flatten().ok_or("input `Cond` is missing")?;
    let scalar = matches!(op.attribute("is_scalar_condition"), Some(AttributeValue::Bool(true)));
    Ok(match scalar {
        true => frame.is_true(condition)?,
        false => frame.tensor(condition)?.nbytes() > 0,
    })
}

fn conditional_block(frame: &mut Frame<'_>, step: &Step, op: &Op) -> Outcome {
    if !runs(frame, step, op)? {
        return Ok(());
    }
    let own = frame.inner(step)?;
    if let Some(left) = left(frame, step, "Scope") {
        let mut rounds = Rounds::default();
        keep(frame, &mut rounds, own)?;
        frame.set(left, Value::Rounds(rounds))?;
    }
    Ok(())
}

/// Gradients that the block does not compute, or all of them if it did not run, are zero.
fn conditional_gradient(frame: &mut Frame<'_>, step: &Step, op: &Op) -> Outcome {
    let Some(block) = step.block else { return Err("the operator has no block".into()) };
    let inputs_grad = inputs_grad(frame, step, op, "Input", block);
    let own = if runs(frame, step, op)? {
        let rounds = rounds(frame, input(step, "Scope")?)?;
        let round = rounds.0.first().ok_or("the block has left no state")?;
        inside(frame, step, round, Vec::new())?
    } else {
        Vec::new()
    };
    for link in &inputs_grad {
        match own.iter().find(|(slot, _)| *slot == link.inside) {
            Some((_, value)) => frame.set(link.outside, value.clone())?,
            None => frame.clear(link.outside)?,
        }
    }
    put_zeros(frame, &inputs_grad)
}
