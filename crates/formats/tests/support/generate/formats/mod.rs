//! Hostile files by format: a function for each format, a module for each family.

mod caffe2;
mod mxnet;
mod numpy;
mod onnx;
mod paddle;
mod paddle_pir;
mod paddle_program;
mod paddle_stream;
mod pickle;
mod safetensors;
mod seal;
mod sharded;
mod torch;

use super::Hostile;

/// A format and its hostile files.
type Generator = (&'static str, fn() -> Vec<Hostile>);

/// All formats, and the seal.
pub const GENERATORS: &[Generator] = &[
    ("safetensors", safetensors::safetensors),
    ("mxnet-params", mxnet::mxnet_params),
    ("mxnet-npz", mxnet::mxnet_npz),
    ("mxnet", mxnet::mxnet),
    ("mxnet-symbol", mxnet::mxnet_symbol),
    ("mxnet-states", pickle::mxnet_states),
    ("npz", numpy::npz),
    ("npy", numpy::npy),
    ("torch", torch::torch),
    ("torchscript", torch::torchscript),
    ("torch-exported", torch::exported),
    ("torch-distributed", sharded::torch),
    ("executorch", torch::executorch),
    ("caffe2", caffe2::nets),
    ("caffe2-text", caffe2::texts),
    ("caffe2-minidb", caffe2::databases),
    ("caffe2-predictor", caffe2::predictors),
    ("caffe2-blob", caffe2::blobs),
    ("onnx", onnx::onnx),
    ("onnx-text", onnx::onnx_text),
    ("onnx-zip", onnx::onnx_zip),
    ("onnx-glow", onnx::onnx_glow),
    ("onnx-glow-text", onnx::onnx_glow_text),
    ("onnx-glow-zip", onnx::onnx_glow_zip),
    ("onnx-tensor", onnx::onnx_tensor),
    ("paddle-distributed", sharded::paddle),
    ("paddle", paddle::paddle),
    ("paddle-vars", paddle::paddle_vars),
    ("paddle-save", paddle::paddle_save),
    ("paddle-pir", paddle_pir::paddle_pir),
    ("paddle-params", paddle_stream::paddle_params),
    ("paddle-params-sized", paddle_stream::paddle_params_sized),
    ("paddle-pickle", pickle::paddle_pickle),
    ("paddle-tensor", paddle_stream::paddle_tensor),
    ("paddle-tensor-lod-last", paddle_stream::paddle_tensor_lod_last),
    ("paddle-program", paddle_program::paddle_program),
    ("paddle-program-text", paddle_program::paddle_program_text),
    ("seal", seal::seal),
];
