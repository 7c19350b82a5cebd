//! Integer arithmetic that wraps around, however a backend handles overflow.

use burn_backend::DType as BurnType;
use burn_flex::FlexTensor;

use super::tensor::{aligned, converted};
use super::{Call, Made, around, at_mut, one};
use crate::item::{Item, Outcome};

impl Item {
    /// Returns the elements as 64-bit integers with the same bits.
    pub(super) fn to_bits(&self) -> Outcome<Vec<i64>> {
        let data = self.clone().into_data()?;
        Ok(match data.dtype() {
            BurnType::U64 => data.iter::<u64>().map(u64::cast_signed).collect(),
            _ => data.iter::<i64>().collect(),
        })
    }
}

/// Sums, differences and products, truncated to the width of the type.
///
/// Backends compute with 64 bits, which are enough for two operands of fewer than 32 bits.
pub(super) fn wrapped(
    a: &Item,
    b: &Item,
    narrow: fn(FlexTensor, FlexTensor) -> FlexTensor,
    wide: fn(i64, i64) -> i64,
) -> Outcome<Item> {
    let (a, b) = aligned(a, b)?;
    match a.kind()? {
        kind @ (BurnType::I64 | BurnType::U64 | BurnType::U32) => {
            let pairs = a.to_bits()?.into_iter().zip(b.to_bits()?);
            let made: Vec<i64> = pairs.map(|(a, b)| wide(a, b)).collect();
            converted(Item::longs(&made).reshaped(a.shape()), kind)
        }
        _ => Ok(Item::Int(narrow(a.int()?, b.int()?))),
    }
}

/// Returns products along an axis, which becomes a dim of 1, truncated to the width of the type.
pub(super) fn products(x: &Item, axis: usize) -> Outcome<Item> {
    let (kind, mut shape, bits) = (x.kind()?, x.shape(), x.to_bits()?);
    let inner: usize = shape.iter().skip(axis + 1).product();
    let dim = std::mem::replace(at_mut(&mut shape, axis)?, 1);
    let mut made = vec![1_i64; shape.iter().product()];
    for (place, value) in bits.into_iter().enumerate() {
        let product = at_mut(&mut made, place / (dim * inner) * inner + place % inner)?;
        *product = product.wrapping_mul(value);
    }
    converted(Item::longs(&made).reshaped(shape), kind)
}

/// The result of an integer division: the quotient, rounded towards 0, or the remainder.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Division {
    Whole,
    /// The remainder with the sign of the dividend.
    Rest,
    /// The remainder with the sign of the divisor.
    Modulus,
}

pub(super) fn divided(a: &Item, b: &Item, what: Division) -> Outcome<Item> {
    let (a, b) = aligned(a, b)?;
    let kind = a.int().and(a.kind())?;
    let by = b.to_bits()?;
    if by.contains(&0) {
        return Err("integer division by 0".into());
    }
    let unsigned = |a: i64, b: i64| {
        let (a, b) = (a.cast_unsigned(), b.cast_unsigned());
        let made = if what == Division::Whole { a.checked_div(b) } else { a.checked_rem(b) };
        made.unwrap_or(0).cast_signed()
    };
    let signed = |a: i64, b: i64| match (what, a.wrapping_rem(b)) {
        (Division::Whole, _) => a.wrapping_div(b),
        (Division::Modulus, rest) if rest != 0 && (rest < 0) != (b < 0) => rest.wrapping_add(b),
        (_, rest) => rest,
    };
    let pairs = a.to_bits()?.into_iter().zip(by);
    let made: Vec<i64> = match kind {
        BurnType::U64 => pairs.map(|(a, b)| unsigned(a, b)).collect(),
        _ => pairs.map(|(a, b)| signed(a, b)).collect(),
    };
    converted(Item::longs(&made).reshaped(a.shape()), kind)
}

/// Returns cumulative sums along an axis.
pub(super) fn cumulated(x: &Item, axis: usize, of: fn(i64, i64) -> i64) -> Outcome<Item> {
    let (shape, kind) = (x.shape(), x.kind()?);
    let (_, dim, behind) = around(&shape, axis)?;
    let (step, dim) = (behind.iter().product::<usize>().max(1), dim.max(1));
    let mut made = x.to_bits()?;
    for place in 0..made.len() {
        if place / step % dim == 0 {
            continue;
        }
        let before = *at_mut(&mut made, place - step)?;
        let sum = at_mut(&mut made, place)?;
        *sum = of(before, *sum);
    }
    converted(Item::longs(&made).reshaped(shape), kind)
}

/// Returns the bits of the first operand, moved by the second; elements that are moved out are lost.
pub(super) fn shifted(call: &Call<'_>) -> Made {
    let (a, b) = aligned(call.input(0)?, call.input(1)?)?;
    let kind = a.int().and(a.kind())?;
    let width = i64::try_from(kind.size() * 8).unwrap_or(64);
    let is_left = match call.text("direction").as_deref() {
        Some("LEFT") => true,
        Some("RIGHT") => false,
        _ => return Err("expected `LEFT` or `RIGHT` as `direction`".into()),
    };
    let of = |(bits, by): (i64, i64)| match u32::try_from(by).ok().filter(|_| by < width) {
        Some(by) if is_left => bits.wrapping_shl(by),
        Some(by) if kind == BurnType::U64 => (bits.cast_unsigned() >> by).cast_signed(),
        Some(by) => bits >> by,
        None if !is_left && kind != BurnType::U64 && bits < 0 => -1,
        None => 0,
    };
    let made: Vec<i64> = a.to_bits()?.into_iter().zip(b.to_bits()?).map(of).collect();
    one(converted(Item::longs(&made).reshaped(a.shape()), kind)?)
}
