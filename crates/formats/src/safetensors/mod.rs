//! safetensors: tensors by name in one file, or in several with an index.
//!
//! | bytes | contents |
//! |---|---|
//! | `u64` | size of the header, little-endian; at most 100 000 000 |
//! | that many bytes | header: a JSON object, padded with spaces |
//! | the rest | elements of all tensors, row-major and little-endian, without holes |
//!
//! | key of the header | value |
//! |---|---|
//! | `__metadata__`, optional | an object of strings |
//! | any other: the name of a tensor | `{"dtype": CODE, "shape": [..], "data_offsets": [begin, end]}` |
//!
//! Offsets are relative to the end of the header. The index of a model in several files
//! (`*.safetensors.index.json`) is `{"metadata": {..}, "weight_map": {TENSOR: FILE, ..}}`.
//!
//! Tensors that share their bytes are stored once (`aliases`).
//!
//! The writer produces the bytes of the reference writer: tensors by element type in the order of its table,
//! the widest first, then by name; the header padded to a multiple of 8. The order of
//! `__metadata__` is random there; here the keys are sorted. An unedited file is
//! written with its original header.
//!
//! The reader accepts what the reference reader does, except what that ignores silently: duplicate
//! keys (the last wins), unknown fields of a tensor, a tensor as a JSON array.
//!
//! Headers are parsed here: the reference reader accepts duplicate keys and unknown fields.
//!
//! Source of truth: `tensor.rs` of the crate `safetensors` 0.8; files that its Python package
//! wrote; `save_pretrained` of `transformers` for the index.
//!
//! Not supported: no known feature.

mod aliases;
mod detect;
mod header;
mod layout;
mod numbered;
mod read;
mod shard;
mod write;

pub(crate) use header::Index;

pub use detect::{is_file, is_index};
pub use read::{read, read_blob};
pub use shard::{Shard, write_items, write_shard};
use write::SHARDS;
pub use write::write_to;

use lodstone_model::DType;

use crate::byte_map::Mapper;
use crate::format::{Format, Structure};
use crate::options::Holds;

/// One file, an index, or a directory that holds either.
pub static FORMAT: Format = Format {
    name: NAME,
    title: "safetensors, one file or several with an index",
    framework: "safetensors",
    holds: Holds {
        tensors: true,
        metadata: true,
        names: true,
        dtype: |dtype| code(dtype).is_some(),
        ..Holds::NOTHING
    },
    splits: true,
    into_directory: true,
    extension: "safetensors",
    detect: detect::detect,
    byte_maps: &[&BYTE_MAP],
    // The bytes themselves are copied for a test.
    structure: Some(Structure {
        memory_factor: 2,
        memory_constant: 256 << 10,
        tokens: b"0123456789[]{},:\"-",
        head: 600,
        tail: 0,
    }),
    shards: Some(&SHARDS),
    read,
    stage: write::write,
    ..Format::PLAIN
};

/// Byte maps of files.
static BYTE_MAP: Mapper =
    Mapper { what: "safetensors files", detect: |probe| is_file(probe.head), read: read::map };

/// The name of the format, and the owner of the residual of a model in one file: the original header.
const NAME: &str = "safetensors";

/// The suffix of an index.
const INDEX: &str = ".safetensors.index.json";

/// The key of the header that is not a tensor.
const METADATA: &str = "__metadata__";

/// Maximum size of a header or index in bytes: the limit of the reference.
const MAX_HEADER: u64 = 100_000_000;

/// Maximum rank of a tensor. The reference has no limit; frameworks stop at 64.
const MAX_RANK: usize = 256;

/// Element types and their codes, in the reverse of the order in which the reference sorts tensors.
const CODES: &[(DType, &str)] = &[
    (DType::Bool, "BOOL"),
    (DType::Float4E2M1, "F4"),
    (DType::Float6E2M3, "F6_E2M3"),
    (DType::Float6E3M2, "F6_E3M2"),
    (DType::Uint8, "U8"),
    (DType::Int8, "I8"),
    (DType::Float8E5M2, "F8_E5M2"),
    (DType::Float8E4M3Fn, "F8_E4M3"),
    (DType::Float8E8M0Fnu, "F8_E8M0"),
    (DType::Float8E4M3Fnuz, "F8_E4M3FNUZ"),
    (DType::Float8E5M2Fnuz, "F8_E5M2FNUZ"),
    (DType::Int16, "I16"),
    (DType::Uint16, "U16"),
    (DType::Float16, "F16"),
    (DType::BFloat16, "BF16"),
    (DType::Int32, "I32"),
    (DType::Uint32, "U32"),
    (DType::Float32, "F32"),
    (DType::Complex64, "C64"),
    (DType::Float64, "F64"),
    (DType::Int64, "I64"),
    (DType::Uint64, "U64"),
];

/// Returns the code of an element type, such as `F32`; `None` if it has none.
pub fn code(dtype: DType) -> Option<&'static str> {
    CODES.iter().find(|(known, _)| *known == dtype).map(|(_, code)| *code)
}

/// Returns the size of a tensor in bytes; `None` if it overflows 64 bits or is not a whole number of bytes.
fn size_of(dtype: DType, shape: &[u64]) -> Option<u64> {
    let bits = u64::from(dtype.bits()?);
    // The number of bits is a multiple of 8 if the product of its factors' remainders is.
    let rest = shape.iter().fold(bits % 8, |rest, dim| rest * (dim % 8) % 8);
    dtype.size_of(shape).filter(|_| rest == 0)
}
