//! Glow: ONNX messages with Glow's own or ONNX operators, optionally in an archive.
//!
//! | part | where |
//! |---|---|
//! | the messages | `onnx` |
//! | the archive: the model, and each tensor in its own member | `onnx/zip.rs` |
//! | the producer name that identifies Glow's operators, padded constants | here, `schema::glow` |
//!
//! Source of truth: `ONNXModelWriter.cpp` and `ONNXModelLoader.cpp` of Glow, and files that it wrote.

use lodstone_model::Dialect;
use lodstone_schema::glow::Storage;

use crate::format::Format;
use crate::onnx::{Family, Formats, archive, binary, text};

/// Glow's archive with operators of ONNX.
pub static STANDARD: Format = Format {
    extension: "onnx.zip",
    ..archive("onnx-zip", "ONNX in Glow's archive", Dialect::Onnx)
};

/// A binary file with Glow's own operators.
pub static BINARY: Format = binary("onnx-glow", "ONNX with Glow's operators", Dialect::Glow);

/// A text file with Glow's own operators.
pub static TEXT: Format =
    text("onnx-glow-text", "ONNX with Glow's operators, as text", Dialect::Glow);

/// An archive with Glow's own operators.
pub static ARCHIVE: Format =
    archive("onnx-glow-zip", "ONNX with Glow's operators, in an archive", Dialect::Glow);

/// Models whose operators are Glow's own.
pub(crate) static FAMILY: Family = Family {
    producer: "GlowONNXModelWriter",
    dialect: Dialect::Glow,
    formats: Formats { binary: &BINARY, text: &TEXT, archive: &ARCHIVE },
    strides: |text| Storage::parse(text).ok()?.strides,
};
