//! ONNX: a program and its tensors in one protobuf message, `ModelProto`, binary or as text.
//!
//! | message | what it is here |
//! |---|---|
//! | `ModelProto` | a program: 1 version, 8 sets of operators, 14 metadata, 25 functions, 2-6 facts |
//! | `GraphProto` | a block: 1 operators, 5 and 15 tensors, 11 inputs, 12 outputs, 13 other variables |
//! | `NodeProto` | an operator: 1 inputs, 2 outputs, 3 name, 4 kind, 5 attributes, 7 set |
//! | `AttributeProto` | an attribute; a graph in it is a block of the program, by number |
//! | `ValueInfoProto` | a variable |
//! | `TensorProto` | a tensor; its elements are a range of the file, or of another one |
//! | `FunctionProto` | a function, and the block that defines it |
//!
//! Everything else (device configurations, training information, quantization annotations, metadata of
//! nodes, unknown fields) is kept, and not shown.
//!
//! Tensors of the main graph are the parameters of the model, those of subgraphs belong to their block.
//! A model whose elements are in a file that is not there opens, and says so.
//!
//! Source of truth: `onnx.proto` of ONNX 1.23.2 (IR version 14), and its Python package.
//!
//! Glow writes the same messages, also into an archive, with operators of its own or ONNX's; the
//! name of the producer tells which.
//!
//! Not supported: ONNX's own textual syntax and JSON.

mod canonical;
mod detect;
mod elements;
mod external;
mod read;
pub(crate) mod schema;
mod strided;
mod tensor;
mod types;
mod write;
mod zip;

pub use read::read_blob;

use lodstone_model::Dialect;

use crate::{Format, Holds, Probe};

/// Owners of residuals: of nodes, of a model that was read from text, and of one whose bytes its
/// structure does not give.
const OWNER: &str = "onnx";
const TEXT: &str = "onnx text";
const VERBATIM: &str = "onnx verbatim";

/// What a model is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Container {
    /// A binary message.
    Binary,
    /// Protobuf's text format.
    Text,
    /// Glow's archive.
    Zip,
}

const fn format(name: &'static str, title: &'static str, dialect: Dialect) -> Format {
    let holds = Holds {
        tensors: true,
        metadata: true,
        program: Some(dialect),
        names: true,
        unnamed: false,
        lod: false,
        selected_rows: false,
        sparse: false,
        coo: true,
        strings: true,
        vocabulary: false,
        dtype: |dtype| types::dtype_code(dtype).is_some(),
    };
    Format {
        name,
        title,
        holds,
        splits: false,
        aligns: true,
        externals: true,
        extension: "",
        prefix: None,
        // Found as the first of them, whose reader finds out which it is.
        detect: |_: &Probe<'_>| false,
        read: read::read,
        stage: write::write,
    }
}

/// A binary file.
pub static BINARY: Format =
    Format { extension: "onnx", detect: detect::detect, ..format("onnx", "ONNX", Dialect::Onnx) };

/// A file in protobuf's text format.
pub static AS_TEXT: Format = Format {
    aligns: false,
    externals: false,
    extension: "onnxtxt",
    stage: write::write_text,
    ..format("onnx-text", "ONNX as text", Dialect::Onnx)
};

/// Glow's archive with operators of ONNX.
pub static ZIP: Format = Format {
    aligns: false,
    externals: false,
    extension: "onnx.zip",
    stage: zip::write,
    ..format("onnx-zip", "ONNX in Glow's archive", Dialect::Onnx)
};

/// A binary file with Glow's own operators.
pub static GLOW: Format = format("onnx-glow", "ONNX with Glow's operators", Dialect::Glow);

/// The same as text.
pub static GLOW_TEXT: Format = Format {
    stage: write::write_text,
    aligns: false,
    externals: false,
    ..format("onnx-glow-text", "ONNX with Glow's operators, as text", Dialect::Glow)
};

/// The same in an archive.
pub static GLOW_ZIP: Format = Format {
    stage: zip::write,
    aligns: false,
    externals: false,
    ..format("onnx-glow-zip", "ONNX with Glow's operators, in an archive", Dialect::Glow)
};

/// The format of a program of a dialect in a container.
fn format_of(dialect: Dialect, container: Container) -> &'static Format {
    match (dialect == Dialect::Glow, container) {
        (true, Container::Binary) => &GLOW,
        (true, Container::Text) => &GLOW_TEXT,
        (true, Container::Zip) => &GLOW_ZIP,
        (false, Container::Binary) => &BINARY,
        (false, Container::Text) => &AS_TEXT,
        (false, Container::Zip) => &ZIP,
    }
}
