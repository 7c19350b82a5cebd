//! `Argument`: a name and a value in one of ten fields.
//!
//! The field that is used follows from the operator, not from the message. The value is that of the first field that is
//! present; an argument without one is an empty list.

use std::sync::Arc;

use bytes::Bytes;
use lodstone_model::{Attribute, AttributeValue, ByteString, Tensor};
use lodstone_store::Blob;

use super::net::Nets;
use super::tensor::{self, Read};
use crate::encoding::protobuf::holes::content;
use crate::encoding::protobuf::wire::{Encoder, Field, Message, Packed, Value};
use crate::error::{Error, Result};

/// Returns the name of an argument.
pub(super) fn name(message: &Message<'_>) -> Result<String> {
    let mut name = String::new();
    for field in message.fields() {
        let field = field?;
        if field.number == 1 {
            name = field.string()?;
        }
    }
    Ok(name)
}

/// Reads an argument; nested nets become blocks by `nets`.
///
/// # Errors
/// Fails if a value is malformed.
pub(super) fn read<'a>(
    message: &Message<'a>,
    holes: &Arc<[Blob]>,
    nets: &mut Nets<'a>,
) -> Result<Attribute> {
    use AttributeValue as A;
    let (mut name, mut value) = (String::new(), None);
    let (mut floats, mut ints, mut strings) = (Vec::new(), Vec::new(), Vec::new());
    let (mut tensors, mut blocks) = (Vec::new(), Vec::new());
    for field in message.fields() {
        let field = field?;
        let single = match field.number {
            1 => {
                name = field.string()?;
                None
            }
            2 => Some(A::Float(field.f32()?)),
            3 => Some(A::Long(field.i64()?)),
            4 => Some(A::String(ByteString(bytes(&field, holes)?))),
            5 => {
                each(&field, holes, Field::f32, Packed::Fixed32, &mut floats)?;
                None
            }
            6 => {
                each(&field, holes, Field::i64, Packed::Varint, &mut ints)?;
                None
            }
            7 => {
                strings.push(ByteString(bytes(&field, holes)?));
                None
            }
            8 => Some(A::Block(nets.add(&field.message()?)?)),
            9 => {
                blocks.push(nets.add(&field.message()?)?);
                None
            }
            10 => Some(A::Tensor(Box::new(named(tensor::tensor(&field.message()?, holes)?)))),
            11 => {
                tensors.push(named(tensor::tensor(&field.message()?, holes)?));
                None
            }
            12 => {
                tensors.push(named(tensor::quantized(&field.message()?, holes)?));
                None
            }
            _ => None,
        };
        value = value.or(single);
    }
    let lists = [
        (!floats.is_empty()).then_some(A::Floats(floats)),
        (!ints.is_empty()).then_some(A::Longs(ints)),
        (!strings.is_empty()).then_some(A::Strings(strings)),
        (!tensors.is_empty()).then_some(A::Tensors(tensors)),
        (!blocks.is_empty()).then_some(A::Blocks(blocks)),
    ];
    let value = value.or(lists.into_iter().flatten().next()).unwrap_or(A::None);
    Ok(Attribute { name, value })
}

/// Returns a tensor described by its name, and before it the scale and the zero point if it is quantized.
fn named(read: Read) -> Tensor {
    let mut tensor = read.tensor;
    let quantization = read.quantization.map(|(scale, zero)| format!("{scale} {zero} "));
    let text = format!("{}{}", quantization.unwrap_or_default(), read.name);
    tensor.doc_string = Some(Box::new(text.as_str().into()));
    tensor
}

fn bytes(field: &Field<'_>, holes: &[Blob]) -> Result<Bytes> {
    match field.value {
        Value::Group => Ok(content(field, holes)?.read()?),
        _ => field.bytes(),
    }
}

/// Reads the values of a repeated field, also from a hole.
fn each<'a, T>(
    field: &Field<'a>,
    holes: &[Blob],
    one: impl Fn(&Field<'a>) -> Result<T>,
    packed_as: Packed,
    into: &mut Vec<T>,
) -> Result<()> {
    match field.value {
        Value::Group => field.each_in_hole(content(field, holes)?.read()?, one, packed_as, into),
        _ => field.each(one, packed_as, into),
    }
}

/// Encodes an argument canonically. `net` returns the encoding of a block. Tensors have no canonical encoding: they are
/// written as they were read.
///
/// # Errors
/// Fails if Caffe2 has no field for the value.
pub(super) fn encode(
    attribute: &Attribute,
    net: &mut dyn FnMut(i32) -> Result<Bytes>,
) -> Result<Encoder> {
    use AttributeValue as A;
    let mut out = Encoder::default();
    out.bytes(1, attribute.name.as_bytes());
    match &attribute.value {
        A::Float(value) => out.f32(2, *value),
        A::Long(value) => out.int(3, *value),
        A::Int(value) => out.int(3, *value),
        A::Bool(value) => out.bool(3, *value),
        A::String(value) => out.bytes(4, &value.0),
        A::Floats(values) => values.iter().for_each(|value| out.f32(5, *value)),
        A::Longs(values) => values.iter().for_each(|value| out.int(6, *value)),
        A::Ints(values) => values.iter().for_each(|value| out.int(6, *value)),
        A::Strings(values) => values.iter().for_each(|value| out.bytes(7, &value.0)),
        A::Block(block) => out.bytes(8, &net(*block)?),
        A::Blocks(blocks) => {
            for block in blocks {
                out.bytes(9, &net(*block)?);
            }
        }
        A::Tensor(_) | A::Tensors(_) | A::None => {}
        other => {
            let what = format!("the argument `{}`: {other:?}", attribute.name);
            return Err(Error::Incompatible { format: super::TITLE, what });
        }
    }
    Ok(out)
}
