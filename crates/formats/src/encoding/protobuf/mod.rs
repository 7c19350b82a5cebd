//! Protocol buffers in model files.
//!
//! | part | purpose |
//! |---|---|
//! | [`varint`] | varints |
//! | [`wire`] | fields of a message in their order and encoding, with their offsets |
//! | [`glance`] | the first fields of a file |
//! | [`holes`] | messages without the elements of their tensors |
//! | [`schema`] | messages as tables: names, numbers and types of fields |
//! | [`text`] | text format to wire format and back, by the tables |
//! | [`map`] | byte maps, by the tables |
//! | [`run`] | values that are not packed, without decoding them |
//! | [`patch`] | applies the difference between two encodings to a third |
//!
//! Source of truth: the encoding and text format pages of protobuf.dev.
//!
//! Not here: generated message types. A model file must be written back byte for byte, and an error
//! must name the offset; message libraries keep neither the order of fields, nor the choice
//! among encodings, nor the position of a field.
//!
//! Programs may exceed 2 GiB, and the memory that reading takes is bounded by the file.

pub(crate) mod glance;
pub(crate) mod holes;
pub(crate) mod map;
pub(crate) mod patch;
mod run;
pub(crate) mod schema;
pub(crate) mod text;
pub(crate) mod varint;
pub(crate) mod wire;

#[cfg(test)]
mod tests;
