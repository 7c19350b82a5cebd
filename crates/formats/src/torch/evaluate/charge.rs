//! Memory that the evaluation of code takes, so that a small file cannot exhaust it.
//!
//! Estimates of what values, operators and copies of the state take are charged to a [`Budget`], which the methods of an
//! archive share. What a branch or a loop only keeps meanwhile is returned.

use std::cell::Cell;
use std::mem::{size_of, size_of_val};

use lodstone_model::{AttributeValue, Op, Operand, Var};

use super::evaluator::{Evaluator, Outcome};
use super::value::{Scope, Value};

/// The memory for evaluations.
#[derive(Debug)]
pub(crate) struct Budget {
    all: u64,
    left: Cell<u64>,
}

impl Budget {
    /// Memory for any code.
    const LEAST: u64 = 32 << 20;

    /// Memory for each byte of code: an operator takes some hundred bytes, and its call some tens in the code.
    const PER_BYTE: u64 = 64;

    /// Returns the budget for code of this size in bytes.
    pub(crate) fn of(code: usize) -> Self {
        let all = (code as u64).saturating_mul(Self::PER_BYTE).saturating_add(Self::LEAST);
        Self { all, left: Cell::new(all) }
    }

    pub(super) fn left(&self) -> u64 {
        self.left.get()
    }

    /// Returns what an evaluation took that failed.
    pub(super) fn restore(&self, left: u64) {
        self.left.set(left);
    }
}

/// The size of a value in a structure, with its place there.
const VALUE: u64 = 2 * size_of::<Value>() as u64;

impl Evaluator<'_> {
    /// Charges memory.
    pub(super) fn charge(&self, bytes: u64) -> Outcome<()> {
        let budget = &self.code.budget;
        let Some(left) = budget.left.get().checked_sub(bytes) else {
            let limit = budget.all >> 20;
            return Err(self.failure(format!("evaluating the code takes more than {limit} MiB")));
        };
        budget.left.set(left);
        Ok(())
    }

    /// Charges elements of structures.
    pub(super) fn charge_values(&self, count: usize) -> Outcome<()> {
        self.charge(VALUE.saturating_mul(count as u64))
    }

    /// Charges variables that an operator declares.
    pub(super) fn charge_results(&self, count: usize) -> Outcome<()> {
        let each = VALUE + (size_of::<Var>() + 2 * size_of::<String>()) as u64;
        self.charge(each.saturating_mul(count as u64))
    }

    /// Charges a text, and returns it.
    pub(super) fn text(&self, parts: &[&str]) -> Outcome {
        let len: u64 = parts.iter().map(|part| part.len() as u64).sum();
        self.charge(VALUE + len)?;
        Ok(Value::text(&parts.concat()))
    }

    /// Charges an operator that is added to the program.
    pub(super) fn charge_op(&self, op: &Op) -> Outcome<()> {
        let operands = |operands: &[Operand]| -> u64 {
            let each = |operand: &Operand| {
                let args = operand.args.iter().map(|arg| (size_of::<String>() + arg.len()) as u64);
                (size_of::<Operand>() + operand.slot.len()) as u64 + args.sum::<u64>()
            };
            operands.iter().map(each).sum()
        };
        let attributes = op.attributes.iter().map(|it| it.name.len() as u64 + weight(&it.value));
        let texts = op.kind.len() + op.name.len() + op.overload.len() + self.module.len();
        let own = (size_of::<Op>() + texts) as u64;
        self.charge(own + operands(&op.inputs) + operands(&op.outputs) + attributes.sum::<u64>())
    }

    /// Runs a part that keeps copies of the state, whose memory is charged meanwhile.
    pub(super) fn keeping<T>(
        &mut self,
        scope: &mut Scope,
        part: impl FnOnce(&mut Self, &mut Scope) -> Outcome<T>,
    ) -> Outcome<T> {
        /// The state before, and after each of two branches.
        const COPIES: u64 = 3;
        let values = self.elements + self.heap.len() + self.set.len() + scope.len();
        let bytes = COPIES * VALUE * values as u64;
        self.charge(bytes)?;
        let result = part(self, scope);
        let left = &self.code.budget.left;
        left.set(left.get() + bytes);
        result
    }
}

/// The memory of an attribute beside its value: of the lists that operators of the code have.
fn weight(value: &AttributeValue) -> u64 {
    size_of::<AttributeValue>() as u64
        + match value {
            AttributeValue::String(text) => text.0.len() as u64,
            AttributeValue::Bools(values) => values.len() as u64,
            AttributeValue::Longs(values) => size_of_val(values.as_slice()) as u64,
            AttributeValue::Doubles(values) => size_of_val(values.as_slice()) as u64,
            _ => 0,
        }
}
