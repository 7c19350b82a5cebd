//! Conversion of elements of any type to numbers.

use half::{bf16, f16};
use lodstone_model::DType;

/// The conversion of elements to numbers.
#[derive(Clone, Copy)]
pub(crate) struct Decoder {
    /// The size of a number in bytes.
    pub(crate) size: usize,
    /// Converts this many bytes to a number.
    pub(crate) number: fn(&[u8]) -> f64,
    /// Converts integers without rounding.
    pub(crate) integer: Option<fn(&[u8]) -> i128>,
}

/// Returns the first bytes of a little-endian number, padded with zeros.
fn extended<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut array = [0; N];
    array.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
    array
}

/// Returns the conversion of an element type, or `None` for types that are not numbers. Integers beyond 2⁵³ are
/// rounded; a complex number is read as two.
pub(crate) fn decoder(dtype: DType) -> Option<Decoder> {
    macro_rules! decode {
        ($type:ty) => {
            decode!($type, f64::from)
        };
        ($type:ty, $number:expr) => {{
            fn number(bytes: &[u8]) -> f64 {
                $number(<$type>::from_le_bytes(extended(bytes)))
            }
            Decoder { size: size_of::<$type>(), number, integer: None }
        }};
    }
    macro_rules! integer {
        ($type:ty) => {
            integer!($type, f64::from)
        };
        ($type:ty, $number:expr) => {{
            fn integer(bytes: &[u8]) -> i128 {
                i128::from(<$type>::from_le_bytes(extended(bytes)))
            }
            Decoder { integer: Some(integer), ..decode!($type, $number) }
        }};
    }
    Some(match dtype {
        DType::Bool => decode!(u8, |byte| f64::from(u8::from(byte != 0))),
        DType::Int8 => integer!(i8),
        DType::Int16 => integer!(i16),
        DType::Int32 => integer!(i32),
        #[expect(clippy::cast_precision_loss, reason = "rounds, as documented")]
        DType::Int64 => integer!(i64, |number| number as f64),
        DType::Uint8 => integer!(u8),
        DType::Uint16 => integer!(u16),
        DType::Uint32 => integer!(u32),
        #[expect(clippy::cast_precision_loss, reason = "rounds, as documented")]
        DType::Uint64 => integer!(u64, |number| number as f64),
        DType::Float8E4M3Fn => decode!(u8, e4m3fn),
        // The upper half of float16.
        DType::Float8E5M2 => decode!(u8, |byte| f64::from(f16::from_le_bytes([0, byte]))),
        DType::Float16 | DType::Complex32 => decode!(f16),
        DType::BFloat16 => decode!(bf16),
        DType::Float32 | DType::Complex64 => decode!(f32),
        DType::Float64 | DType::Complex128 => decode!(f64),
        _ => return None,
    })
}

/// Converts an 8-bit float with four exponent and three mantissa bits, without infinities.
fn e4m3fn(byte: u8) -> f64 {
    let (exponent, mantissa) = (i32::from(byte >> 3 & 0xf), f64::from(byte & 7));
    let absolute = match (exponent, byte & 0x7f) {
        (_, 0x7f) => f64::NAN,
        (0, _) => mantissa * f64::powi(2.0, -9),
        _ => (8.0 + mantissa) * f64::powi(2.0, exponent - 10),
    };
    if byte < 0x80 { absolute } else { -absolute }
}
