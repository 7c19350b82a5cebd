//! PaddlePaddle programs: building, running and training them.
//!
//! | module | contents |
//! |---|---|
//! | [`program`] | builds programs: networks of layers, gradients, optimizers, operators that load and save, pruning |
//! | [`executor`] | runs them: a scope of variables, an executor |
//! | [`checkpoint`] | saves and restores the variables of a program, by operators or as serials of `lodstone-checkpoint` |
//!
//! Computations are lowered to ONNX's operators, which `lodstone-engine` plans and runs; the executor has native functions
//! for side effects, LoD, sparse rows, random numbers and optimizers.
//!
//! ```
//! use lodstone_model::{DType, Tensor};
//! use lodstone_paddle::executor::{Dirs, Executor, Scope};
//! use lodstone_paddle::program::layers::{self, Fc};
//! use lodstone_paddle::program::optimizer::{Optimizer, Sgd};
//! use lodstone_paddle::program::Network;
//! use lodstone_store::Blob;
//!
//! let mut net = Network::new();
//! let x = layers::data(&mut net, "x", &[None, Some(2)], DType::Float32);
//! let y = layers::fc(&mut net, &x, &Fc::new(1))?;
//! let loss = layers::mean(&mut net, &y)?;
//! Optimizer::new(Sgd, 0.1).minimize(&mut net, &loss)?;
//!
//! let (mut executor, mut scope, dirs) = (Executor::default(), Scope::default(), Dirs::default());
//! executor.run(&net.startup, &mut scope, &[], &[], &dirs)?;
//! let ones: Vec<u8> = [1.0_f32; 4].iter().flat_map(|it| it.to_le_bytes()).collect();
//! let batch = Tensor::dense(DType::Float32, vec![2, 2], Blob::memory(ones));
//! let mut losses = Vec::new();
//! for _ in 0..2 {
//!     let fetched = executor.run(&net.main, &mut scope, &[("x", batch.clone())], &[loss.name()], &dirs)?;
//!     losses.push(fetched[0].to_vec::<f32>()?[0]);
//! }
//! assert!(losses[1] < losses[0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

pub mod checkpoint;
pub mod executor;
pub mod program;
