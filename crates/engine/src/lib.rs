//! Plans and runs programs of ONNX's operators.
//!
//! A program becomes a [`Plan`] for the types of its inputs: constants folded, element-wise operators in one pass,
//! registers that are free when nobody reads them again. A plan is run with [`Value`]s. The engine knows no framework:
//! whoever has a program of another dialect lowers it first.

#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

mod budget;
mod dense;
mod fused;
mod item;
mod kernels;
mod memory;
mod numerics;
mod plan;
mod threads;
mod value;

pub use budget::{Budget, Charge};
pub use dense::Dense;
pub use kernels::is_computed;
pub use numerics::{NUMERICS, cpu_level};
pub use plan::{Context, Mode, OpError, Plan, PlanError, Sizes, evaluate};
pub use threads::Threads;
pub use value::{Map, Strings, Value};
