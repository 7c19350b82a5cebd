//! PaddlePaddle programs: building, running, training, saving and restoring.

pub(crate) mod derive;
mod guards;
mod inference;
mod planned;
pub(crate) mod run;
pub(crate) mod train;

pub use derive::{
    CheckpointPrograms, DeriveOptions, checkpoint_programs, inference_program, loader_program,
    print_program, pruned_program,
};
pub use inference::{InferenceFiles, save_inference_model};
pub use lodstone_paddle::{checkpoint, executor, program};
pub use lodstone_schema::paddle as schema;
pub use run::program_of;
pub use train::{
    SampleOptions, TrainOptions, Training, open_program, open_training, save_training,
};
