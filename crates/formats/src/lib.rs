//! Readers and writers of model files.
//!
//! There is a folder for each framework. A format has a `mod.rs` (the layout as a table, the source of truth, what is not
//! supported), and `detect`, `read` and `write`; formats that share their bytes share these, too. Encodings that several
//! formats use are in [`encoding`]; the tables of all formats are in `registry`; seals and the scan apply to any file.
//! Frameworks do not depend on each other; a format that uses the format of another framework names it there.
//!
//! # Write-back
//!
//! A reader keeps the bytes of each node (program, block, operator, variable, description of a tensor) as its
//! `Residual`: slices of the file, not copies. A writer encodes the node canonically, and compares the result with the
//! canonical encoding of the node that those bytes decode to. If they are equal, the bytes are written unchanged; if
//! not, only the difference is applied to them (`encoding/protobuf/patch.rs`). So order, presence, unknown fields and
//! packed encodings survive, and an operator that moves keeps its unknown fields. Elements of tensors are holes in such
//! a message (`holes.rs`): a model of any size is patched in memory, and written as ranges of files. Text that is small
//! enough is parsed again instead, and replaced as a whole if the program differs. A pickle is kept without the
//! elements of its tensors.
//!
//! A format stages a model (`Staged`); publication is the same for all, with the seal in the same step. Names, number
//! and layout of the files are preserved only by a write-back: a format that is selected by name is written as its
//! framework writes it today, so that an old model becomes one that loads now. A file that is missing beside a model is
//! a warning, since programs are distributed without their weights and are worth inspecting; a file outside the
//! directory of the model is an error.
//!
//! ```
//! use lodstone_formats::{OpenOptions, WriteOptions, named};
//! use lodstone_model::{DType, Model, Parameter, Tensor};
//! use lodstone_store::{Blob, MemoryStore};
//!
//! let tensor = Tensor::dense(DType::Uint8, vec![2], Blob::memory(vec![1, 2]));
//! let parameters = vec![Parameter { name: "w".to_owned(), tensor }];
//! let model = Model { parameters, ..Model::default() };
//! let path = MemoryStore::default().location("model.safetensors");
//! let format = named("safetensors").expect("a format");
//! format.write(&model, path.clone(), &WriteOptions::default())?;
//! let again = (format.read)(&path, &OpenOptions::default())?;
//! assert_eq!(again.parameters[0].name, "w");
//! # Ok::<(), lodstone_formats::Error>(())
//! ```

#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

mod boxes;
mod byte_map;
pub mod caffe2;
pub mod encoding;
mod error;
mod format;
pub mod glow;
#[cfg(steps)]
mod grown;
mod lengths;
pub mod mxnet;
pub mod numpy;
pub mod onnx;
mod options;
pub mod paddle;
mod registry;
pub mod safetensors;
mod scan;
mod seal;
mod sharding;
mod staged;
pub mod torch;
mod unrecognized;

#[cfg(steps)]
pub use grown::{Repeated, repeated};

pub use byte_map::{ByteMap, Mapper, Recorded, UNREAD};
pub use error::{Error, Result};
pub use format::{Format, OpenRecord, Prefix, Probe, Structure, Writes};
pub use options::{ExternalData, Holds, OpenOptions, WriteOptions};
pub use registry::{
    FORMATS, READ_ONLY, byte_maps, context, identify, named, reader_of_texts, shard_formats, title,
};
pub use scan::{CodeEffect, Effort, Part, Pickles, pickles};
pub use seal::entries::{ModelDir, SealEntry, Sealed, Seals, check_sealed, seal_entries};
pub use seal::{Seal, SealedFile, SealedModel, TensorRanges, called, check_names};
pub use sharding::{
    Chunk, Division, Kept, Planned, ShardFormat, Sharding, distributed, divided, replan,
};
pub use staged::{Staged, Written};
pub use unrecognized::unrecognized;
