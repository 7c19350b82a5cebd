//! Casting floating-point tensors, lazily and chunk by chunk.

use std::collections::HashMap;
use std::sync::Arc;

use lodstone_model::{DType, Kind, Tensor, narrow};
use lodstone_store::{Blob, Derive, Error as StoreError, Identity, internal};

use crate::numbers::{Decoder, decoder, element_count, numbers};
use crate::{Error, Result};

/// The element types of casts.
pub const CAST_TYPES: [DType; 4] =
    [DType::Float16, DType::BFloat16, DType::Float32, DType::Float64];

/// Returns whether elements can be cast to a type.
pub(crate) fn is_target(dtype: DType) -> bool {
    CAST_TYPES.contains(&dtype)
}

/// Casts the floating-point tensors of a model. Tensors that share their elements share the result.
#[derive(Debug)]
pub(crate) struct Caster {
    to: DType,
    /// Whether finite values stay finite, and others than 0 do not become 0: a program divides by epsilons and adds masks,
    /// for which the nearest number would be 0 or infinite.
    within: bool,
    /// The results, by the location of their elements if that is a single one.
    done: HashMap<Option<Identity>, Vec<Done>>,
}

/// Elements that were cast.
#[derive(Debug)]
struct Done {
    source: Blob,
    from: DType,
    count: u64,
    result: Blob,
    changed: bool,
}

impl Caster {
    /// Creates a caster whose results are the nearest numbers, the even one of two.
    pub(crate) fn new(to: DType) -> Result<Self> {
        match is_target(to) {
            true => Ok(Self { to, within: false, done: HashMap::new() }),
            false => Err(Error::Cast { to }),
        }
    }

    /// Creates a caster for the constants of a program, which stay within the range of the type.
    pub(crate) fn within(to: DType) -> Result<Self> {
        Ok(Self { within: true, ..Self::new(to)? })
    }

    /// Casts the elements of a floating-point tensor. Returns whether that changed a value. Other tensors are unchanged.
    pub(crate) fn cast(&mut self, tensor: &mut Tensor) -> Result<bool> {
        let (from, to) = (tensor.dtype, self.to);
        if from == to || !from.is_float() || matches!(tensor.kind, Kind::Absent) {
            return Ok(false);
        }
        let count = element_count(&tensor.stored_shape());
        let done = self.done.entry(tensor.data.identity()).or_default();
        let is_same =
            |done: &&Done| (done.from, done.count) == (from, count) && done.source.is(&tensor.data);
        let (result, changed) = match done.iter().find(is_same) {
            Some(done) => (done.result.clone(), done.changed),
            None => {
                let (source, read) = numbers(tensor).ok_or(Error::Cast { to })?;
                let back = decoder(to).ok_or(Error::Cast { to })?;
                let cast = Cast { source, to, read, back, within: self.within };
                let changed = !is_exact(from, to) && cast.changes_a_value()?;
                let result = Blob::derived(Arc::new(cast));
                let source = tensor.data.clone();
                done.push(Done { source, from, count, result: result.clone(), changed });
                (result, changed)
            }
        };
        tensor.data = result;
        tensor.dtype = to;
        tensor.recipe = tensor.recipe.cast(to, self.within);
        tensor.residual.clear();
        Ok(changed)
    }
}

/// Returns whether `to` represents every value of `from`.
fn is_exact(from: DType, to: DType) -> bool {
    // Floats of at most 8 bits have fewer exponent and mantissa bits, except for `float8_e8m0fnu` and float16.
    let is_narrow = narrow::decoded(from, 0).is_some();
    match to {
        DType::Float64 => true,
        DType::Float32 => from != DType::Float64,
        DType::BFloat16 => is_narrow,
        DType::Float16 => is_narrow && from != DType::Float8E8M0Fnu,
        _ => false,
    }
}

/// The elements of `source` in another element type.
struct Cast {
    source: Blob,
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
        self.source.len() / self.read.size as u64
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
        let size = self.read.size as u64;
        let bytes = usize::try_from(count * size);
        let mut bytes = vec![0; bytes.map_err(|_| internal("a chunk does not fit into memory"))?];
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
