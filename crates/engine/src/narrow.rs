//! Element types that kernels have no arithmetic for: integers of fewer than 8 bits, and floats of at most 8 bits.
//!
//! Kernels widen their elements to 8-bit integers and single precision, which hold all values, and narrow the results.
//! Elements smaller than a byte are packed, the first in the lowest bits.
//!
//! | type | exponent bits | mantissa bits | bias | special codes |
//! |---|---|---|---|---|
//! | `float4_e2m1fn` | 2 | 1 | 1 | none |
//! | `float6_e2m3fn` | 2 | 3 | 1 | none |
//! | `float6_e3m2fn` | 3 | 2 | 3 | none |
//! | `float8_e4m3` | 4 | 3 | 7 | infinities, NaNs |
//! | `float8_e4m3fn` | 4 | 3 | 7 | NaN: all ones |
//! | `float8_e4m3fnuz` | 4 | 3 | 8 | NaN: negative zero |
//! | `float8_e5m2` | 5 | 2 | 15 | infinities, NaNs |
//! | `float8_e5m2fnuz` | 5 | 2 | 16 | NaN: negative zero |
//! | `float8_e8m0fnu` | 8 | 0 | 127 | NaN: all ones; no sign, no zero |
//!
//! Sources of truth: the OCP formats for 8-bit and for microscaling floats, `ml_dtypes`, and ONNX's `Cast`.

use burn_backend::{DType as BurnType, TensorData};
use lodstone_model::DType;

use crate::dense::Dense;
use crate::item::{Item, Outcome, burn_type};
use crate::kernels::converted;

/// How casts to 8-bit floats treat values that the type does not have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rounding {
    /// Whether values beyond the largest one become the largest one, rather than infinity or NaN.
    pub(crate) saturate: bool,
    /// The rounding of `float8_e8m0fnu`, which has only powers of 2.
    pub(crate) power: Power,
}

/// The rounding to a power of 2.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Power {
    Up,
    Down,
    Nearest,
}

impl Default for Rounding {
    fn default() -> Self {
        Self { saturate: true, power: Power::Up }
    }
}

/// The codes that are not finite numbers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Special {
    /// None.
    Finite,
    /// The largest exponent: infinities and NaNs.
    Ieee,
    /// All ones: NaN.
    AllOnes,
    /// The code of negative zero: NaN.
    NegativeZero,
}

/// A float type with a sign.
struct Form {
    exponent: u32,
    mantissa: u32,
    bias: i32,
    special: Special,
}

fn form(dtype: DType) -> Option<Form> {
    let of = |exponent, mantissa, bias, special| Some(Form { exponent, mantissa, bias, special });
    match dtype {
        DType::Float4E2M1 => of(2, 1, 1, Special::Finite),
        DType::Float6E2M3 => of(2, 3, 1, Special::Finite),
        DType::Float6E3M2 => of(3, 2, 3, Special::Finite),
        DType::Float8E4M3 => of(4, 3, 7, Special::Ieee),
        DType::Float8E4M3Fn => of(4, 3, 7, Special::AllOnes),
        DType::Float8E4M3Fnuz => of(4, 3, 8, Special::NegativeZero),
        DType::Float8E5M2 => of(5, 2, 15, Special::Ieee),
        DType::Float8E5M2Fnuz => of(5, 2, 16, Special::NegativeZero),
        _ => None,
    }
}

impl Form {
    fn sign(&self) -> u8 {
        1 << (self.exponent + self.mantissa)
    }

    /// Returns the code of the largest finite number.
    fn largest(&self) -> u8 {
        let all = self.sign() - 1;
        match self.special {
            Special::Finite | Special::NegativeZero => all,
            Special::AllOnes => all - 1,
            Special::Ieee => all - (1 << self.mantissa),
        }
    }

    /// Returns the value of a code without a sign, as if it were finite.
    fn magnitude(&self, code: u8) -> f32 {
        let fraction = f32::from(code & ((1 << self.mantissa) - 1));
        let exponent = i32::from(code >> self.mantissa);
        let unit = 2f32.powi(self.mantissa.cast_signed());
        match exponent {
            0 => fraction / unit * 2f32.powi(1 - self.bias),
            _ => (1.0 + fraction / unit) * 2f32.powi(exponent - self.bias),
        }
    }

    fn decode(&self, code: u8) -> f32 {
        let (sign, rest) = (code & self.sign(), code & (self.sign() - 1));
        let value = match self.special {
            Special::NegativeZero if sign != 0 && rest == 0 => f32::NAN,
            Special::Ieee if rest == self.largest() + 1 => f32::INFINITY,
            Special::Ieee | Special::AllOnes if rest > self.largest() => f32::NAN,
            _ => self.magnitude(rest),
        };
        if sign == 0 { value } else { -value }
    }

    /// Returns the code of NaN. Types without NaNs have zeros of the other sign, as `ml_dtypes` does.
    fn nan(&self, sign: u8) -> u8 {
        match self.special {
            Special::Finite => self.sign() ^ sign,
            Special::NegativeZero => self.sign(),
            Special::AllOnes => sign | (self.sign() - 1),
            Special::Ieee => sign | (self.largest() + 1) | 1 << (self.mantissa - 1),
        }
    }

    /// Returns the code of the nearest number, the even one of two. `magnitudes` holds the finite numbers in order.
    fn encode(&self, value: f64, magnitudes: &[f64], saturate: bool) -> u8 {
        let sign = if value.is_sign_negative() { self.sign() } else { 0 };
        if value.is_nan() {
            return self.nan(sign);
        }
        let (size, largest) = (value.abs(), self.largest());
        let top = f64::from(self.magnitude(largest));
        let step = top - f64::from(self.magnitude(largest - 1));
        // Half a step beyond the largest number is even: it rounds up where there is a next code.
        let is_beyond = match self.special {
            Special::Finite | Special::AllOnes => size > top + step / 2.0,
            Special::Ieee | Special::NegativeZero => size >= top + step / 2.0,
        };
        if is_beyond {
            return match self.special {
                _ if saturate => sign | largest,
                Special::Finite => sign | largest,
                Special::Ieee => sign | (largest + 1),
                Special::AllOnes | Special::NegativeZero => self.nan(sign),
            };
        }
        let above = magnitudes.partition_point(|known| *known < size).min(magnitudes.len() - 1);
        let below = above.saturating_sub(1);
        let distance = |at: usize| magnitudes.get(at).map_or(f64::INFINITY, |it| (it - size).abs());
        let (low, high) = (distance(below), distance(above));
        let takes_low = low < high || (low == high && below % 2 == 0);
        let code = u8::try_from(if takes_low { below } else { above }).unwrap_or(largest);
        match self.special {
            Special::NegativeZero if code == 0 => 0,
            _ => sign | code,
        }
    }
}

/// Returns whether elements of a type are widened for kernels.
pub(crate) fn is_narrow(dtype: DType) -> bool {
    let is_integer = matches!(dtype, DType::Int2 | DType::Int4 | DType::Uint2 | DType::Uint4);
    is_integer || dtype == DType::Float8E8M0Fnu || form(dtype).is_some()
}

/// Returns a view of a tensor for kernels; elements of narrow types are widened.
pub(crate) fn widened(dense: &Dense) -> Outcome<Item> {
    let (dtype, dims) = (dense.dtype(), dense.dims().to_vec());
    if !is_narrow(dtype) {
        return Item::of(dense);
    }
    let codes = unpacked(&dense.bytes()?, dtype.bits().unwrap_or(8), dense.count());
    let signed = |bits: u32| -> Vec<i8> {
        codes.iter().map(|code| (code << (8 - bits)).cast_signed() >> (8 - bits)).collect()
    };
    Ok(Item::from_data(match (dtype, form(dtype)) {
        (DType::Int2, _) => TensorData::new(signed(2), dims),
        (DType::Int4, _) => TensorData::new(signed(4), dims),
        (DType::Uint2 | DType::Uint4, _) => TensorData::new(codes, dims),
        (_, Some(form)) => {
            let table: Vec<f32> = (0..=u8::MAX).map(|code| form.decode(code)).collect();
            let value = |code: &u8| table.get(usize::from(*code)).copied().unwrap_or(f32::NAN);
            TensorData::new(codes.iter().map(value).collect::<Vec<f32>>(), dims)
        }
        (_, None) => {
            TensorData::new(codes.iter().map(|code| power(*code)).collect::<Vec<f32>>(), dims)
        }
    }))
}

/// Returns the value of an exponent, `float8_e8m0fnu`.
fn power(code: u8) -> f32 {
    match code {
        // 2^-127 is subnormal in single precision.
        0 => f32::from_bits(1 << 22),
        u8::MAX => f32::NAN,
        code => f32::from_bits(u32::from(code) << 23),
    }
}

/// Converts elements to any type; those that a narrow integer does not hold wrap around.
pub(crate) fn narrowed(item: Item, to: DType, rounding: Rounding) -> Outcome<Dense> {
    if !is_narrow(to) {
        return converted(item, burn_type(to)?)?.dense();
    }
    let dims = item.shape();
    let codes: Vec<u8> = match form(to) {
        Some(form) => {
            let codes = 0..=form.largest();
            let magnitudes: Vec<f64> = codes.map(|code| form.magnitude(code).into()).collect();
            let code = |value: f64| form.encode(value, &magnitudes, rounding.saturate);
            item.to_doubles()?.into_iter().map(code).collect()
        }
        None if to == DType::Float8E8M0Fnu => {
            let singles = converted(item, BurnType::F32)?.into_data()?;
            singles.iter::<f32>().map(|value| exponent(value, rounding)).collect()
        }
        // The lowest bits.
        None => {
            let numbers = converted(item, BurnType::I64)?.to_longs()?;
            numbers.into_iter().map(|number| number.to_le_bytes()[0]).collect()
        }
    };
    Dense::new(to, dims, packed(&codes, to.bits().unwrap_or(8)).into())
}

/// Returns the exponent of a power of 2 that a number is rounded to, `float8_e8m0fnu`; signs are dropped.
fn exponent(value: f32, rounding: Rounding) -> u8 {
    let bits = value.to_bits();
    let (found, fraction) = ((bits >> 23) & 0xFF, bits & 0x7F_FFFF);
    let half = 1 << 22;
    let rounds_up = match rounding.power {
        Power::Up => fraction > 0,
        Power::Down => false,
        Power::Nearest => fraction > half || (fraction == half && found > 0),
    };
    let is_last = found == 0xFE && rounding.saturate;
    let more = u32::from(found < 0xFF && rounds_up && !is_last);
    u8::try_from(found + more).unwrap_or(u8::MAX)
}

/// Returns one code for each element.
fn unpacked(bytes: &[u8], bits: u32, count: usize) -> Vec<u8> {
    if bits >= 8 {
        return bytes.to_vec();
    }
    let (bits, mut left, mut buffer) = (bits, 0_u32, 0_u32);
    let mut bytes = bytes.iter();
    let mut codes = Vec::with_capacity(count);
    for _ in 0..count {
        if left < bits {
            buffer |= u32::from(bytes.next().copied().unwrap_or(0)) << left;
            left += 8;
        }
        codes.push((buffer & ((1 << bits) - 1)).to_le_bytes()[0]);
        buffer >>= bits;
        left -= bits;
    }
    codes
}

/// Packs the lowest bits of codes.
fn packed(codes: &[u8], bits: u32) -> Vec<u8> {
    if bits >= 8 {
        return codes.to_vec();
    }
    let (mut left, mut buffer) = (0_u32, 0_u32);
    let mut bytes = Vec::new();
    for code in codes {
        buffer |= (u32::from(*code) & ((1 << bits) - 1)) << left;
        left += bits;
        if left >= 8 {
            bytes.push(buffer.to_le_bytes()[0]);
            buffer >>= 8;
            left -= 8;
        }
    }
    if left > 0 {
        bytes.push(buffer.to_le_bytes()[0]);
    }
    bytes
}
