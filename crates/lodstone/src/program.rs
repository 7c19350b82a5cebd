//! Programs that are derived from others: for inference, pruned, for loading, for checkpoints; and how they are written.

pub use crate::dialects::programs::derive::{
    CheckpointPrograms, DeriveOptions, checkpoint_programs, inference_program, loader_program,
    print_program, pruned_program,
};
pub use crate::dialects::programs::run::program_of;
pub use crate::dialects::runtime::program::{Error, Form, Paths, Placement, save_program};
