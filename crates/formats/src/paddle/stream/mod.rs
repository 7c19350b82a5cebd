//! PaddlePaddle tensor streams: files of the `save` and `save_combine` operators.
//!
//! All integers are little-endian. A record of a dense tensor, since December 2017 (LoD first):
//!
//! | bytes | contents |
//! |---|---|
//! | `u32` | version of the LoD part, 0 |
//! | `u64` | number of LoD levels |
//! | each level: `u64`, then that many bytes | size in bytes, then `u64` offsets |
//! | `u32` | version of the tensor part, 0 |
//! | `i32` | size of the description |
//! | that many bytes | description: protobuf `TensorDesc` (1 `data_type`, 2 dims\*) |
//! | the rest | elements, row-major; their size follows from the description |
//!
//! In October and November 2017 (LoD last) there was one version word, then size, description and
//! elements, then the number of levels and the levels.
//!
//! A record of `SelectedRows`: `u32` version 0, `u64` n, n `i64` rows, `i64` height, tensor part.
//! A record of a vocabulary: `u64` n, then n times `u64` size, token, `i32` id.
//!
//! A file is one record, or concatenated records (`.pdiparams`, `__params__`; no names, no count),
//! or, for some days in January 2018, records after their sizes as `u64`.
//! The [aligned](Layout::align) variant pads each description with a field that protobuf ignores,
//! so that elements begin at a multiple of 64 bytes; PaddlePaddle 2.6.2 and 3.3.1 load it.
//!
//! Source of truth: `lod_tensor.cc`, `tensor_util.cc`, `selected_rows.cc` and `save_combine_op` of
//! PaddlePaddle; `save_op.cc` of October 2017 for LoD last; and files that 1.8.5, 2.6.2 and 3.3.1
//! wrote.
//!
//! Not supported: encrypted files, which have no signature.

mod detect;
mod read;
mod write;

pub(crate) use detect::begins_record;
pub use detect::is_stream;
pub(crate) use read::map;
pub use read::{read, read_record};
pub use write::{write, write_record};

use lodstone_model::{Holder, ValueType};
use serde::{Deserialize, Serialize};

/// The layout of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layout {
    /// Whether the LoD follows the elements.
    pub lod_last: bool,
    /// Whether each record follows its size.
    pub sized: bool,
    /// The alignment of elements when writing; 0 and 1 mean none.
    pub align: u64,
}

/// The kind of a variable, as declared by a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// Undeclared.
    Anything,
    /// A dense tensor.
    Tensor,
    /// Selected rows.
    SelectedRows,
    /// A vocabulary.
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

/// The valid sizes of a description in bytes: at least the element type, at most far more dims
/// than any tensor has.
const DESCRIPTION: std::ops::RangeInclusive<u64> = 2..=4096;

/// Maximum number of LoD levels of a tensor; real ones have up to three.
const MAX_LEVELS: u64 = 64;

/// The owner of the residual of a tensor: a description that is not canonical.
const DESC: &str = "paddle-tensor-desc";
