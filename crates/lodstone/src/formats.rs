//! The formats that models are read from and written to, and what each can do.
//!
//! [`FORMATS`] lists those that are written; [`capabilities`] says for each what it holds, and which commands support it.

pub use lodstone_formats::safetensors::Shard;
pub use lodstone_formats::safetensors::code as safetensors_dtype;
pub use lodstone_formats::torch::has_meta;
pub use lodstone_formats::{
    Error, FORMATS, Format, Planned, SealedFile, ShardFormat, shard_formats, title,
};

pub use crate::capabilities::{Capabilities, capabilities};
