//! ONNX: a program and its tensors in one protobuf message, `ModelProto`, binary or as text.
//!
//! | message | in the model |
//! |---|---|
//! | `ModelProto` | a program: 1 version, 8 opsets, 14 metadata, 25 functions, 2-6 attributes |
//! | `GraphProto` | a block: 1 operators, 5 and 15 tensors, 11 inputs, 12 outputs, 13 other variables |
//! | `NodeProto` | an operator: 1 inputs, 2 outputs, 3 name, 4 kind, 5 attributes, 7 opset domain |
//! | `AttributeProto` | an attribute; a graph in it is a block of the program, by index |
//! | `ValueInfoProto` | a variable |
//! | `TensorProto` | a tensor; its elements are a range of the file, or of another one |
//! | `FunctionProto` | a function, and the block that defines it |
//!
//! Everything else (device configurations, training information, quantization annotations, metadata of
//! nodes, unknown fields) is kept but not shown.
//!
//! Tensors of the main graph are the parameters of the model, those of subgraphs belong to their block.
//! A model whose external data file is missing opens with a warning.
//!
//! Source of truth: `onnx.proto` of ONNX 1.23.2 (IR version 14), and its Python package.
//!
//! Other frameworks write the same messages, also in an archive, with their own or ONNX
//! operators (`Family`); the producer name distinguishes them.
//!
//! Not supported: ONNX's own textual syntax and JSON.

mod canonical;
mod detect;
mod elements;
mod external;
mod read;
pub(crate) mod schema;
mod single;
mod strided;
mod tensor;
mod types;
mod write;
mod zip;

pub use read::{TRAINING, read_blob};
pub use single::{TENSOR, read_tensor};

use lodstone_model::Dialect;

use crate::byte_map::{self, Mapper};
use crate::encoding::protobuf::map::map;
use crate::encoding::protobuf::schema::Message;
use crate::format::{Format, Structure};
use crate::options::Holds;
use crate::registry::{ONNX, ONNX_FAMILIES};

/// The owners of residuals: of nodes, of a model that was read from text, and of one whose bytes cannot be restored
/// from its structure.
const OWNER: &str = "onnx";
const TEXT: &str = "onnx text";
const VERBATIM: &str = "onnx verbatim";

/// The container of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Container {
    /// A binary message.
    Binary,
    /// Protobuf's text format.
    Text,
    /// An archive.
    Zip,
}

/// The formats of messages with the operators of one dialect.
#[derive(Debug)]
pub(crate) struct Formats {
    pub(crate) binary: &'static Format,
    pub(crate) text: &'static Format,
    pub(crate) archive: &'static Format,
}

/// A framework that writes its own operators into these messages.
#[derive(Debug)]
pub(crate) struct Family {
    /// The producer name in its models.
    pub(crate) producer: &'static str,
    pub(crate) dialect: Dialect,
    pub(crate) formats: Formats,
    /// Parses the strides of the elements of a tensor, outermost axis first, from its `doc_string`; `None` if it
    /// contains none.
    pub(crate) strides: fn(&str) -> Option<Vec<i64>>,
}

/// Returns a binary format that is detected as [`BINARY`], whose reader determines the actual format.
pub(crate) const fn binary(name: &'static str, title: &'static str, dialect: Dialect) -> Format {
    let holds = Holds {
        tensors: true,
        metadata: true,
        program: Some(dialect),
        names: true,
        coo: true,
        strings: true,
        dtype: |dtype| types::dtype_code(dtype).is_some(),
        ..Holds::NOTHING
    };
    Format {
        name,
        title,
        framework: dialect.framework(),
        holds,
        alone: Some("safetensors"),
        aligns: true,
        externals: true,
        byte_maps: const { &[&BYTE_MAP] },
        // Nodes are larger than their bytes.
        structure: Some(Structure { memory_factor: 90, ..Structure::BINARY }),
        read: read::read,
        stage: write::write,
        ..Format::PLAIN
    }
}

/// Returns the format with the same messages in protobuf's text format.
pub(crate) const fn text(name: &'static str, title: &'static str, dialect: Dialect) -> Format {
    Format {
        is_text: true,
        aligns: false,
        externals: false,
        byte_maps: &[],
        structure: Some(Structure { memory_factor: 90, ..Structure::TEXT }),
        stage: write::write_text,
        ..binary(name, title, dialect)
    }
}

/// Returns the format with the same messages in an archive.
pub(crate) const fn archive(name: &'static str, title: &'static str, dialect: Dialect) -> Format {
    Format {
        is_text: false,
        reads_member: zip::reads,
        byte_maps: const { &[&ZIP_BYTE_MAP] },
        structure: Some(Structure {
            memory_factor: 90,
            memory_constant: 768 << 10,
            head: 900,
            tail: 600,
            ..Structure::BINARY
        }),
        stage: zip::write,
        ..text(name, title, dialect)
    }
}

/// A binary file.
pub static BINARY: Format =
    Format { extension: "onnx", detect: detect::detect, ..binary("onnx", "ONNX", Dialect::Onnx) };

/// Byte maps of models.
static BYTE_MAP: Mapper = Mapper {
    what: "ONNX models",
    detect: |probe| detect::detect(probe) && detect::container(probe.head).is_none(),
    read: |blob, limits| {
        let recorded =
            byte_map::record(blob, |cursor| map(cursor, &schema::MODEL, limits, is_tensor));
        byte_map::checked(recorded, || read_blob(blob, &byte_map::origin(blob), limits))
    },
};

/// Byte maps of archives.
static ZIP_BYTE_MAP: Mapper = Mapper {
    what: "ONNX archives",
    detect: |probe| matches!(detect::container(probe.head), Some(Container::Zip)),
    read: zip::map,
};

/// Whether a field of a message, which is so many levels deep, is a parameter. Constants of subgraphs are not.
fn is_tensor(depth: usize, message: &Message, number: u32) -> bool {
    depth == 2 && message.name == schema::GRAPH.name && [5, 15].contains(&number)
}

/// A file in protobuf's text format.
pub static AS_TEXT: Format =
    Format { extension: "onnxtxt", ..text("onnx-text", "ONNX as text", Dialect::Onnx) };

/// Returns the format of a dialect in a container.
fn format_of(dialect: Dialect, container: Container) -> &'static Format {
    let own = ONNX_FAMILIES.iter().find(|family| family.dialect == dialect);
    let formats = own.map_or(&ONNX, |family| &family.formats);
    match container {
        Container::Binary => formats.binary,
        Container::Text => formats.text,
        Container::Zip => formats.archive,
    }
}
