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
mod onnx_check;
mod onnx_hostile;
mod onnx_infer;
mod onnx_tensor;
mod onnx_upgrade;
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
