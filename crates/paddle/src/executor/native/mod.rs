//! Operators that are native to the executor: those that move values rather than compute them, run blocks, count,
//! draw random numbers, read and write files, go through sequences, or change parameters; those of values that ONNX
//! has not, and gradients that it has no words for.

mod control;
mod extremes;
mod files;
mod grid;
mod halves;
mod loops;
mod optimizers;
mod random;
mod ranks;
mod recurrent;
mod rows;
mod sequences;
mod sums;

pub(crate) use random::Random;
pub use random::{RANDOM_STATE, draws};

use lodstone_model::{AttributeValue, Op};
use lodstone_schema::onnx::infer::ValueInfo;
use lodstone_schema::{Finding, Operand};

use crate::executor::plan::{Slot, Step};
use crate::executor::run::{Failure, Frame};

/// What comes of an operator.
pub(crate) type Outcome<T = ()> = Result<T, Failure>;

/// What an operator does.
pub(crate) type Run = fn(&mut Frame<'_>, &Step, &Op) -> Outcome;

/// What an operator does where it can; it says whether it did.
pub(crate) type TryRun = fn(&mut Frame<'_>, &Step, &Op) -> Outcome<bool>;

/// What computes an operator natively, if anything does.
pub(crate) fn of(kind: &str, op: &Op) -> Option<Run> {
    control::of(kind)
        .or_else(|| files::of(kind))
        .or_else(|| grid::of(kind))
        .or_else(|| halves::of(kind, op))
        .or_else(|| loops::of(kind))
        .or_else(|| optimizers::of(kind))
        .or_else(|| random::of(kind, op))
        .or_else(|| ranks::of(kind))
        .or_else(|| recurrent::of(kind))
        .or_else(|| rows::of(kind, op))
        .or_else(|| sequences::of(kind))
}

/// What computes an operator of anything but tensors with all their elements, of which ONNX's operators compute it.
pub(crate) fn of_others(kind: &str) -> Option<Run> {
    match kind {
        "sum" => Some(sums::sum),
        _ => rows::of_others(kind),
    }
}

/// What computes an operator of elements of which some are no numbers, where ONNX's operators do otherwise.
pub(crate) fn of_odd(kind: &str, op: &Op) -> Option<TryRun> {
    extremes::of(kind, op)
}

/// The variable of an input slot.
fn input(step: &Step, slot: &str) -> Outcome<Slot> {
    let found = step.inputs(slot).first().copied().flatten();
    found.ok_or_else(|| Finding::from(format!("it has no `{slot}`")).about_slot(slot).into())
}

/// The variable of an output slot.
fn output(step: &Step, slot: &str) -> Outcome<Slot> {
    let found = step.outputs(slot).first().copied().flatten();
    found.ok_or_else(|| {
        let wrong = Finding::from(format!("it writes no `{slot}`"));
        wrong.about(Operand::Output(slot.to_owned(), 0)).into()
    })
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
