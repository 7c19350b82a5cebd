//! PyTorch, as far as the scan inspects its files; models are not read.
//!
//! | module | contents |
//! |---|---|
//! | `detect` | detection of PyTorch files |
//! | `imports` | imports and calls of pickles of tensors |
//! | `storages` | the tensors in a pickle, whose elements are outside of it |
//! | `outside` | the location of these elements, in archives and after pickles; programs in archives |
//!
//! Until 0.1.10 PyTorch wrote tape archives, which it still reads.

mod detect;
mod imports;
mod outside;
mod storages;

pub(crate) use detect::identify;
pub(crate) use imports::imports;
pub(crate) use outside::{OUTSIDE, is_numbered};
