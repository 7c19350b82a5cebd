//! Elements of any type as numbers.

use half::{bf16, f16};
use lodstone_model::DType;

/// How to read elements as numbers.
#[derive(Clone, Copy)]
pub(crate) struct Decoder {
    /// Bytes of a number.
    pub(crate) size: usize,
    /// The number in as many bytes.
    pub(crate) number: fn(&[u8]) -> f64,
}

/// How to read elements of a type; nothing for types without numbers. Integers beyond 2⁵³ are
/// rounded; a complex number is read as two.
pub(crate) fn decoder(dtype: DType) -> Option<Decoder> {
    macro_rules! decode {
        ($type:ty) => {
            decode!($type, f64::from)
        };
        ($type:ty, $number:expr) => {{
            fn number(bytes: &[u8]) -> f64 {
                let array = bytes.first_chunk().copied().unwrap_or_default();
                $number(<$type>::from_le_bytes(array))
            }
            Some(Decoder { size: size_of::<$type>(), number })
        }};
    }
    match dtype {
        DType::Bool => decode!(u8, |byte| f64::from(u8::from(byte != 0))),
        DType::Int8 => decode!(i8),
        DType::Int16 => decode!(i16),
        DType::Int32 => decode!(i32),
        #[expect(clippy::cast_precision_loss, reason = "rounds, as documented")]
        DType::Int64 => decode!(i64, |number| number as f64),
        DType::Uint8 => decode!(u8),
        DType::Uint16 => decode!(u16),
        DType::Uint32 => decode!(u32),
        #[expect(clippy::cast_precision_loss, reason = "rounds, as documented")]
        DType::Uint64 => decode!(u64, |number| number as f64),
        DType::Float16 | DType::Complex32 => decode!(f16),
        DType::BFloat16 => decode!(bf16),
        DType::Float32 | DType::Complex64 => decode!(f32),
        DType::Float64 | DType::Complex128 => decode!(f64),
        _ => None,
    }
}
