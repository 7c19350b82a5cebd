//! Protocol buffers, as model files use them.
//!
//! | part | what it does |
//! |---|---|
//! | [`varint`] | numbers of several bytes |
//! | [`wire`] | fields of a message in the order and the encoding they have, with their offsets |
//! | [`glance`] | what a file begins with |
//! | [`holes`] | messages without the elements of their tensors |
//! | [`schema`] | messages as tables: names, numbers and types of fields |
//! | [`text`] | text format to wire format and back, by the tables |
//! | [`patch`] | puts the difference between two encodings into a third |
//!
//! Source of truth: the encoding and text format pages of protobuf.dev.
//!
//! Not here: generated message types. A model file has to come back byte for byte, and an error
//! has to name the offset; message libraries keep neither the order of fields, nor the choice
//! between encodings, nor where a field was.

pub(crate) mod glance;
pub(crate) mod holes;
pub(crate) mod patch;
pub(crate) mod schema;
pub(crate) mod text;
pub(crate) mod varint;
pub(crate) mod wire;

#[cfg(test)]
mod tests;
