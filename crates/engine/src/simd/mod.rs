//! Code for the widest vectors of the processor.
//!
//! | file | contents |
//! |---|---|
//! | `mod.rs` | loops that are compiled for vectors, vectors in memory |
//! | `curves.rs` | functions of single numbers without branches |

pub(crate) mod curves;

use std::sync::LazyLock;

use pulp::{Arch, Simd, WithSimd};

/// Compiles a loop for the widest vectors of the processor. This does not change results: each element is computed exactly
/// as written. Functions that are called are compiled so only if they are inlined.
macro_rules! wide {
    (move $work:expr) => {{
        let once = $crate::simd::Once;
        pulp::Arch::new().dispatch(
            #[inline(always)]
            move || {
                once.used();
                $work
            },
        )
    }};
    ($work:expr) => {{
        let once = $crate::simd::Once;
        pulp::Arch::new().dispatch(
            #[inline(always)]
            || {
                once.used();
                $work
            },
        )
    }};
}
pub(crate) use wide;

/// Makes a closure one that can be called only once: others are called through a function, which is not always inlined.
pub(crate) struct Once;

impl Once {
    #[inline(always)]
    pub(crate) fn used(self) {}
}

/// Does work with the vectors of this processor.
///
/// It is not part of its callers, of which there is one for each closure: the code for processors without vectors would be in
/// all of them, 50 KiB for a product.
#[inline(never)]
pub(crate) fn dispatch<W: WithSimd>(work: W) -> W::Output {
    Arch::new().dispatch(work)
}

/// Returns the number of elements of a vector of this processor.
pub(crate) fn lanes() -> usize {
    struct Best;
    impl WithSimd for Best {
        type Output = usize;
        fn with_simd<S: Simd>(self, _: S) -> usize {
            S::F32_LANES
        }
    }
    static LANES: LazyLock<usize> = LazyLock::new(|| dispatch(Best));
    *LANES
}

/// Loads a vector; what it has beyond the elements is zero.
#[inline(always)]
pub(crate) fn load<S: Simd>(simd: S, from: &[f32]) -> S::f32s {
    match S::as_simd_f32s(from) {
        ([vector, ..], _) => *vector,
        _ => simd.partial_load_f32s(from),
    }
}

/// Stores the elements of a vector that there is room for.
#[inline(always)]
pub(crate) fn store<S: Simd>(simd: S, vector: S::f32s, into: &mut [f32]) {
    match S::as_mut_simd_f32s(into) {
        ([into, ..], _) => *into = vector,
        (_, rest) => simd.partial_store_f32s(rest, vector),
    }
}
