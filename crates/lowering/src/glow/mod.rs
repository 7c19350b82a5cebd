//! Translation between Glow's own operators and ONNX's.
//!
//! Both directions are static: Glow fixes every dim and inference propagates them, so there are no `Shape` operators,
//! and the types of all results can be compared with the declared ones. Values that only determine shapes are evaluated
//! and become no nodes.

pub(crate) mod elements;
pub(crate) mod from_onnx;
mod kinds;
mod to_onnx;

pub(crate) use from_onnx::from_onnx;
pub(crate) use to_onnx::{DOMAIN, to_onnx};
