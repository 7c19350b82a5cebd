//! Programs of PaddlePaddle: built, run, trained.
//!
//! | module | what is there |
//! |---|---|
//! | [`program`] | makes programs: networks of layers, gradients, optimizers, operators that load and save, pruning |
//! | [`executor`] | runs them: a scope of variables, an executor |
//! | [`checkpoint`] | saves and restores the variables of a program, by operators or as serials of `lodstone-checkpoint` |
//!
//! What of a program computes is lowered to ONNX's operators, which `lodstone-engine` plans and runs; side effects,
//! LoD, sparse rows, random numbers and optimizers are operators of the executor's own.

#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

pub mod checkpoint;
pub mod executor;
pub mod program;
