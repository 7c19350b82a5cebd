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
//! A serial is staged next to its final location and renamed, so readers see all of it or nothing. Other entries of the
//! directory are not changed.
//!
//! A store that publishes single files has no renames. There, the data of a serial is published first, in a directory with a
//! unique name (`step-00000120/data-5e6a90e1c4d07b32/params`), and then the manifest, which must not exist: of several
//! writers of a step, one creates it, and readers see serials with a manifest only.
//!
//! This crate runs nothing. A framework that restores its checkpoints by a program passes that program as an
//! [`Origin`]; its loader is stored, sealed and listed here, and run by the framework's own crate.
//!
//! ```
//! use lodstone_checkpoint::{Manager, ManagerOptions, Serial, Snapshot};
//! use lodstone_model::{DType, Parameter, Tensor};
//! use lodstone_store::{Blob, MemoryStore};
//!
//! let directory = MemoryStore::default().location("run");
//! let tensor = Tensor::dense(DType::Uint8, vec![2], Blob::memory(vec![1, 2]));
//! let snapshot = Snapshot::of_tensors([Parameter { name: "w".to_owned(), tensor }])?;
//! let mut manager = Manager::open(directory.clone(), ManagerOptions::default())?;
//! manager.save(120, &snapshot)?;
//! let latest = Serial::find(directory, None)?;
//! assert_eq!(latest.tensors()?[0].name, "w");
//! # Ok::<(), lodstone_checkpoint::Error>(())
//! ```

#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

mod container;
mod error;
mod leftovers;
mod manager;
mod manifest;
mod reshard;
mod serial;
mod sharded;
mod snapshot;

pub use container::Container;
pub use error::{Error, Result};
pub use manager::{Manager, ManagerOptions, Saved};
pub use manifest::{LOADER, Manifest, Numerics, Programs, SavedVariable};
pub use reshard::{RESHARDING, Resharded, is_unfinished, reshard};
pub use serial::{Serial, latest, serials};
pub use sharded::{Publication, ShardReader, write_items, write_shard};
pub use snapshot::{BoxError, Loader, Origin, Snapshot};
