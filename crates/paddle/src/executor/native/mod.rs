//! Operators that are native to the executor: those that move values rather than compute them, run blocks, count,
//! draw random numbers, read and write files, process sequences, or update parameters; also operators on values that ONNX
//! does not have, and gradients without an ONNX equivalent.

mod boxes;
mod branches;
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

use lodstone_engine::{Threads, Value, evaluate};
use lodstone_model::{AttributeValue, DType, Op, Tensor};
use lodstone_schema::onnx::infer::ValueInfo;
use lodstone_schema::{Finding, Operand};
use lodstone_store::Blob;

use crate::executor::error::Outcome;
use crate::executor::frame::Frame;
use crate::executor::layout::{Slot, Step};

/// The native function of an operator.
pub(crate) type Run = fn(&mut Frame<'_>, &Step, &Op) -> Outcome;

/// Families of functions, each a file.
const FAMILIES: &[&[(&str, Run)]] = &[
    boxes::OPERATORS,
    branches::OPERATORS,
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

/// Returns the native function of a kind of operator.
///
/// # Errors
/// An internal error if there is none: the rows of the schema declare which operators have one.
pub(crate) fn function(kind: &str) -> Result<Run, Finding> {
    let function = FUNCTIONS.get(kind).copied();
    function.ok_or_else(|| Finding::internal(format!("`{kind}` has no native function")))
}

/// Returns the only result of an ONNX operator.
fn evaluated(op: &Op, inputs: &[Option<Value>], threads: &Threads) -> Outcome<Tensor> {
    match evaluate(op, inputs, threads)?.as_slice() {
        [made] => Ok(made.tensor()?),
        _ => Err(Finding::internal(format!("`{}` has more than one result", op.kind)).into()),
    }
}

/// Returns the variable of an input slot.
fn input(step: &Step, slot: &str) -> Outcome<Slot> {
    let found = step.inputs(slot).first().copied().flatten();
    found.ok_or_else(|| Finding::from(format!("input `{slot}` is missing")).about_slot(slot).into())
}

/// Returns the variable of an output slot.
fn output(step: &Step, slot: &str) -> Outcome<Slot> {
    let found = step.outputs(slot).first().copied().flatten();
    found.ok_or_else(|| {
        let wrong = Finding::from(format!("output `{slot}` is missing"));
        wrong.about(Operand::Output(slot.to_owned(), 0)).into()
    })
}

/// Sets the variable of an output slot, if the operator has one.
fn put(frame: &mut Frame<'_>, step: &Step, slot: &str, tensor: Tensor) -> Outcome {
    match output(step, slot) {
        Ok(out) => Ok(frame.make(out, tensor)?),
        Err(_) => Ok(()),
    }
}

/// Creates a tensor of float32, or of float64 for any other type.
fn rounded(values: &[f64], dtype: DType, shape: Vec<u64>) -> Tensor {
    let (dtype, bytes): (_, Vec<u8>) = match dtype {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "rounding to the requested type is intended"
        )]
        DType::Float32 => {
            (dtype, values.iter().flat_map(|value| (*value as f32).to_le_bytes()).collect())
        }
        _ => (DType::Float64, values.iter().flat_map(|value| value.to_le_bytes()).collect()),
    };
    Tensor::dense(dtype, shape, Blob::memory(bytes))
}

/// Returns the integer in a variable of one element.
fn long(frame: &Frame<'_>, slot: Slot) -> Outcome<i64> {
    match ValueInfo::of(frame.tensor(slot)?).ints().as_deref() {
        Some([number]) => Ok(*number),
        _ => Err("expected a single integer".into()),
    }
}

/// Returns the Boolean attribute `name`, or the default.
fn flag(op: &Op, name: &str, default: bool) -> bool {
    match op.attribute(name) {
        Some(AttributeValue::Bool(value)) => *value,
        _ => default,
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
