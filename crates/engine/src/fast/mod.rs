//! Kernels of operators with constant operands, which are packed when the program is planned.
//!
//! | file | contents |
//! |---|---|
//! | `arrange.rs` | images that are enlarged or joined |
//! | `buffers.rs` | memory for results |
//! | `convolution.rs` | convolutions |
//! | `layout.rs` | tensors whose channels are innermost |
//! | `pool.rs` | pooling |
//! | `product.rs` | products with a packed matrix, in tiles |
//! | `transposed.rs` | transposed convolutions |

mod arrange;
mod buffers;
mod convolution;
pub(crate) mod layout;
mod pool;
mod product;
mod transposed;

pub(crate) use buffers::{Buffers, Spare};
pub(crate) use convolution::{Affine, Convolution, is_transposed};

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use lodstone_model::Op;
use lodstone_schema::Finding;

use crate::budget::{Budget, Charge};
use crate::dense::Dense;
use crate::item::Outcome;
use crate::value::Value;

/// A kernel for images whose channels are innermost; it returns `None` for any other input.
pub(crate) type Images = fn(&Op, &[Option<&Value>], &Buffers) -> Outcome<Option<Dense>>;

/// Returns the kernel of an operator for images whose channels are innermost.
pub(crate) fn images(op: &Op) -> Option<Images> {
    if !matches!(op.domain.as_str(), "" | "ai.onnx") || op.writes().count() != 1 {
        return None;
    }
    match op.kind.as_str() {
        "AveragePool" | "GlobalAveragePool" | "MaxPool" => Some(pool::pool),
        "Concat" => Some(arrange::concat),
        "Resize" => Some(arrange::resize),
        _ => None,
    }
}

/// The packed constants of a program, for all its plans.
#[derive(Debug, Default)]
pub(crate) struct Prepared(Mutex<HashMap<Key, Option<Arc<Kept>>>>);

/// What determines a packed constant.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    /// The numbers of the constants, among those of the program.
    pub(crate) constants: Vec<Option<usize>>,
    /// Whether it is the filter of a transposed convolution.
    pub(crate) is_transposed: bool,
    /// The number of groups of a convolution.
    pub(crate) groups: i64,
    /// The bits of the epsilon of its normalization, if it has one.
    pub(crate) epsilon: Option<u32>,
}

/// A packed constant, whose size is charged while it exists.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) convolution: Convolution,
    _charge: Charge,
}

impl Prepared {
    /// Returns what was packed for a key, or packs it. Without a key, it is for one plan alone.
    ///
    /// # Errors
    /// If it does not fit into the budget: other kernels would give other bits.
    pub(crate) fn get(
        &self,
        key: Option<Key>,
        make: impl FnOnce() -> Outcome<Option<Convolution>>,
        budget: &Budget,
    ) -> Outcome<Option<Arc<Kept>>> {
        let kept = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = key.as_ref().and_then(|key| kept().get(key).cloned()) {
            return Ok(known);
        }
        let made = make()?.map(|convolution| {
            let charge = budget.reserve(convolution.nbytes())?;
            Ok::<_, Finding>(Arc::new(Kept { convolution, _charge: charge }))
        });
        let made = made.transpose()?;
        if let Some(key) = key {
            kept().insert(key, made.clone());
        }
        Ok(made)
    }
}
