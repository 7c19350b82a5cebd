//! Runs programs: kernels, scope, executor.

#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

mod item;
mod kernels;
