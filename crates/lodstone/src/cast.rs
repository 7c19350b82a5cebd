//! Casting floating-point tensors, lazily and a piece at a time.

use std::sync::Arc;

use half::{bf16, f16};
use lodstone_model::{DType, Tensor};
use lodstone_store::{Blob, Derive, Error as StoreError};

use crate::{Error, Result};

/// The types that can be cast from and to.
const CASTABLE: [DType; 4] = [DType::Float16, DType::BFloat16, DType::Float32, DType::Float64];

/// Casts the elements of a floating-point tensor to `to`, rounding to nearest, ties to even; gives
/// whether that changes a value. Other tensors stay as they are.
pub(crate) fn cast(tensor: &mut Tensor, to: DType) -> Result<bool> {
    if !CASTABLE.contains(&to) {
        return Err(Error::Cast { to });
    }
    let from = tensor.dtype;
    if from == to || !CASTABLE.contains(&from) {
        return Ok(false);
    }
    let cast = Cast { source: tensor.data.clone(), from, to };
    let changes = !is_exact(from, to) && cast.changes_a_value()?;
    tensor.data = Blob::derived(Arc::new(cast));
    tensor.dtype = to;
    tensor.residual.clear();
    Ok(changes)
}

/// Whether `to` has every value of `from`.
fn is_exact(from: DType, to: DType) -> bool {
    matches!((from, to), (_, DType::Float64) | (DType::Float16 | DType::BFloat16, DType::Float32))
}

/// The elements of `source` in another type.
struct Cast {
    source: Blob,
    from: DType,
    to: DType,
}

/// Elements that are cast at once.
const PIECE: u64 = 64 << 10;

impl Cast {
    fn count(&self) -> u64 {
        self.source.len() / size(self.from)
    }

    fn changes_a_value(&self) -> Result<bool> {
        let mut first = 0;
        while first < self.count() {
            let count = PIECE.min(self.count() - first);
            let values = self.values(first, count)?;
            let changed = |value: &f64| {
                let back = decode(self.to, &encode(self.to, *value));
                back != *value && !(back.is_nan() && value.is_nan())
            };
            if values.iter().any(changed) {
                return Ok(true);
            }
            first += count;
        }
        Ok(false)
    }

    /// `count` elements from number `first` on; every castable value is exact as `f64`.
    fn values(&self, first: u64, count: u64) -> Result<Vec<f64>, StoreError> {
        let size = size(self.from);
        let mut bytes = vec![0; usize::try_from(count * size).unwrap_or(0)];
        self.source.read_at(first * size, &mut bytes)?;
        let elements = bytes.chunks_exact(usize::try_from(size).unwrap_or(1));
        Ok(elements.map(|element| decode(self.from, element)).collect())
    }
}

impl Derive for Cast {
    fn len(&self) -> u64 {
        self.count() * size(self.to)
    }

    fn check_unchanged(&self) -> Result<(), StoreError> {
        self.source.check_unchanged()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), StoreError> {
        let size = size(self.to);
        let (mut offset, mut rest) = (offset, buffer);
        while !rest.is_empty() {
            let first = offset / size;
            let count = PIECE.min(self.count() - first);
            let encoded = self.values(first, count)?;
            let encoded: Vec<u8> = encoded.iter().flat_map(|v| encode(self.to, *v)).collect();
            let skip = usize::try_from(offset % size).unwrap_or(0);
            let piece = encoded.get(skip..).unwrap_or_default();
            let take = piece.len().min(rest.len());
            let (now, later) = rest.split_at_mut(take);
            now.copy_from_slice(piece.get(..take).unwrap_or_default());
            rest = later;
            offset += take as u64;
        }
        Ok(())
    }
}

/// Bytes of an element of a castable type.
fn size(dtype: DType) -> u64 {
    u64::from(dtype.bits().unwrap_or(8) / 8)
}

fn decode(dtype: DType, bytes: &[u8]) -> f64 {
    let array4 = || bytes.first_chunk::<4>().copied().unwrap_or_default();
    let array2 = || bytes.first_chunk::<2>().copied().unwrap_or_default();
    match dtype {
        DType::Float16 => f64::from(f16::from_le_bytes(array2())),
        DType::BFloat16 => f64::from(bf16::from_le_bytes(array2())),
        DType::Float32 => f64::from(f32::from_le_bytes(array4())),
        _ => f64::from_le_bytes(bytes.first_chunk::<8>().copied().unwrap_or_default()),
    }
}

fn encode(dtype: DType, value: f64) -> Vec<u8> {
    match dtype {
        DType::Float16 => f16::from_f64(value).to_le_bytes().to_vec(),
        DType::BFloat16 => bf16::from_f64(value).to_le_bytes().to_vec(),
        #[expect(clippy::cast_possible_truncation, reason = "rounds, as casting means to")]
        DType::Float32 => (value as f32).to_le_bytes().to_vec(),
        _ => value.to_le_bytes().to_vec(),
    }
}
