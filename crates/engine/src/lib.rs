//! Plans and runs programs of ONNX's operators.
//!
//! A program becomes a [`Plan`] for the types of its inputs: constants folded, element-wise operators in one pass,
//! registers released after their last use. A plan runs on [`Value`]s. The engine knows no framework: programs of other
//! dialects are lowered to ONNX first.

#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

mod budget;
mod context;
mod control;
mod dense;
mod error;
mod evaluate;
mod executable;
mod fused;
mod item;
mod kernels;
mod memory;
mod numerics;
mod plan;
mod threads;
mod value;

pub use budget::{Budget, Charge};
pub use context::{Context, Steps};
pub use dense::Dense;
pub use error::{Error, OpError, Result};
pub use evaluate::{Folding, evaluate};
pub use executable::{Executable, ExecutableOptions, Session, State};
pub use kernels::is_computed;
pub use numerics::{NUMERICS, cpu_level};
pub use plan::{Mode, Plan};
pub use threads::Threads;
pub use value::{Map, Strings, Value};
