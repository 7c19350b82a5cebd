//! What the bits of results depend on, beside the program and its inputs.

/// The version of the numerics: it is raised with every change after which some program computes other bits at some
/// [`cpu_level`]. Checkpoints record it, so that a training run that is resumed can say whether it goes on exactly.
pub const NUMERICS: u32 = 1;

/// The widest vectors that kernels compute with on this processor. Sums are in another order at another level.
pub fn cpu_level() -> &'static str {
    level()
}

#[cfg(target_arch = "x86_64")]
fn level() -> &'static str {
    match () {
        () if is_x86_feature_detected!("avx512f") => "avx512",
        () if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") => "avx2",
        () => "sse2",
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn level() -> &'static str {
    if cfg!(target_arch = "aarch64") { "neon" } else { "scalar" }
}
