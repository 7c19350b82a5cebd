//! Arithmetic and comparisons of tensors with broadcasting.

use lodstone_model::DType;

use super::dense::Dense;
use super::element::{Element, Extreme, bits_of, numbers_of, unsupported};
use super::integers::{Integer, integers};
use super::map::{choose, floats, floats_are, floats_of_two, map, map_two};
use crate::error::Outcome;

/// Checks that both have the same element type.
pub(crate) fn check_alike(a: &Dense, b: &Dense) -> Outcome<()> {
    match (a.dtype(), b.dtype()) {
        (a, b) if a == b => Ok(()),
        (a, b) => Err(format!("element types {a} and {b} differ").into()),
    }
}

/// A comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comparison {
    Equal,
    Less,
    LessOrEqual,
}

/// Combines bytes that are 0 or 1, or the bits of integers.
macro_rules! bitwise {
    ($a:expr, $b:expr, |$x:ident, $y:ident| $of:expr) => {{
        let (a, b): (&Dense, &Dense) = ($a, $b);
        check_alike(a, b)?;
        if a.dtype().is_float() {
            return Err(format!("expected integers, found {}", a.dtype()).into());
        }
        bits_of!(
            a.dtype().bits(),
            T => map_two::<T, T, T>(a, b, a.dtype(), &|a, b, into| {
                into.iter_mut().zip(a.iter().zip(b)).for_each(|(into, (a, b))| {
                    let ($x, $y) = (*a, *b);
                    *into = $of;
                });
            }),
            Err(unsupported(a.dtype()))
        )
    }};
}

/// An arithmetic operation: of floats, or of integers, which wraps around.
macro_rules! arithmetic {
    ($a:expr, $b:expr, |$x:ident, $y:ident| $float:expr, $integer:expr) => {{
        if $a.dtype().is_float() {
            return floats_of_two!($a, $b, |$x, $y| $float);
        }
        if $a.dtype() == DType::Bool {
            return Err(unsupported($a.dtype()));
        }
        bitwise!($a, $b, |$x, $y| $integer)
    }};
}

impl Dense {
    /// Returns the sum of two tensors.
    pub(crate) fn plus(&self, other: &Self) -> Outcome<Self> {
        arithmetic!(self, other, |x, y| x + y, x.wrapping_add(y))
    }

    /// Returns the difference.
    pub(crate) fn minus(&self, other: &Self) -> Outcome<Self> {
        arithmetic!(self, other, |x, y| x - y, x.wrapping_sub(y))
    }

    /// Returns the product.
    pub(crate) fn times(&self, other: &Self) -> Outcome<Self> {
        arithmetic!(self, other, |x, y| x * y, x.wrapping_mul(y))
    }

    /// Returns the quotient of floats.
    pub(crate) fn over(&self, other: &Self) -> Outcome<Self> {
        floats_of_two!(self, other, |x, y| x / y)
    }

    /// Returns each float raised to the power in another tensor.
    pub(crate) fn raised(&self, exponents: &Self) -> Outcome<Self> {
        floats_of_two!(self, exponents, |x, y| x.powf(y))
    }

    /// Returns the bitwise conjunction of integers or booleans.
    pub(crate) fn and(&self, other: &Self) -> Outcome<Self> {
        bitwise!(self, other, |x, y| x & y)
    }

    /// Returns the bitwise disjunction.
    pub(crate) fn or(&self, other: &Self) -> Outcome<Self> {
        bitwise!(self, other, |x, y| x | y)
    }

    /// Returns the bitwise exclusive disjunction.
    pub(crate) fn xor(&self, other: &Self) -> Outcome<Self> {
        bitwise!(self, other, |x, y| x ^ y)
    }

    /// Returns integers with all bits inverted, or booleans inverted.
    pub(crate) fn inverted(&self) -> Outcome<Self> {
        if self.dtype() == DType::Bool {
            return map::<u8, u8>(self, DType::Bool, &|from, into| {
                into.iter_mut().zip(from).for_each(|(into, from)| *into = from ^ 1);
            });
        }
        if self.dtype().is_float() {
            return Err(format!("expected integers, found {}", self.dtype()).into());
        }
        bits_of!(
            self.dtype().bits(),
            T => map::<T, T>(self, self.dtype(), &|from, into| {
                into.iter_mut().zip(from).for_each(|(into, from)| *into = !from);
            }),
            Err(unsupported(self.dtype()))
        )
    }

    /// Multiplies floats by a scalar.
    #[expect(clippy::cast_possible_truncation, reason = "single precision has a factor of its own")]
    pub(crate) fn scaled(&self, factor: f64) -> Outcome<Self> {
        floats!(self, T => |x| x * (factor as T))
    }

    /// Adds a scalar to floats.
    #[expect(clippy::cast_possible_truncation, reason = "single precision has a term of its own")]
    pub(crate) fn shifted(&self, more: f64) -> Outcome<Self> {
        floats!(self, T => |x| x + (more as T))
    }

    /// Raises floats to a power.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "single precision has an exponent of its own"
    )]
    pub(crate) fn power(&self, exponent: f64) -> Outcome<Self> {
        floats!(self, T => |x| x.powf(exponent as T))
    }

    /// Limits floats; NaN stays.
    #[expect(clippy::cast_possible_truncation, reason = "single precision has limits of its own")]
    pub(crate) fn clamped(&self, least: f64, greatest: f64) -> Outcome<Self> {
        floats!(self, T => |x| {
            let (least, greatest) = (least as T, greatest as T);
            if x < least { least } else if x > greatest { greatest } else { x }
        })
    }

    /// Returns the absolute values of floats.
    pub(crate) fn absolute(&self) -> Outcome<Self> {
        floats!(self, T => |x| x.abs())
    }

    /// Rounds floats to whole numbers; halves to even ones.
    pub(crate) fn rounded(&self) -> Outcome<Self> {
        floats!(self, T => |x| x.round_ties_even())
    }

    /// Returns the absolute values of integers.
    pub(crate) fn absolute_integers(&self) -> Outcome<Self> {
        integers!(self, T => |x| Integer::absolute(x))
    }

    /// Returns the hyperbolic tangents of floats.
    pub(crate) fn tanh(&self) -> Outcome<Self> {
        floats!(self, T => |x| x.tanh())
    }

    /// Returns the square roots of floats.
    pub(crate) fn root(&self) -> Outcome<Self> {
        floats!(self, T => |x| x.sqrt())
    }

    /// Returns the sigmoid of floats.
    pub(crate) fn sigmoid(&self) -> Outcome<Self> {
        floats!(self, T => |x| crate::curves::sigmoid(x))
    }

    /// Returns whether floats are NaN.
    pub(crate) fn is_nan(&self) -> Outcome<Self> {
        floats_are!(self, |x| x.is_nan())
    }

    /// Compares two tensors of one type.
    pub(crate) fn compared(&self, other: &Self, how: Comparison) -> Outcome<Self> {
        check_alike(self, other)?;
        numbers_of!(self.dtype(), T => compared::<T>(self, other, how), Err(unsupported(self.dtype())))
    }

    /// Returns the element-wise maximum or minimum of both; NaN in either input gives NaN.
    pub(crate) fn extreme(&self, other: &Self, which: Extreme) -> Outcome<Self> {
        check_alike(self, other)?;
        numbers_of!(
            self.dtype(),
            T => map_two::<T, T, T>(self, other, self.dtype(), match which {
                Extreme::Greatest => &greatest_of::<T>,
                Extreme::Least => &least_of::<T>,
            }),
            Err(unsupported(self.dtype()))
        )
    }

    /// Returns `yes` where a mask is true, and these elements elsewhere.
    pub(crate) fn masked(&self, mask: &Self, yes: &Self) -> Outcome<Self> {
        check_alike(self, yes)?;
        if mask.dtype() != DType::Bool {
            return Err(format!("expected booleans, found {}", mask.dtype()).into());
        }
        bits_of!(
            self.dtype().bits(),
            T => choose::<T>(mask, yes, self),
            Err(unsupported(self.dtype()))
        )
    }

    /// Widens half precision, which is too coarse for long sums, to single precision.
    pub(crate) fn widened(&self) -> Outcome<Self> {
        match self.dtype() {
            DType::Float16 | DType::BFloat16 => self.cast_to(DType::Float32),
            _ => Ok(self.clone()),
        }
    }
}

fn compared<T: Element>(a: &Dense, b: &Dense, how: Comparison) -> Outcome<Dense> {
    fn all<T: Element>(a: &[T], b: &[T], into: &mut [u8], is: impl Fn(&T, &T) -> bool) {
        into.iter_mut().zip(a.iter().zip(b)).for_each(|(into, (a, b))| *into = u8::from(is(a, b)));
    }
    map_two::<T, T, u8>(
        a,
        b,
        DType::Bool,
        match how {
            Comparison::Equal => &|a, b, into| all(a, b, into, |a, b| a == b),
            Comparison::Less => &|a, b, into| all(a, b, into, |a, b| a < b),
            Comparison::LessOrEqual => &|a, b, into| all(a, b, into, |a, b| a <= b),
        },
    )
}

fn greatest_of<T: Element>(a: &[T], b: &[T], into: &mut [T]) {
    into.iter_mut()
        .zip(a.iter().zip(b))
        .for_each(|(into, (a, b))| *into = a.extreme(*b, Extreme::Greatest));
}

fn least_of<T: Element>(a: &[T], b: &[T], into: &mut [T]) {
    into.iter_mut()
        .zip(a.iter().zip(b))
        .for_each(|(into, (a, b))| *into = a.extreme(*b, Extreme::Least));
}
