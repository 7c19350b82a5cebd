//! Writes a [`Program`].
//!
//! Every node is encoded canonically, as by protobuf's own writers. For a node that was read from a
//! program, the difference to its original canonical encoding is applied to the original bytes.

use bytes::Bytes;
use lodstone_model::{
    Attribute, AttributeValue, Block, Holder, Limits, Op, Operand, Program, Scalar, TensorType,
    ValueType, Var,
};
use lodstone_schema::paddle::{codes, forward_block, is_target, need_check_feed, stop_gradient};

use super::types::TensorDesc;
use super::{read, schema};
use crate::encoding::protobuf::patch::patch;
use crate::encoding::protobuf::schema::{Generation, Message as MessageType};
use crate::encoding::protobuf::text::{self, Style};
use crate::encoding::protobuf::wire::{Encoder, Message, Source};
use crate::error::{Error, Result};

/// The owners of the residuals of nodes, and of a program that was read from text.
pub(super) const BINARY: &str = "paddle-program";
pub(super) const TEXT: &str = "paddle-program-text";

/// Encodes a program; an unedited program that was read from a binary file results in the same bytes.
///
/// # Errors
/// Fails if PaddlePaddle has no code for a part of the program.
pub fn write(program: &Program) -> Result<Bytes> {
    encode(program)
}

/// Prints a program; an unedited program that was read from text results in the same text.
///
/// # Errors
/// The errors of [`write()`].
pub fn write_text(program: &Program) -> Result<Bytes> {
    let wire = encode(program)?;
    if let Some(text) = program.residual.of(TEXT)
        && program.raw()?.as_ref() == Some(&wire)
    {
        return Ok(text.clone());
    }
    let limits = Limits::none();
    let source = Source::new("the program", &limits);
    // 3.x renamed the LoD tensor, and its parser accepts only the new name.
    let modern = program.version.is_some_and(|version| version >= 3_000_000);
    let generation = if modern { Generation::Latest } else { Generation::First };
    let style = Style { generation, floats_as_doubles: true };
    Ok(text::print(&source, &schema::PROGRAM, &wire, style)?.into())
}

/// Returns whether a program was read from text.
pub fn was_text(program: &Program) -> bool {
    program.residual.of(TEXT).is_some()
}

/// A node with its own encoding.
trait Node: Sized {
    const SCHEMA: &'static MessageType;
    fn decode(message: &Message<'_>) -> Result<Self>;
    /// Encodes the fields that the model represents, in numerical order; `inner` selects the encoding of inner nodes.
    fn canonical(&self, inner: Inner) -> Result<Encoder>;
    /// Returns the original encoding.
    fn raw(&self) -> Result<Option<Bytes>>;
}

fn encode<N: Node>(node: &N) -> Result<Bytes> {
    let now: Bytes = node.canonical(Inner::Encoded)?.finish().into();
    let Some(raw) = node.raw()? else { return Ok(now) };
    let limits = Limits::none();
    let source = Source::new("the encoding of a node", &limits);
    let then =
        N::decode(&Message::new(&source, raw.clone()))?.canonical(Inner::AsRead)?.finish().into();
    patch(N::SCHEMA, &raw, &then, &now)
}

/// The encoding of the nodes inside a node.
#[derive(Clone, Copy)]
enum Inner {
    /// The current encoding.
    Encoded,
    /// The original bytes.
    AsRead,
}

impl Inner {
    fn bytes<N: Node>(self, node: &N) -> Result<Bytes> {
        match self {
            Self::Encoded => encode(node),
            Self::AsRead => {
                let raw = node.raw()?;
                raw.ok_or_else(|| Error::internal("a node that was just read has no bytes"))
            }
        }
    }
}

impl Node for Program {
    const SCHEMA: &'static MessageType = &schema::PROGRAM;

    fn decode(message: &Message<'_>) -> Result<Self> {
        read::program(message)
    }

    fn canonical(&self, inner: Inner) -> Result<Encoder> {
        let mut out = Encoder::default();
        for block in &self.blocks {
            out.bytes(1, &inner.bytes(block)?);
        }
        if let Some(version) = self.version {
            out.message(4, |out| out.int(1, version));
        }
        if !self.operator_versions.is_empty() {
            out.message(5, |out| {
                for (name, version) in &self.operator_versions {
                    out.message(1, |out| {
                        out.bytes(1, name.as_bytes());
                        out.message(2, |out| out.int(1, *version));
                    });
                }
            });
        }
        Ok(out)
    }

    fn raw(&self) -> Result<Option<Bytes>> {
        let Some(text) = self.residual.of(TEXT) else {
            return Ok(self.residual.of(BINARY).cloned());
        };
        let limits = Limits::none();
        let source = Source::new("the program", &limits);
        Ok(Some(text::parse(&source, &schema::PROGRAM, text, &limits)?.into()))
    }
}

impl Node for Block {
    const SCHEMA: &'static MessageType = &schema::BLOCK;

    fn decode(message: &Message<'_>) -> Result<Self> {
        read::block(message)
    }

    fn canonical(&self, inner: Inner) -> Result<Encoder> {
        let mut out = Encoder::default();
        out.int(1, self.index);
        out.int(2, self.parent);
        for var in &self.vars {
            out.bytes(3, &inner.bytes(var)?);
        }
        for op in &self.ops {
            out.bytes(4, &inner.bytes(op)?);
        }
        if let Some(forward) = forward_block(self) {
            out.int(5, forward);
        }
        Ok(out)
    }

    fn raw(&self) -> Result<Option<Bytes>> {
        Ok(self.residual.of(BINARY).cloned())
    }
}

impl Node for Var {
    const SCHEMA: &'static MessageType = &schema::VAR;

    fn decode(message: &Message<'_>) -> Result<Self> {
        read::var(message)
    }

    fn canonical(&self, _: Inner) -> Result<Encoder> {
        let mut out = Encoder::default();
        out.bytes(1, self.name.as_bytes());
        let kind = var_type(self)?;
        out.message(2, |out| out.raw(&kind.finish()));
        let flags = [
            (3, self.persistable),
            (4, need_check_feed(self)),
            (5, self.is_parameter),
            (6, stop_gradient(self)),
        ];
        for (number, _) in flags.into_iter().filter(|(_, set)| *set) {
            out.bool(number, true);
        }
        for attribute in &self.attributes {
            let encoded = var_attribute(attribute)?;
            out.bytes(7, &encoded.finish());
        }
        Ok(out)
    }

    fn raw(&self) -> Result<Option<Bytes>> {
        Ok(self.residual.of(BINARY).cloned())
    }
}

fn var_type(var: &Var) -> Result<Encoder> {
    let no_code = |what: String| Error::Incompatible { format: "a Paddle program", what };
    let code = |value: &ValueType| {
        codes::kind_code(value).ok_or_else(|| no_code(format!("a variable of {}", value.kind())))
    };
    let value = &var.value;
    let mut out = Encoder::default();
    out.int(1, code(value)?);
    let Some(number) = read::type_field(value) else { return Ok(out) };
    let desc = |tensor: &TensorType| {
        let desc = TensorDesc::of(tensor).and_then(|desc| desc.write());
        desc.ok_or_else(|| no_code(format!("`{}`, a variable of {}", var.name, tensor.dtype)))
    };
    let lod_tensor = |tensor: &TensorType| -> Result<Vec<u8>> {
        let mut out = Encoder::default();
        out.bytes(1, &desc(tensor)?);
        if tensor.lod_level > 0 {
            out.int(2, tensor.lod_level);
        }
        Ok(out.finish())
    };
    match value {
        ValueType::Tuple(members) => {
            let codes = members.iter().map(code).collect::<Result<Vec<_>>>()?;
            out.message(number, |out| codes.into_iter().for_each(|code| out.int(1, code)));
        }
        ValueType::Holder(Holder::Reader(tensors)) => {
            let tensors = tensors.iter().map(lod_tensor).collect::<Result<Vec<_>>>()?;
            out.message(number, |out| tensors.iter().for_each(|tensor| out.bytes(1, tensor)));
        }
        ValueType::Tensor(_) | ValueType::Holder(Holder::TensorArray(_)) => {
            if let Some(tensor) = value.tensor_type() {
                out.bytes(number, &lod_tensor(tensor)?);
            }
        }
        _ => {
            if let Some(tensor) = value.tensor_type() {
                out.bytes(number, &desc(tensor)?);
            }
        }
    }
    Ok(out)
}

impl Node for Op {
    const SCHEMA: &'static MessageType = &schema::OP;

    fn decode(message: &Message<'_>) -> Result<Self> {
        read::op(message)
    }

    fn canonical(&self, _: Inner) -> Result<Encoder> {
        let mut out = Encoder::default();
        self.inputs.iter().for_each(|input| operand(&mut out, 1, input));
        self.outputs.iter().for_each(|output| operand(&mut out, 2, output));
        out.bytes(3, self.kind.as_bytes());
        for value in &self.attributes {
            out.bytes(4, &attribute(value)?.finish());
        }
        if is_target(self) {
            out.bool(5, true);
        }
        Ok(out)
    }

    fn raw(&self) -> Result<Option<Bytes>> {
        Ok(self.residual.of(BINARY).cloned())
    }
}

fn operand(out: &mut Encoder, number: u32, operand: &Operand) {
    out.message(number, |out| {
        out.bytes(1, operand.slot.as_bytes());
        operand.args.iter().for_each(|arg| out.bytes(2, arg.as_bytes()));
    });
}

fn attribute(attribute: &Attribute) -> Result<Encoder> {
    use AttributeValue as A;
    let mut out = Encoder::default();
    let no_such = || no_type(attribute, "an operator");
    out.bytes(1, attribute.name.as_bytes());
    out.int(2, type_code(&attribute.value).ok_or_else(no_such)?);
    match &attribute.value {
        A::Int(value) => out.int(3, *value),
        A::Float(value) => out.f32(4, *value),
        A::String(value) => out.bytes(5, &value.0),
        A::Ints(values) => values.iter().for_each(|value| out.int(6, *value)),
        A::Floats(values) => values.iter().for_each(|value| out.f32(7, *value)),
        A::Strings(values) => values.iter().for_each(|value| out.bytes(8, &value.0)),
        A::Bool(value) => out.bool(10, *value),
        A::Bools(values) => values.iter().for_each(|value| out.bool(11, *value)),
        A::Block(value) => out.int(12, *value),
        A::Long(value) => out.int(13, *value),
        A::Blocks(values) => values.iter().for_each(|value| out.int(14, *value)),
        A::Longs(values) => values.iter().for_each(|value| out.int(15, *value)),
        A::Doubles(values) => values.iter().for_each(|value| out.f64(16, *value)),
        A::Var(value) => out.bytes(17, value.as_bytes()),
        A::Vars(values) => values.iter().for_each(|value| out.bytes(18, value.as_bytes())),
        A::Double(value) => out.f64(19, *value),
        A::Scalar(value) => out.message(20, |out| scalar(out, value)),
        A::Scalars(values) => {
            values.iter().for_each(|value| out.message(21, |out| scalar(out, value)));
        }
        // The value of an unknown type is in the residual; the other kinds have no code.
        A::Unknown(_)
        | A::None
        | A::Tensor(_)
        | A::Tensors(_)
        | A::SparseTensor(_)
        | A::SparseTensors(_)
        | A::Type(_)
        | A::Types(_)
        | A::List(_)
        | A::Dict(_)
        | A::Reference { .. } => {}
    }
    Ok(out)
}

/// Returns the error for an attribute that PaddlePaddle has no type for.
fn no_type(attribute: &Attribute, of: &str) -> Error {
    let what = format!("the attribute `{}` of {of}: {:?}", attribute.name, attribute.value);
    Error::Incompatible { format: "a Paddle program", what }
}

/// Returns the code in `AttrType`; `None` if there is none.
fn type_code(value: &AttributeValue) -> Option<i32> {
    use AttributeValue as A;
    Some(match value {
        A::Int(_) => 0,
        A::Float(_) => 1,
        A::String(_) => 2,
        A::Ints(_) => 3,
        A::Floats(_) => 4,
        A::Strings(_) => 5,
        A::Bool(_) => 6,
        A::Bools(_) => 7,
        A::Block(_) => 8,
        A::Long(_) => 9,
        A::Blocks(_) => 10,
        A::Longs(_) => 11,
        A::Doubles(_) => 12,
        A::Var(_) => 13,
        A::Vars(_) => 14,
        A::Double(_) => 15,
        A::Scalar(_) => 16,
        A::Scalars(_) => 17,
        A::Unknown(code) => *code,
        A::None
        | A::Tensor(_)
        | A::Tensors(_)
        | A::SparseTensor(_)
        | A::SparseTensors(_)
        | A::Type(_)
        | A::Types(_)
        | A::List(_)
        | A::Dict(_)
        | A::Reference { .. } => return None,
    })
}

fn scalar(out: &mut Encoder, scalar: &Scalar) {
    match scalar {
        Scalar::Bool(value) => {
            out.int(1, 1);
            out.bool(2, *value);
        }
        Scalar::Long(value) => {
            out.int(1, 2);
            out.int(3, *value);
        }
        Scalar::Double(value) => {
            out.int(1, 3);
            out.f64(4, *value);
        }
        Scalar::Complex(value) => {
            out.int(1, 4);
            out.message(5, |out| {
                out.f64(1, value.re);
                out.f64(2, value.im);
            });
        }
        Scalar::Unknown(code) => out.int(1, *code),
    }
}

fn var_attribute(attribute: &Attribute) -> Result<Encoder> {
    let mut out = Encoder::default();
    let no_such = || no_type(attribute, "a variable");
    out.bytes(1, attribute.name.as_bytes());
    out.int(2, type_code(&attribute.value).ok_or_else(no_such)?);
    match &attribute.value {
        AttributeValue::Int(value) => out.int(3, *value),
        AttributeValue::String(value) => out.bytes(4, &value.0),
        AttributeValue::Ints(values) => values.iter().for_each(|value| out.int(5, *value)),
        AttributeValue::Unknown(_) => {}
        _ => return Err(no_such()),
    }
    Ok(out)
}
