//! Bytes at rest.
//!
//! The only crate of Lodstone that touches the file system. Everything above it sees a [`Blob`]
//! (bytes somewhere, cheap to clone and slice), reads headers through a [`Cursor`] that knows
//! where it is and what is left, resolves names that come out of a model through a [`Dir`], and
//! publishes through a [`Commit`], so that a reader of the target sees the old or the new content
//! and nothing between.

#![expect(clippy::disallowed_methods, reason = "file access lives here")]
#![expect(clippy::disallowed_types, reason = "file access lives here")]
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

mod blob;
mod checks;
mod commit;
mod cursor;
mod dir;
mod error;
mod file;
mod lock;
mod memory;
mod output;
mod parallel;
mod permuted;
mod progress;
mod step;

pub use blob::{Blob, Derive, Identity};
pub use checks::{Checks, Checksum, Damage, LARGEST_SEAL, PIECE, Part, SEAL, checksum, crc32_of};
pub use commit::{Commit, Recovery, check_unreserved, is_hidden, recover, remove_dir};
pub use cursor::Cursor;
pub use dir::{Dir, Links, Listing, check_relative, plain};
pub use error::{Error, Escape, Result};
pub use file::{
    Entry, SourceFile, Stamp, directories_above, exists, is_dir, is_there, link_target, list_dir,
    seal_directories,
};
pub use lock::WriterLock;
pub use memory::Memory;
pub use output::Output;
pub use permuted::Permuted;
pub use progress::Progress;
pub use step::{Step, StepKind};
