//! Programs of PaddlePaddle: built, run, trained, saved and restored.

pub(crate) mod run;
pub(crate) mod train;

pub use lodstone_paddle::{checkpoint, executor, program};
