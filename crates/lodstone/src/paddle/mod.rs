//! PaddlePaddle programs: building, running, training, saving and restoring.

pub(crate) mod derive;
mod guards;
mod inference;
mod planned;
pub(crate) mod run;
pub(crate) mod train;

pub use inference::{InferenceFiles, save_inference_model};
pub use lodstone_paddle::{checkpoint, executor, program};
pub use lodstone_schema::paddle as schema;
