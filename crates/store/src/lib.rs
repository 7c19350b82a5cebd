//! Storage: access to files and other bytes.
//!
//! This is the only crate of Lodstone that accesses files. A [`Store`] is a namespace of files: the local file system
//! (`LocalStore`), memory ([`MemoryStore`]), or one of another crate. Other crates use a [`Location`] (a path
//! in a store) and a [`Blob`] (bytes in some store, cheap to clone and slice), read headers through a
//! bounds-checked [`Cursor`], resolve names from a model through a
//! [`Dir`], and publish through a [`Commit`], so that readers of the target see either the old or the new content.
//!
//! ```
//! use lodstone_store::{Blob, Commit, MemoryStore, Progress};
//!
//! let store = MemoryStore::default();
//! let mut commit = Commit::directory(store.location("model"), Progress::default())?;
//! commit.write("weights", |out| out.put(b"01234567"))?;
//! assert!(!store.location("model/weights").exists()?, "nothing is visible before it is published");
//! commit.publish()?;
//! let blob = Blob::open(store.location("model/weights"), false)?;
//! assert_eq!(&blob.slice(2, 3)?.bytes()?[..], b"234");
//! # Ok::<(), lodstone_store::Error>(())
//! ```

#![expect(clippy::disallowed_methods, reason = "file access lives here")]
#![expect(clippy::disallowed_types, reason = "file access lives here")]
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

mod blob;
mod checked_json;
mod checks;
mod chunked;
mod commit;
mod contents;
mod cursor;
mod dir;
mod error;
mod fields;
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
pub mod system;

pub use blob::{Blob, Derive, Identity};
pub use checked_json::{CheckedJson, Flaw, Schema};
pub use checks::{Checks, Checksum, Damage, PIECE, Part, SEAL, SEAL_FILE, checksum, crc32_of};
pub use chunked::{PrunedChunks, chunks_beside, prune_chunks};
pub use commit::{Commit, WriterLock};
pub use cursor::Cursor;
pub use dir::Dir;
pub use error::{Ceiling, Error, Escape, Result, internal};
pub use fields::Field;
pub use in_memory::MemoryStore;
#[cfg(unix)]
pub use local::{LocalFile, LocalStore};
pub use location::{Location, scheme_of};
pub use memory::Memory;
pub use names::{check_relative, check_unreserved, is_hidden, plain};
pub use output::Output;
pub use permuted::Permuted;
pub use progress::Progress;
pub use source::{FileId, ReadRange, Source, SourceFile, Stamp};
pub use step::{Step, StepKind};
pub use store::{Atomicity, Entry, Folder, Held, Links, Listing, Publisher, Recovery, Sink, Store};
