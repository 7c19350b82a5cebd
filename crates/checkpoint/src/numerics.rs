//! What the numbers of a run depend on, beside its program and its variables.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What computed the numbers of a checkpoint. Under another, a run that is resumed may differ in the last bits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Numerics {
    /// The engine and its version: `lodstone 0.1.0`.
    pub engine: String,
    /// The processor's architecture, and the widest vectors that it computes with: `x86_64 avx2`.
    pub simd: String,
}

impl Numerics {
    /// What computes here.
    pub fn here() -> Self {
        let engine = concat!("lodstone ", env!("CARGO_PKG_VERSION")).to_owned();
        Self { engine, simd: format!("{} {}", std::env::consts::ARCH, vectors()) }
    }
}

impl fmt::Display for Numerics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {}", self.engine, self.simd)
    }
}

#[cfg(target_arch = "x86_64")]
fn vectors() -> &'static str {
    match () {
        () if is_x86_feature_detected!("avx512f") => "avx512",
        () if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") => "avx2",
        () => "sse2",
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn vectors() -> &'static str {
    if cfg!(target_arch = "aarch64") { "neon" } else { "scalar" }
}
