//! `TensorProto` and `QTensorProto`.
//!
//! | type | elements |
//! |---|---|
//! | float | 3 `float_data` |
//! | int32, int8, uint8, int16, uint16, bool, float16 | 4 `int32_data`, or 5 `byte_data` |
//! | int64 | 10 `int64_data` |
//! | double | 9 `double_data` |
//! | string | 6 `string_data` |
//! | byte | 5 `byte_data` |
//! | any, if 12 `storage_type` is `RAW` | 13 `raw_data` |
//!
//! A tensor may be a segment (11) of a larger one: elements `begin` to `end`.

use std::sync::Arc;

use bytes::Bytes;
use lodstone_model::{DType, Kind, Tensor};
use lodstone_store::Blob;

use super::values::{self, Piece};
use crate::encoding::protobuf::holes::content;
use crate::encoding::protobuf::wire::{Encoder, Field, Message, Packed, Value};
use crate::error::Result;

/// Element types by their codes in `TensorProto.DataType`.
const TYPES: &[(i32, DType)] = &[
    (1, DType::Float32),
    (2, DType::Int32),
    (4, DType::String),
    (5, DType::Bool),
    (6, DType::Uint8),
    (7, DType::Int8),
    (8, DType::Uint16),
    (9, DType::Int16),
    (10, DType::Int64),
    (12, DType::Float16),
    (13, DType::Float64),
];

/// The code of bytes, which are unsigned integers.
const BYTE: i32 = 3;

/// Returns the element type of a code.
pub(super) fn dtype(code: i32) -> DType {
    let known = TYPES.iter().find(|(known, _)| *known == code).map(|(_, dtype)| *dtype);
    match code {
        BYTE => DType::Uint8,
        _ => known.unwrap_or(DType::Unknown(code.cast_unsigned())),
    }
}

/// Returns the code of an element type.
pub(super) fn code(dtype: DType) -> Option<i32> {
    TYPES.iter().find(|(_, known)| *known == dtype).map(|(code, _)| *code)
}

/// A tensor that was read, and its place in a larger one.
#[derive(Debug)]
pub(super) struct Read {
    pub(super) name: String,
    pub(super) tensor: Tensor,
    /// The first element and the end, if it is a segment.
    pub(super) segment: Option<(i64, i64)>,
    /// The scale and the zero point, if it is quantized.
    pub(super) quantization: Option<(f64, i64)>,
}

/// Reads a `TensorProto`.
///
/// # Errors
/// Fails if the elements do not match the dims.
pub(super) fn tensor<'a>(message: &Message<'a>, holes: &Arc<[Blob]>) -> Result<Read> {
    let (mut dims, mut code, mut name) = (Vec::new(), 1, String::new());
    let mut data: Vec<Field<'a>> = Vec::new();
    let mut segment = None;
    let mut is_absent = false;
    for field in message.fields() {
        let field = field?;
        match field.number {
            1 => field.each(Field::i64, Packed::Varint, &mut dims)?,
            2 => code = field.i32()?,
            7 => name = field.string()?,
            11 => segment = Some(range(&field.message()?)?),
            // Contents elsewhere, or none.
            12 => is_absent = matches!(field.i32()?, 3 | 4),
            3..=6 | 9 | 10 | 13 => data.push(field),
            _ => {}
        }
    }
    let inside = |error: crate::error::Error| error.inside(format!("tensor `{name}`"));
    let shape = shape(message, &dims).map_err(inside)?;
    let dtype = dtype(code);
    let count = match segment {
        None => count(message, &shape).map_err(inside)?,
        Some((begin, end)) => {
            let count = end.checked_sub(begin).and_then(|count| u64::try_from(count).ok());
            count.ok_or_else(|| inside(message.error("a segment", format!("{begin}..{end}"))))?
        }
    };
    let (data, kind) = match is_absent {
        true => (Blob::default(), Kind::Absent),
        false => elements(message, dtype, count, &data, holes).map_err(inside)?,
    };
    let mut tensor = Tensor::dense(dtype, shape, data);
    tensor.kind = kind;
    Ok(Read { name, tensor, segment, quantization: None })
}

fn range(message: &Message<'_>) -> Result<(i64, i64)> {
    let (mut begin, mut end) = (0, 0);
    for field in message.fields() {
        let field = field?;
        match field.number {
            1 => begin = field.i64()?,
            2 => end = field.i64()?,
            _ => {}
        }
    }
    Ok((begin, end))
}

/// Reads a `QTensorProto`.
///
/// # Errors
/// Fails if the elements do not match the dims.
pub(super) fn quantized<'a>(message: &Message<'a>, holes: &Arc<[Blob]>) -> Result<Read> {
    let (mut dims, mut name, mut code) = (Vec::new(), String::new(), 2);
    let (mut scales, mut biases, mut is_signed) = (Vec::new(), Vec::new(), false);
    let mut data: Vec<Field<'a>> = Vec::new();
    for field in message.fields() {
        let field = field?;
        match field.number {
            1 => field.each(Field::i64, Packed::Varint, &mut dims)?,
            3 => scales.insert(0, field.f64()?),
            4 => biases.insert(0, field.f64()?),
            5 => is_signed = field.bool()?,
            6 => data.push(field),
            7 => name = field.string()?,
            8 => code = field.i32()?,
            _ => {}
        }
    }
    let inside = |error: crate::error::Error| error.inside(format!("tensor `{name}`"));
    let shape = shape(message, &dims).map_err(inside)?;
    let dtype = match (dtype(code), is_signed) {
        (DType::Uint8, true) => DType::Int8,
        (dtype, _) => dtype,
    };
    let count = count(message, &shape).map_err(inside)?;
    let (data, kind) = match data.is_empty() {
        true if count > 0 => (Blob::default(), Kind::Absent),
        true => (Blob::default(), Kind::Dense),
        false => {
            let misfit = || message.error(format!("{count} elements"), "another number");
            let pieces = pieces(&data, holes).map_err(inside)?;
            let blob = values::integers(pieces, dtype, count).ok_or_else(misfit);
            (blob.map_err(inside)?, Kind::Dense)
        }
    };
    let mut tensor = Tensor::dense(dtype, shape, data);
    tensor.kind = kind;
    // An absent bias is 0.
    let zero = biases.first().copied().unwrap_or(0.0);
    // A zero point is an integer; protobuf stores it as a double.
    #[expect(clippy::cast_possible_truncation, reason = "values out of range saturate")]
    let zero = zero as i64;
    let quantization = scales.first().map(|scale| (*scale, zero));
    Ok(Read { name, tensor, segment: None, quantization })
}

fn shape(message: &Message<'_>, dims: &[i64]) -> Result<Vec<u64>> {
    let size = |dim: &i64| {
        u64::try_from(*dim).map_err(|_| message.error("a dim of 0 or more", dim.to_string()))
    };
    dims.iter().map(size).collect()
}

fn count(message: &Message<'_>, shape: &[u64]) -> Result<u64> {
    let count = match shape.contains(&0) {
        true => Some(0),
        false => shape.iter().try_fold(1_u64, |count, dim| count.checked_mul(*dim)),
    };
    count.ok_or_else(|| message.error("dims that fit 64 bits", format!("{shape:?}")))
}

/// Returns the elements in the first field that is not empty.
fn elements(
    message: &Message<'_>,
    dtype: DType,
    count: u64,
    data: &[Field<'_>],
    holes: &Arc<[Blob]>,
) -> Result<(Blob, Kind)> {
    if dtype == DType::String {
        return strings(message, count, data);
    }
    let holds = |field: &&Field<'_>| match (field.number, dtype) {
        (13, _) | (3, DType::Float32) | (9, DType::Float64) | (10, DType::Int64) => true,
        (4 | 5, dtype) => !matches!(dtype, DType::Float32 | DType::Float64 | DType::Int64),
        _ => false,
    };
    let is_empty =
        |field: &&Field<'_>| matches!(&field.value, Value::Bytes(bytes) if bytes.is_empty());
    let first = data.iter().filter(holds).find(|field| !is_empty(field));
    let Some(number) = first.map(|field| field.number) else {
        // Types are also described by tensors without elements.
        let kind = if count == 0 { Kind::Dense } else { Kind::Absent };
        return Ok((Blob::default(), kind));
    };
    let fields: Vec<Field<'_>> =
        data.iter().filter(|field| field.number == number).cloned().collect();
    let pieces = pieces(&fields, holes)?;
    let Some(bits) = dtype.bits() else {
        return Err(message.error("elements of a known type", dtype.to_string()));
    };
    let size = count.checked_mul(u64::from(bits / 8).max(1));
    let size =
        size.ok_or_else(|| message.error("elements that fit 64 bits", format!("{count}")))?;
    let misfit = |found: u64| {
        message.error(format!("{size} bytes of elements of {dtype}"), format!("{found} bytes"))
    };
    if matches!(number, 4 | 10) {
        let found = pieces.iter().map(|piece| piece.blob.len()).sum();
        let blob = values::integers(pieces, dtype, count).ok_or_else(|| misfit(found))?;
        return Ok((blob, Kind::Dense));
    }
    let blob = Blob::concat(pieces.into_iter().map(|piece| piece.blob).collect());
    match blob.len() == size || dtype.bits().is_none() {
        true => Ok((blob, Kind::Dense)),
        false => Err(misfit(blob.len())),
    }
}

fn strings(message: &Message<'_>, count: u64, data: &[Field<'_>]) -> Result<(Blob, Kind)> {
    let elements = data.iter().filter(|field| field.number == 6).map(Field::bytes);
    let elements = elements.collect::<Result<Vec<Bytes>>>()?;
    if elements.len() as u64 != count {
        return Err(message.error(format!("{count} strings"), elements.len().to_string()));
    }
    Ok((Blob::default(), Kind::Strings { elements }))
}

/// Returns the values of fields, in the holes of a message and in the fields themselves.
pub(super) fn pieces(fields: &[Field<'_>], holes: &[Blob]) -> Result<Vec<Piece>> {
    let mut pieces: Vec<Piece> = Vec::new();
    let mut single = Vec::new();
    let flush = |single: &mut Vec<u8>, pieces: &mut Vec<Piece>, is_tagged: bool| {
        if !single.is_empty() {
            let blob = Blob::memory(std::mem::take(single));
            pieces.push(Piece { blob, is_tagged });
        }
    };
    // Values between runs have the form of the runs, so that all have one form.
    let tagged = fields.iter().any(|field| matches!(field.value, Value::Group) && field.is_run());
    for field in fields {
        let mut encoder = Encoder::default();
        match &field.value {
            Value::Group => {
                flush(&mut single, &mut pieces, tagged);
                let blob = content(field, holes)?.clone();
                pieces.push(Piece { blob, is_tagged: field.is_run() });
                continue;
            }
            Value::Varint(value) => {
                if tagged {
                    encoder.raw(&[0]);
                }
                encoder.varint(*value);
            }
            Value::Fixed32(bytes) => {
                if tagged {
                    encoder.raw(&[0]);
                }
                encoder.raw(bytes);
            }
            Value::Fixed64(bytes) => encoder.raw(bytes),
            Value::Bytes(bytes) if tagged => {
                return Err(
                    field.error("values of one form", format!("{} packed bytes", bytes.len()))
                );
            }
            Value::Bytes(bytes) => encoder.raw(bytes),
        }
        single.extend(encoder.finish());
    }
    flush(&mut single, &mut pieces, tagged);
    Ok(pieces)
}
