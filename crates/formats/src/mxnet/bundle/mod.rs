//! MXNet models as distributed: a program and its parameters, in files that belong together.
//!
//! | file | contents |
//! |---|---|
//! | `X-symbol.json` | the program |
//! | `X-0000.params`, `X-0012.params` | parameters, one file for each epoch that was saved |
//! | `X-model.json`, `MyModel-model.params` | a Gluon block of MXNet 2, with a program if it was hybridized ([`block`]) |
//!
//! A path may be the program, a directory that holds one, or the prefix `X`; a parameter file can be
//! opened alone. Parameters are named `arg:NAME` or `aux:NAME`, where `NAME` is a variable of the
//! program: an argument, or an auxiliary state, which operators modify. A variable that the program reads and
//! the parameters lack is an input; if it looks like a parameter, there is a warning. Of several epochs,
//! the last is opened.
//!
//! Source of truth: `python/mxnet/model.py` and `gluon/block.py` of MXNet 1.9.1.

mod block;
mod detect;
mod layout;
mod read;
mod write;

pub(crate) use block::FORMAT as BLOCK;
pub use read::open;

use lodstone_model::Dialect;
use lodstone_schema::mxnet::variable_of;

use crate::format::{Format, Prefix, Structure};
use crate::mxnet::params;
use crate::options::Holds;

/// A program and its parameters.
pub static BUNDLE: Format = Format {
    name: "mxnet",
    title: "MXNet program and parameters",
    framework: "MXNet",
    holds: Holds { program: Some(Dialect::Mxnet), unnamed: false, ..params::PARAMS.holds },
    alone: Some("mxnet-params"),
    into_directory: true,
    extension: "symbol.json",
    prefix: Some(Prefix {
        endings: &["-symbol.json", "-model.json", "-0000.params"],
        find: detect::by_prefix,
    }),
    detect: detect::detect,
    variable_of,
    byte_maps: params::PARAMS.byte_maps,
    files: &["model-symbol.json", "model-0000.params"],
    read: read::open,
    stage: write::write_bundle,
    ..Format::PLAIN
};

/// A program without parameters.
pub static SYMBOL: Format = Format {
    name: "mxnet-symbol",
    title: "MXNet program",
    holds: Holds { tensors: false, ..BUNDLE.holds },
    is_text: true,
    extension: "",
    into_directory: false,
    prefix: None,
    byte_maps: &[],
    files: &["model-symbol.json"],
    // Names are repeated wherever a value is used, up to 16 times the bytes and a mebibyte.
    structure: Some(Structure {
        memory_factor: 64,
        memory_constant: 3 << 20,
        tokens: b"0123456789[]{},:\"-\\ntf",
        head: 4000,
        tail: 600,
    }),
    // Detected as the bundle, whose reader determines the actual format.
    detect: |_| false,
    stage: write::write_symbol,
    ..BUNDLE
};
