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

pub use random::draws;

use std::collections::HashMap;
use std::sync::LazyLock;

use lodstone_model::{AttributeValue, Op};
use lodstone_schema::onnx::infer::ValueInfo;
use lodstone_schema::{Finding, Operand};

use crate::executor::error::Outcome;
use crate::executor::frame::Frame;
use crate::executor::layout::{Slot, Step};

/// What an operator does.
pub(crate) type Run = fn(&mut Frame<'_>, &Step, &Op) -> Outcome;

/// Families of functions, each a file.
const FAMILIES: &[&[(&str, Run)]] = &[
    control::OPERATORS,
    extremes::OPERATORS,
    files::OPERATORS,
    grid::OPERATORS,
    halves::OPERATORS,
    loops::OPERATORS,
    optimizers::OPERATORS,
    random::OPERATORS,
    ranks::OPERATORS,
    recurrent::OPERATORS,
    rows::OPERATORS,
    sequences::OPERATORS,
    sums::OPERATORS,
];

static FUNCTIONS: LazyLock<HashMap<&str, Run>> =
    LazyLock::new(|| FAMILIES.iter().flat_map(|family| family.iter().copied()).collect());

/// The native function of a kind of operator.
///
/// # Errors
/// If there is none, which is a defect: the rows of the schema declare which operators have one.
pub(crate) fn function(kind: &str) -> Result<Run, Finding> {
    let function = FUNCTIONS.get(kind).copied();
    function.ok_or_else(|| Finding::internal(format!("`{kind}` has no native function")))
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use lodstone_schema::paddle::operators;

    use super::*;

    #[test]
    fn there_is_one_function_for_each_row_that_declares_one() {
        let functions: Vec<&str> =
            FAMILIES.iter().copied().flatten().map(|(kind, _)| *kind).collect();
        let declared = operators().filter(|row| row.computation.is_native()).map(|row| row.kind);
        let declared: BTreeSet<&str> = declared.collect();
        assert_eq!(functions.iter().copied().collect::<BTreeSet<_>>(), declared);
        assert_eq!(functions.len(), declared.len(), "an operator has two functions");
    }
}
