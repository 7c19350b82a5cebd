//! The types of placeholders and constants, from their doc strings and declarations.

use lodstone_model::{ByteString, DType, Dim, TensorType, ValueType};
use lodstone_schema::Finding;
use lodstone_schema::glow::{ElemKind, Storage, Type};
use lodstone_schema::numbers::known_dims;
use lodstone_schema::onnx::infer::ValueInfo;

/// Returns the ONNX type of a Glow type.
pub(super) fn info_of(ty: &Type) -> ValueInfo {
    let dims = ty.shape.iter().map(|dim| u64::try_from(*dim).map_or(Dim::Unknown, Dim::Known));
    ValueInfo::tensor(ty.kind.dtype(), Some(dims.collect()))
}

/// Returns the element type and the dims of a tensor type.
pub(super) fn tensor_of(value: &ValueType) -> Option<(DType, Option<Vec<i64>>)> {
    let TensorType { dtype, shape, .. } = value.tensor_type()?;
    Some((*dtype, known_dims(shape.as_ref()?)))
}

/// Returns the Glow type of a placeholder or a constant, from its doc string and its declaration.
pub(super) fn type_of(
    text: Option<&ByteString>,
    found: Option<(DType, Option<Vec<i64>>)>,
) -> Result<Type, Finding> {
    let Some((dtype, Some(shape))) = found else {
        return Err("expected a dense tensor with known dims".into());
    };
    let storage = text.map(|text| Storage::parse(&text.to_string())).transpose()?;
    let storage = storage.unwrap_or_default();
    let kind = storage.kind.or_else(|| plain(dtype));
    let kind =
        kind.ok_or_else(|| format!("expected `$elemKind` for {dtype} elements, found none"))?;
    if kind.dtype() != dtype {
        let (name, expected) = (kind.name(), kind.dtype());
        return Err(format!("expected {expected} elements for `{name}`, found {dtype}").into());
    }
    if kind.is_quantized() && storage.quantization.is_none() {
        return Err("expected `$qScale` and `$qOffset` in its doc string, found none".into());
    }
    let quantization = storage.quantization.filter(|_| kind.is_quantized());
    Ok(Type { kind, shape, strides: None, quantization })
}

/// Returns the default Glow type of an element type.
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
