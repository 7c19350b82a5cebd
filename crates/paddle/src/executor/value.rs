//! The values of variables while a program runs.

use std::sync::Arc;

use lodstone_engine::Charge;
use lodstone_model::{Kind, Tensor};
use lodstone_schema::Finding;

use crate::executor::layout::Slot;

/// Returns the number of rows of a tensor.
pub(crate) fn rows(tensor: &Tensor) -> u64 {
    // A scalar has none.
    tensor.shape.first().copied().unwrap_or(0)
}

/// The value of a variable.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Value {
    /// A tensor: dense, with or without LoD, or selected rows. Its bytes are in memory.
    Tensor(Tensor),
    /// An array of tensors; some may be absent.
    Array(Vec<Option<Tensor>>),
    /// Sequences by length, longest first: the index and the length of each.
    Ranks(Vec<(usize, usize)>),
    /// The values that a block left in each iteration, for its gradients.
    Rounds(Rounds),
}

/// The values that a block left in each iteration, in order.
#[derive(Clone, Debug, Default)]
pub struct Rounds(pub(crate) Vec<Arc<Round>>);

/// The values that a block left in an iteration: its own variables, and the previous values of outer ones.
#[derive(Debug)]
pub(crate) struct Round {
    pub(crate) values: Vec<(Slot, Value)>,
    /// The charge of the list itself; tensors have their own.
    pub(crate) _charge: Charge,
}

impl Value {
    /// Returns the kind of the value, for messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Tensor(tensor) => match tensor.kind {
                Kind::Dense => "a tensor",
                Kind::SelectedRows { .. } => "selected rows",
                _ => "a tensor of another kind",
            },
            Self::Array(_) => "an array of tensors",
            Self::Ranks(_) => "a rank table",
            Self::Rounds(_) => "the state of a block",
        }
    }

    /// Returns the tensor.
    ///
    /// # Errors
    /// If the value is not a tensor; the finding has its kind.
    pub fn tensor(&self) -> Result<&Tensor, Finding> {
        match self {
            Self::Tensor(tensor) => Ok(tensor),
            other => Err(format!("expected a tensor, found {}", other.kind()).into()),
        }
    }
}
