//! What a model is: tensors, programs, parameters by name.
//!
//! No files, no rules of any framework. Readers build these values, writers take them apart, and
//! everything between works on them. What a format says beyond them (unknown fields, presence,
//! which of several encodings) travels in an opaque [`Residual`] on the node it belongs to.

#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

mod attribute;
mod dtype;
mod element;
mod indices;
mod limits;
mod lod;
mod model;
mod nested;
mod options;
mod program;
mod programs;
mod report;
mod reserved;
mod residual;
mod revision;
mod tensor;
mod value;

pub use attribute::{Attribute, AttributeValue, ByteString, Complex, Scalar};
pub use dtype::DType;
pub use element::{Element, ElementError};
pub use limits::Limits;
pub use lod::{Lod, LodError};
pub use model::{Checksum, Model, Parameter};
pub use nested::{MAX_DEPTH, Nested, TooDeep};
pub use program::{Block, Dialect, Function, Op, Operand, Topology, Var};
pub use programs::Programs;
pub use report::{Loss, Report, some};
pub use reserved::Reserved;
pub use residual::Residual;
pub use revision::{Program, Revision};
pub use tensor::{Dim, Indices, Kind, Layout, Packing, Quantization, Tensor, TensorType};
pub use value::{Holder, TypeCode, ValueType};
