//! Evaluation of single operators: kernels on values.

use std::panic::{AssertUnwindSafe, catch_unwind};

use lodstone_model::{Op, Tensor};
use lodstone_schema::Finding;
use lodstone_schema::onnx::simplify::Evaluator;

use crate::budget::Memory;
use crate::context::Context;
use crate::error::Outcome;
use crate::kernels::operator;
use crate::operator::BoundKernel;
use crate::threads::Threads;
use crate::value::Value;

/// Evaluates one operator of the newest ONNX opset. Its inputs are not checked by the shape inference of the operator.
///
/// # Errors
/// If the operator has no kernel, or the kernel fails.
pub fn evaluate(op: &Op, inputs: &[Option<Value>], threads: &Threads) -> Outcome<Vec<Value>> {
    evaluate_in(op, inputs, threads, Memory::default())
}

fn evaluate_in(
    op: &Op,
    inputs: &[Option<Value>],
    threads: &Threads,
    memory: Memory<'_>,
) -> Outcome<Vec<Value>> {
    let operator = operator(&op.domain, &op.kind);
    let operator = operator.ok_or_else(|| format!("operator `{}` is not supported", op.kind))?;
    let inputs: Vec<Option<&Value>> = inputs.iter().map(Option::as_ref).collect();
    let sizes = inputs.iter().flatten().map(|value| value.nbytes());
    let touched = sizes.fold(0, u64::saturating_add);
    compute(operator.bind(op, &inputs, memory)?, touched, threads)
}

/// Runs a kernel that touches this many bytes.
pub(crate) fn compute(
    kernel: BoundKernel<'_>,
    bytes: u64,
    threads: &Threads,
) -> Outcome<Vec<Value>> {
    let bytes = if kernel.is_threaded { u64::MAX } else { bytes };
    threads.run_if(bytes, || guarded(|| kernel.run()))?
}

/// Runs a kernel; a panic becomes an internal error.
pub(crate) fn guarded<T>(work: impl FnOnce() -> Outcome<T>) -> Outcome<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(Finding::of_panic(&*panic)))
}

/// A constant folder that uses the kernels of the engine.
#[derive(Clone, Copy, Debug)]
pub struct Folding<'a>(pub &'a Threads);

impl Evaluator for Folding<'_> {
    fn evaluate(&self, op: &Op, inputs: &[Option<&Tensor>]) -> Option<Vec<Tensor>> {
        folded(op, inputs, self.0, Memory::default())
    }
}

/// A constant folder within the budget of a run. Operators that exceed it fail when they run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Planning<'a>(pub(crate) Context<'a>);

impl Evaluator for Planning<'_> {
    fn evaluate(&self, op: &Op, inputs: &[Option<&Tensor>]) -> Option<Vec<Tensor>> {
        folded(op, inputs, self.0.threads, Memory(Some(self.0.budget)))
    }
}

fn folded(
    op: &Op,
    inputs: &[Option<&Tensor>],
    threads: &Threads,
    memory: Memory<'_>,
) -> Option<Vec<Tensor>> {
    let value = |tensor: &Option<&Tensor>| tensor.map(Value::of).transpose();
    let inputs = inputs.iter().map(value).collect::<Outcome<Vec<_>>>().ok()?;
    let made = evaluate_in(op, &inputs, threads, memory).ok()?;
    made.iter().map(Value::tensor).collect::<Outcome<_>>().ok()
}
