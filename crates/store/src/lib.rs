//! Bytes at rest.
//!
//! The only crate of Lodstone that accesses files. A [`Store`] is a name space of files: the local file system
//! (`LocalStore`), memory ([`MemoryStore`]), or one of another crate. Everything above it sees a [`Location`] (a path
//! in a store) and a [`Blob`] (bytes somewhere, cheap to clone and slice), reads headers through a
//! [`Cursor`] that holds its position and what is left, resolves names that come out of a model through a
//! [`Dir`], and publishes through a [`Commit`], so that a reader of the target sees the old or the new content
//! and nothing between.

#![expect(clippy::disallowed_methods, reason = "file access lives here")]
#![expect(clippy::disallowed_types, reason = "file access lives here")]
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

mod blob;
mod checked_json;
mod checks;
mod commit;
mod cursor;
mod dir;
mod error;
mod in_memory;
#[cfg(unix)]
mod local;
mod location;
mod memory;
mod names;
mod output;
mod parallel;
mod permuted;
mod progress;
mod sealed;
mod source;
mod step;
mod store;

pub use blob::{Blob, Derive, Identity};
pub use checked_json::{CheckedJson, Flaw, Schema};
pub use checks::{Checks, Checksum, Damage, PIECE, Part, SEAL, SEAL_FILE, checksum, crc32_of};
pub use commit::{Commit, WriterLock};
pub use cursor::Cursor;
pub use dir::Dir;
pub use error::{Error, Escape, Result, internal};
pub use in_memory::MemoryStore;
#[cfg(unix)]
pub use local::{LocalFile, LocalStore};
pub use location::Location;
pub use memory::Memory;
pub use names::{check_relative, check_unreserved, is_hidden, plain};
pub use output::Output;
pub use permuted::Permuted;
pub use progress::Progress;
pub use source::{FileId, ReadRange, Source, SourceFile, Stamp};
pub use step::{Step, StepKind};
pub use store::{Atomicity, Entry, Folder, Held, Links, Listing, Publisher, Recovery, Sink, Store};
