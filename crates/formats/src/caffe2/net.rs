//! `NetDef`: reading.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use lodstone_model::{
    Attribute, AttributeValue, Block, ByteString, Dialect, Limits, Model, Op, Operand, Parameter,
    Program, Programs, Residual, TensorType, Topology, ValueType, Var,
};
use lodstone_store::Blob;

use super::fill::{Fill, VALUES};
use super::{OWNER, TEXT, VERBATIM, argument, detect, schema, weights};
use crate::encoding::protobuf::holes::{Structure, without_elements};
use crate::encoding::protobuf::text;
use crate::encoding::protobuf::wire::{Message, Source};
use crate::error::{Error, Result};
use crate::format::block_number;

/// A net, and the blobs that it fills if it is an `init_net`.
#[derive(Debug)]
pub(super) struct Net {
    pub(super) program: Program,
    pub(super) parameters: Vec<Parameter>,
}

/// Reads a net, binary or text. `is_init` is set if its fills are parameters.
///
/// # Errors
/// Fails if the bytes are not a `NetDef`, with the location in the net and the offset in the file.
pub(super) fn read(blob: &Blob, origin: &str, limits: &Limits, is_init: bool) -> Result<Net> {
    let head = blob.head(detect::HEAD)?;
    // A text without operators is only known by the name of its file.
    let is_named = origin.ends_with(".pbtxt") && !detect::is_net(&head, blob.len());
    match detect::is_text(&head) || is_named {
        true => read_text(blob, origin, limits, is_init),
        false => read_binary(blob, origin, limits, is_init),
    }
}

/// Reads a net as a model of its own; `is_init` is set if its fills are parameters.
///
/// # Errors
/// Fails if the bytes are not a `NetDef`, with the location in the net and the offset in the file.
pub fn read_blob(blob: &Blob, origin: &str, limits: &Limits, is_init: bool) -> Result<Model> {
    let Net { program, parameters } = read(blob, origin, limits, is_init)?;
    let mut model = Model { parameters, ..Model::default() };
    let name = if is_init { Programs::STARTUP } else { Programs::MAIN };
    model.programs.insert(name, program);
    model.files.push(blob.clone());
    super::pair::finish(&mut model, super::layout::Pair::default())?;
    Ok(model)
}

/// Reads a binary net.
///
/// # Errors
/// As [`read`].
pub(super) fn read_binary(
    blob: &Blob,
    origin: &str,
    limits: &Limits,
    is_init: bool,
) -> Result<Net> {
    let structure = without_elements(blob, &schema::NET, limits)?;
    let mut read = net(&structure, origin, limits, is_init)?;
    if !structure.is_exact {
        // The structure does not determine the bytes of the file.
        let holes: Vec<Blob> = structure.holes.iter().cloned().chain([blob.clone()]).collect();
        read.program.residual = Residual::with_holes(VERBATIM, structure.bytes, holes.into());
    }
    Ok(read)
}

fn read_text(blob: &Blob, origin: &str, limits: &Limits, is_init: bool) -> Result<Net> {
    if blob.len() > limits.structure_bytes {
        let limit = limits.at_most_bytes("of a text");
        return Err(blob.over_limit(0, limit).into());
    }
    let text = blob.read()?;
    let wire = text::parse(&Source::new(origin, limits), &schema::NET, &text, limits)?;
    let structure = without_elements(&Blob::memory(wire), &schema::NET, limits)?;
    // Offsets of errors in the messages are not those of the text.
    let origin = format!("the encoding of {origin}");
    let mut read = net(&structure, &origin, limits, is_init)?;
    let holes = structure.holes.iter().cloned().chain([Blob::memory(text)]).collect();
    read.program.residual = Residual::with_holes(TEXT, structure.bytes, holes);
    Ok(read)
}

/// Nets that are nested in arguments and still to be read, each with its enclosing block.
pub(super) struct Nets<'a> {
    open: VecDeque<(Message<'a>, i32)>,
    /// The index of the next block.
    next: i32,
    /// The index of the block that is being read.
    parent: i32,
}

impl<'a> Nets<'a> {
    pub(super) fn new() -> Self {
        Self { open: VecDeque::new(), next: 1, parent: 0 }
    }

    /// Adds a net; returns the index of its block.
    pub(super) fn add(&mut self, message: &Message<'a>) -> Result<i32> {
        let number = self.next;
        self.next = number.checked_add(1).ok_or_else(|| message.error("fewer nets", "more"))?;
        self.open.push_back((message.clone(), self.parent));
        Ok(number)
    }

    /// Returns the bytes of a net that was added.
    pub(super) fn raw(&self, number: i32) -> Result<Bytes> {
        let index = number.checked_sub(1).and_then(|index| usize::try_from(index).ok());
        let net = index.and_then(|index| self.open.get(index));
        let net = net.ok_or_else(|| Error::internal("a net that was just read is missing"))?;
        Ok(net.0.bytes.clone())
    }
}

fn net(structure: &Structure, origin: &str, limits: &Limits, is_init: bool) -> Result<Net> {
    let source = Source::with_holes(origin, limits, structure);
    let message = Message::new(&source, structure.bytes.clone());
    let mut nets = Nets::new();
    nets.open.push_back((message, -1));
    let mut program = Topology::new(Dialect::Caffe2);
    let mut parameters = Vec::new();
    while let Some((message, parent)) = nets.open.pop_front() {
        nets.parent = block_number(program.blocks.len())?;
        let fills = (is_init && parent == -1).then_some(&mut parameters);
        let (mut block, attributes) = block(&message, &structure.holes, &mut nets, fills)?;
        (block.index, block.parent) = (nets.parent, parent);
        if parent == -1 {
            program.attributes = attributes;
        }
        program.blocks.push(block);
    }
    if parameters.len() > limits.tensors {
        let limit = limits.at_most_tensors("tensors");
        return Err(source.over_limit(0, limit));
    }
    let main = program.blocks.first_mut();
    let main = main.ok_or_else(|| Error::internal("a net has no block"))?;
    main.vars = if is_init { Vec::new() } else { vars(main, &program.attributes) };
    program.residual =
        Residual::with_holes(OWNER, structure.bytes.clone(), Arc::clone(&structure.holes));
    Ok(Net { program: program.into(), parameters })
}

/// Reads a net except for the nets inside; returns the block and the attributes of the net. Fills become `parameters`.
pub(super) fn block<'a>(
    message: &Message<'a>,
    holes: &Arc<[Blob]>,
    nets: &mut Nets<'a>,
    parameters: Option<&mut Vec<Parameter>>,
) -> Result<(Block, Vec<Attribute>)> {
    let (mut block, attributes) = facts(message, holes, nets)?;
    let [count] = message.count([2]);
    block.ops = message.list(count)?;
    let mut messages = Vec::new();
    for field in message.fields() {
        let field = field?;
        if field.number == 2 {
            messages.push(field.message()?);
        }
    }
    let last = match parameters.is_some() {
        true => last_writers(&messages)?,
        false => HashMap::new(),
    };
    let mut filled = Vec::new();
    for (number, message) in messages.iter().enumerate() {
        let inside = |error: Error| error.inside(format!("operator {number}"));
        let read = read_op(message, holes, nets, |output| last.get(output) == Some(&number));
        let (op, parameter) = read.map_err(inside)?;
        filled.extend(parameter);
        block.ops.push(op);
    }
    if let Some(parameters) = parameters {
        *parameters = filled;
    }
    block.residual = Residual::with_holes(OWNER, message.bytes.clone(), Arc::clone(holes));
    Ok((block, attributes))
}

/// Reads a net without its operators; returns the block and the attributes of the net.
pub(super) fn facts<'a>(
    message: &Message<'a>,
    holes: &Arc<[Blob]>,
    nets: &mut Nets<'a>,
) -> Result<(Block, Vec<Attribute>)> {
    let (mut block, mut attributes) = (Block::default(), Vec::new());
    for field in message.fields() {
        let field = field?;
        match field.number {
            1 => block.name = field.string()?,
            3 => {
                let value = AttributeValue::String(ByteString(field.bytes()?));
                attributes.push(Attribute { name: "type".to_owned(), value });
            }
            6 => attributes.push(argument::read(&field.message()?, holes, nets)?),
            7 => block.inputs.push(field.string()?),
            8 => block.outputs.push(field.string()?),
            _ => {}
        }
    }
    Ok((block, attributes))
}

/// Returns the index of the last operator that writes each blob.
fn last_writers(messages: &[Message<'_>]) -> Result<HashMap<String, usize>> {
    let mut last = HashMap::new();
    for (number, message) in messages.iter().enumerate() {
        for field in message.fields() {
            let field = field?;
            if field.number == 2 {
                last.insert(field.string()?, number);
            }
        }
    }
    Ok(last)
}

/// Reads an operator. If it fills a blob for which `is_last` holds, also returns the blob; its values are then no
/// attribute.
fn read_op<'a>(
    message: &Message<'a>,
    holes: &Arc<[Blob]>,
    nets: &mut Nets<'a>,
    is_last: impl Fn(&str) -> bool,
) -> Result<(Op, Option<Parameter>)> {
    let mut op = signature(message)?;
    // The values of a fill may be as large as the file: all other arguments are read first.
    let named = |name: &str| name == VALUES;
    let is_weight = matches!(op.output(""), [name] if is_last(name));
    attributes(message, holes, nets, &mut op, |name| is_weight && named(name))?;
    if is_weight && let Some(fill) = Fill::of(&op, message)? {
        message.charge::<Parameter>()?;
        let name = op.output("").first().cloned().unwrap_or_default();
        let inside = |error: Error| error.inside(format!("`{name}`"));
        let mut tensor = fill.tensor(&op, holes).map_err(inside)?;
        tensor.residual = weights::residual(&tensor.data);
        let has_values = fill.has_values();
        let parameter = Parameter { name, tensor };
        if !has_values {
            // The value of all elements stays an attribute.
            op.attributes.clear();
            attributes(message, holes, nets, &mut op, |_| false)?;
        }
        return Ok((op, Some(parameter)));
    }
    if is_weight {
        op.attributes.clear();
        attributes(message, holes, nets, &mut op, |_| false)?;
    }
    Ok((op, None))
}

/// Reads an operator with all of its arguments.
pub(super) fn op<'a>(
    message: &Message<'a>,
    holes: &Arc<[Blob]>,
    nets: &mut Nets<'a>,
    omits_values: bool,
) -> Result<Op> {
    let mut op = signature(message)?;
    attributes(message, holes, nets, &mut op, |name| omits_values && name == VALUES)?;
    Ok(op)
}

/// Reads an operator without its arguments.
fn signature(message: &Message<'_>) -> Result<Op> {
    message.charge::<Op>()?;
    let mut op = Op::default();
    let (mut inputs, mut outputs) = (Vec::new(), Vec::new());
    for field in message.fields() {
        let field = field?;
        match field.number {
            1 => inputs.push(field.string()?),
            2 => outputs.push(field.string()?),
            3 => op.name = field.string()?,
            4 => op.kind = field.string()?,
            11 => op.domain = field.string()?,
            _ => {}
        }
    }
    let operand = |args: Vec<String>| match args.is_empty() {
        true => Vec::new(),
        false => vec![Operand { slot: String::new(), args }],
    };
    (op.inputs, op.outputs) = (operand(inputs), operand(outputs));
    Ok(op)
}

/// Reads the arguments of an operator. Those whose values are `omitted` have none.
fn attributes<'a>(
    message: &Message<'a>,
    holes: &Arc<[Blob]>,
    nets: &mut Nets<'a>,
    op: &mut Op,
    omitted: impl Fn(&str) -> bool,
) -> Result<()> {
    let [count] = message.count([5]);
    op.attributes = message.list(count)?;
    for field in message.fields() {
        let field = field?;
        if field.number == 5 {
            let inner = field.message()?;
            let name = argument::name(&inner)?;
            let attribute = match omitted(&name) {
                true => Attribute { name, value: AttributeValue::None },
                false => argument::read(&inner, holes, nets)?,
            };
            op.attributes.push(attribute);
        }
    }
    op.residual = Residual::with_holes(OWNER, message.bytes.clone(), Arc::clone(holes));
    Ok(())
}

/// Returns the variables that a net is fed with: its external inputs, and blobs that it reads and never writes.
fn vars(block: &Block, attributes: &[Attribute]) -> Vec<Var> {
    let mut known = HashSet::new();
    let mut fed: Vec<&str> = Vec::new();
    let written: HashSet<&str> = block.ops.iter().flat_map(Op::writes).collect();
    fed.extend(block.inputs.iter().map(String::as_str).filter(|name| known.insert(*name)));
    let reads = block.ops.iter().flat_map(|op| op.input(""));
    let reads = reads.map(String::as_str).filter(|name| !written.contains(name));
    fed.extend(reads.filter(|name| known.insert(*name)));
    let declared = declared(attributes);
    let var = |name: &str| {
        let value = declared.get(name).cloned().unwrap_or_default();
        Var { name: name.to_owned(), value: ValueType::tensor(value), ..Var::default() }
    };
    fed.into_iter().map(var).collect()
}

/// Returns the types of inputs that the arguments of a net declare.
fn declared(attributes: &[Attribute]) -> HashMap<String, TensorType> {
    const NAMES: [&str; 2] = ["input_shape_info", "input_qshape_info"];
    let mut types = HashMap::new();
    for attribute in attributes.iter().filter(|it| NAMES.contains(&it.name.as_str())) {
        for tensor in attribute.value.tensors() {
            let text = tensor.doc_string.as_ref().map(ToString::to_string).unwrap_or_default();
            let name = text.rsplit(' ').next().unwrap_or_default().to_owned();
            types.insert(name, TensorType::of(tensor));
        }
    }
    types
}
