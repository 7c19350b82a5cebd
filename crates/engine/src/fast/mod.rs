//! Kernels of operators with constant operands, which are packed when the program is planned.
//!
//! | file | contents |
//! |---|---|
//! | `buffers.rs` | memory for results |
//! | `convolution.rs` | convolutions |
//! | `layout.rs` | tensors whose channels are innermost |
//! | `pool.rs` | pooling |
//! | `product.rs` | products with a packed matrix, in tiles |

mod buffers;
mod convolution;
pub(crate) mod layout;
pub(crate) mod pool;
mod product;

pub(crate) use buffers::{Buffers, Spare};
pub(crate) use convolution::{Affine, Convolution};

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use lodstone_schema::Finding;

use crate::budget::{Budget, Charge};
use crate::item::Outcome;

/// The packed constants of a program, for all its plans.
#[derive(Debug, Default)]
pub(crate) struct Prepared(Mutex<HashMap<Key, Option<Arc<Kept>>>>);

/// What determines a packed constant.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    /// The numbers of the constants, among those of the program.
    pub(crate) constants: Vec<Option<usize>>,
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
