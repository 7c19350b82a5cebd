//! Tests of the formats, in one binary, with an allocator that counts.

#[path = "support/generate/mod.rs"]
mod generate;
mod support;

mod amplified;
mod byte_maps;
mod caffe2;
mod cases;
mod executorch;
mod glow;
mod hostile;
mod hostile_kinds;
mod mxnet;
mod mxnet_block;
mod mxnet_states;
mod numpy;
mod onnx;
mod onnx_attacks;
mod onnx_hostile;
mod onnx_tensor;
mod paddle;
mod paddle_pickle;
mod pickle_attacks;
mod refused_attributes;
mod safetensors;
mod sharded;
mod torch;
mod torchscript;

#[global_allocator]
static ALLOCATOR: support::counting::Counting = support::counting::Counting;

/// A format and its hostile files.
type Generator = (&'static str, fn() -> Vec<generate::Hostile>);

/// The hostile files of all formats, and of the seal.
const GENERATORS: &[Generator] = &[
    ("safetensors", safetensors::hostile::safetensors),
    ("mxnet-params", mxnet::hostile::mxnet_params),
    ("mxnet-npz", mxnet::hostile::mxnet_npz),
    ("mxnet", mxnet::hostile::mxnet),
    ("mxnet-symbol", mxnet::hostile::mxnet_symbol),
    ("mxnet-states", mxnet_states::hostile::mxnet_states),
    ("npz", numpy::hostile::npz),
    ("npy", numpy::hostile::npy),
    ("torch", torch::hostile::torch),
    ("torchscript", torch::hostile::torchscript),
    ("torch-exported", torch::hostile::exported),
    ("torch-distributed", sharded::hostile::torch),
    ("executorch", torch::hostile::executorch),
    ("caffe2", caffe2::hostile::nets),
    ("caffe2-text", caffe2::hostile::texts),
    ("caffe2-minidb", caffe2::hostile::databases),
    ("caffe2-predictor", caffe2::hostile::predictors),
    ("caffe2-blob", caffe2::hostile::blobs),
    ("onnx", onnx::hostile::onnx),
    ("onnx-text", onnx::hostile::onnx_text),
    ("onnx-zip", onnx::hostile::onnx_zip),
    ("onnx-glow", onnx::hostile::onnx_glow),
    ("onnx-glow-text", onnx::hostile::onnx_glow_text),
    ("onnx-glow-zip", onnx::hostile::onnx_glow_zip),
    ("onnx-tensor", onnx::hostile::onnx_tensor),
    ("paddle-distributed", sharded::hostile::paddle),
    ("paddle", paddle::hostile::paddle),
    ("paddle-vars", paddle::hostile::paddle_vars),
    ("paddle-save", paddle::hostile::paddle_save),
    ("paddle-pir", paddle::hostile::pir::paddle_pir),
    ("paddle-params", paddle::hostile::stream::paddle_params),
    ("paddle-params-sized", paddle::hostile::stream::paddle_params_sized),
    ("paddle-pickle", paddle_pickle::hostile::paddle_pickle),
    ("paddle-tensor", paddle::hostile::stream::paddle_tensor),
    ("paddle-tensor-lod-last", paddle::hostile::stream::paddle_tensor_lod_last),
    ("paddle-program", paddle::hostile::program::paddle_program),
    ("paddle-program-text", paddle::hostile::program::paddle_program_text),
    ("seal", generate::seal::seal),
];
