//! Checkpoints: named tensors in numbered directories, each with a manifest that proves it intact.
//!
//! A [`Manager`] saves a [`Snapshot`] as a [`Serial`], the checkpoint of one step:
//!
//! ```text
//! step-00000120/manifest.json      variables, files with checksums, step, metadata
//!               params             the variables, as the container lays them out
//!               loader/            the program that restores them, if they belong to a program
//! .lock.lodstone                   held by the manager
//! ```
//!
//! A serial is written beside its place and renamed, so readers see all of it or nothing. Other entries of the directory
//! are left alone.
//!
//! This crate runs nothing. A framework that restores its checkpoints by a program passes that program as an
//! [`Origin`]; its loader is stored, sealed and listed here, and run by the framework's own crate.

#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

mod container;
mod error;
mod manager;
mod manifest;
mod serial;
mod snapshot;

pub use container::Container;
pub use error::{Error, Result};
pub use manager::{Manager, ManagerOptions, Saved};
pub use manifest::{LOADER, Manifest, Numerics, Programs, SavedVariable};
pub use serial::{Serial, latest, serials};
pub use snapshot::{BoxError, Loader, Origin, Snapshot};
