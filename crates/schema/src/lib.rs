//! Operators as data: what the operators of each framework are called, what slots they have, and
//! the conventions by which a program says what goes in, what comes out and what is saved.
//!
//! The tables under `data/` are made by the scripts beside them, with the real frameworks.

#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

mod conventions;
pub mod finding;
pub mod glow;
pub mod mxnet;
pub mod onnx;
mod origins;
pub mod paddle;
pub mod places;
mod risk;

pub use conventions::{Conventions, Interface, conventions};
pub use finding::{Code, Finding, Findings, Located, Operand};
pub use origins::{Origin, Origins};
pub use risk::Risk;
