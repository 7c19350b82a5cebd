#![doc = include_str!("../README.md")]
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

mod budget;
mod call;
mod context;
mod control;
mod curves;
mod dims;
mod error;
mod evaluate;
mod executable;
mod fast;
mod fused;
mod gemm;
mod geometry;
mod kernels;
mod layout;
mod narrow;
mod numerics;
mod operator;
mod plan;
mod profile;
mod quantized;
mod simd;
mod tensor;
mod threads;
mod value;

pub use budget::{Budget, Charge};
pub use context::{Context, Steps};
pub use error::{Error, OpError, Result};
pub use evaluate::{Folding, evaluate};
pub use executable::{Executable, ExecutableOptions, Session, State, is_computed, upgraded};
pub use gemm::RightMatrix;
pub use kernels::unsupported;
pub use numerics::{NUMERICS, cpu_level};
pub use plan::{Mode, Plan};
pub use profile::{OperatorTime, Profile};
pub use tensor::{Dense, bytes_of_singles};
pub use threads::Threads;
pub use value::{Map, Strings, Value};
