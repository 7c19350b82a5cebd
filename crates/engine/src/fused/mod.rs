//! Fused element-wise operators: several operators in one pass.
//!
//! Results equal those of the kernels, except for `Erf`, `Exp`, `Gelu`, `Sigmoid` and `Tanh`, which are equally accurate here
//! and vectorized. Tensors that are not single precision, and results with more elements than any input, are left to the
//! kernels.
//!
//! | file | contents |
//! |---|---|
//! | `chain.rs` | chains of operators |
//! | `inputs.rs` | the inputs of a chain |
//! | `rules.rs` | element-wise functions |

mod chain;
mod inputs;
mod rules;
#[cfg(test)]
mod tests;

pub(crate) use chain::{Chain, Producer};
pub(crate) use rules::{EpilogueStep, Rule, maximum, minimum};
