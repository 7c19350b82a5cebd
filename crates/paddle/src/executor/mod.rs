//! Runs PaddlePaddle programs: a scope of variables, and an executor.
//!
//! A program is a sequence of operators. Those that compute are lowered to ONNX's operators
//! (`lodstone-lowering`), which the engine (`lodstone-engine`) plans and runs; those that move values, run blocks, draw
//! random numbers, read or write files, or update parameters are native to the executor.

mod error;
mod files;
mod finite;
mod frame;
mod indices;
mod layout;
mod lowered;
mod native;
mod plan;
mod random;
mod run;
mod scope;
mod value;

pub use error::{Error, OpPosition, Result};
pub use files::Dirs;
pub use native::draws;
pub use random::RANDOM_STATE;
pub use run::{Executor, Prepared};
pub use scope::Scope;
pub use value::{Rounds, Value};
