//! safetensors: tensors by name in one file, or in several with an index.
//!
//! | bytes | what |
//! |---|---|
//! | `u64` | size of the header, little-endian; 100 000 000 at most |
//! | that many bytes | header: a JSON object, padded with spaces |
//! | the rest | elements of all tensors, row-major and little-endian, without holes |
//!
//! | key of the header | value |
//! |---|---|
//! | `__metadata__`, optional | an object of strings |
//! | any other: the name of a tensor | `{"dtype": CODE, "shape": [..], "data_offsets": [begin, end]}` |
//!
//! Offsets count from the end of the header. The index of a model in several files
//! (`*.safetensors.index.json`) is `{"metadata": {..}, "weight_map": {TENSOR: FILE, ..}}`.
//!
//! Written are the bytes of the reference writer: tensors by element type as its table has them,
//! the widest first, then by name; the header padded to a multiple of 8. It leaves the order of
//! `__metadata__` to chance; here the keys are sorted. A file that was read and not edited is
//! written with the header it had.
//!
//! Read is what the reference reader accepts, except what it lets pass in silence: keys that
//! repeat (the last wins), unknown fields of a tensor, a tensor as a JSON array.
//!
//! Source of truth: `tensor.rs` of the crate `safetensors` 0.8; files that its Python package
//! wrote; `save_pretrained` of `transformers` for the index.
//!
//! Not supported: nothing that is known.

mod detect;
mod header;
mod layout;
mod read;
mod write;

pub use detect::{is_file, is_index};
pub use read::{read, read_blob};
pub use write::write_to;

use lodstone_model::DType;

use crate::{Format, Holds};

/// One file, an index, or a directory that holds either.
pub static FORMAT: Format = Format {
    name: NAME,
    title: "safetensors, one file or several with an index",
    holds: Holds {
        tensors: true,
        metadata: true,
        program: None,
        names: true,
        unnamed: false,
        lod: false,
        selected_rows: false,
        sparse: false,
        coo: false,
        strings: false,
        vocabulary: false,
        dtype: |dtype| code(dtype).is_some(),
        stand_in: |_| None,
    },
    splits: true,
    aligns: false,
    externals: false,
    into_directory: true,
    extension: "safetensors",
    prefix: None,
    detect: detect::detect,
    record: None,
    reads_member: |_| false,
    variable_of: |name| name,
    read,
    stage: write::write,
};

/// Name of the format, and owner of the residual of a model in one file: the header as it was.
const NAME: &str = "safetensors";

/// What the name of an index ends in.
const INDEX: &str = ".safetensors.index.json";

/// The key of the header that names no tensor.
const METADATA: &str = "__metadata__";

/// Size in bytes that a header or an index may have: the reference's own limit.
const HEADER: u64 = 100_000_000;

/// Extents that a tensor may have. The reference has no limit; frameworks stop at 64.
const DIMENSIONS: usize = 256;

/// Element types and their codes, in the order in which the reference sorts tensors, last first.
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

/// What a header calls an element type: `F32`; `None` if it has no name for it.
pub fn code(dtype: DType) -> Option<&'static str> {
    CODES.iter().find(|(known, _)| *known == dtype).map(|(_, code)| *code)
}

/// Size in bytes of a tensor; `None` if it does not fit 64 bits or ends inside a byte.
fn size_of(dtype: DType, shape: &[u64]) -> Option<u64> {
    let bits = u64::from(dtype.bits()?);
    // A number of bits is a multiple of 8 if the product of its factors' remainders is.
    let rest = shape.iter().fold(bits % 8, |rest, dim| rest * (dim % 8) % 8);
    dtype.size_of(shape).filter(|_| rest == 0)
}
