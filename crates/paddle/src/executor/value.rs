//! What variables hold while a program runs.

use std::sync::Arc;

use lodstone_model::{Kind, Tensor};
use lodstone_schema::Finding;

use crate::executor::layout::Slot;
use lodstone_engine::Charge;

/// The value of a variable.
#[derive(Clone, Debug)]
#[non_exhaustive]
#[expect(clippy::large_enum_variant, reason = "nearly all of them are tensors")]
pub enum Value {
    /// A tensor: dense, with or without LoD, or some rows of one. Its bytes are in memory.
    Tensor(Tensor),
    /// Tensors by number; some may not be there.
    Array(Vec<Option<Tensor>>),
    /// Sequences by their length, longest first: the number of each, and how long it is.
    Ranks(Vec<(usize, usize)>),
    /// What a block left each time that it ran, for its gradients.
    Rounds(Rounds),
}

/// What a block left each time that it ran, in this order.
#[derive(Clone, Debug, Default)]
pub struct Rounds(pub(crate) Vec<Arc<Round>>);

/// What a block left when it had run: variables of its own, and of those around it what they were before.
#[derive(Debug)]
pub(crate) struct Round {
    pub(crate) values: Vec<(Slot, Value)>,
    /// For the list itself; what tensors take they are charged by themselves.
    pub(crate) _charge: Charge,
}

impl Value {
    /// What it is, in words.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Tensor(tensor) => match tensor.kind {
                Kind::Dense => "a tensor",
                Kind::SelectedRows { .. } => "rows of a tensor",
                _ => "a tensor of another kind",
            },
            Self::Array(_) => "an array of tensors",
            Self::Ranks(_) => "a table of sequences by length",
            Self::Rounds(_) => "what a block left",
        }
    }

    /// The tensor that it is.
    ///
    /// # Errors
    /// What it is instead.
    pub fn tensor(&self) -> Result<&Tensor, Finding> {
        match self {
            Self::Tensor(tensor) => Ok(tensor),
            other => Err(format!("expected a tensor, found {}", other.kind()).into()),
        }
    }
}
