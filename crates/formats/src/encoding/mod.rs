//! Encodings that several formats use: archives, messages, pickles. They are independent of formats.
//!
//! | module | contents |
//! |---|---|
//! | `protobuf` | wire format, text format, tables of messages, patches |
//! | `pickle` | a machine that reads pickles and calls nothing, the imports that are permitted, a scan |
//! | `array` | NumPy's descriptions of arrays, in its files and in pickles |
//! | `flatbuffer` | tables, vectors and strings of FlatBuffers |
//! | `json` | errors of the parser of JSON |
//! | `zip`, `tar` | archives |

pub(crate) mod array;
pub(crate) mod flatbuffer;
pub(crate) mod json;
pub mod pickle;
pub(crate) mod protobuf;
pub(crate) mod tar;
pub(crate) mod zip;
