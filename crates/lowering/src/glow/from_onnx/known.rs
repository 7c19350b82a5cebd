//! Known values: constants, and values that follow from them.

use lodstone_model::{Kind, Tensor};
use lodstone_schema::glow::{ElemKind, Type};
use lodstone_schema::numbers::known_dims;
use lodstone_schema::onnx::infer::{Element, ValueInfo};

use super::graph::{Graph, Value, checked, kind_of, plain};
use super::op::{Entry, Fault, narrow};

/// Returns the value of an entry, or creates a constant from its tensor or its inferred elements.
pub(crate) fn value_of(
    graph: &mut Graph,
    entries: &mut [Entry],
    entry: usize,
) -> Result<Value, Fault> {
    let Some(entry) = entries.get_mut(entry) else { return Err("the value does not exist".into()) };
    if let Some(value) = entry.value {
        return Ok(value);
    }
    if let Some(place) = entry.fault {
        return Err(Fault::Before(place));
    }
    let value = match &entry.tensor {
        Some(tensor) => constant(graph, entry, tensor)?,
        None => folded(graph, entry)?,
    };
    entry.value = Some(value);
    Ok(value)
}

fn constant(graph: &mut Graph, entry: &Entry, tensor: &Tensor) -> Result<Value, Fault> {
    let kind = match entry.storage.kind {
        Some(kind) => kind,
        None => kind_of(tensor.dtype)
            .ok_or_else(|| format!("Glow has no element type {}", tensor.dtype))?,
    };
    if !matches!(tensor.kind, Kind::Dense | Kind::Absent) {
        return Err(format!(
            "`{}` is {}, but Glow has only dense tensors",
            entry.name,
            tensor.kind.name()
        )
        .into());
    }
    let shape: Result<Vec<_>, _> = tensor.shape.iter().map(|n| i64::try_from(*n)).collect();
    let shape = shape.map_err(|_| format!("`{}` is too large", entry.name))?;
    let quantization =
        kind.is_quantized().then_some(entry.storage.quantization.unwrap_or((1.0, 0)));
    let strides = entry.storage.strides.clone();
    let of = checked(Type { kind, shape, strides, quantization })?;
    let is_whole = tensor.dtype.size_of(&tensor.shape) == Some(tensor.data.len());
    let is_absent = matches!(tensor.kind, Kind::Absent);
    if !is_whole && !is_absent && of.strides.is_none() {
        return Err(
            format!("the number of elements of `{}` does not match its shape", entry.name).into()
        );
    }
    Ok(graph.constant(&entry.name, of, entry.storage.clone(), tensor.clone()))
}

/// Creates a constant from inferred elements.
fn folded(graph: &mut Graph, entry: &Entry) -> Result<Value, Fault> {
    let unknown = || format!("the value of `{}` is unknown", entry.name);
    let kind = kind_of(entry.info.dtype()).ok_or_else(unknown)?;
    let (Some(shape), Some(contents)) = (dims_from(&entry.info), &entry.info.contents) else {
        return Err(unknown().into());
    };
    let mut bytes = Vec::new();
    for element in contents.iter() {
        push(&mut bytes, kind, element).ok_or_else(unknown)?;
    }
    Ok(graph.constant_of(&entry.name, kind, shape, bytes)?)
}

fn push(bytes: &mut Vec<u8>, kind: ElemKind, element: &Element) -> Option<()> {
    match (kind, element) {
        (ElemKind::Int64I, Element::Int(number)) => bytes.extend(number.to_le_bytes()),
        (ElemKind::Int32I, Element::Int(number)) => {
            bytes.extend(i32::try_from(*number).ok()?.to_le_bytes());
        }
        (ElemKind::Int16Q, Element::Int(number)) => {
            bytes.extend(i16::try_from(*number).ok()?.to_le_bytes());
        }
        (ElemKind::Int8Q, Element::Int(number)) => {
            bytes.extend(i8::try_from(*number).ok()?.to_le_bytes());
        }
        (ElemKind::UInt8I | ElemKind::Bool, Element::Int(number)) => {
            bytes.push(u8::try_from(*number).ok()?);
        }
        (ElemKind::Float, element) => bytes.extend(narrow(element.number()?).to_le_bytes()),
        (ElemKind::Float64, element) => bytes.extend(element.number()?.to_le_bytes()),
        _ => return None,
    }
    Some(())
}

/// Whether all elements of a value are known.
pub(super) fn is_known(info: &ValueInfo) -> bool {
    let known = |element: &Element| matches!(element, Element::Int(_) | Element::Float(_));
    info.contents.as_ref().is_some_and(|contents| contents.iter().all(known))
        && dims_from(info).is_some()
}

/// Returns the dims of a value, if all of them are known.
pub(crate) fn dims_from(info: &ValueInfo) -> Option<Vec<i64>> {
    known_dims(info.shape()?)
}

/// Returns the inferred type of a value, if it is complete.
pub(super) fn known_type(info: &ValueInfo) -> Option<Type> {
    checked(plain(kind_of(info.dtype())?, dims_from(info)?)).ok()
}
