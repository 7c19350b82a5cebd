//! What the numbers of a run depend on, beside its program and its variables.

use std::fmt;

use lodstone_engine::{NUMERICS, cpu_level};
use serde::{Deserialize, Serialize};

/// What computed the numbers of a checkpoint. Under another, a run that is resumed may differ in the last bits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Numerics {
    /// The engine and the version of its numerics: `lodstone numerics 1`.
    pub engine: String,
    /// The processor's architecture, and the widest vectors that it computes with: `x86_64 avx2`.
    pub simd: String,
}

impl Numerics {
    /// What computes here.
    pub fn here() -> Self {
        let engine = format!("lodstone numerics {NUMERICS}");
        Self { engine, simd: format!("{} {}", std::env::consts::ARCH, cpu_level()) }
    }
}

impl fmt::Display for Numerics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {}", self.engine, self.simd)
    }
}
