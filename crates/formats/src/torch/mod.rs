//! PyTorch.
//!
//! | module | contents |
//! |---|---|
//! | `detect` | detection of PyTorch files |
//! | `archive` | the zip archives of all releases since 1.0, and their members |
//! | `element` | element types |
//! | `view`, `strided` | tensors as views of storages |
//! | `package` | the weights of exported programs |
//! | `imports` | imports and calls of pickles of tensors |
//! | `storages` | the tensors in a pickle, whose elements are outside of it |
//! | `outside` | the location of these elements, in archives and after pickles; programs in archives |

#![allow(dead_code, reason = "used by the readers that follow")]

pub(crate) mod archive;
mod detect;
pub(crate) mod element;
mod imports;
mod outside;
pub(crate) mod package;
mod storages;
mod strided;
pub(crate) mod view;

pub(crate) use detect::identify;
pub(crate) use imports::imports;
pub(crate) use outside::{OUTSIDE, is_numbered};
