//! PaddlePaddle tensor streams: what the `save` and `save_combine` operators write.
//!
//! All integers are little-endian. A record of a dense tensor, since December 2017 (LoD first):
//!
//! | bytes | what |
//! |---|---|
//! | `u32` | version of the LoD part, 0 |
//! | `u64` | number of LoD levels |
//! | each level: `u64`, then as many bytes | size in bytes, then `u64` offsets |
//! | `u32` | version of the tensor part, 0 |
//! | `i32` | size of the description |
//! | that many bytes | description: protobuf `TensorDesc` (1 `data_type`, 2 dims\*) |
//! | the rest | elements, row-major; the size follows from the description |
//!
//! In October and November 2017 (LoD last) there was one version word, then size, description and
//! elements, then the number of levels and the levels.
//!
//! A record of `SelectedRows`: `u32` version 0, `u64` n, n `i64` rows, `i64` height, tensor part.
//! A record of a vocabulary: `u64` n, then n times `u64` size, token, `i32` id.
//!
//! A file is one record, or records end to end (`.pdiparams`, `__params__`; no names, no count),
//! or, for some days in January 2018, records that each follow their size as a `u64`.
//! The [aligned](Layout::align) variant pads each description with a field that protobuf ignores,
//! so that elements begin at a multiple of 64 bytes; PaddlePaddle 2.6.2 and 3.3.1 load it.
//!
//! Source of truth: `lod_tensor.cc`, `tensor_util.cc`, `selected_rows.cc` and `save_combine_op` of
//! PaddlePaddle; `save_op.cc` of October 2017 for LoD last; and files that 1.8.5, 2.6.2 and 3.3.1
//! wrote.
//!
//! Not supported: encrypted files, which nothing marks.

mod detect;
mod read;
mod write;

pub(crate) use detect::begins_record;
pub use detect::is_stream;
pub use read::{read, read_record};
pub use write::{write, write_record};

use lodstone_model::{Holder, ValueType};
use serde::{Deserialize, Serialize};

/// Where things are in a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layout {
    /// Whether the LoD follows the elements.
    pub lod_last: bool,
    /// Whether each record follows its size.
    pub sized: bool,
    /// What the offsets of elements are a multiple of when written; 0 and 1 leave them where they
    /// fall.
    pub align: u64,
}

/// What a variable holds, where a program tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// Nobody tells.
    Anything,
    /// A dense tensor.
    Tensor,
    /// Some rows of a tensor.
    SelectedRows,
    /// A table of tokens.
    Vocabulary,
}

impl From<&ValueType> for Expect {
    fn from(value: &ValueType) -> Self {
        match value {
            ValueType::Tensor(_) => Self::Tensor,
            ValueType::Holder(Holder::SelectedRows(_)) => Self::SelectedRows,
            ValueType::Holder(Holder::Vocabulary(_)) => Self::Vocabulary,
            _ => Self::Anything,
        }
    }
}

/// Size in bytes that a description may have: the element type at least, and far more dimensions
/// than any tensor has.
const DESCRIPTION: std::ops::RangeInclusive<u64> = 2..=4096;

/// LoD levels that a tensor may have; real ones have up to three.
const LEVELS: u64 = 64;

/// Owner of the residual of a tensor: a description that is not canonical.
const DESC: &str = "paddle-tensor-desc";
