//! Runs PaddlePaddle programs: a scope of variables, and an executor.
//!
//! A program is a sequence of operators. Those that compute are lowered to ONNX's operators
//! (`lodstone-lowering`), which the engine (`lodstone-engine`) plans and runs; those that move values, run blocks, draw
//! random numbers, read or write files, or update parameters are native to the executor.
//!
//! | module | contents |
//! |---|---|
//! | `layout` | variables as indices, with the last use of each |
//! | `plan` | the implementation of each operator, looked up in its row once: a native function, a lowering, or a choice between them |
//! | `native` | native functions, in tables by family |
//! | `lowered` | operators that the engine computes, planned once for each set of input types; LoD as offsets, in inputs of their own |
//! | `frame`, `scope` | the values of a run; those that persist |
//! | `files` | files that operators load and save |
//!
//! A run that fails leaves the scope as it was: its frame is committed at the end. Tensors that operators make carry a
//! charge of the scope's budget, and an operator whose results do not fit is rejected before it starts: the lowering
//! has inferred their size, or the rule of the operator infers it from elements.

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
