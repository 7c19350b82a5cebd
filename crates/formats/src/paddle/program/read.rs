//! Reads a [`Program`].

use bytes::Bytes;
use lodstone_model::{
    Attribute, AttributeValue, Block, ByteString, Complex, Dialect, Holder, Layout, Limits, Op,
    Operand, Program, Residual, Scalar, TensorType, ValueType, Var,
};
use lodstone_schema::paddle::{
    codes, set_forward_block, set_is_target, set_need_check_feed, set_stop_gradient,
};
use lodstone_store::Blob;

use super::types::TensorDesc;
use super::{is_text, schema, write};
use crate::encoding::protobuf::text;
use crate::encoding::protobuf::wire::{Field, Message, Packed, Source};
use crate::error::{Error, Result};

/// Reads a program in binary or text format; `origin` names the file in messages.
///
/// # Errors
/// The errors of [`read`] and [`read_text`].
pub fn open(blob: &Blob, origin: &str, limits: &Limits) -> Result<Program> {
    match is_text(&blob.head(4096)?) {
        true => read_text(blob, origin, limits),
        false => read(blob, origin, limits),
    }
}

/// Reads a binary program; `origin` names the file in messages.
///
/// # Errors
/// Fails if the bytes are not a `ProgramDesc`, with the location in the program and the offset in the file.
pub fn read(blob: &Blob, origin: &str, limits: &Limits) -> Result<Program> {
    let bytes = structure(blob, limits)?;
    let source = Source::new(origin, limits);
    let mut program = program(&Message::new(&source, bytes.clone()))?;
    if program.blocks.is_empty() {
        return Err(source.malformed(0, "a program of at least one block", "none"));
    }
    program.residual = Residual::new(write::BINARY, bytes);
    Ok(program)
}

/// Reads a program in text format.
///
/// # Errors
/// Fails if the text is not protobuf text, with the offset in the file, or not a `ProgramDesc`, with the
/// location in the program.
pub fn read_text(blob: &Blob, origin: &str, limits: &Limits) -> Result<Program> {
    let text = structure(blob, limits)?;
    let wire = text::parse(&Source::new(origin, limits), &schema::PROGRAM, &text, limits)?;
    // Errors in the messages are located by their place in the program; their offsets are not those
    // of the text.
    let origin = format!("the encoding of {origin}");
    let mut program = read(&Blob::memory(wire), &origin, limits)?;
    program.residual = Residual::new(write::TEXT, text);
    Ok(program)
}

fn structure(blob: &Blob, limits: &Limits) -> Result<Bytes> {
    if blob.len() > limits.structure_bytes {
        let limit = limits.at_most_bytes("of a program");
        return Err(blob.over_limit(0, limit).into());
    }
    Ok(blob.read()?)
}

pub(super) fn program(message: &Message<'_>) -> Result<Program> {
    let mut program = Program::new(Dialect::Paddle);
    for field in message.fields() {
        let field = field?;
        match field.number {
            1 => {
                let place = || format!("block {}", program.blocks.len());
                let block = block(&field.message()?).map_err(|error| error.inside(place()))?;
                program.blocks.push(block);
            }
            4 => once(&mut program.version, version(&field)?, &field)?,
            5 => program.operator_versions.extend(operator_versions(&field)?),
            _ => {}
        }
    }
    Ok(program)
}

fn version(field: &Field<'_>) -> Result<i64> {
    // The default of the field is 0.
    let mut version = 0;
    for field in field.message()?.fields() {
        let field = field?;
        if field.number == 1 {
            version = field.i64()?;
        }
    }
    Ok(version)
}

fn operator_versions(field: &Field<'_>) -> Result<Vec<(String, i64)>> {
    let mut versions = Vec::new();
    for pair in field.message()?.fields() {
        let pair = pair?;
        if pair.number != 1 {
            continue;
        }
        let (mut name, mut number) = (String::new(), 0);
        for field in pair.message()?.fields() {
            let field = field?;
            match field.number {
                1 => name = field.string()?,
                2 => {
                    number = version(&field)?;
                    if i32::try_from(number).is_err() {
                        return Err(field.error("a version of 32 bits", number.to_string()));
                    }
                }
                _ => {}
            }
        }
        versions.push((name, number));
    }
    Ok(versions)
}

pub(super) fn block(message: &Message<'_>) -> Result<Block> {
    let [vars, ops] = message.count([3, 4]);
    let (vars, ops) = (Vec::with_capacity(vars), Vec::with_capacity(ops));
    let mut block = Block { vars, ops, ..Block::default() };
    let (mut index, mut parent) = (None, None);
    for field in message.fields() {
        let field = field?;
        match field.number {
            1 => index = Some(field.i32()?),
            2 => parent = Some(field.i32()?),
            3 => {
                let place = || format!("variable {}", block.vars.len());
                let var = var(&field.message()?).map_err(|error| error.inside(place()))?;
                block.vars.push(var);
            }
            4 => {
                let place = || format!("operator {}", block.ops.len());
                let op = op(&field.message()?).map_err(|error| error.inside(place()))?;
                block.ops.push(op);
            }
            5 => set_forward_block(&mut block, Some(field.i32()?)),
            _ => {}
        }
    }
    block.index = index.ok_or_else(|| message.missing("the number of a block"))?;
    block.parent = parent.ok_or_else(|| message.missing("the parent of a block"))?;
    block.residual = Residual::new(write::BINARY, message.bytes.clone());
    Ok(block)
}

pub(super) fn var(message: &Message<'_>) -> Result<Var> {
    let residual = Residual::new(write::BINARY, message.bytes.clone());
    let mut var = Var { residual, ..Var::default() };
    let (mut name, mut value) = (None, None);
    for field in message.fields() {
        let field = field?;
        match field.number {
            1 => name = Some(field.string()?),
            2 if field.i64().is_ok() => {
                let expected = "the type of a variable as a message";
                let found = "the bare enum of PaddlePaddle before February 2018";
                return Err(field.error(expected, found));
            }
            2 => once(&mut value, var_type(&field.message()?)?, &field)?,
            3 => var.persistable = field.bool()?,
            4 => set_need_check_feed(&mut var, field.bool()?),
            5 => var.is_parameter = field.bool()?,
            6 => set_stop_gradient(&mut var, field.bool()?),
            7 => var.attributes.push(var_attribute(&field.message()?)?),
            _ => {}
        }
    }
    var.name = name.ok_or_else(|| message.missing("the name of a variable"))?;
    let missing = || message.missing("the type of a variable").inside(format!("`{}`", var.name));
    var.value = value.ok_or_else(missing)?;
    Ok(var)
}

/// Returns the field of `VarType` that describes a kind of variable.
pub(super) fn type_field(kind: &ValueType) -> Option<u32> {
    Some(match kind {
        ValueType::Tensor(_) => 3,
        ValueType::Tuple(_) => 7,
        ValueType::Sparse(tensor) if tensor.layout == Some(Layout::Csr) => 12,
        ValueType::Sparse(_) => 11,
        ValueType::Holder(holder) => match holder {
            Holder::SelectedRows(_) => 2,
            Holder::TensorArray(_) => 4,
            Holder::Reader(_) => 5,
            Holder::String(_) => 8,
            Holder::Strings(_) => 9,
            Holder::Vocabulary(_) => 10,
            _ => return None,
        },
        _ => return None,
    })
}

/// Sets a singular message field. Protobuf's own parsers merge duplicates; no
/// writer creates any, and other readers would see another program.
fn once<T>(slot: &mut Option<T>, value: T, field: &Field<'_>) -> Result<()> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(field.error(format!("field {} once", field.number), "a duplicate")),
    }
}

fn var_type(message: &Message<'_>) -> Result<ValueType> {
    let mut kind = None;
    for field in message.fields() {
        let field = field?;
        if field.number == 1 {
            kind = Some(codes::kind(field.i32()?));
        }
    }
    let mut value = kind.ok_or_else(|| message.missing("the kind of a variable"))?;
    let described = type_field(&value);
    let mut seen = None;
    for field in message.fields() {
        let field = field?;
        if Some(field.number) != described {
            continue;
        }
        once(&mut seen, (), &field)?;
        match &mut value {
            ValueType::Tensor(tensor) | ValueType::Holder(Holder::TensorArray(tensor)) => {
                *tensor = lod_tensor(&field.message()?)?;
            }
            ValueType::Holder(Holder::Reader(tensors)) => {
                for field in field.message()?.fields() {
                    let field = field?;
                    if field.number == 1 {
                        tensors.push(lod_tensor(&field.message()?)?);
                    }
                }
            }
            ValueType::Tuple(_) => {
                let mut members = Vec::new();
                for field in field.message()?.fields() {
                    let field = field?;
                    if field.number == 1 {
                        let kind = |field: &Field<'_>| field.i32().map(codes::kind);
                        field.each(kind, Packed::Varint, &mut members)?;
                    }
                }
                value = ValueType::tuple(members).map_err(|_| message.too_deep())?;
            }
            ValueType::Sparse(tensor)
            | ValueType::Holder(
                Holder::SelectedRows(tensor)
                | Holder::String(tensor)
                | Holder::Strings(tensor)
                | Holder::Vocabulary(tensor),
            ) => {
                let layout = tensor.layout.take();
                *tensor = TensorDesc::read(&field.message()?)?.into_type(0);
                tensor.layout = layout;
            }
            // These kinds have no descriptive field.
            _ => {}
        }
    }
    Ok(value)
}

fn lod_tensor(message: &Message<'_>) -> Result<TensorType> {
    let (mut desc, mut lod_level) = (None, 0);
    for field in message.fields() {
        let field = field?;
        match field.number {
            1 => once(&mut desc, TensorDesc::read(&field.message()?)?, &field)?,
            2 => {
                let level = field.i32()?;
                lod_level = u32::try_from(level)
                    .map_err(|_| field.error("a LoD level of 0 or more", level.to_string()))?;
            }
            _ => {}
        }
    }
    let desc = desc.ok_or_else(|| message.missing("the description of a tensor"))?;
    Ok(desc.into_type(lod_level))
}

pub(super) fn op(message: &Message<'_>) -> Result<Op> {
    let residual = Residual::new(write::BINARY, message.bytes.clone());
    let mut op = Op { residual, ..Op::default() };
    let mut kind = None;
    for field in message.fields() {
        let field = field?;
        match field.number {
            1 => op.inputs.push(operand(&field.message()?)?),
            2 => op.outputs.push(operand(&field.message()?)?),
            3 => kind = Some(field.string()?),
            4 => {
                let place = || format!("attribute {}", op.attributes.len());
                let read = attribute(&field.message()?).map_err(|error| error.inside(place()))?;
                op.attributes.push(read);
            }
            5 => set_is_target(&mut op, field.bool()?),
            _ => {}
        }
    }
    op.kind = kind.ok_or_else(|| message.missing("the type of an operator"))?;
    Ok(op)
}

fn operand(message: &Message<'_>) -> Result<Operand> {
    let (mut slot, mut args) = (None, Vec::new());
    for field in message.fields() {
        let field = field?;
        match field.number {
            1 => slot = Some(field.string()?),
            2 => args.push(field.string()?),
            _ => {}
        }
    }
    Ok(Operand { slot: slot.ok_or_else(|| message.missing("the name of a slot"))?, args })
}

/// All values that an attribute message can hold; its type determines which is used.
#[derive(Default)]
struct Values {
    name: Option<String>,
    kind: Option<i32>,
    i: i32,
    l: i64,
    f: f32,
    float64: f64,
    b: bool,
    s: Bytes,
    ints: Vec<i32>,
    longs: Vec<i64>,
    floats: Vec<f32>,
    float64s: Vec<f64>,
    bools: Vec<bool>,
    strings: Vec<ByteString>,
    names: Vec<String>,
    block: i32,
    blocks: Vec<i32>,
    scalars: Vec<Scalar>,
}

fn attribute(message: &Message<'_>) -> Result<Attribute> {
    let mut v = Values::default();
    for field in message.fields() {
        let field = field?;
        match field.number {
            1 => v.name = Some(field.string()?),
            2 => v.kind = Some(field.i32()?),
            3 => v.i = field.i32()?,
            4 => v.f = field.f32()?,
            5 => v.s = field.bytes()?,
            6 => field.each(Field::i32, Packed::Varint, &mut v.ints)?,
            7 => field.each(Field::f32, Packed::Fixed32, &mut v.floats)?,
            8 => v.strings.push(ByteString(field.bytes()?)),
            10 => v.b = field.bool()?,
            11 => field.each(Field::bool, Packed::Varint, &mut v.bools)?,
            12 => v.block = field.i32()?,
            13 => v.l = field.i64()?,
            14 => field.each(Field::i32, Packed::Varint, &mut v.blocks)?,
            15 => field.each(Field::i64, Packed::Varint, &mut v.longs)?,
            16 => field.each(Field::f64, Packed::Fixed64, &mut v.float64s)?,
            17 | 18 => v.names.push(field.string()?),
            19 => v.float64 = field.f64()?,
            20 | 21 => v.scalars.push(scalar(&field.message()?)?),
            _ => {}
        }
    }
    finish(message, v)
}

/// Reads an attribute of a variable, which has fewer types, under other field numbers.
fn var_attribute(message: &Message<'_>) -> Result<Attribute> {
    let mut v = Values::default();
    for field in message.fields() {
        let field = field?;
        match field.number {
            1 => v.name = Some(field.string()?),
            2 => v.kind = Some(field.i32()?),
            3 => v.i = field.i32()?,
            4 => v.s = field.bytes()?,
            5 => field.each(Field::i32, Packed::Varint, &mut v.ints)?,
            _ => {}
        }
    }
    finish(message, v)
}

fn finish(message: &Message<'_>, v: Values) -> Result<Attribute> {
    use AttributeValue as A;
    let name = v.name.ok_or_else(|| message.missing("the name of an attribute"))?;
    let missing = |what: &str| -> Error { message.missing(what).inside(format!("`{name}`")) };
    let kind = v.kind.ok_or_else(|| missing("the type of an attribute"))?;
    let value = match kind {
        0 => A::Int(v.i),
        1 => A::Float(v.f),
        2 => A::String(ByteString(v.s)),
        3 => A::Ints(v.ints),
        4 => A::Floats(v.floats),
        5 => A::Strings(v.strings),
        6 => A::Bool(v.b),
        7 => A::Bools(v.bools),
        8 => A::Block(v.block),
        9 => A::Long(v.l),
        10 => A::Blocks(v.blocks),
        11 => A::Longs(v.longs),
        12 => A::Doubles(v.float64s),
        13 => A::Var(v.names.into_iter().next().unwrap_or_default()),
        14 => A::Vars(v.names),
        15 => A::Double(v.float64),
        16 => match v.scalars.into_iter().next() {
            Some(scalar) => A::Scalar(scalar),
            None => return Err(missing("a scalar in an attribute of that type")),
        },
        17 => A::Scalars(v.scalars),
        code => A::Unknown(code),
    };
    Ok(Attribute { name, value })
}

fn scalar(message: &Message<'_>) -> Result<Scalar> {
    let (mut kind, mut b, mut i, mut r, mut c) = (None, false, 0, 0.0, Complex::default());
    for field in message.fields() {
        let field = field?;
        match field.number {
            1 => kind = Some(field.i32()?),
            2 => b = field.bool()?,
            3 => i = field.i64()?,
            4 => r = field.f64()?,
            5 => c = complex(&field.message()?)?,
            _ => {}
        }
    }
    Ok(match kind.ok_or_else(|| message.missing("the type of a scalar"))? {
        1 => Scalar::Bool(b),
        2 => Scalar::Long(i),
        3 => Scalar::Double(r),
        4 => Scalar::Complex(c),
        code => Scalar::Unknown(code),
    })
}

fn complex(message: &Message<'_>) -> Result<Complex> {
    let mut value = Complex::default();
    for field in message.fields() {
        let field = field?;
        match field.number {
            1 => value.re = field.f64()?,
            2 => value.im = field.f64()?,
            _ => {}
        }
    }
    Ok(value)
}
