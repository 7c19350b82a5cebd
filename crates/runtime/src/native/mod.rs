//! Operators that the runtime has itself: those that move values rather than compute them, run blocks, count,
//! draw random numbers, read and write files, or change parameters.

mod control;
mod files;
mod optimizers;
mod random;
mod ranks;
mod recurrent;
mod sequences;

pub(crate) use random::Random;

use lodstone_model::{AttributeValue, Op};
use lodstone_schema::onnx::infer::ValueInfo;

use crate::plan::{Slot, Step};
use crate::run::{Failure, Frame};

/// What comes of an operator.
pub(crate) type Outcome<T = ()> = Result<T, Failure>;

/// What an operator does.
pub(crate) type Run = fn(&mut Frame<'_>, &Step, &Op) -> Outcome;

/// What computes an operator natively, if anything does.
pub(crate) fn of(kind: &str, op: &Op) -> Option<Run> {
    control::of(kind)
        .or_else(|| files::of(kind))
        .or_else(|| optimizers::of(kind))
        .or_else(|| random::of(kind, op))
        .or_else(|| ranks::of(kind))
        .or_else(|| recurrent::of(kind))
        .or_else(|| sequences::of(kind))
}

/// The variable of an input slot.
fn input(step: &Step, slot: &str) -> Outcome<Slot> {
    let found = step.inputs(slot).first().copied().flatten();
    found.ok_or_else(|| Failure::Here(format!("it has no `{slot}`")))
}

/// The variable of an output slot.
fn output(step: &Step, slot: &str) -> Outcome<Slot> {
    let found = step.outputs(slot).first().copied().flatten();
    found.ok_or_else(|| Failure::Here(format!("it writes no `{slot}`")))
}

/// The integer that a variable of one element is.
fn long(frame: &Frame<'_>, slot: Slot) -> Outcome<i64> {
    match ValueInfo::of(frame.tensor(slot)?).ints().as_deref() {
        Some([number]) => Ok(*number),
        _ => Err("expected one integer".into()),
    }
}

/// An attribute that is a truth value, or what it is otherwise.
fn flag(op: &Op, name: &str, otherwise: bool) -> bool {
    match op.attribute(name) {
        Some(AttributeValue::Bool(value)) => *value,
        _ => otherwise,
    }
}
