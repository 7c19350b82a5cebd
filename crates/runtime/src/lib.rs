//! Runs programs of PaddlePaddle: a scope of variables, an executor, kernels.
//!
//! A program is its operators in their order. Those that compute are said in ONNX's operators
//! (`lodstone-lowering`), for which there are kernels; those that move values, run blocks or touch files the
//! runtime has itself.

#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

mod error;
mod files;
mod finite;
mod lowered;
mod native;
mod plan;
mod run;
mod scope;
mod value;

pub use error::{Error, Place, Result};
pub use files::Dirs;
pub use native::{RANDOM_STATE, draws};
pub use run::{Executor, Prepared};
pub use scope::Scope;
pub use value::{Rounds, Value};
