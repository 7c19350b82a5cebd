//! Element types and value types: `TensorProto.DataType` and `TypeProto`.

use std::sync::Arc;

use lodstone_model::{DType, Dim, TensorType, ValueType};
use lodstone_schema::onnx::dtype as codes;

use crate::encoding::protobuf::wire::{Encoder, Field, Message};
use crate::error::{Error, Result};

/// Returns the element type of a code.
pub(crate) fn dtype(code: i32) -> DType {
    codes::from_code(code).unwrap_or(DType::Unknown(code.cast_unsigned()))
}

/// Returns the code of an element type; `None` if ONNX has none.
pub(crate) fn dtype_code(dtype: DType) -> Option<i32> {
    if let DType::Unknown(code) = dtype {
        return Some(code.cast_signed());
    }
    codes::code(dtype)
}

/// A level of a nested type.
enum Layer {
    List,
    Optional,
    Dict(DType),
}

/// Reads a `TypeProto`.
pub(super) fn value_type(message: &Message<'_>) -> Result<ValueType> {
    message.charge::<ValueType>()?;
    let mut layers = Vec::new();
    let mut value = ValueType::Unspecified;
    let mut open = Some(message.clone());
    // Levels from the outside in; each is a message of the file, so their number is bounded.
    while let Some(message) = open.take() {
        let mut layer = None;
        for field in message.fields() {
            let field = field?;
            // Of several fields in a `oneof`, the last one is used.
            (layer, value) = match field.number {
                1 => (None, ValueType::Tensor(tensor_type(&field.message()?)?)),
                8 => (None, ValueType::Sparse(tensor_type(&field.message()?)?)),
                7 => (None, ValueType::Class(opaque_name(&field.message()?)?)),
                4 => (Some((Layer::List, field.message()?)), ValueType::Unspecified),
                9 => (Some((Layer::Optional, field.message()?)), ValueType::Unspecified),
                5 => {
                    let inner = field.message()?;
                    (Some((Layer::Dict(key_type(&inner)?), inner)), ValueType::Unspecified)
                }
                _ => continue,
            };
        }
        if let Some((layer, inner)) = layer {
            let number = if matches!(layer, Layer::Dict(_)) { 2 } else { 1 };
            layers.push(layer);
            for field in inner.fields() {
                let field = field?;
                if field.number == number {
                    open = Some(field.message()?);
                }
            }
        }
    }
    let nested = layers.into_iter().rev().try_fold(value, |inner, layer| match layer {
        Layer::List => ValueType::list(inner),
        Layer::Optional => ValueType::optional(inner),
        Layer::Dict(key) => ValueType::dict(key, inner),
    });
    nested.map_err(|_| message.too_deep())
}

/// Returns the name of an opaque type, `opaque(DOMAIN,NAME)`; empty if it has none.
fn opaque_name(message: &Message<'_>) -> Result<String> {
    let (mut domain, mut name) = (String::new(), String::new());
    for field in message.fields() {
        let field = field?;
        match field.number {
            1 => domain = field.string()?,
            2 => name = field.string()?,
            _ => {}
        }
    }
    Ok(match name.is_empty() {
        true => String::new(),
        false => format!("opaque({domain},{name})"),
    })
}

/// Reads the key type of a map.
fn key_type(message: &Message<'_>) -> Result<DType> {
    let mut key = DType::Unknown(0);
    for field in message.fields() {
        let field = field?;
        if field.number == 1 {
            key = dtype(field.i32()?);
        }
    }
    Ok(key)
}

fn tensor_type(message: &Message<'_>) -> Result<TensorType> {
    let mut read = TensorType::new(DType::Unknown(0), None);
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
            // Old exporters wrote -1 for an unknown dim.
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
/// Fails if ONNX has no such type.
pub(super) fn write_value_type(out: &mut Encoder, value: &ValueType) -> Result<()> {
    let no_such = |what: String| Error::Incompatible { format: "ONNX", what };
    // Recurses to the nesting depth of types, which is bounded.
    let inner = |value: &ValueType| {
        let mut out = Encoder::default();
        write_value_type(&mut out, value).map(|()| out.finish())
    };
    match value {
        ValueType::Unspecified => {}
        ValueType::Tensor(tensor) => out.bytes(1, &write_tensor_type(tensor)?),
        ValueType::Sparse(tensor) => out.bytes(8, &write_tensor_type(tensor)?),
        ValueType::Class(name) => {
            let inner = name.strip_prefix("opaque(").and_then(|rest| rest.strip_suffix(')'));
            let (domain, name) = match inner.and_then(|inner| inner.split_once(',')) {
                Some(parts) => parts,
                None if name.is_empty() => ("", ""),
                None => return Err(no_such(format!("a value of the class `{name}`"))),
            };
            out.message(7, |out| {
                for (number, text) in [(1, domain), (2, name)] {
                    if !text.is_empty() {
                        out.bytes(number, text.as_bytes());
                    }
                }
            });
        }
        ValueType::List(element) => {
            let element = inner(element)?;
            out.message(4, |out| out.bytes(1, &element));
        }
        ValueType::Optional(element) => {
            let element = inner(element)?;
            out.message(9, |out| out.bytes(1, &element));
        }
        ValueType::Dict(key, value) => {
            let code = dtype_code(*key).ok_or_else(|| no_such(format!("keys of {key}")))?;
            let value = inner(value)?;
            out.message(5, |out| {
                if code != 0 {
                    out.int(1, code);
                }
                out.bytes(2, &value);
            });
        }
        ValueType::Scalar(_)
        | ValueType::Tuple(_)
        | ValueType::Holder(_)
        | ValueType::Unknown(_) => {
            return Err(no_such(format!("a value of type {}", value.kind())));
        }
    }
    Ok(())
}

fn write_tensor_type(tensor: &TensorType) -> Result<Vec<u8>> {
    if tensor.is_unspecified() {
        return Ok(Vec::new());
    }
    let what = || format!("a tensor of {}", tensor.dtype);
    let no_code = || Error::Incompatible { format: "ONNX", what: what() };
    let code = dtype_code(tensor.dtype).ok_or_else(no_code)?;
    let mut out = Encoder::default();
    if code != 0 {
        out.int(1, code);
    }
    let is_large = |dim: &Dim| matches!(dim, Dim::Known(size) if i64::try_from(*size).is_err());
    if tensor.shape.iter().flatten().any(is_large) {
        let what = format!("a tensor of a dim beyond {}", i64::MAX);
        return Err(Error::Incompatible { format: "ONNX", what });
    }
    if let Some(dims) = &tensor.shape {
        out.message(2, |out| {
            for dim in dims {
                out.message(1, |out| match dim {
                    Dim::Known(size) => out.int(1, size.cast_signed()),
                    Dim::Symbol(name) => out.bytes(2, name.as_bytes()),
                    Dim::Unknown => {}
                });
            }
        });
    }
    Ok(out.finish())
}
