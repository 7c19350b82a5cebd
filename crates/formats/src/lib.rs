//! Model files to models and back.
//!
//! A folder for each format, all with the same parts in the same order: `mod.rs` (the layout as a
//! table, the source of truth, what is not supported), `detect`, `read`, `write`. Formats do not
//! see each other, with few exceptions: `paddle`, the bundle, is made of `paddle_program` and
//! `paddle_stream`, `mxnet` of `mxnet_symbol` and `mxnet_params`, which reads NumPy's archives and
//! gives its records to `mxnet_states`.

#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

mod error;
mod format;
pub mod mxnet;
pub mod mxnet_params;
pub mod mxnet_states;
pub mod mxnet_symbol;
pub mod numpy;
pub mod onnx;
mod options;
pub mod paddle;
pub mod paddle_pickle;
pub mod paddle_program;
pub mod paddle_stream;
pub mod pickle;
mod protobuf;
pub mod safetensors;
mod scan;
mod seal;
mod seals;
mod staged;
mod tar;
mod zip;

#[cfg(steps)]
pub use protobuf::grown::{Repeated, repeated};

pub use error::{Error, Result};
pub use format::{FORMATS, Format, Prefix, Probe, named};
pub use options::{ExternalData, Holds, OpenOptions, WriteOptions};
pub use scan::{Effort, Pickles, pickles};
pub use seal::{Seal, SealedFile, SealedModel, TensorRanges, called};
pub use seals::{ModelDir, Place, Sealed, Seals, check_sealed, places};
pub use staged::{Staged, Written};
