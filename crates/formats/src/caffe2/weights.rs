//! Writes the fills of an `init_net`: unedited ones keep their bytes.

use std::sync::Arc;

use bytes::Bytes;
use half::f16;
use lodstone_model::{
    Attribute, AttributeValue, DType, Kind, Limits, Op, Operand, Residual, Tensor,
};
use lodstone_store::{Blob, Derive};

use super::fill::{Fill, SHAPE, Stored, VALUES, dtype_of, fill, operator};
use super::{OWNER, PARAMETER, TITLE, argument};
use crate::encoding::protobuf::holes::HoleTable;
use crate::encoding::protobuf::wire::{Encoder, Message, Source};
use crate::error::{Error, Result};
use crate::format::signed_dims;
use crate::lengths::{at_most, length};

/// What became of a fill.
pub(super) enum Written {
    /// Its blob was removed.
    Removed,
    Unedited,
    /// The new operator, and its encoded argument with the values.
    Edited(Box<Op>, Bytes),
}

/// Whether an operator fills one blob, without inputs.
pub(super) fn is_fill(op: &Op) -> bool {
    fill(&op.kind).is_some() && op.input("").is_empty() && op.output("").len() == 1
}

/// Whether an attribute stands for values that are a parameter of the model.
pub(super) fn is_omitted(attribute: &Attribute) -> bool {
    attribute.name == VALUES && attribute.value == AttributeValue::None
}

/// Returns the encoded argument with the values of an encoded operator; empty if it has none.
pub(super) fn values_of(raw: &Bytes) -> Result<Bytes> {
    let limits = Limits::none();
    let source = Source::new("the encoding of a node", &limits);
    for field in Message::new(&source, raw.clone()).fields() {
        let field = field?;
        if field.number == 5 {
            let message = field.message()?;
            if argument::name(&message)? == VALUES {
                return Ok(message.bytes);
            }
        }
    }
    Ok(Bytes::new())
}

/// Returns how the fill of the blob `name` is written; `tensor` is the blob now.
///
/// # Errors
/// Fails if Caffe2 has no fill for the tensor.
pub(super) fn written(
    op: &Op,
    name: &str,
    tensor: Option<&Tensor>,
    holes: &mut HoleTable,
) -> Result<Written> {
    let is_stored = op.attributes.iter().any(is_omitted);
    let Some(tensor) = tensor else {
        return Ok(if is_stored { Written::Removed } else { Written::Unedited });
    };
    if is_unedited(op, tensor)? {
        return Ok(Written::Unedited);
    }
    let own = fill(&op.kind).filter(|_| is_stored && dtype_of(op) == Some(tensor.dtype));
    let mut edited = op.clone();
    let stored = match own {
        Some((Stored::Floats, dtype)) if dtype != tensor.dtype => stored_as(tensor.dtype, name)?,
        Some((stored, _)) => stored,
        None => {
            let (kind, stored) = operator(tensor.dtype).ok_or_else(|| no_fill(name, tensor))?;
            kind.clone_into(&mut edited.kind);
            edited.attributes.retain(|it| !["dtype", "value"].contains(&it.name.as_str()));
            stored
        }
    };
    let dims = AttributeValue::Longs(signed_dims(TITLE, name, &tensor.shape)?);
    set(&mut edited, SHAPE, dims);
    set(&mut edited, VALUES, AttributeValue::None);
    let values = values(name, tensor, stored, edited.kind.starts_with("Int8"), holes)?;
    Ok(Written::Edited(Box::new(edited), values))
}

/// Returns where `GivenTensorFill` has the values of the type that its argument `dtype` selects.
fn stored_as(dtype: DType, name: &str) -> Result<Stored> {
    match dtype {
        DType::Float64 => Ok(Stored::Floats),
        DType::String => Ok(Stored::Strings),
        DType::Bool | DType::Int16 | DType::Int32 | DType::Int64 => Ok(Stored::Ints),
        _ => Err(Error::dtype(TITLE, name, dtype)),
    }
}

/// Returns a fill for a blob, and its encoded argument with the values.
///
/// # Errors
/// As [`written`].
pub(super) fn fill_of(name: &str, tensor: &Tensor, holes: &mut HoleTable) -> Result<(Op, Bytes)> {
    let (kind, stored) = operator(tensor.dtype).ok_or_else(|| no_fill(name, tensor))?;
    let dims = AttributeValue::Longs(signed_dims(TITLE, name, &tensor.shape)?);
    let attribute = |name: &str, value| Attribute { name: name.to_owned(), value };
    let op = Op {
        kind: kind.to_owned(),
        outputs: vec![Operand { slot: String::new(), args: vec![name.to_owned()] }],
        attributes: vec![attribute(SHAPE, dims), attribute(VALUES, AttributeValue::None)],
        ..Op::default()
    };
    Ok((op, values(name, tensor, stored, false, holes)?))
}

fn no_fill(name: &str, tensor: &Tensor) -> Error {
    Error::dtype(TITLE, name, tensor.dtype)
}

fn set(op: &mut Op, name: &str, value: AttributeValue) {
    match op.attributes.iter_mut().find(|attribute| attribute.name == name) {
        Some(attribute) => attribute.value = value,
        None => op.attributes.push(Attribute { name: name.to_owned(), value }),
    }
}

/// Whether a blob is what its operator fills it with.
fn is_unedited(op: &Op, tensor: &Tensor) -> Result<bool> {
    let is_same = is_as_read(tensor);
    let shape: Vec<i64> = match op.attribute(SHAPE) {
        Some(AttributeValue::Longs(dims)) => dims.clone(),
        _ => Vec::new(),
    };
    let is_shaped = shape
        .iter()
        .map(|dim| u64::try_from(*dim).ok())
        .eq(tensor.shape.iter().map(|dim| Some(*dim)));
    if !is_same || !is_shaped || dtype_of(op) != Some(tensor.dtype) {
        return Ok(false);
    }
    let (Kind::Strings { elements }, Some((raw, holes))) =
        (&tensor.kind, op.residual.with_holes_of(OWNER))
    else {
        return Ok(true);
    };
    let limits = Limits::none();
    let source = Source::new("the encoding of a node", &limits);
    let message = Message::new(&source, raw.clone());
    let Some(fill) = Fill::of(op, &message)? else { return Ok(false) };
    let then = fill.tensor(op, holes)?;
    Ok(matches!(&then.kind, Kind::Strings { elements: then } if then == elements))
}

/// Encodes the argument with the values of a tensor. `is_quantized` is set for `Int8...` fills.
fn values(
    name: &str,
    tensor: &Tensor,
    stored: Stored,
    is_quantized: bool,
    holes: &mut HoleTable,
) -> Result<Bytes> {
    let refuse = |what: &str| {
        let what = format!("the tensor `{name}`, {what}");
        Err(Error::Incompatible { format: TITLE, what })
    };
    let mut out = Encoder::default();
    out.bytes(1, VALUES.as_bytes());
    match (&tensor.kind, stored) {
        (Kind::Strings { elements }, Stored::Strings) => {
            elements.iter().for_each(|text| out.bytes(7, text));
        }
        (Kind::Dense, Stored::Bytes) => {
            let number = if is_quantized { 4 } else { 7 };
            match tensor.data.is_empty() {
                true => out.bytes(number, &[]),
                false => out.hole(number, holes.number(&tensor.data)),
            }
        }
        (Kind::Dense, Stored::Floats) => {
            let Some(source) = floats(tensor)? else {
                return refuse("which has elements that no float equals");
            };
            if !source.is_empty() {
                let tagged = Blob::derived(Arc::new(Tagged { source }));
                out.run(5, holes.number(&tagged));
            }
        }
        (Kind::Dense, Stored::Ints) => {
            integers(tensor)?.iter().for_each(|value| out.int(6, *value))
        }
        (Kind::Dense, _) => return refuse("which no operator fills"),
        (Kind::Absent, _) => return refuse("whose elements are missing"),
        (kind, _) => return refuse(&format!("which is {}", kind.name())),
    }
    Ok(out.finish().into())
}

/// Returns the elements of a tensor as floats; `None` if they differ from the elements.
fn floats(tensor: &Tensor) -> Result<Option<Blob>> {
    let bytes = match tensor.dtype {
        DType::Float32 => return Ok(Some(tensor.data.clone())),
        _ => tensor.data.bytes()?,
    };
    let mut floats = Vec::new();
    match tensor.dtype {
        DType::Float16 => bytes.as_chunks::<2>().0.iter().for_each(|half| {
            floats.extend(f16::from_le_bytes(*half).to_f32().to_le_bytes());
        }),
        _ => {
            for double in bytes.as_chunks::<8>().0 {
                let double = f64::from_le_bytes(*double);
                #[expect(clippy::cast_possible_truncation, reason = "the result is compared")]
                let float = double as f32;
                if f64::from(float) != double && !double.is_nan() {
                    return Ok(None);
                }
                floats.extend(float.to_le_bytes());
            }
        }
    }
    Ok(Some(Blob::memory(floats)))
}

pub(super) fn integers(tensor: &Tensor) -> Result<Vec<i64>> {
    let bytes = tensor.data.bytes()?;
    Ok(match tensor.dtype {
        DType::Int8 => bytes.iter().map(|it| it.cast_signed().into()).collect(),
        DType::Uint16 | DType::Float16 => {
            bytes.as_chunks().0.iter().map(|it| u16::from_le_bytes(*it).into()).collect()
        }
        DType::Int64 => bytes.as_chunks().0.iter().map(|it| i64::from_le_bytes(*it)).collect(),
        DType::Int32 => {
            bytes.as_chunks().0.iter().map(|it| i32::from_le_bytes(*it).into()).collect()
        }
        DType::Int16 => {
            bytes.as_chunks().0.iter().map(|it| i16::from_le_bytes(*it).into()).collect()
        }
        _ => bytes.iter().map(|it| i64::from(*it)).collect(),
    })
}

/// Floats with the tag of their field before each.
struct Tagged {
    source: Blob,
}

/// The tag of field 5 with a value of four bytes.
const FLOATS: u8 = 5 << 3 | 5;

impl Derive for Tagged {
    fn len(&self) -> u64 {
        self.source.len() / 4 * 5
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> lodstone_store::Result<()> {
        let first = offset / 5;
        let end = offset.saturating_add(buffer.len() as u64).div_ceil(5);
        let mut floats = vec![0; length((end - first).saturating_mul(4))?];
        self.source.read_at(first * 4, &mut floats)?;
        let skip = at_most(offset % 5, 5);
        let tagged =
            floats.chunks(4).flat_map(|float| [FLOATS].into_iter().chain(float.iter().copied()));
        buffer.iter_mut().zip(tagged.skip(skip)).for_each(|(slot, byte)| *slot = byte);
        Ok(())
    }

    fn source(&self) -> Option<&Blob> {
        Some(&self.source)
    }
}

/// Whether the elements of a tensor are those that were read; strings are not edited in place.
pub(super) fn is_as_read(tensor: &Tensor) -> bool {
    let then = tensor.residual.with_holes_of(PARAMETER);
    then.is_some_and(|(_, holes)| matches!(&**holes, [then] if then.is(&tensor.data)))
}

/// Returns the residual of a blob that was just read.
pub(super) fn residual(data: &Blob) -> Residual {
    Residual::with_holes(PARAMETER, Bytes::new(), Arc::from([data.clone()]))
}
