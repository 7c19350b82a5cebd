//! Detection of NaN and infinities.

use half::{bf16, f16};
use lodstone_model::{DType, Tensor};

use lodstone_schema::Finding;

/// Describes the first element that is infinite or NaN; `None` if all are finite.
pub(crate) fn not_finite(tensor: &Tensor) -> Result<Option<String>, Finding> {
    let bytes = tensor.data.bytes().map_err(|error| error.to_string())?;
    let found = match tensor.dtype {
        DType::Float32 => first(bytes.as_chunks().0, |bytes| f32::from_le_bytes(bytes).into()),
        DType::Float64 => first(bytes.as_chunks().0, f64::from_le_bytes),
        DType::Float16 => first(bytes.as_chunks().0, |bytes| f16::from_le_bytes(bytes).into()),
        DType::BFloat16 => first(bytes.as_chunks().0, |bytes| bf16::from_le_bytes(bytes).into()),
        _ => None,
    };
    let describe = |(place, value): (usize, f64)| {
        format!("element {place} of {}{:?} is {value}", tensor.dtype, tensor.shape)
    };
    Ok(found.map(describe))
}

/// Whether an element is NaN.
pub(crate) fn has_nan(tensor: &Tensor) -> Result<bool, Finding> {
    let bytes = tensor.data.bytes().map_err(|error| error.to_string())?;
    Ok(match tensor.dtype {
        DType::Float32 => bytes.as_chunks().0.iter().any(|it| f32::from_le_bytes(*it).is_nan()),
        DType::Float64 => bytes.as_chunks().0.iter().any(|it| f64::from_le_bytes(*it).is_nan()),
        _ => false,
    })
}

fn first<const N: usize>(elements: &[[u8; N]], read: fn([u8; N]) -> f64) -> Option<(usize, f64)> {
    let mut values = elements.iter().map(|bytes| read(*bytes)).enumerate();
    values.find(|(_, value)| !value.is_finite())
}
