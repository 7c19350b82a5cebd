//! Programs that are derived from others: for inference, pruned, for loading, for checkpoints; and how they are written.

pub use crate::dialects::programs::{
    CheckpointPrograms, DeriveOptions, checkpoint_programs, inference_program, loader_program,
    print_program, program_of, pruned_program,
};
pub use crate::dialects::runtime::program::{Error, Form, Paths, Placement, save_program};
