//! Object stores, web servers and the Hugging Face Hub as stores of Lodstone.
//!
//! [`location`] opens an address such as `s3://bucket/model.safetensors`. Reading fetches only the bytes that a reader needs,
//! from one version of each object; writing publishes whole objects.
//!
//! | module | contents |
//! |---|---|
//! | `open` | addresses |
//! | `store`, `folder`, `source` | paths, what is known about objects, reads |
//! | `publisher`, `lock` | uploads, publication, the lock of a writer |
//! | `backend`, `bucket`, `web` | servers: object stores, files behind URLs |
//! | `http`, `address` | requests, redirects, counts; which addresses may be reached |
//! | `cache`, `io` | bytes in memory; the thread that runs requests |
//!
//! ```
//! use lodstone_remote::{Options, object_store};
//! use lodstone_store::{Blob, Commit, Progress};
//!
//! let store = std::sync::Arc::new(::object_store::memory::InMemory::new());
//! let bucket = object_store("memory://bucket", store, &Options::default())?;
//! let (mut commit, name) = Commit::file(bucket.join("runs/model"), Progress::default())?;
//! commit.write(&name, |out| out.put(b"01234567"))?;
//! commit.publish()?;
//! let blob = Blob::open(bucket.join("runs/model"), false)?;
//! assert_eq!(&blob.slice(2, 3)?.bytes()?[..], b"234");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

mod address;
mod backend;
mod bucket;
mod cache;
mod fault;
mod folder;
mod http;
mod io;
mod lock;
mod open;
mod options;
mod pace;
mod publisher;
mod source;
mod store;
mod web;

pub use fault::Fault;
pub use open::{SCHEMES, location, object_store};
pub use options::{Interrupt, Options, Secret, Stats};
