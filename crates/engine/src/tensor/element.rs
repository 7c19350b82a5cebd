//! The types of elements in memory.

use half::{bf16, f16};
use lodstone_model::DType;
use lodstone_schema::Finding;
use pulp::bytemuck::Pod;

use crate::error::Outcome;

/// The greatest or the least of elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extreme {
    Least,
    Greatest,
}

/// A type of elements. Booleans are bytes, 0 or 1.
pub(crate) trait Element: Pod + PartialOrd + Send + Sync {
    const DTYPE: DType;

    /// Returns the greater or the lesser of both; NaN if either is.
    #[expect(clippy::eq_op, reason = "only NaN differs from itself")]
    fn extreme(self, other: Self, which: Extreme) -> Self {
        let is_beyond = match which {
            Extreme::Greatest => other > self,
            Extreme::Least => other < self,
        };
        if is_beyond || other != other { other } else { self }
    }

    /// Returns whether elements of a type can be read as this one: it is the same, or both are integers of one size. Unsigned
    /// integers read the bits of all types.
    fn reads(dtype: DType) -> bool {
        let is_one_size = dtype.bits() == Self::DTYPE.bits();
        let reads_bits =
            matches!(Self::DTYPE, DType::Uint64 | DType::Uint32 | DType::Uint16 | DType::Uint8);
        let is_integer = !dtype.is_float() && !Self::DTYPE.is_float();
        dtype == Self::DTYPE || is_one_size && (reads_bits || is_integer)
    }
}

macro_rules! elements {
    ($($name:ident: $type:ty),*) => {
        $(impl Element for $type {
            const DTYPE: DType = DType::$name;
        })*
    };
}

elements! {
    Float64: f64, Float32: f32, Float16: f16, BFloat16: bf16,
    Int64: i64, Int32: i32, Int16: i16, Int8: i8,
    Uint64: u64, Uint32: u32, Uint16: u16, Uint8: u8
}

/// A number whose sums and products, if it is an integer, wrap around.
pub(crate) trait Number: Element {
    fn plus(self, other: Self) -> Self;
    fn times(self, other: Self) -> Self;
}

macro_rules! floats {
    ($($type:ty)*) => {
        $(impl Number for $type {
            fn plus(self, other: Self) -> Self {
                self + other
            }

            fn times(self, other: Self) -> Self {
                self * other
            }
        })*
    };
}

macro_rules! integers {
    ($($type:ty)*) => {
        $(impl Number for $type {
            fn plus(self, other: Self) -> Self {
                self.wrapping_add(other)
            }

            fn times(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }
        })*
    };
}

floats!(f64 f32 f16 bf16);
integers!(i64 i32 i16 i8 u64 u32 u16 u8);

/// Evaluates an expression with the type of elements of any number: `numbers_of!(dtype, T => ..., otherwise)`. That of
/// booleans is `u8`.
macro_rules! numbers_of {
    ($dtype:expr, $T:ident => $made:expr, $otherwise:expr) => {
        match $dtype {
            DType::Float64 => {
                type $T = f64;
                $made
            }
            DType::Float32 => {
                type $T = f32;
                $made
            }
            DType::Float16 => {
                type $T = half::f16;
                $made
            }
            DType::BFloat16 => {
                type $T = half::bf16;
                $made
            }
            dtype => $crate::tensor::element::integers_of!(dtype, $T => $made, $otherwise),
        }
    };
}

/// The same for integers and booleans.
macro_rules! integers_of {
    ($dtype:expr, $T:ident => $made:expr, $otherwise:expr) => {
        match $dtype {
            DType::Int64 => {
                type $T = i64;
                $made
            }
            DType::Int32 => {
                type $T = i32;
                $made
            }
            DType::Int16 => {
                type $T = i16;
                $made
            }
            DType::Int8 => {
                type $T = i8;
                $made
            }
            DType::Uint64 => {
                type $T = u64;
                $made
            }
            DType::Uint32 => {
                type $T = u32;
                $made
            }
            DType::Uint16 => {
                type $T = u16;
                $made
            }
            DType::Uint8 | DType::Bool => {
                type $T = u8;
                $made
            }
            _ => $otherwise,
        }
    };
}

/// The same for the unsigned integer with the bits of an element: `bits_of!(width in bits, T => ..., otherwise)`.
macro_rules! bits_of {
    ($bits:expr, $T:ident => $made:expr, $otherwise:expr) => {
        match $bits {
            Some(64) => {
                type $T = u64;
                $made
            }
            Some(32) => {
                type $T = u32;
                $made
            }
            Some(16) => {
                type $T = u16;
                $made
            }
            Some(8) => {
                type $T = u8;
                $made
            }
            _ => $otherwise,
        }
    };
}

/// Returns the size of an element in bits.
pub(crate) fn bits(dtype: DType) -> Outcome<u32> {
    dtype.bits().ok_or_else(|| unsupported(dtype))
}

/// The finding for a type of elements that kernels do not compute with.
pub(crate) fn unsupported(dtype: DType) -> Finding {
    format!("element type {dtype} is not supported").into()
}

/// Returns whether elements of a type are numbers that kernels compute with; those of narrow types are widened.
pub(crate) fn is_number(dtype: DType) -> bool {
    numbers_of!(dtype, T => T::DTYPE == dtype, false)
}

pub(crate) use {bits_of, integers_of, numbers_of};
