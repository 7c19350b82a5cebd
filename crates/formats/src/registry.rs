//! The table of formats, which no format knows.

use crate::{Format, mxnet, numpy, onnx, paddle, safetensors};

/// Every format, in the order of detection: those with a signature first.
pub static FORMATS: &[&Format] = &[
    &safetensors::FORMAT,
    &mxnet::params::PARAMS,
    &mxnet::params::NPZ,
    &mxnet::BUNDLE,
    &mxnet::SYMBOL,
    &mxnet::states::FORMAT,
    &numpy::NPZ,
    &numpy::NPY,
    &onnx::BINARY,
    &onnx::AS_TEXT,
    &onnx::ZIP,
    &onnx::GLOW,
    &onnx::GLOW_TEXT,
    &onnx::GLOW_ZIP,
    &paddle::BUNDLE,
    &paddle::VARS,
    &paddle::SAVE,
    &paddle::PARAMS,
    &paddle::PARAMS_SIZED,
    &paddle::PICKLE,
    &paddle::TENSOR,
    &paddle::TENSOR_LOD_LAST,
    &paddle::PROGRAM,
    &paddle::PROGRAM_TEXT,
];

/// The format called `name`.
pub fn named(name: &str) -> Option<&'static Format> {
    FORMATS.iter().copied().find(|format| format.name == name)
}
