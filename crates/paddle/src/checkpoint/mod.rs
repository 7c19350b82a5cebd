//! Checkpoints of programs: variables, and the program that loads them, the *loader*.
//!
//! A loader is what remains of the startup program without the initializers of saved variables, followed by operators
//! that load these. Running it restores the checkpoint. There are two ways to make one:
//!
//! | | saved by | result | use |
//! |---|---|---|---|
//! | [`make_checkpoint`] | operators appended to the training program | one checkpoint, overwritten in place | training in PaddlePaddle, too |
//! | [`Contents::snapshot`] | a [`Manager`](lodstone_checkpoint::Manager) | serials with checksums | exact resumption |
//!
//! [`restore`] and [`restore_for`] put a serial into a scope, [`restore_models`] a checkpoint that PaddlePaddle saved.

mod append;
mod contents;
mod error;
mod fit;
mod foreign;
mod loader;
mod restore;

pub use append::{CheckpointOptions, keep_random, make_checkpoint};
pub use contents::Contents;
pub use error::{Error, Result};
pub use fit::{Misfit, Mismatch, RestoreOptions, Restored};
pub use foreign::restore_models;
pub use loader::{build_checkpoint_loader, check_loader, get_checkpoint_loader, is_checkpointed};
pub use restore::{numerics, restore, restore_for, restore_saved, tensors, verify};
