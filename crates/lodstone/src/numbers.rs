//! Conversion of elements of any type to numbers.

use std::sync::Arc;

use half::{bf16, f16};
use lodstone_model::{DType, Tensor, narrow};
use lodstone_store::{Blob, Derive, Result as StoreResult, internal};

/// The conversion of elements to numbers. Elements smaller than a byte are first [`unpacked`].
#[derive(Clone, Copy)]
pub(crate) struct Decoder {
    /// The size of a number in bytes.
    pub(crate) size: usize,
    /// Converts this many bytes to a number.
    pub(crate) number: fn(&[u8]) -> f64,
    /// Converts integers without rounding.
    pub(crate) integer: Option<fn(&[u8]) -> i128>,
}

/// Returns the stored elements of a tensor, and their conversion to numbers; `None` if they are not numbers. Elements smaller
/// than a byte are unpacked on read.
pub(crate) fn numbers(tensor: &Tensor) -> Option<(Blob, Decoder)> {
    let decoder = decoder(tensor.dtype)?;
    let data = unpacked(&tensor.data, tensor.dtype, element_count(&tensor.stored_shape()));
    Some((data, decoder))
}

/// Returns the number of elements of a shape; the largest number if there are more.
pub(crate) fn element_count(shape: &[u64]) -> u64 {
    shape.iter().fold(1, |count, dim| count.saturating_mul(*dim))
}

/// Returns `count` elements with at least a byte for each.
pub(crate) fn unpacked(data: &Blob, dtype: DType, count: u64) -> Blob {
    match dtype.bits() {
        Some(bits @ 1..8) => {
            Blob::derived(Arc::new(Unpacked { source: data.clone(), bits, count }))
        }
        _ => data.clone(),
    }
}

/// Packed elements as bytes.
struct Unpacked {
    source: Blob,
    /// The size of an element in bits.
    bits: u32,
    count: u64,
}

/// The number of elements that always fill whole bytes.
const GROUP: u64 = 8;

impl Derive for Unpacked {
    fn len(&self) -> u64 {
        self.count
    }

    fn source(&self) -> Option<&Blob> {
        Some(&self.source)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> StoreResult<()> {
        // Group by group, so that memory is bounded.
        const GROUPS: u64 = 8 << 10;
        let (mut at, mut rest) = (offset, buffer);
        while !rest.is_empty() {
            let first = at / GROUP;
            let last = (at + rest.len() as u64).div_ceil(GROUP).min(first + GROUPS);
            let begin = first * u64::from(self.bits);
            let count = (last * GROUP).min(self.count).saturating_sub(first * GROUP);
            let mut packed = vec![0; size((count * u64::from(self.bits)).div_ceil(8))?];
            self.source.read_at(begin, &mut packed)?;
            let codes = narrow::unpacked(&packed, self.bits, size(count)?);
            let codes = codes.get(size(at - first * GROUP)?..).filter(|codes| !codes.is_empty());
            let codes = codes.ok_or_else(|| internal("packed elements end before their count"))?;
            let taken = codes.len().min(rest.len());
            let (now, later) = rest.split_at_mut(taken);
            now.iter_mut().zip(codes).for_each(|(to, from)| *to = *from);
            rest = later;
            at += taken as u64;
        }
        Ok(())
    }
}

fn size(bytes: u64) -> StoreResult<usize> {
    usize::try_from(bytes).map_err(|_| internal("a chunk does not fit into memory"))
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
    macro_rules! narrow_float {
        ($dtype:ident) => {{
            fn number(bytes: &[u8]) -> f64 {
                let [code] = extended(bytes);
                narrow::decoded(DType::$dtype, code).map_or(f64::NAN, f64::from)
            }
            Decoder { size: 1, number, integer: None }
        }};
    }
    macro_rules! narrow_integer {
        ($signed:literal, $bits:literal) => {{
            fn integer(bytes: &[u8]) -> i128 {
                let [code] = extended::<1>(bytes);
                let high = code << (8 - $bits);
                i128::from(
                    if $signed { i16::from(high.cast_signed()) } else { i16::from(high) }
                        >> (8 - $bits),
                )
            }
            #[expect(clippy::cast_precision_loss, reason = "at most 4 bits")]
            fn number(bytes: &[u8]) -> f64 {
                integer(bytes) as f64
            }
            Decoder { size: 1, number, integer: Some(integer) }
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
        DType::Int2 => narrow_integer!(true, 2),
        DType::Int4 => narrow_integer!(true, 4),
        DType::Uint2 => narrow_integer!(false, 2),
        DType::Uint4 => narrow_integer!(false, 4),
        DType::Float4E2M1 => narrow_float!(Float4E2M1),
        DType::Float6E2M3 => narrow_float!(Float6E2M3),
        DType::Float6E3M2 => narrow_float!(Float6E3M2),
        DType::Float8E4M3 => narrow_float!(Float8E4M3),
        DType::Float8E4M3Fn => narrow_float!(Float8E4M3Fn),
        DType::Float8E4M3Fnuz => narrow_float!(Float8E4M3Fnuz),
        DType::Float8E5M2 => narrow_float!(Float8E5M2),
        DType::Float8E5M2Fnuz => narrow_float!(Float8E5M2Fnuz),
        DType::Float8E8M0Fnu => narrow_float!(Float8E8M0Fnu),
        DType::Float16 | DType::Complex32 => decode!(f16),
        DType::BFloat16 => decode!(bf16),
        DType::Float32 | DType::Complex64 => decode!(f32),
        DType::Float64 | DType::Complex128 => decode!(f64),
        _ => return None,
    })
}
