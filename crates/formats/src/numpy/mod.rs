//! NumPy arrays: `.npy`, one array without a name, and `.npz`, a zip archive of them.
//!
//! An array:
//!
//! | bytes | contents |
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
//! | `fortran_order` | whether the first axis varies fastest |
//! | `shape` | `()`, `(3,)`, `(3, 5)` |
//!
//! An archive: members stored or deflated; the member `x.npy` is the array `x`.
//!
//! Elements with another byte order or order of axes, and deflated ones, are converted on
//! read, in bounded memory. Deflated bytes are verified against their CRC-32 when the
//! last one is read; stored bytes are verified on request (`Model::checksums`).
//!
//! An unedited array is written with its original header and elements;
//! others as `numpy.save` writes them. Archives are written with stored members, as by
//! `numpy.savez`.
//!
//! Headers are parsed here, by a parser of Python literals that input cannot make recurse.
//!
//! Source of truth: `numpy/lib/_format_impl.py` and `_npyio_impl.py` of NumPy 2.4, and files that
//! it wrote; APPNOTE.TXT 6.3.10 of PKWARE for the archive.
//!
//! NumPy has no bfloat16. The encodings that frameworks use for it are supported.
//!
//! Not supported: arrays of Python objects (pickles, which are never loaded), structures, text,
//! dates, raw bytes (as which NumPy saves bfloat16 and similar types without their name) and extended
//! precision; bytes after the array; archives with other methods, encryption or several disks.

mod detect;
mod header;
mod read;
pub(crate) mod survey;
mod write;

pub(crate) use crate::encoding::array::{CODES, MAX_RANK, code};
pub(crate) use header::{BFLOAT16, encode_as};
pub(crate) use read::{contents, tensor};
pub(crate) use write::{as_it_was, parts};

pub use detect::{is_npy, is_npz};
pub use read::{read_npy, read_npy_blob, read_npz, read_npz_blob};

use crate::byte_map::Mapper;
use crate::format::{Format, Structure};
use crate::options::Holds;

/// One array.
pub static NPY: Format = Format {
    name: "npy",
    title: "a NumPy array",
    framework: "NumPy",
    holds: Holds { names: false, ..HOLDS },
    extension: "npy",
    detect: detect::detect_npy,
    byte_maps: &[&NPY_BYTE_MAP],
    structure: Some(Structure { tail: 0, ..Structure::ARRAYS }),
    read: read_npy,
    stage: write::write_npy,
    ..Format::PLAIN
};

/// An archive of arrays.
pub static NPZ: Format = Format {
    name: "npz",
    title: "an archive of NumPy arrays",
    framework: "NumPy",
    holds: HOLDS,
    extension: "npz",
    detect: detect::detect_npz,
    byte_maps: &[&NPZ_BYTE_MAP],
    structure: Some(Structure::ARRAYS),
    read: read_npz,
    stage: write::write_npz,
    ..Format::PLAIN
};

/// Byte maps of arrays.
static NPY_BYTE_MAP: Mapper =
    Mapper { what: "NumPy arrays", detect: detect::detect_npy, read: read::map };

/// Byte maps of archives of arrays.
static NPZ_BYTE_MAP: Mapper = Mapper {
    what: "archives of NumPy arrays",
    detect: detect::detect_npz,
    read: read::map_archive,
};

const HOLDS: Holds =
    Holds { tensors: true, names: true, dtype: |dtype| code(dtype).is_some(), ..Holds::NOTHING };

/// The first bytes of an array.
const MAGIC: [u8; 6] = *b"\x93NUMPY";

/// The suffix of members that are arrays.
const SUFFIX: &str = ".npy";

/// Maximum size of a header in bytes: that of version 1.0. The default limit of NumPy itself is
/// 10 000.
const MAX_HEADER: u64 = 65_535;

/// The owner of the residual of a tensor: the bytes of an array before its elements.
const RESIDUAL: &str = "npy";
