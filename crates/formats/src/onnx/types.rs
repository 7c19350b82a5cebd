//! Element types and types of values: `TensorProto.DataType` and `TypeProto`.

use std::sync::Arc;

use lodstone_model::{DType, Dim, TensorType, ValueType, VarKind};
use lodstone_schema::onnx::dtype as codes;

use crate::encoding::protobuf::wire::{Encoder, Field, Message};
use crate::{Error, Result};

/// The element type of a code.
pub(crate) fn dtype(code: i32) -> DType {
    codes::from_code(code).unwrap_or(DType::Unknown(code.cast_unsigned()))
}

/// The code of an element type; `None` if ONNX has none.
pub(crate) fn dtype_code(dtype: DType) -> Option<i32> {
    if let DType::Unknown(code) = dtype {
        return Some(code.cast_signed());
    }
    codes::code(dtype)
}

/// Reads a `TypeProto`.
pub(super) fn value_type(message: &Message<'_>) -> Result<ValueType> {
    message.charge::<ValueType>()?;
    let mut value = ValueType::of(VarKind::Unspecified);
    let mut open = Some(message.clone());
    // What is inside what, from outside in; each level is a message of the file, so they end.
    while let Some(message) = open.take() {
        let mut kind = VarKind::Unspecified;
        for field in message.fields() {
            let field = field?;
            kind = match field.number {
                1 => VarKind::Tensor,
                4 => VarKind::Sequence,
                5 => VarKind::Map,
                7 => VarKind::Opaque,
                8 => VarKind::SparseTensor,
                9 => VarKind::Optional,
                _ => continue,
            };
            // Of several in a `oneof` the last counts.
            open = None;
            value.tensors.clear();
            match kind {
                VarKind::Tensor | VarKind::SparseTensor => {
                    value.tensors.push(tensor_type(&field.message()?)?);
                }
                VarKind::Opaque => {}
                _ => open = Some(field.message()?),
            }
        }
        push(&mut value, kind);
        if let Some(inner) = open.take() {
            let (key, element) = element(&inner, kind)?;
            value.members.extend(key.map(VarKind::Scalar));
            match element {
                None => push(&mut value, VarKind::Unspecified),
                some => open = some,
            }
        }
    }
    Ok(value)
}

/// Adds what is inside everything that there is so far.
fn push(value: &mut ValueType, kind: VarKind) {
    if value.kind == VarKind::Unspecified && value.members.is_empty() {
        value.kind = kind;
    } else {
        value.members.push(kind);
    }
}

/// What a sequence, an optional value or a map is of: the type of the keys, and the message of the rest.
fn element<'a>(
    message: &Message<'a>,
    kind: VarKind,
) -> Result<(Option<DType>, Option<Message<'a>>)> {
    let is_map = kind == VarKind::Map;
    let (mut key, mut inner) = (is_map.then_some(DType::Unknown(0)), None);
    for field in message.fields() {
        let field = field?;
        match (is_map, field.number) {
            (true, 1) => key = Some(dtype(field.i32()?)),
            (true, 2) | (false, 1) => inner = Some(field.message()?),
            _ => {}
        }
    }
    Ok((key, inner))
}

fn tensor_type(message: &Message<'_>) -> Result<TensorType> {
    let mut read = TensorType { dtype: DType::Unknown(0), shape: None, lod_level: 0 };
    for field in message.fields() {
        let field = field?;
        match field.number {
            1 => read.dtype = dtype(field.i32()?),
            2 => {
                let dims = read.shape.get_or_insert_default();
                for field in field.message()?.fields() {
                    let field = field?;
                    if field.number == 1 {
                        dims.push(dim(&field)?);
                    }
                }
            }
            _ => {}
        }
    }
    Ok(read)
}

fn dim(field: &Field<'_>) -> Result<Dim> {
    let mut dim = Dim::Unknown;
    for field in field.message()?.fields() {
        let field = field?;
        match field.number {
            // Exporters of old wrote -1 for what is not known.
            1 => dim = u64::try_from(field.i64()?).map_or(Dim::Unknown, Dim::Known),
            2 => {
                let name = field.string()?;
                dim = if name.is_empty() { Dim::Unknown } else { Dim::Symbol(Arc::from(name)) };
            }
            _ => {}
        }
    }
    Ok(dim)
}

/// Writes a `TypeProto`.
///
/// # Errors
/// If ONNX has no such type.
pub(super) fn write_value_type(out: &mut Encoder, value: &ValueType) -> Result<()> {
    let no_such = |what: String| Error::Incompatible { format: "ONNX", what };
    let chain: Vec<VarKind> =
        std::iter::once(value.kind).chain(value.members.iter().copied()).collect();
    let mut inner: Option<Vec<u8>> = None;
    let mut kinds = chain.iter().rev().copied().peekable();
    while let Some(kind) = kinds.next() {
        let mut level = Encoder::default();
        match kind {
            VarKind::Tensor | VarKind::SparseTensor => {
                let number = if kind == VarKind::Tensor { 1 } else { 8 };
                let described = value.tensors.first().map_or(Ok(Vec::new()), write_tensor_type)?;
                level.bytes(number, &described);
            }
            VarKind::Opaque => level.bytes(7, &[]),
            VarKind::Unspecified => {}
            VarKind::Sequence | VarKind::Optional => {
                let number = if kind == VarKind::Sequence { 4 } else { 9 };
                level.message(number, |out| inner.iter().for_each(|inner| out.bytes(1, inner)));
            }
            VarKind::Scalar(key) if kinds.peek() == Some(&VarKind::Map) => {
                let _ = kinds.next();
                let code = dtype_code(key).ok_or_else(|| no_such(format!("keys of {key}")))?;
                level.message(5, |out| {
                    if code != 0 {
                        out.int(1, code);
                    }
                    inner.iter().for_each(|inner| out.bytes(2, inner));
                });
            }
            kind => return Err(no_such(format!("a value that is a {kind:?}"))),
        }
        inner = Some(level.finish());
    }
    out.raw(&inner.unwrap_or_default());
    Ok(())
}

fn write_tensor_type(tensor: &TensorType) -> Result<Vec<u8>> {
    let what = || format!("a tensor of {}", tensor.dtype);
    let no_code = || Error::Incompatible { format: "ONNX", what: what() };
    let code = dtype_code(tensor.dtype).ok_or_else(no_code)?;
    let mut out = Encoder::default();
    if code != 0 {
        out.int(1, code);
    }
    if let Some(dims) = &tensor.shape {
        out.message(2, |out| {
            for dim in dims {
                out.message(1, |out| match dim {
                    Dim::Known(extent) => out.int(1, i64::try_from(*extent).unwrap_or(i64::MAX)),
                    Dim::Symbol(name) => out.bytes(2, name.as_bytes()),
                    Dim::Unknown => {}
                });
            }
        });
    }
    Ok(out.finish())
}
