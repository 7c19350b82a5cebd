//! Model files to models and back.
//!
//! A folder for each framework, and in it for each format the same parts in the same order: `mod.rs` (the layout as a
//! table, the source of truth, what is not supported), `detect`, `read`, `write`. Below them is what several are
//! written in ([`encoding`]), above them the tables of all (`registry`), and beside them what is there for any file:
//! seals and the scan. Frameworks do not see each other; a format that another one is written in is named there.

#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

pub mod encoding;
mod error;
mod format;
pub mod glow;
#[cfg(steps)]
mod grown;
pub mod mxnet;
pub mod numpy;
pub mod onnx;
mod options;
pub mod paddle;
mod registry;
pub mod safetensors;
mod scan;
mod seal;
mod staged;
mod torch;

#[cfg(steps)]
pub use grown::{Repeated, repeated};

pub use error::{Error, Result};
pub use format::{Format, OpenRecord, Prefix, Probe};
pub use options::{ExternalData, Holds, OpenOptions, WriteOptions};
pub use registry::{FORMATS, READ_ONLY, identify, named, title};
pub use scan::{Effort, Pickles, pickles};
pub use seal::places::{ModelDir, Place, Sealed, Seals, check_sealed, places};
pub use seal::{Seal, SealedFile, SealedModel, TensorRanges, called, check_names};
pub use staged::{Staged, Written};
