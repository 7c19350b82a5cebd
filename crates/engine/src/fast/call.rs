//! Fast kernels, and what they read.

use lodstone_model::Op;
use lodstone_schema::Finding;

use crate::budget::Budget;
use crate::call::Call;
use crate::error::Outcome;
use crate::gemm::Buffers;
use crate::layout::{Floats, ordered};
use crate::tensor::{Dense, Order};
use crate::value::Value;

/// A kernel for some inputs, in place of the one for all.
#[derive(Clone, Copy)]
pub(crate) struct FastKernel {
    /// Returns whether inputs may be such, without any work.
    pub(crate) accepts: fn(&[Option<&Value>]) -> bool,
    /// Returns the results, or `None` if the kernel for all must run.
    pub(crate) run: fn(&FastCall<'_>) -> Outcome<Option<Vec<Dense>>>,
    /// The number of results.
    pub(crate) outputs: usize,
}

impl FastKernel {
    pub(super) const fn new(
        accepts: fn(&[Option<&Value>]) -> bool,
        run: fn(&FastCall<'_>) -> Outcome<Option<Vec<Dense>>>,
    ) -> Self {
        Self { accepts, run, outputs: 1 }
    }

    pub(super) const fn with_outputs(self, outputs: usize) -> Self {
        Self { outputs, ..self }
    }
}

/// An operator and its inputs.
pub(crate) struct FastCall<'a> {
    pub(crate) op: &'a Op,
    pub(crate) inputs: &'a [Option<&'a Value>],
    pub(crate) buffers: &'a Buffers,
    pub(crate) budget: &'a Budget,
}

impl<'a> FastCall<'a> {
    /// Returns an input, unless it is omitted.
    pub(super) fn input(&self, number: usize) -> Option<&'a Value> {
        self.inputs.get(number).copied().flatten()
    }

    /// Returns the operator without inputs, to read its attributes.
    pub(super) fn attributes(&self) -> Outcome<Call<'a>> {
        Call::new(self.op, &[])
    }
}

/// Returns the results of an operator that has one.
pub(super) fn one(result: Dense) -> Option<Vec<Dense>> {
    Some(vec![result])
}

/// The tensors and limits of an epilogue, which is applied to results before they are in memory.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct EpilogueArguments<'a> {
    /// A tensor that is added to them.
    pub(crate) added: Option<&'a Dense>,
    /// Their minimum and maximum.
    pub(crate) limits: Option<[f32; 2]>,
}

impl EpilogueArguments<'_> {
    /// Returns the elements that are added to results of the given dims.
    pub(super) fn added(&self, order: Order, dims: &[usize]) -> Outcome<Option<Floats>> {
        match self.added {
            Some(added) if added.dims() != dims => {
                Err(Finding::internal("a result and what is added to it have different dims"))
            }
            added => added.map(|added| ordered(added, order)).transpose(),
        }
    }
}
