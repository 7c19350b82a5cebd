//! Elements of constants: scales and offsets.

use lodstone_model::{DType, Kind, Tensor};

/// The maximum size in bytes of a constant that is read to derive others from it.
const MAX_READ: u64 = 1 << 20;

/// Returns the elements of a `float32` constant, if it is small.
pub(crate) fn floats_of(tensor: &Tensor) -> Option<Vec<f32>> {
    let bytes = bytes_of(tensor).filter(|_| tensor.dtype == DType::Float32)?;
    let number = |chunk: &[u8]| chunk.try_into().map(f32::from_le_bytes).ok();
    bytes.chunks_exact(4).map(number).collect()
}

/// Returns the elements of a constant of integers of up to 32 bits, if it is small.
pub(crate) fn ints_of(tensor: &Tensor) -> Option<Vec<i32>> {
    let bytes = bytes_of(tensor)?;
    let wide = |chunk: &[u8]| chunk.try_into().map(i32::from_le_bytes).ok();
    match tensor.dtype {
        DType::Int8 => Some(bytes.iter().map(|byte| byte.cast_signed().into()).collect()),
        DType::Uint8 => Some(bytes.iter().map(|byte| (*byte).into()).collect()),
        DType::Int32 => bytes.chunks_exact(4).map(wide).collect(),
        _ => None,
    }
}

fn bytes_of(tensor: &Tensor) -> Option<bytes::Bytes> {
    let is_dense = matches!(tensor.kind, Kind::Dense);
    let fits = tensor.dtype.size_of(&tensor.shape) == Some(tensor.data.len());
    (is_dense && fits && tensor.data.len() <= MAX_READ).then(|| tensor.data.bytes().ok())?
}
