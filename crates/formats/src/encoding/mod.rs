//! What several formats are written in: archives, messages, pickles. None of it knows a format.

pub(crate) mod array;
pub(crate) mod json;
pub mod pickle;
pub(crate) mod protobuf;
pub(crate) mod tar;
pub(crate) mod zip;
