//! MXNet parameters: `.params`, `.nd`, `.ndarray`; lists and dicts of arrays.
//!
//! | bytes | what |
//! |---|---|
//! | `u64` | `0x112` |
//! | `u64` | reserved; written as 0, and not looked at |
//! | `u64` | number of arrays |
//! | ... | that many records |
//! | `u64` | number of names: none for a list, otherwise one for each array |
//! | ... | that many times `u64` size, name |
//!
//! A record, whose version is told by its first `u32`, each by itself:
//!
//! | part | V0, to 0.10 | V1, 0.11 | V2, 0.12 on | V3, 1.5 on, NumPy shapes |
//! |---|---|---|---|---|
//! | `u32` | | `0xf993fac8` | `0xf993fac9` | `0xf993faca` |
//! | `i32` storage | | | 0 dense, 1 row-sparse, 2 CSR | 0 |
//! | extents of the values | | | if sparse | |
//! | extents | `u32` each | `i64` each | `i64` each | `i64` each |
//! | `i32`, `i32` | kind and number of the device that it was on; means nothing in a file | | | |
//! | `i32` | element type | | | |
//! | for each index array | | | `i32` element type, extents | |
//! | elements | row-major | | the values, then the index arrays | |
//!
//! Extents are preceded by their number, a `u32` or `i32`. A record ends behind its extents if it
//! is *none*, an array that was never filled: V0 to V2 if there are no extents, V3 if there are -1,
//! or one is. But releases from 1.5 on write scalars as V2 without extents and with all the rest;
//! they are told apart by what follows (`scalar.rs`). Row-sparse arrays have one index array, the
//! rows; CSR matrices two, where rows begin and the columns. Where values were still being computed
//! when they were saved, their extents say that there are none; then the index arrays tell.
//!
//! A *none* array has nothing to show and is left out with a warning; a write-back puts it where it
//! was. Names that are not UTF-8 are shown with replacement characters and written back as they
//! were. Index arrays are not read here: `Tensor::broken_indices` says whether they are right, and
//! the writer asks.
//!
//! MXNet 2 keeps the same arrays in NumPy's archives (`npz.rs`), often under the same names of
//! files: dense ones as members, sparse ones as folders.
//!
//! | member | what |
//! |---|---|
//! | `K/data.npy`, `K/indices.npy`, `K/indptr.npy` | as above |
//! | `K/shape.npy` | `int64` extents |
//! | `K/format.npy` | `row_sparse` or `csr` behind a header that no NumPy reads |
//!
//! Source of truth: `src/ndarray/ndarray.cc` and `src/serialization/cnpy.cc` of MXNet, and files
//! that 0.9.5, 0.11.0, 1.5.1, 1.9.1 and 2.0.0b1 wrote.
//!
//! Not supported: files of machines that store the high byte first. `.states` of optimizers are
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
pub(crate) use record::{read_alone, replace_stored, same_head, stored_blobs};

pub use detect::is_params;
pub use npz::read_npz_blob;
pub use read::{read, read_blob};

use lodstone_model::Parameter;
use lodstone_schema::mxnet::{type_flag, variable_of};
use lodstone_store::Output;

use crate::{Format, Holds, Result};

/// Arrays in MXNet's own form.
pub static PARAMS: Format = Format {
    name: "mxnet-params",
    title: "MXNet parameters",
    holds: HOLDS,
    splits: false,
    aligns: false,
    externals: false,
    into_directory: false,
    extension: "params",
    prefix: None,
    detect: |probe| is_params(probe.head, probe.len),
    record: None,
    reads_member: |member| member.ends_with("/format.npy"),
    variable_of,
    read,
    stage: write::write,
};

/// Arrays in an archive of NumPy's, as MXNet 2 writes them.
pub static NPZ: Format = Format {
    name: "mxnet-npz",
    title: "MXNet 2 parameters, an archive of NumPy arrays",
    holds: Holds { unnamed: false, dtype: npz::has_code, ..HOLDS },
    detect: npz::detect,
    read: npz::read,
    stage: npz::write,
    ..PARAMS
};

const HOLDS: Holds = Holds {
    tensors: true,
    metadata: false,
    program: None,
    names: true,
    unnamed: true,
    lod: false,
    selected_rows: false,
    sparse: true,
    coo: false,
    strings: false,
    vocabulary: false,
    dtype: |dtype| type_flag(dtype).is_some(),
    stand_in: |_| None,
};

/// Writes parameters in the container that a layout is of.
pub(crate) fn put(
    out: &mut Output,
    parameters: &[Parameter],
    layout: &Layout,
    same: bool,
) -> Result<()> {
    let put = if layout.is_archive() { npz::put } else { write::put };
    put(out, parameters, layout, same)
}
