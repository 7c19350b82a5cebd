//! Floats in bytes, and passes over several tensors of them at once.

use std::ops::{Add, Div, Mul, Sub};

use lodstone_model::DType;

/// A floating-point type of tensors.
pub(super) trait Number:
    Copy
    + PartialOrd
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Into<f64>
{
    /// The element type.
    const DTYPE: DType;
    /// 0 and 1.
    const ZERO: Self;
    const ONE: Self;
    /// The little-endian bytes of a value.
    type Bytes: Copy + 'static;

    /// Splits bytes into those of each value.
    fn chunks(bytes: &[u8]) -> &[Self::Bytes];
    fn chunks_mut(bytes: &mut [u8]) -> &mut [Self::Bytes];
    fn read(bytes: Self::Bytes) -> Self;
    fn bytes(self) -> Self::Bytes;
    /// Returns the nearest value.
    fn nearest(value: f64) -> Self;
    fn root(self) -> Self;
    fn power(self, exponent: Self) -> Self;

    /// Returns the absolute value.
    fn size(self) -> Self {
        if self < Self::ZERO { Self::ZERO - self } else { self }
    }

    /// Returns all values in bytes.
    fn all(bytes: &[u8]) -> impl Iterator<Item = Self> {
        Self::chunks(bytes).iter().map(|bytes| Self::read(*bytes))
    }
}

macro_rules! number {
    ($type:ident, $dtype:ident) => {
        impl Number for $type {
            const DTYPE: DType = DType::$dtype;
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;
            type Bytes = [u8; size_of::<Self>()];

            fn chunks(bytes: &[u8]) -> &[Self::Bytes] {
                bytes.as_chunks().0
            }

            fn chunks_mut(bytes: &mut [u8]) -> &mut [Self::Bytes] {
                bytes.as_chunks_mut().0
            }

            fn read(bytes: Self::Bytes) -> Self {
                Self::from_le_bytes(bytes)
            }

            fn bytes(self) -> Self::Bytes {
                self.to_le_bytes()
            }

            #[expect(clippy::allow_attributes, reason = "for one of the two types nothing is lost")]
            #[allow(
                clippy::cast_possible_truncation,
                reason = "rounding to the requested type is intended"
            )]
            fn nearest(value: f64) -> Self {
                value as $type
            }

            fn root(self) -> Self {
                self.sqrt()
            }

            fn power(self, exponent: Self) -> Self {
                self.powf(exponent)
            }
        }
    };
}

number!(f32, Float32);
number!(f64, Float64);

/// A floating-point type of which `N` tensors and a gradient are processed together.
pub(super) trait Each<const N: usize>: Number {
    /// Writes the results of `rule` for each value of a gradient and the values of the tensors at its position.
    fn each(
        grad: &[Self::Bytes],
        old: [&[Self::Bytes]; N],
        new: [&mut [Self::Bytes]; N],
        rule: impl Fn(Self, [Self; N]) -> [Self; N],
    );
}

macro_rules! each {
    ($count:literal, [$($old:ident),+], [$($new:ident),+], $grad:ident in $all:pat) => {
        impl<T: Number> Each<$count> for T {
            fn each(
                grad: &[T::Bytes],
                [$($old),+]: [&[T::Bytes]; $count],
                [$($new),+]: [&mut [T::Bytes]; $count],
                rule: impl Fn(T, [T; $count]) -> [T; $count],
            ) {
                for $all in grad.iter()$(.zip($old))+$(.zip($new))+ {
                    let made = rule(T::read(*$grad), [$(T::read(*$old)),+]);
                    for (place, value) in [$($new),+].into_iter().zip(made) {
                        *place = value.bytes();
                    }
                }
            }
        }
    };
}

each!(1, [a], [w], g in ((g, a), w));
each!(2, [a, b], [w, x], g in ((((g, a), b), w), x));
each!(3, [a, b, c], [w, x, y], g in ((((((g, a), b), c), w), x), y));
each!(4, [a, b, c, d], [w, x, y, z], g in ((((((((g, a), b), c), d), w), x), y), z));
