//! Tables of the framework modules: general code uses these tables and refers to no framework directly.

use lodstone_model::{Dialect, Limits, Model, Tensor};
use lodstone_store::Blob;

use crate::byte_map::Mapper;
use crate::encoding::pickle::known::Use;
#[cfg(steps)]
use crate::encoding::protobuf::schema::Message;
use crate::error::Result;
use crate::format::{Format, Probe};
use crate::onnx::{Family, Formats};
use crate::scan::Outside;
use crate::sharding::ShardFormat;
use crate::{caffe2, glow, mxnet, numpy, onnx, paddle, safetensors, torch};

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
    &torch::SAVED,
    &torch::SCRIPT,
    &torch::EXPORTED,
    &torch::DISTRIBUTED,
    &torch::EXECUTORCH,
    &caffe2::BINARY,
    &caffe2::TEXT_FORMAT,
    &caffe2::MINIDB,
    &caffe2::PREDICTOR,
    &caffe2::BLOB,
    &onnx::BINARY,
    &onnx::AS_TEXT,
    &glow::STANDARD,
    &glow::BINARY,
    &glow::TEXT,
    &glow::ARCHIVE,
    &onnx::TENSOR,
    &paddle::distributed::FORMAT,
    &paddle::BUNDLE,
    &paddle::VARS,
    &paddle::SAVE,
    &paddle::PIR,
    &paddle::PARAMS,
    &paddle::PARAMS_SIZED,
    &paddle::PICKLE,
    &paddle::TENSOR,
    &paddle::TENSOR_LOD_LAST,
    &paddle::PROGRAM,
    &paddle::PROGRAM_TEXT,
];

/// The formats of models in shards.
pub fn shard_formats() -> impl Iterator<Item = &'static ShardFormat> {
    FORMATS.iter().filter_map(|format| format.shards)
}

/// The formats of ONNX messages with ONNX operators.
pub(crate) static ONNX: Formats =
    Formats { binary: &onnx::BINARY, text: &onnx::AS_TEXT, archive: &glow::STANDARD };

/// The frameworks that write their own operators into ONNX messages.
pub(crate) static ONNX_FAMILIES: &[&Family] = &[&glow::FAMILY];

/// Signatures of files that other formats would misdetect, by first bytes and size.
pub(crate) static SIGNATURES: &[fn(&[u8], u64) -> bool] =
    &[mxnet::params::is_params, torch::is_numbered];

/// Detection of formats that are not read, by first bytes.
static NOT_READ: &[fn(&Probe<'_>) -> Option<&'static str>] = &[torch::identify];

/// Returns a description of the file, if its format is known but not read.
pub fn identify(probe: &Probe<'_>) -> Option<&'static str> {
    NOT_READ.iter().find_map(|identify| identify(probe))
}

/// Imports that pickles of tensors need, by module and name, and their allowed uses.
pub(crate) static IMPORTS: &[fn(&str, &str) -> Option<Use>] =
    &[mxnet::states::imports, paddle::pickle::imports, torch::imports];

/// Whether there are such imports of names of a module.
pub(crate) static MODULES: &[fn(&str) -> bool] = &[torch::has_module];

/// The byte maps of all formats, in the order of detection.
pub fn byte_maps() -> impl Iterator<Item = &'static Mapper> {
    FORMATS.iter().flat_map(|format| format.byte_maps).copied()
}

/// The ways in which frameworks store elements outside of a pickle.
pub(crate) static OUTSIDE: &[&Outside] = &[&torch::OUTSIDE];

/// Texts that no reader recognizes, and other software loads: what they are.
pub(crate) static TEXTS: &[fn(&str) -> Option<&'static str>] = &[caffe2::after_comments];

/// The devices that files record for tensors, from their residuals.
static CONTEXTS: &[fn(&Tensor) -> Option<String>] = &[mxnet::params::context];

/// Returns the device that held a tensor when it was saved, if its file records one.
pub fn context(tensor: &Tensor) -> Option<String> {
    CONTEXTS.iter().find_map(|context| context(tensor))
}

/// The messages of formats based on protobuf, with a valid value for versions and types.
#[cfg(steps)]
pub(crate) static MESSAGES: [(&Message, usize); 2] =
    [(&onnx::schema::MODEL, 1), (&paddle::program::schema::PROGRAM, 0)];

/// Formats that are read but not written, with their titles.
pub static READ_ONLY: &[(&str, &str)] = &[mxnet::BLOCK];

/// Returns the description of the format called `name`, including formats that are only read.
pub fn title(name: &str) -> Option<&'static str> {
    let read_only = || READ_ONLY.iter().find(|(known, _)| *known == name).map(|(_, title)| *title);
    named(name).map(|format| format.title).or_else(read_only)
}

/// Returns the format called `name`.
pub fn named(name: &str) -> Option<&'static Format> {
    FORMATS.iter().copied().find(|format| format.name == name)
}

/// Returns the reader of programs that operators of a dialect have as texts in arguments.
pub fn reader_of_texts(dialect: Dialect) -> Option<fn(&Blob, &Limits) -> Result<Model>> {
    match dialect {
        Dialect::Caffe2 => {
            Some(|blob, limits| caffe2::read_net(blob, "an argument.pbtxt", limits, false))
        }
        _ => None,
    }
}
