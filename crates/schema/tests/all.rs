//! Tests of the rules and algorithms, in one binary. Golden files are those of the formats, which read them.

mod support;

mod attributes;
mod check;
mod finding;
mod infer;
mod infer_hostile;
mod onnx_attributes;
mod onnx_operators;
mod onnx_simplify;
mod paddle;
mod upgrade;
