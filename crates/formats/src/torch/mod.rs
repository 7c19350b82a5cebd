//! PyTorch, as far as a scan looks into its files; models are not read.
//!
//! | module | what is there |
//! |---|---|
//! | `detect` | which files are PyTorch's |
//! | `imports` | what pickles of tensors import and call |
//! | `storages` | the tensors in a pickle, whose elements are outside of it |
//! | `outside` | where these elements are, in archives and behind pickles; programs in archives |
//!
//! Until 0.1.10 PyTorch wrote tape archives, which it still reads.

mod detect;
mod imports;
mod outside;
mod storages;

pub(crate) use detect::identify;
pub(crate) use imports::imports;
pub(crate) use outside::{OUTSIDE, is_numbered};
