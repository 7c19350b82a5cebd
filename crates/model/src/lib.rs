//! The model types: tensors, programs and named parameters.
//!
//! This crate accesses no files and holds no rules of any framework. Readers build these values, writers encode
//! them, and everything in between transforms them. Details of a format beyond these types (unknown fields, field
//! presence, the choice among encodings) are kept in an opaque [`Residual`] on the node they belong to.
//!
//! | type | contents |
//! |---|---|
//! | [`Model`] | named [`Programs`] (`main`, `startup`), parameters in file order, metadata, the files they were read from |
//! | [`Program`] | blocks of operators over variables, in a [`Dialect`]; its [`Revision`] changes with every mutable access |
//! | [`ValueType`] | the type of a variable, recursive: a tensor, a list, a dictionary, an optional value |
//! | [`TensorType`], [`Tensor`] | element type, dims, layout and quantization; with elements |
//! | [`Reserved`] | properties of one dialect, behind accessors of its schema |
//! | [`Sources`], [`Recipe`] | where operators and constants of a translated program come from |
//!
//! Models whose operators quantize keep these operators, and have no quantization in types. Free text of a format stays
//! text, as the attribute `doc_string`, until its meaning is needed.
//!
//! ```
//! use lodstone_model::{DType, Model, Parameter, Tensor};
//! use lodstone_store::Blob;
//!
//! let elements: Vec<u8> = [1.0_f32, 2.0].iter().flat_map(|it| it.to_le_bytes()).collect();
//! let tensor = Tensor::dense(DType::Float32, vec![2], Blob::memory(elements));
//! let parameters = vec![Parameter { name: "bias".to_owned(), tensor }];
//! let model = Model { parameters, ..Model::default() };
//! assert_eq!(model.parameter("bias").map(|bias| bias.shape.clone()), Some(vec![2]));
//! assert_eq!(model.nbytes(), 8);
//! ```
//!
//! # Compatibility
//!
//! A new field of these types is not a breaking change. Values that callers build have public fields, of which a literal
//! leaves the rest to a value that has them all: `Op { kind, ..Op::default() }`, `..Topology::new(dialect)`,
//! `..Tensor::dense(dtype, shape, data)`; a pattern ends with `..`. Code that rewrites programs should instead list all
//! fields, so that the compiler asks what becomes of a new one. Values that callers only read are `#[non_exhaustive]`, as
//! are the enums [`Dialect`], [`DType`] and [`Loss`]; those that say what a value can be ([`AttributeValue`], [`ValueType`],
//! [`Kind`]) are exhaustive, since a `match` that passes over a new kind would lose it without a word.

#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

mod attribute;
mod dtype;
mod element;
mod indices;
mod limits;
mod lod;
mod model;
pub mod narrow;
mod nested;
mod options;
mod program;
mod programs;
mod provenance;
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
pub use program::{Block, ByDialect, Dialect, Function, Op, Operand, Topology, Var};
pub use programs::Programs;
pub use provenance::{Made, Recipe, Source, Sources};
pub use report::{Loss, Report, some};
pub use reserved::Reserved;
pub use residual::Residual;
pub use revision::{Program, Revision};
pub use tensor::{Dim, Indices, Kind, Layout, Packing, Quantization, Tensor, TensorType};
pub use value::{Holder, TypeCode, ValueType};
