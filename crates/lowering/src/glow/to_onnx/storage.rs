//! What placeholders and constants are, by their texts and what they are declared to be.

use lodstone_model::{ByteString, DType, Dim, TensorType, ValueType};
use lodstone_schema::Finding;
use lodstone_schema::glow::{ElemKind, Storage, Type};
use lodstone_schema::onnx::infer::ValueInfo;

/// What a value of a type of Glow is in ONNX.
pub(super) fn info_of(ty: &Type) -> ValueInfo {
    let dims =
        ty.shape.iter().map(|extent| u64::try_from(*extent).map_or(Dim::Unknown, Dim::Known));
    ValueInfo::tensor(ty.kind.dtype(), Some(dims.collect()))
}

/// The type of elements and the extents of a tensor.
pub(super) fn tensor_of(value: &ValueType) -> Option<(DType, Option<Vec<i64>>)> {
    let TensorType { dtype, shape, .. } = value.tensor_type()?;
    let extent = |dim: &Dim| match dim {
        Dim::Known(extent) => i64::try_from(*extent).ok(),
        _ => None,
    };
    Some((*dtype, shape.as_ref()?.iter().map(extent).collect()))
}

/// The type of a placeholder or a constant, by its text and what it is declared to be.
pub(super) fn type_of(
    text: Option<&ByteString>,
    found: Option<(DType, Option<Vec<i64>>)>,
) -> Result<Type, Finding> {
    let Some((dtype, Some(shape))) = found else {
        return Err("expected a dense tensor whose extents are known".into());
    };
    let storage = text.map(|text| Storage::parse(&text.to_string())).transpose()?;
    let storage = storage.unwrap_or_default();
    let kind = storage.kind.or_else(|| plain(dtype));
    let kind = kind.ok_or_else(|| format!("nothing says what its {dtype} stand for"))?;
    if kind.dtype() != dtype {
        let (name, expected) = (kind.name(), kind.dtype());
        return Err(format!("expected {expected} elements for `{name}`, found {dtype}").into());
    }
    if kind.is_quantized() && storage.quantization.is_none() {
        return Err("expected `$qScale` and `$qOffset` in its text, found none".into());
    }
    let quantization = storage.quantization.filter(|_| kind.is_quantized());
    Ok(Type { kind, shape, strides: None, quantization })
}

/// The type of Glow that elements have if nothing else is said.
fn plain(dtype: DType) -> Option<ElemKind> {
    Some(match dtype {
        DType::Float32 => ElemKind::Float,
        DType::Float16 => ElemKind::Float16,
        DType::BFloat16 => ElemKind::BFloat16,
        DType::Float64 => ElemKind::Float64,
        DType::Int32 => ElemKind::Int32I,
        DType::Int64 => ElemKind::Int64I,
        DType::Bool => ElemKind::Bool,
        _ => return None,
    })
}
