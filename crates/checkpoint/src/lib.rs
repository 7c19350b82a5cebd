//! Checkpoints: variables, and the program that loads them.
//!
//! A checkpoint is restored by running its loader: what is left of a startup program when initialisers of loaded
//! variables are gone, and behind that operators that load. There are two ways to make one.
//!
//! | | who saves | what is there | for |
//! |---|---|---|---|
//! | [`make_checkpoint`] | operators that it appends to the program that trains | one checkpoint, written over | PaddlePaddle too |
//! | [`Manager`] | a program of its own, by the manager | serials, each whole, with a manifest | exact resumption |
//!
//! ```text
//! step-00000120/manifest.json      what is in it: variables, checksums, step, programs, metadata
//!               loader/__model__   the loader, for whoever runs programs of PaddlePaddle
//!               params             variables, as the container says
//! .lock.lodstone                   held by who writes
//! ```
//!
//! A serial is written beside its place and renamed, so that whoever looks finds it whole or not at all. Other
//! entries of the directory are nobody's business here, and stay as they are.

#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

mod append;
mod container;
mod contents;
mod error;
mod fit;
mod foreign;
mod loader;
mod manager;
mod manifest;
mod numerics;
mod serial;

pub use append::{CheckpointOptions, make_checkpoint};
pub use container::Container;
pub use contents::{Contents, Snapshot};
pub use error::{Error, Result};
pub use fit::{Misfit, Mismatch, RestoreOptions, Restored};
pub use foreign::restore_models;
pub use loader::{
    LOADER, build_checkpoint_loader, check_loader, get_checkpoint_loader, is_checkpointed,
};
pub use lodstone_paddle::executor::RANDOM_STATE;
pub use manager::{Manager, ManagerOptions, Saved};
pub use manifest::{Manifest, Programs, SavedVariable};
pub use numerics::Numerics;
pub use serial::{Serial, latest, serials};
