//! PaddlePaddle programs: building, running, training, saving and restoring.

pub(crate) mod run;
pub(crate) mod train;

pub use lodstone_paddle::{checkpoint, executor, program};
