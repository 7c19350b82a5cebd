//! Training: programs with optimizers, the samples that they are fed, and the checkpoints that they continue from.

pub use crate::dialects::programs::train::{
    SampleOptions, TrainOptions, Training, open_program, open_training, save_training,
};
pub use crate::dialects::runtime::checkpoint::{Error as RestoreError, numerics};
