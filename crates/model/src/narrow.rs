//! Elements of at most 8 bits: floats with few bits, and the packing of elements that are smaller than a byte.
//!
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
//! Sources of truth: the OCP formats for 8-bit and for microscaling floats, and `ml_dtypes`.

use crate::DType;

/// Returns the value of the code of a float of at most 8 bits; `None` for other types.
pub fn decoded(dtype: DType, code: u8) -> Option<f32> {
    match dtype {
        DType::Float8E8M0Fnu => Some(power(code)),
        _ => NarrowFloat::of(dtype).map(|form| form.decode(code)),
    }
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

/// The codes that are not finite numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

/// A float type of at most 8 bits with a sign.
#[derive(Clone, Copy, Debug)]
pub struct NarrowFloat {
    exponent: u32,
    mantissa: u32,
    bias: i32,
    special: Special,
}

impl NarrowFloat {
    /// Returns the format of an element type; `None` if it is wider, or has no sign.
    pub fn of(dtype: DType) -> Option<Self> {
        let of =
            |exponent, mantissa, bias, special| Some(Self { exponent, mantissa, bias, special });
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

    fn sign(&self) -> u8 {
        1 << (self.exponent + self.mantissa)
    }

    /// Returns the code of the largest finite number.
    pub fn largest(&self) -> u8 {
        let all = self.sign() - 1;
        match self.special {
            Special::Finite | Special::NegativeZero => all,
            Special::AllOnes => all - 1,
            Special::Ieee => all - (1 << self.mantissa),
        }
    }

    /// Returns the value of a code without a sign, as if it were finite.
    pub fn magnitude(&self, code: u8) -> f32 {
        let fraction = f32::from(code & ((1 << self.mantissa) - 1));
        let exponent = i32::from(code >> self.mantissa);
        let unit = 2f32.powi(self.mantissa.cast_signed());
        match exponent {
            0 => fraction / unit * 2f32.powi(1 - self.bias),
            _ => (1.0 + fraction / unit) * 2f32.powi(exponent - self.bias),
        }
    }

    /// Returns the value of a code.
    pub fn decode(&self, code: u8) -> f32 {
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
    pub fn encode(&self, value: f64, magnitudes: &[f64], saturate: bool) -> u8 {
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

/// Returns one code for each element.
pub fn unpacked(bytes: &[u8], bits: u32, count: usize) -> Vec<u8> {
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
pub fn packed(codes: &[u8], bits: u32) -> Vec<u8> {
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
