//! What determines the bits of results, beside the program and its inputs.

/// The version of the numerics. It is raised with every change that alters the bits of some program's results at some
/// [`cpu_level`]. Checkpoints record it, so that a resumed training run can report whether it continues exactly.
pub const NUMERICS: u32 = 8;

/// Returns the widest vector instructions that kernels use on this processor. The order of summation depends on it.
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
