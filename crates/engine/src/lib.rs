//! Plans and runs ONNX programs.
//!
//! An [`Executable`] is a whole model, of any operator version and with any input types. A [`Plan`] is one program for
//! known types: constants folded, element-wise operators in one pass, registers released after their last use. Both run
//! on [`Value`]s. The engine knows no framework: programs of other dialects are lowered to ONNX first.
//!
//! ```
//! use lodstone_engine::{Budget, Context, Executable, ExecutableOptions, Result, Threads, Value};
//! use lodstone_model::Model;
//!
//! fn outputs(model: &Model, image: Value) -> Result<Vec<Value>> {
//!     let (budget, threads) = (Budget::default(), Threads::default());
//!     let context = Context::new(&budget, &threads);
//!     let executable = Executable::new(model, &ExecutableOptions::default(), context)?;
//!     executable.run(vec![("image", image)], context)
//! }
//! ```

#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

mod budget;
mod call;
mod context;
mod control;
mod curves;
mod dims;
mod error;
mod evaluate;
mod executable;
mod fast;
mod fused;
mod gemm;
mod geometry;
mod kernels;
mod layout;
mod narrow;
mod numerics;
mod operator;
mod plan;
mod profile;
mod quantized;
mod simd;
mod tensor;
mod threads;
mod value;

pub use budget::{Budget, Charge};
pub use context::{Context, Steps};
pub use error::{Error, OpError, Result};
pub use evaluate::{Folding, evaluate};
pub use executable::{Executable, ExecutableOptions, Session, State, is_computed, upgraded};
pub use kernels::unsupported;
pub use numerics::{NUMERICS, cpu_level};
pub use plan::{Mode, Plan};
pub use profile::{OperatorTime, Profile};
pub use tensor::Dense;
pub use threads::Threads;
pub use value::{Map, Strings, Value};
