//! Tests of the library, in one binary: each links the engine. `memory`, `fuzz` and `steps` are apart, as they count
//! what a process does.

mod cases;
mod floats;
mod golden_models;
mod graphs;
mod mxnet_runs;
#[expect(dead_code, reason = "the tests of PaddlePaddle use more of it")]
#[expect(clippy::disallowed_methods, reason = "reads golden files directly")]
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "recorded numbers fit")]
#[path = "../../paddle/tests/operators/recorded.rs"]
mod paddle_recorded;
mod recorded;
mod torch_runs;
mod zipped;

mod agreement;
mod built_programs;
mod byte_maps;
mod caffe2;
mod caffe2_cases;
mod cast;
mod choice;
mod convert;
mod covered;
mod defaults;
mod dependencies;
mod diff;
mod documents;
mod embedded;
mod errors;
mod exported_operators;
mod face;
mod frameworks;
mod glow;
mod glow_cases;
mod glow_from_onnx;
mod glow_round_trip;
mod glow_standard;
mod glow_to_onnx;
mod graph;
mod in_memory;
mod inspect;
mod interrupted;
mod limitations;
mod locks;
mod modules;
mod mxnet_cases;
mod mxnet_checks;
mod mxnet_golden;
mod open;
mod origins;
mod paddle_models_to_onnx;
mod paddle_older;
mod paddle_pir;
mod paddle_to_onnx;
mod planned;
mod recipes;
mod reshard;
mod runs;
mod scan;
mod seal;
mod selected;
mod sources;
mod torch_cases;
mod torch_early;
mod torch_files;
mod torch_hostile;
mod torch_states;
mod torchscript_cases;
mod train;
