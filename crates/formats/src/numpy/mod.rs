//! NumPy arrays: `.npy`, one array without a name, and `.npz`, a zip archive of them.
//!
//! An array:
//!
//! | bytes | what |
//! |---|---|
//! | 6 | `\x93NUMPY` |
//! | 2 | version: 1.0, 2.0 or 3.0 |
//! | `u16` (1.0) or `u32` | size of the header, little-endian |
//! | that many bytes | header: a Python dict, then spaces and a line feed up to a multiple of 64 |
//! | the rest | elements, to the end of the file |
//!
//! | key of the header | value |
//! |---|---|
//! | `descr` | byte order (`<`, `>`, `=`, or a bar for single bytes), kind, size: `'<f4'` |
//! | `fortran_order` | whether the first dimension varies fastest |
//! | `shape` | `()`, `(3,)`, `(3, 5)` |
//!
//! An archive: members stored or deflated; the member `x.npy` is the array `x`.
//!
//! Elements in another order of bytes or dimensions, and deflated ones, are computed when they are
//! read, with a bounded amount of memory. Deflated bytes are checked against their CRC-32 when the
//! last one is read, stored bytes by who verifies a model (`Model::checksums`).
//!
//! An array that was read and not edited is written with its header and elements as they were;
//! others as `numpy.save` writes them. Archives are written with stored members, as `numpy.savez`
//! does.
//!
//! Source of truth: `numpy/lib/_format_impl.py` and `_npyio_impl.py` of NumPy 2.4, and files that
//! it wrote; APPNOTE.TXT 6.3.10 of PKWARE for the archive.
//!
//! NumPy has no bfloat16. The ways in which frameworks write it are read.
//!
//! Not supported: arrays of Python objects (pickles, which are never loaded), structures, text,
//! dates, raw bytes (as which NumPy saves bfloat16 and its kin, without saying which) and extended
//! precision; bytes after the array; archives with other methods, encryption or several disks.

mod detect;
mod header;
mod read;
pub(crate) mod survey;
mod write;

pub(crate) use crate::encoding::array::{CODES, DIMENSIONS, code};
pub(crate) use header::{BFLOAT16, encode_as};
pub(crate) use read::{origin, tensor};
pub(crate) use write::{as_it_was, parts};

pub use detect::{is_npy, is_npz};
pub use read::{read_npy, read_npy_blob, read_npz, read_npz_blob};

use crate::{Format, Holds};

/// One array.
pub static NPY: Format = Format {
    name: "npy",
    title: "a NumPy array",
    holds: Holds { names: false, ..HOLDS },
    splits: false,
    aligns: false,
    externals: false,
    into_directory: false,
    extension: "npy",
    prefix: None,
    detect: detect::detect_npy,
    record: None,
    reads_member: |_| false,
    variable_of: |name| name,
    read: read_npy,
    stage: write::write_npy,
};

/// An archive of arrays.
pub static NPZ: Format = Format {
    name: "npz",
    title: "an archive of NumPy arrays",
    holds: HOLDS,
    splits: false,
    aligns: false,
    externals: false,
    into_directory: false,
    extension: "npz",
    prefix: None,
    detect: detect::detect_npz,
    record: None,
    reads_member: |_| false,
    variable_of: |name| name,
    read: read_npz,
    stage: write::write_npz,
};

const HOLDS: Holds = Holds {
    tensors: true,
    metadata: false,
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
};

/// How an array begins.
const MAGIC: [u8; 6] = *b"\x93NUMPY";

/// What the name of a member that is an array ends in.
const SUFFIX: &str = ".npy";

/// Size in bytes that a header may have: as much as version 1.0 can say. NumPy itself stops at
/// 10 000 unless it is told otherwise.
const HEADER: u64 = 65_535;

/// Owner of the residual of a tensor: an array up to its elements.
const RESIDUAL: &str = "npy";
