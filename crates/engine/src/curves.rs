//! Functions of one number that Rust's library does not have.

use num_traits::Float;

/// Returns the sigmoid, `1 / (1 + exp(-x))`, without overflow.
pub(crate) fn sigmoid<T: Float>(x: T) -> T {
    match x >= T::zero() {
        true => T::one() / (T::one() + (-x).exp()),
        false => {
            let small = x.exp();
            small / (T::one() + small)
        }
    }
}

/// Returns the greater of both, or NaN if `x` is NaN.
pub(crate) fn at_least<T: Float>(x: T, least: T) -> T {
    if x < least { least } else { x }
}

/// Returns the lesser of both, or NaN if `x` is NaN.
pub(crate) fn at_most<T: Float>(x: T, greatest: T) -> T {
    if x > greatest { greatest } else { x }
}

/// The error function.
pub(crate) trait Erf {
    fn erf(self) -> Self;
}

impl Erf for f32 {
    fn erf(self) -> Self {
        libm::erff(self)
    }
}

impl Erf for f64 {
    fn erf(self) -> Self {
        libm::erf(self)
    }
}
