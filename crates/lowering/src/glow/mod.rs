//! Translation between Glow's own operators and ONNX's.

pub(crate) mod elements;
pub(crate) mod from_onnx;
mod kinds;
mod to_onnx;

pub(crate) use from_onnx::from_onnx;
pub(crate) use to_onnx::{DOMAIN, to_onnx};
