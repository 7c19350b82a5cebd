//! All tests of the crate, in one binary.

mod buckets;
mod common;
mod hostile;
mod hub;
mod reading;
mod refusing;
