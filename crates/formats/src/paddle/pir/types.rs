//! Types of values.

use lodstone_model::{DType, Dim, Holder, Layout, TensorType, ValueType};
use serde::de::Error;
use serde_json::value::RawValue;

use super::attributes::{check_depth, part};
use super::json::Typed;

const DTYPES: [(&str, DType); 16] = [
    ("0.t_bf16", DType::BFloat16),
    ("0.t_f16", DType::Float16),
    ("0.t_f32", DType::Float32),
    ("0.t_f64", DType::Float64),
    ("0.t_i8", DType::Int8),
    ("0.t_ui8", DType::Uint8),
    ("0.t_i16", DType::Int16),
    ("0.t_i32", DType::Int32),
    ("0.t_i64", DType::Int64),
    ("0.t_index", DType::Int64),
    ("0.t_bool", DType::Bool),
    ("0.t_c64", DType::Complex64),
    ("0.t_c128", DType::Complex128),
    ("0.t_f8e4m3fn", DType::Float8E4M3Fn),
    ("0.t_f8e5m2", DType::Float8E5M2),
    ("0.t_undefined", DType::Unspecified),
];

/// Returns the type of a value. A type that is not supported has its own name; so has a dist tensor, whose parts are
/// those of a mesh.
pub(super) fn value_type(typed: &Typed<'_>, depth: usize) -> serde_json::Result<ValueType> {
    check_depth(depth)?;
    let id = &*typed.id;
    if let Some((_, dtype)) = DTYPES.iter().find(|(known, _)| *known == id) {
        return Ok(ValueType::Scalar(*dtype));
    }
    Ok(match id {
        "NULL" => ValueType::Unspecified,
        "0.t_dtensor" => ValueType::Tensor(tensor_type(typed.data)?),
        "1.t_selected_rows" => Holder::SelectedRows(tensor_type(typed.data)?).into(),
        "1.t_dense_tensor_array" => Holder::TensorArray(tensor_type(typed.data)?).into(),
        "1.t_sparse_coo_tensor" => ValueType::Sparse(sparse_type(typed.data, Layout::Coo)?),
        "1.t_sparse_csr_tensor" => ValueType::Sparse(sparse_type(typed.data, Layout::Csr)?),
        "0.t_vec" => {
            let members: Vec<Typed<'_>> = part(typed.data)?;
            let members = members.iter().map(|member| value_type(member, depth + 1));
            let members = members.collect::<Result<_, _>>()?;
            ValueType::tuple(members).map_err(serde::de::Error::custom)?
        }
        other => ValueType::Class(other.to_owned()),
    })
}

/// Returns the type of a tensor: `[element type, dims, layout, LoD, offset]`.
fn tensor_type(data: Option<&RawValue>) -> serde_json::Result<TensorType> {
    let parts: Vec<&RawValue> = part(data)?;
    let mut parts = parts.into_iter();
    let element: Typed<'_> = part(parts.next())?;
    let dims: Vec<i64> = part(parts.next())?;
    let _layout = parts.next();
    let lod: Vec<&RawValue> = parts.next().map_or(Ok(Vec::new()), |lod| part(Some(lod)))?;
    let dtype = dtype(&element.id);
    let shape = dims.into_iter().map(|dim| u64::try_from(dim).map_or(Dim::Unknown, Dim::Known));
    let lod_level = u32::try_from(lod.len()).map_err(serde_json::Error::custom)?;
    Ok(TensorType { dtype, shape: Some(shape.collect()), lod_level, ..TensorType::default() })
}

fn sparse_type(data: Option<&RawValue>, layout: Layout) -> serde_json::Result<TensorType> {
    let parts: Vec<&RawValue> = part(data)?;
    let element: Typed<'_> = part(parts.first().copied())?;
    let dims: Vec<i64> = part(parts.get(1).copied())?;
    let shape = dims.into_iter().map(|dim| u64::try_from(dim).map_or(Dim::Unknown, Dim::Known));
    let unlaid = TensorType::with_layout(layout);
    Ok(TensorType { dtype: dtype(&element.id), shape: Some(shape.collect()), ..unlaid })
}

/// Returns an element type; a name that is not known is a type of no code.
fn dtype(id: &str) -> DType {
    let known = DTYPES.iter().find(|(known, _)| *known == id);
    known.map_or(DType::Unknown(u32::MAX), |(_, dtype)| *dtype)
}
