//! Casting floating-point tensors, lazily and chunk by chunk.

use std::sync::Arc;

use lodstone_model::{DType, Tensor};
use lodstone_store::{Blob, Derive, Error as StoreError, internal};

use crate::numbers::{Decoder, decoder};
use crate::{Error, Result};

/// The element types that can be cast from and to.
const CASTABLE: [DType; 4] = [DType::Float16, DType::BFloat16, DType::Float32, DType::Float64];

/// Returns whether elements of a type can be cast.
pub(crate) fn is_castable(dtype: DType) -> bool {
    CASTABLE.contains(&dtype)
}

/// Casts the elements of a floating-point tensor to `to`, rounding to nearest, ties to even. Returns
/// whether that can change a value. Other tensors are unchanged.
pub(crate) fn cast(tensor: &mut Tensor, to: DType) -> Result<bool> {
    cast_with(tensor, to, false)
}

/// Casts like [`cast`], but finite values stay finite, and others than 0 do not become 0: a program divides by epsilons
/// and adds masks, for which the nearest number would be 0 or infinite.
pub(crate) fn cast_within(tensor: &mut Tensor, to: DType) -> Result<bool> {
    cast_with(tensor, to, true)
}

fn cast_with(tensor: &mut Tensor, to: DType, within: bool) -> Result<bool> {
    if !is_castable(to) {
        return Err(Error::Cast { to });
    }
    let from = tensor.dtype;
    if from == to || !is_castable(from) {
        return Ok(false);
    }
    let read = |dtype| decoder(dtype).ok_or(Error::Cast { to });
    let cast =
        Cast { source: tensor.data.clone(), from, to, read: read(from)?, back: read(to)?, within };
    let changes = !is_exact(from, to) && cast.changes_a_value()?;
    tensor.data = Blob::derived(Arc::new(cast));
    tensor.dtype = to;
    tensor.residual.clear();
    Ok(changes)
}

/// Returns whether `to` represents every value of `from`.
fn is_exact(from: DType, to: DType) -> bool {
    matches!((from, to), (_, DType::Float64) | (DType::Float16 | DType::BFloat16, DType::Float32))
}

/// The elements of `source` in another element type.
struct Cast {
    source: Blob,
    from: DType,
    to: DType,
    /// Reads elements of `source`.
    read: Decoder,
    /// Reads elements of the target type.
    back: Decoder,
    /// Whether values stay within the range of the target type.
    within: bool,
}

/// The number of elements that are cast at once.
const CHUNK: u64 = 64 << 10;

impl Cast {
    fn count(&self) -> u64 {
        self.source.len() / size(self.from)
    }

    fn changes_a_value(&self) -> Result<bool> {
        let mut first = 0;
        while first < self.count() {
            let count = CHUNK.min(self.count() - first);
            let values = self.values(first, count)?;
            let changed = |value: &f64| {
                let mut encoded = [0; 8];
                let (encoded, _) = encoded.split_at_mut(width(self.to));
                encode(self.to, *value, encoded);
                let back = (self.back.number)(encoded);
                back != *value && !(back.is_nan() && value.is_nan())
            };
            if values.iter().any(changed) {
                return Ok(true);
            }
            first += count;
        }
        Ok(false)
    }

    /// Returns a value within the range of the target type.
    fn clamped(&self, value: f64) -> f64 {
        let of_bits = |bits: u32| f64::from(f32::from_bits(bits));
        let (least, greatest) = match self.to {
            DType::Float16 => (of_bits(0x3380_0000), 65504.0),
            DType::BFloat16 => (of_bits(0x0001_0000), of_bits(0x7f7f_0000)),
            DType::Float32 => (of_bits(1), f64::from(f32::MAX)),
            _ => return value,
        };
        match value.abs() {
            size if size == 0.0 || !size.is_finite() => value,
            size => size.clamp(least, greatest).copysign(value),
        }
    }

    /// Reads `count` elements from index `first` on; every castable value is exact as `f64`.
    fn values(&self, first: u64, count: u64) -> Result<Vec<f64>, StoreError> {
        let size = size(self.from);
        let mut bytes = vec![0; usize::try_from(count * size).unwrap_or(0)];
        self.source.read_at(first * size, &mut bytes)?;
        Ok(bytes.chunks_exact(self.read.size).map(self.read.number).collect())
    }
}

impl Derive for Cast {
    fn len(&self) -> u64 {
        self.count() * size(self.to)
    }

    fn source(&self) -> Option<&Blob> {
        Some(&self.source)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), StoreError> {
        let size = size(self.to);
        let (mut offset, mut rest) = (offset, buffer);
        while !rest.is_empty() {
            let first = offset / size;
            let count = CHUNK.min(self.count() - first);
            let values = self.values(first, count)?.into_iter();
            let values: Vec<f64> =
                values.map(|it| if self.within { self.clamped(it) } else { it }).collect();
            let width = width(self.to);
            let mut encoded = vec![0; values.len() * width];
            for (value, out) in values.iter().zip(encoded.chunks_exact_mut(width)) {
                encode(self.to, *value, out);
            }
            let skip = usize::try_from(offset % size).ok();
            let chunk = skip.and_then(|skip| encoded.get(skip..)).filter(|chunk| !chunk.is_empty());
            let chunk = chunk.ok_or_else(|| internal("a cast returned no bytes"))?;
            let take = chunk.len().min(rest.len());
            let (now, later) = rest.split_at_mut(take);
            now.iter_mut().zip(chunk).for_each(|(now, byte)| *now = *byte);
            rest = later;
            offset += take as u64;
        }
        Ok(())
    }
}

/// Returns the size of an element of a castable type in bytes.
fn size(dtype: DType) -> u64 {
    u64::from(dtype.bits().unwrap_or(8) / 8)
}

fn width(dtype: DType) -> usize {
    usize::try_from(size(dtype)).unwrap_or(1)
}

/// Writes `value` as `dtype` into `out`, which has its size.
fn encode(dtype: DType, value: f64, out: &mut [u8]) {
    match dtype {
        DType::Float16 => out.copy_from_slice(&narrow(value, 5, 10).to_le_bytes()),
        DType::BFloat16 => out.copy_from_slice(&narrow(value, 8, 7).to_le_bytes()),
        #[expect(clippy::cast_possible_truncation, reason = "a cast rounds")]
        DType::Float32 => out.copy_from_slice(&(value as f32).to_le_bytes()),
        _ => out.copy_from_slice(&value.to_le_bytes()),
    }
}

/// Rounds `value` once to a 16-bit format with a sign, `exponent` and `mantissa` bits, to
/// nearest, ties to even. (Going through `f32`, or truncating bits first, would round twice.)
fn narrow(value: f64, exponent: u32, mantissa: u32) -> u16 {
    let bits = value.to_bits();
    let (biased, fraction) = (bits >> 52 & 0x7ff, bits & ((1 << 52) - 1));
    let infinity = ((1u64 << exponent) - 1) << mantissa;
    // The exponent in the narrow format; values with an exponent of 0 or less are subnormal.
    let scale = biased.cast_signed() - 1023 + ((1 << (exponent - 1)) - 1);
    let magnitude = if biased == 0x7ff {
        // A NaN stays a NaN and becomes quiet.
        let quiet = u64::from(fraction != 0) << (mantissa - 1);
        infinity | quiet | fraction >> (52 - mantissa)
    } else {
        let below = u32::try_from(1 - scale.min(1)).unwrap_or(u32::MAX);
        let shift = (52 - mantissa).saturating_add(below).min(63);
        let significand = if biased == 0 { 0 } else { fraction | 1 << 52 };
        let (kept, cut) = (significand >> shift, significand & ((1 << shift) - 1));
        let half = 1u64 << (shift - 1);
        let up = cut > half || (cut == half && kept & 1 == 1);
        // The leading bit of a normal number, and a carry, propagate into the exponent.
        let base = u64::try_from(scale.max(1) - 1).unwrap_or(0) << mantissa;
        (base + kept + u64::from(up)).min(infinity)
    };
    let sign = bits >> 63 << 15;
    u16::try_from(sign | magnitude).unwrap_or(0)
}
