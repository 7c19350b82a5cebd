//! Arithmetic of integers that wraps around.

use lodstone_model::DType;

use super::dense::Dense;
use super::element::Number;
use super::map::map_two;
use super::numbers::check_alike;
use crate::dims::common;
use crate::error::Outcome;

/// The result of an integer division.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Division {
    /// The quotient, rounded towards 0.
    Quotient,
    /// The remainder with the sign of the dividend.
    Remainder,
    /// The remainder with the sign of the divisor.
    Modulus,
}

/// An integer, whose functions wrap around.
pub(crate) trait Integer: Number {
    fn absolute(self) -> Self;
    fn negative(self) -> Self;
    fn sign(self) -> Self;
}

macro_rules! integer {
    ($type:ty, |$x:ident| $absolute:expr, $sign:expr) => {
        impl Integer for $type {
            fn absolute(self) -> Self {
                let $x = self;
                $absolute
            }

            fn negative(self) -> Self {
                self.wrapping_neg()
            }

            fn sign(self) -> Self {
                let $x = self;
                $sign
            }
        }
    };
}

integer!(i64, |x| x.wrapping_abs(), x.signum());
integer!(i32, |x| x.wrapping_abs(), x.signum());
integer!(i16, |x| x.wrapping_abs(), x.signum());
integer!(i8, |x| x.wrapping_abs(), x.signum());
integer!(u64, |x| x, x.min(1));
integer!(u32, |x| x, x.min(1));
integer!(u16, |x| x, x.min(1));
integer!(u8, |x| x, x.min(1));

fn divided(a: i64, b: i64, how: Division) -> i64 {
    let (quotient, rest) = match b {
        // `Dense::divided` has checked that no divisor is.
        0 => return 0,
        // The lowest integer wraps.
        -1 => (a.wrapping_neg(), 0),
        _ => (a / b, a % b),
    };
    match how {
        Division::Quotient => quotient,
        Division::Modulus if rest != 0 && (rest < 0) != (b < 0) => rest.wrapping_add(b),
        Division::Remainder | Division::Modulus => rest,
    }
}

fn divided_unsigned(a: u64, b: u64, how: Division) -> u64 {
    match (how, b) {
        // As above.
        (_, 0) => 0,
        (Division::Quotient, _) => a / b,
        (Division::Remainder | Division::Modulus, _) => a % b,
    }
}

/// Returns a function of all integers of a tensor: `integers!(tensor, T => |x| x.absolute())`.
macro_rules! integers {
    ($x:expr, $T:ident => |$v:ident| $of:expr) => {{
        let x: &$crate::tensor::dense::Dense = $x;
        $crate::tensor::element::integers_of!(
            x.dtype(),
            $T => $crate::tensor::map::map::<$T, $T>(x, x.dtype(), &|from, into| {
                into.iter_mut().zip(from).for_each(|(into, from)| {
                    let $v = *from;
                    *into = $of;
                });
            }),
            Err(format!("expected integers, found {}", x.dtype()).into())
        )
    }};
}

pub(crate) use integers;

impl Dense {
    /// Divides integers, which are broadcast.
    ///
    /// # Errors
    /// If a divisor is 0.
    pub(crate) fn divided(&self, by: &Self, how: Division) -> Outcome<Self> {
        check_alike(self, by)?;
        let dims = common(self.dims(), by.dims())?;
        if !dims.contains(&0) && by.to_truths()?.contains(&false) {
            return Err("integer division by 0".into());
        }
        self.integers_of_two(by, &|a, b| divided(a, b, how), &|a, b| divided_unsigned(a, b, how))
    }

    /// Returns the bits of integers, moved by those of another tensor; elements that are moved out are lost.
    pub(crate) fn moved(&self, by: &Self, is_left: bool) -> Outcome<Self> {
        check_alike(self, by)?;
        let width = i64::from(self.bits());
        let count = |by: i64| u32::try_from(by).ok().filter(|_| by < width);
        let signed = |a: i64, by: i64| match count(by) {
            Some(by) if is_left => a << by,
            Some(by) => a >> by,
            None if !is_left && a < 0 => -1,
            None => 0,
        };
        let unsigned =
            |a: u64, by: u64| match u32::try_from(by).ok().filter(|_| by < width.cast_unsigned()) {
                Some(by) if is_left => a << by,
                Some(by) => a >> by,
                None => 0,
            };
        self.integers_of_two(by, &signed, &unsigned)
    }

    /// Applies a function to pairs of integers, which are widened to 64 bits, and truncated again.
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_lossless,
        trivial_numeric_casts,
        reason = "one expression for all types; results wrap around"
    )]
    fn integers_of_two(
        &self,
        other: &Self,
        signed: &(dyn Fn(i64, i64) -> i64 + Sync),
        unsigned: &(dyn Fn(u64, u64) -> u64 + Sync),
    ) -> Outcome<Self> {
        macro_rules! by {
            ($type:ty, $wide:ty, $of:expr) => {
                map_two::<$type, $type, $type>(self, other, self.dtype(), &|a, b, into| {
                    into.iter_mut().zip(a.iter().zip(b)).for_each(|(into, (a, b))| {
                        *into = $of(*a as $wide, *b as $wide) as $type;
                    });
                })
            };
        }
        match self.dtype() {
            DType::Int64 => by!(i64, i64, signed),
            DType::Int32 => by!(i32, i64, signed),
            DType::Int16 => by!(i16, i64, signed),
            DType::Int8 => by!(i8, i64, signed),
            DType::Uint64 => by!(u64, u64, unsigned),
            DType::Uint32 => by!(u32, u64, unsigned),
            DType::Uint16 => by!(u16, u64, unsigned),
            DType::Uint8 => by!(u8, u64, unsigned),
            other => Err(format!("expected integers, found {other}").into()),
        }
    }
}
