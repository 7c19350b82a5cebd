//! Kernels with packed constants give what the reference kernels give, with odd sizes of every kind.

#![expect(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

mod case;
mod convolutions;
mod integers;
mod products;
