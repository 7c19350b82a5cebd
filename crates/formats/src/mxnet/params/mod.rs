//! MXNet parameters: `.params`, `.nd`, `.ndarray`; lists and dicts of arrays.
//!
//! | bytes | contents |
//! |---|---|
//! | `u64` | `0x112` |
//! | `u64` | reserved; written as 0, and ignored |
//! | `u64` | number of arrays |
//! | ... | that many records |
//! | `u64` | number of names: none for a list, otherwise one for each array |
//! | ... | that many times `u64` size, name |
//!
//! Each record has its own version, which its first `u32` determines:
//!
//! | part | V0, to 0.10 | V1, 0.11 | V2, 0.12 on | V3, 1.5 on, NumPy shapes |
//! |---|---|---|---|---|
//! | `u32` | | `0xf993fac8` | `0xf993fac9` | `0xf993faca` |
//! | `i32` storage | | | 0 dense, 1 row-sparse, 2 CSR | 0 |
//! | dims of the values | | | if sparse | |
//! | dims | `u32` each | `i64` each | `i64` each | `i64` each |
//! | `i32`, `i32` | type and number of the original device, which loading ignores | | | |
//! | `i32` | element type | | | |
//! | for each index array | | | `i32` element type, dims | |
//! | elements | row-major | | the values, then the index arrays | |
//!
//! Dims follow their number, a `u32` or `i32`. A record ends after its dims if it
//! is *none*, an array that was never filled: in V0 to V2 if there are no dims, in V3 if their number is -1
//! or a dim is. However, releases from 1.5 on write scalars as V2 without dims and with all the rest;
//! the bytes that follow distinguish them (`scalar.rs`). Row-sparse arrays have one index array, the
//! rows; CSR matrices have two, the row offsets and the columns. If values were still being computed
//! when they were saved, their dims are those of an empty array; the index arrays then determine them.
//!
//! A *none* array has no contents and is skipped with a warning; a write-back restores its
//! record. Names that are not UTF-8 are shown with replacement characters and written back
//! unchanged. Index arrays are not read here: `Tensor::broken_indices` validates them, and
//! the writer calls it.
//!
//! MXNet 2 stores the same arrays in NumPy archives (`npz.rs`), often under the same file
//! names: dense ones as members, sparse ones as folders.
//!
//! | member | contents |
//! |---|---|
//! | `K/data.npy`, `K/indices.npy`, `K/indptr.npy` | as above |
//! | `K/shape.npy` | `int64` dims |
//! | `K/format.npy` | `row_sparse` or `csr` after a header that NumPy cannot parse |
//!
//! Source of truth: `src/ndarray/ndarray.cc` and `src/serialization/cnpy.cc` of MXNet, and files
//! that 0.9.5, 0.11.0, 1.5.1, 1.9.1 and 2.0.0b1 wrote.
//!
//! Not supported: files from big-endian machines. `.states` of optimizers are
//! pickles: `mxnet::states`.

mod bools;
mod detect;
mod layout;
mod npz;
mod read;
mod record;
mod scalar;
mod write;

pub(crate) use layout::Layout;
pub(crate) use npz::is_archive;
pub(crate) use record::{context, map_alone, read_alone, replace_stored, same_head, stored_blobs};

pub use detect::is_params;
pub use npz::read_npz_blob;
pub use read::{read, read_blob};

use lodstone_model::Parameter;
use lodstone_schema::mxnet::{type_flag, variable_of};
use lodstone_store::Output;

use crate::byte_map::Mapper;
use crate::error::Result;
use crate::format::{Format, Structure};
use crate::options::Holds;

/// Byte maps of parameters in MXNet's own format.
static BYTE_MAP: Mapper = Mapper {
    what: "MXNet parameters",
    detect: |probe| is_params(probe.head, probe.len),
    read: read::map,
};

/// Byte maps of parameters in a NumPy archive.
static NPZ_BYTE_MAP: Mapper =
    Mapper { what: "MXNet 2 parameters", detect: npz::detect, read: npz::map };

/// Arrays in MXNet's own format.
pub static PARAMS: Format = Format {
    name: "mxnet-params",
    title: "MXNet parameters",
    framework: "MXNet",
    holds: HOLDS,
    extension: "params",
    detect: |probe| is_params(probe.head, probe.len),
    reads_member: |member| member.ends_with("/format.npy"),
    variable_of,
    byte_maps: &[&BYTE_MAP],
    // A tensor is a struct of some hundred bytes, and the smallest record that holds one has 20.
    structure: Some(Structure {
        memory_factor: 64,
        memory_constant: 256 << 10,
        tokens: &[0, 1, 2, 3, 6, 7, 0x12, 0xc8, 0xc9, 0xca, 0xf9, 0xff],
        head: 300,
        tail: 200,
    }),
    read,
    stage: write::write,
    ..Format::PLAIN
};

/// Arrays in a NumPy archive, as written by MXNet 2.
pub static NPZ: Format = Format {
    name: "mxnet-npz",
    title: "MXNet 2 parameters, an archive of NumPy arrays",
    holds: Holds { unnamed: false, dtype: npz::has_code, ..HOLDS },
    detect: npz::detect,
    read: npz::read,
    byte_maps: &[&NPZ_BYTE_MAP],
    structure: Some(Structure::ARRAYS),
    stage: npz::write,
    ..PARAMS
};

const HOLDS: Holds = Holds {
    tensors: true,
    names: true,
    unnamed: true,
    sparse: true,
    dtype: |dtype| type_flag(dtype).is_some(),
    ..Holds::NOTHING
};

/// Writes parameters in the container of a layout.
pub(crate) fn put(
    out: &mut Output,
    parameters: &[Parameter],
    layout: &Layout,
    same: bool,
) -> Result<()> {
    let put = if layout.is_archive() { npz::put } else { write::put };
    put(out, parameters, layout, same)
}
