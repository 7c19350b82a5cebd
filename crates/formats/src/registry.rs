//! The tables by which the modules of frameworks are found: general code reads these, and names no framework.

use crate::encoding::pickle::known::Use;
#[cfg(steps)]
use crate::encoding::protobuf::schema::Message;
use crate::onnx::{Family, Formats};
use crate::scan::Outside;
use crate::{Format, Probe, glow, mxnet, numpy, onnx, paddle, safetensors, torch};

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
    &glow::STANDARD,
    &glow::BINARY,
    &glow::TEXT,
    &glow::ARCHIVE,
    &onnx::TENSOR,
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

/// The formats of ONNX's messages with operators of ONNX.
pub(crate) static ONNX: Formats =
    Formats { binary: &onnx::BINARY, text: &onnx::AS_TEXT, archive: &glow::STANDARD };

/// The frameworks that write operators of their own into ONNX's messages.
pub(crate) static ONNX_FAMILIES: &[&Family] = &[&glow::FAMILY];

/// How files begin that other formats would take for theirs, by their first bytes and their size.
pub(crate) static SIGNATURES: &[fn(&[u8], u64) -> bool] =
    &[mxnet::params::is_params, torch::is_numbered];

/// What files of formats that are not read are, by how they begin.
static NOT_READ: &[fn(&Probe<'_>) -> Option<&'static str>] = &[torch::identify];

/// What a file is, if its format is known and not read.
pub fn identify(probe: &Probe<'_>) -> Option<&'static str> {
    NOT_READ.iter().find_map(|identify| identify(probe))
}

/// What pickles of tensors need to import, by module and name, and what may be done with it.
pub(crate) static IMPORTS: &[fn(&str, &str) -> Option<Use>] =
    &[mxnet::states::imports, paddle::pickle::imports, torch::imports];

/// How frameworks keep the numbers of a model outside of a pickle.
pub(crate) static OUTSIDE: &[&Outside] = &[&torch::OUTSIDE];

/// The messages that formats read as protobuf, with a number that their versions and types may be.
#[cfg(steps)]
pub(crate) static MESSAGES: [(&Message, usize); 2] =
    [(&onnx::schema::MODEL, 1), (&paddle::program::schema::PROGRAM, 0)];

/// Formats that are read and not written, with their titles.
pub static READ_ONLY: &[(&str, &str)] = &[mxnet::BLOCK, paddle::PIR];

/// What the format called `name` is, in a few words, also if models in it are only read.
pub fn title(name: &str) -> Option<&'static str> {
    let read_only = || READ_ONLY.iter().find(|(known, _)| *known == name).map(|(_, title)| *title);
    named(name).map(|format| format.title).or_else(read_only)
}

/// The format called `name`.
pub fn named(name: &str) -> Option<&'static Format> {
    FORMATS.iter().copied().find(|format| format.name == name)
}
