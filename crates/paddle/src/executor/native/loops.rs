//! Operators that run a block, and their gradients.
//!
//! A loop that has gradients keeps what its block leaves in each round: variables of the block's own, and of those
//! around it that it changes what they were before. The gradients run a block of theirs as often, in the last round
//! first, where all of this is there again. What they count is told from outside to inside by `original_output_grad`,
//! which names the variables of the inner block for `Out@GRAD`; what comes of a round for `X` is called as the gradient
//! of that, and added up for `X@GRAD` — or takes its place where it is told to the next round again.
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

/// Most times that a loop goes round.
const MOST_ROUNDS: u64 = 1 << 32;

pub(super) const OPERATORS: &[(&str, Run)] = &[
    ("conditional_block", conditional_block),
    ("conditional_block_infer", conditional_block),
    ("conditional_block_grad", conditional_gradient),
    ("while", run_while),
    ("while_grad", while_gradient),
];

/// The variable that keeps what a block leaves, if that is asked for.
fn left(frame: &Frame<'_>, step: &Step, slot: &str) -> Option<Slot> {
    output(step, slot).ok().filter(|slot| frame.layout.left.contains(slot))
}

/// Keeps what a block left.
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

/// Runs the block as long as the condition is true.
fn run_while(frame: &mut Frame<'_>, step: &Step, op: &Op) -> Outcome {
    let condition = input(step, "Condition")?;
    let left = left(frame, step, "StepScopes").filter(|_| !flag(op, "is_test", false));
    let changed = if left.is_some() { changed(frame, step)? } else { Vec::new() };
    let mut rounds = Rounds::default();
    for _ in 0..MOST_ROUNDS {
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
    let wrong = format!("it goes round more than {MOST_ROUNDS} times");
    Err(Finding::new(Code::Limit, wrong).into())
}

/// What a loop reads and writes, without what an operator of its block changes in place: that is changed back by its
/// gradient, as a counter is.
fn changed(frame: &Frame<'_>, step: &Step) -> Outcome<Vec<Slot>> {
    let steps = &frame.layout.block_of(step.block.ok_or("it has no block")?)?.steps;
    let in_place = |slot: &Slot| {
        steps.iter().any(|step| {
            step.reads().any(|read| read == *slot) && step.writes().any(|written| written == *slot)
        })
    };
    let written = step.outputs("Out");
    let read = step.inputs("X").iter().copied().flatten();
    Ok(read.filter(|slot| written.contains(&Some(*slot)) && !in_place(slot)).collect())
}

/// A gradient outside of a block, and the variable that it is inside.
struct Link {
    outside: Slot,
    inside: Slot,
    /// What it is the gradient of.
    of: Option<Slot>,
}

/// The gradients of what a loop gave, as its inner block calls them.
fn told(frame: &Frame<'_>, step: &Step, op: &Op, block: usize) -> Outcome<Vec<Link>> {
    let names = match op.attribute("original_output_grad") {
        Some(AttributeValue::Strings(names)) => names.iter().map(ToString::to_string).collect(),
        _ => Vec::new(),
    };
    let outside = step.inputs("Out@GRAD");
    if names.len() != outside.len() {
        let (told, found) = (names.len(), outside.len());
        return Err(format!("expected {told} variables as `Out@GRAD`, found {found}").into());
    }
    let link = |(outside, name): (&Option<Slot>, &String)| {
        let inside = frame.layout.slot(block, name)?;
        let of = name.strip_suffix("@GRAD").and_then(|of| frame.layout.slot(block, of));
        Some(Link { outside: (*outside)?, inside, of })
    };
    Ok(outside.iter().zip(&names).filter_map(link).collect())
}

/// The gradients that are asked for of what an operator read, as its inner block calls them.
fn asked(frame: &Frame<'_>, step: &Step, op: &Op, slot: &str, block: usize) -> Vec<Link> {
    let outside = step.outputs(&gradient_of(slot)).iter().copied();
    let link = |((outside, of), name): ((Option<Slot>, &Option<Slot>), &String)| {
        let outside = outside?;
        let inside = frame.layout.slot(block, &gradient_of(name)).unwrap_or(outside);
        Some(Link { outside, inside, of: *of })
    };
    outside.zip(step.inputs(slot)).zip(op.input(slot)).filter_map(link).collect()
}

fn while_gradient(frame: &mut Frame<'_>, step: &Step, op: &Op) -> Outcome {
    let Some(block) = step.block else { return Err("it has no block".into()) };
    let rounds = rounds(frame, input(step, "StepScopes")?)?;
    let told = told(frame, step, op, block)?;
    let asked = asked(frame, step, op, "X", block);
    for link in &told {
        if frame.value(link.outside).is_err()
            && let Some(zeros) = zeros_for(frame, link)?
        {
            frame.set(link.outside, zeros)?;
        }
    }
    let goes_on = |link: &Link| told.iter().any(|told| told.outside == link.outside);
    for link in asked.iter().filter(|link| !goes_on(link)) {
        if link.inside == link.outside {
            let name = frame.layout.vars.get(link.inside).map_or("", |var| &var.name);
            return Err(format!("its block has no `{name}` of its own to add up").into());
        }
        // What is added up begins anew, whatever another loop has left there.
        frame.clear(link.outside)?;
    }
    for round in rounds.0.iter().rev() {
        frame.files.check_cancelled()?;
        let given: Vec<(Slot, Option<Value>)> = told
            .iter()
            .map(|link| (link.inside, frame.value(link.outside).ok().cloned()))
            .collect();
        let own = inside(frame, step, round, given)?;
        for link in &asked {
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
    put_zeros(frame, &asked)
}

/// What a block left each time that it ran.
fn rounds(frame: &Frame<'_>, slot: Slot) -> Outcome<Rounds> {
    match frame.value(slot)? {
        Value::Rounds(rounds) => Ok(rounds.clone()),
        other => Err(format!("expected what a block left, found {}", other.kind()).into()),
    }
}

/// Runs the block of a gradient where what a round left is there again, and what it is given; gives the variables of
/// its own.
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

/// Zeros for a gradient, if what it is of is there.
fn zeros_for(frame: &Frame<'_>, link: &Link) -> Outcome<Option<Value>> {
    let of = link.of.and_then(|of| frame.value(of).ok());
    of.map(|of| zeros_like_value(frame, of)).transpose()
}

/// What nothing came of counts nothing.
fn put_zeros(frame: &mut Frame<'_>, asked: &[Link]) -> Outcome {
    for link in asked {
        if frame.value(link.outside).is_err()
            && let Some(zeros) = zeros_for(frame, link)?
        {
            frame.set(link.outside, zeros)?;
        }
    }
    Ok(())
}

/// If the condition is true; without a scalar one, if there are elements at all.
fn runs(frame: &Frame<'_>, step: &Step, op: &Op) -> Outcome<bool> {
    let condition = step.inputs("Cond").first().copied().flatten().ok_or("it has no `Cond`")?;
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

/// What the block has no gradient of its own of, or did not run for, counts nothing.
fn conditional_gradient(frame: &mut Frame<'_>, step: &Step, op: &Op) -> Outcome {
    let Some(block) = step.block else { return Err("it has no block".into()) };
    let asked = asked(frame, step, op, "Input", block);
    let own = if runs(frame, step, op)? {
        let rounds = rounds(frame, input(step, "Scope")?)?;
        let round = rounds.0.first().ok_or("its block has left nothing")?;
        inside(frame, step, round, Vec::new())?
    } else {
        Vec::new()
    };
    for link in &asked {
        match own.iter().find(|(slot, _)| *slot == link.inside) {
            Some((_, value)) => frame.set(link.outside, value.clone())?,
            None => frame.clear(link.outside)?,
        }
    }
    put_zeros(frame, &asked)
}
