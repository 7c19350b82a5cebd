//! Encodings that several formats use: archives, messages, pickles. They are independent of formats.

pub(crate) mod array;
pub(crate) mod flatbuffer;
pub(crate) mod json;
pub mod pickle;
pub(crate) mod protobuf;
pub(crate) mod tar;
pub(crate) mod zip;
