//! Caffe2: nets, blobs and databases of blobs.
//!
//! A model is a pair of nets, in files of their own. The `init_net` fills blobs with the weights, the `predict_net`
//! computes. Both are one protobuf message, `NetDef`, binary or as text:
//!
//! | message | in the model |
//! |---|---|
//! | `NetDef` | a program: 1 name, 2 operators, 3 and 6 attributes, 7 external inputs, 8 external outputs |
//! | `OperatorDef` | an operator: 1 inputs, 2 outputs, 3 name, 4 kind, 5 arguments |
//! | `Argument` | an attribute (`argument`); a net in it is a block of the program, by index |
//! | an operator that fills a blob, in an `init_net` | a parameter (`fill`) |
//! | `TensorProto`, `QTensorProto` | a tensor (`tensor`) |
//! | `BlobProto` | a blob in a file of its own, or in a database (`records`) |
//! | `MetaNetDef` | the first record of a database with nets: both nets and the names of blobs |
//!
//! Values in arguments are not packed: each has a tag. They are read through views that leave the tags out.
//!
//! If several operators write a blob, the last one counts. An exporter fills each input with a single zero, which is
//! not a parameter.
//!
//! Source of truth: `caffe2.proto`, `metanet.proto` and `given_tensor_fill_op.h` of Caffe2 (PyTorch 1.9.1), and files that
//! it wrote.
//!
//! Not supported: nets of Caffe (1), and databases other than `minidb`.

mod argument;
mod detect;
mod fill;
mod layout;
mod net;
mod pair;
mod records;
pub(crate) mod schema;
mod tensor;
mod values;
mod weights;
mod write;

pub(crate) use detect::after_comments;
pub use net::read_blob as read_net;
pub use records::{BLOB, MINIDB, PREDICTOR, read as read_records};

use lodstone_model::Dialect;

use crate::format::{Format, Prefix};
use crate::options::Holds;

/// The owners of residuals: of nodes, of a net that was read from text, of one whose bytes its structure does not
/// determine, and of parameters.
const OWNER: &str = "caffe2";
const TEXT: &str = "caffe2 text";
const VERBATIM: &str = "caffe2 verbatim";
const PARAMETER: &str = "caffe2 fill";

/// The format in error messages.
const TITLE: &str = "a Caffe2 net";

/// A pair of binary nets.
pub static BINARY: Format = Format {
    name: "caffe2",
    title: "Caffe2 nets (`predict_net.pb`, `init_net.pb`)",
    framework: "Caffe2",
    holds: Holds {
        tensors: true,
        program: Some(Dialect::Caffe2),
        startup: true,
        names: true,
        strings: true,
        dtype: |dtype| fill::operator(dtype).is_some(),
        ..Holds::NOTHING
    },
    alone: Some("caffe2-minidb"),
    into_directory: true,
    prefix: Some(Prefix { endings: &["_predict_net.pb"], find: layout::by_prefix }),
    detect: detect::detect,
    files: &["predict_net.pb", "init_net.pb"],
    read: pair::open,
    stage: write::write,
    ..Format::PLAIN
};

/// A pair of nets in protobuf's text format.
pub static TEXT_FORMAT: Format = Format {
    name: "caffe2-text",
    title: "Caffe2 nets as text (`predict_net.pbtxt`, `init_net.pbtxt`)",
    is_text: true,
    extension: "pbtxt",
    files: &["predict_net.pbtxt", "init_net.pbtxt"],
    prefix: None,
    // Detected as the binary one, whose reader determines the actual format.
    detect: |_| false,
    stage: write::write_text,
    ..BINARY
};
