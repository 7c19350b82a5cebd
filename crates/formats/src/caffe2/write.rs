//! Writes the two nets of a model.
//!
//! Every node is encoded canonically, with fields in numerical order, as by protobuf's own writers. For a node that was
//! read from a net, the difference to its original canonical encoding is applied to the original bytes. Elements are
//! not copied: the encoding has holes for them.

use std::collections::HashMap;

use bytes::Bytes;
use lodstone_model::{
    Attribute, AttributeValue, Block, Dialect, Limits, Model, Op, Parameter, Program, Programs,
    Residual, Tensor, Topology,
};
use lodstone_store::{Blob, Location};

use super::layout::{self, Pair};
use super::weights::{self, Written};
use super::{OWNER, TEXT, TITLE, VERBATIM, argument, net, schema};
use crate::encoding::protobuf::holes::{HoleTable, filled};
use crate::encoding::protobuf::patch::patch;
use crate::encoding::protobuf::schema::{Generation, Message as MessageType};
use crate::encoding::protobuf::text::{self, Style};
use crate::encoding::protobuf::wire::{Encoder, Message, Source};
use crate::error::{Error, Result};
use crate::options::WriteOptions;
use crate::staged::Staged;

/// Writes binary nets.
///
/// # Errors
/// Fails if Caffe2 cannot represent part of the model, or if reading or writing fails.
pub(super) fn write(model: &Model, path: &Location, options: &WriteOptions) -> Result<Staged> {
    stage(model, path, options, false)
}

/// Writes nets in protobuf's text format.
///
/// # Errors
/// As [`write`].
pub(super) fn write_text(model: &Model, path: &Location, options: &WriteOptions) -> Result<Staged> {
    stage(model, path, options, true)
}

fn stage(model: &Model, path: &Location, options: &WriteOptions, is_text: bool) -> Result<Staged> {
    let main = model.main();
    if let Some(other) = main.filter(|main| main.dialect != Dialect::Caffe2) {
        let what = format!("a program of {}", other.dialect.framework());
        return Err(Error::Incompatible { format: TITLE, what });
    }
    let fresh;
    let startup = match model.programs.get(Programs::STARTUP) {
        None if model.parameters.is_empty() && main.is_some() => None,
        None => {
            fresh = empty();
            Some(&fresh)
        }
        Some(startup) => Some(startup),
    };
    let own = Pair::of(model)?.filter(|_| options.same).unwrap_or_default();
    let extension = if is_text { ".pbtxt" } else { ".pb" };
    let name = path.name().unwrap_or_default();
    let is_file = layout::is_init(name).is_some() || name.ends_with(extension);
    let into = path.names_directory()? || (own.directory && !is_file);
    let (directory, (predict, init)) = match into {
        true => {
            let named =
                |name: Option<String>, kind: &str| name.unwrap_or(format!("{kind}{extension}"));
            (path.clone(), (named(own.predict, "predict_net"), named(own.init, "init_net")))
        }
        // A single net has exactly the name that the user chose.
        false if main.is_none() || startup.is_none() => {
            (path.directory(), (name.to_owned(), name.to_owned()))
        }
        false => (path.directory(), layout::outputs(name, extension)),
    };
    let mut staged = Staged::begin(&directory, into, options)?;
    let mut opened = &predict;
    if let Some(startup) = startup {
        let encoded = encode(startup, Some(&model.parameters), is_text)?;
        staged.write(&init, |out| out.copy(&encoded))?;
        opened = &init;
    }
    if let Some(main) = main {
        let encoded = encode(main, None, is_text)?;
        staged.write(&predict, |out| out.copy(&encoded))?;
        opened = &predict;
    }
    Ok(if into { staged } else { staged.opened_by(opened) })
}

/// Returns an `init_net` without operators.
fn empty() -> Program {
    let main = Block { parent: -1, name: "init".to_owned(), ..Block::default() };
    Program::from(Topology { blocks: vec![main], ..Topology::new(Dialect::Caffe2) })
}

/// Encodes a net; with `parameters`, its fills are these.
///
/// # Errors
/// Fails if Caffe2 cannot represent part of it.
pub(super) fn encode(
    program: &Program,
    parameters: Option<&[Parameter]>,
    is_text: bool,
) -> Result<Blob> {
    let owners = [OWNER, TEXT, VERBATIM];
    let residual = &program.residual;
    let then = owners.into_iter().find_map(|owner| residual.with_holes_of(owner));
    // The holes of the nodes; those of the program may also hold the file itself.
    let main = program.blocks.first().and_then(|main| main.residual.with_holes_of(OWNER));
    let mut writer = Writer {
        program,
        holes: HoleTable::new(main.map(|(_, holes)| holes)),
        parameters: parameters.map(|all| {
            all.iter().map(|parameter| (parameter.name.as_str(), &parameter.tensor)).collect()
        }),
        depth: 0,
    };
    let bytes = writer.net(0, parameters.unwrap_or_default())?;
    let is_unedited = then.is_some_and(|(then, _)| *then == bytes);
    let original = |owner| {
        let (_, holes) = residual.with_holes_of(owner)?;
        holes.last().filter(|_| is_unedited).cloned()
    };
    match is_text {
        false => match original(VERBATIM) {
            Some(whole) => Ok(whole),
            None => filled(&schema::NET, &bytes, &writer.holes.blobs),
        },
        true => {
            if let Some(text) = original(TEXT) {
                return Ok(text);
            }
            let wire = filled(&schema::NET, &bytes, &writer.holes.blobs)?.read()?;
            let limits = Limits::none();
            let source = Source::new("the net", &limits);
            // Protobuf printed floats as doubles in all releases that Caffe2 was built with.
            let style = Style { generation: Generation::First, floats_as_doubles: true };
            Ok(Blob::memory(text::print(&source, &schema::NET, &wire, style)?.into_bytes()))
        }
    }
}

struct Writer<'m> {
    program: &'m Program,
    holes: HoleTable,
    /// The blobs that the net fills, if it is an `init_net`.
    parameters: Option<HashMap<&'m str, &'m Tensor>>,
    /// The number of open nets.
    depth: usize,
}

impl Writer<'_> {
    /// Applies the difference between `then` and the current node to its original bytes.
    fn patched(
        &mut self,
        schema: &'static MessageType,
        residual: &Residual,
        now: Encoder,
        then: impl FnOnce(&Message<'_>) -> Result<Encoder>,
    ) -> Result<Bytes> {
        let now: Bytes = now.finish().into();
        let Some(raw) = self.raw(schema, residual)? else { return Ok(now) };
        let source = Source::new("the encoding of a node", &Limits::none());
        let then = then(&Message::new(&source, raw.clone()))?.finish().into();
        patch(schema, &raw, &then, &now)
    }

    /// Returns the original bytes of a node, with the numbers of the holes in this net.
    fn raw(&mut self, schema: &'static MessageType, residual: &Residual) -> Result<Option<Bytes>> {
        let Some((raw, holes)) = residual.with_holes_of(OWNER) else { return Ok(None) };
        self.holes.adopt(schema, raw, holes, TITLE).map(Some)
    }

    /// Encodes a net; fills of `parameters` that no operator writes are added to it.
    fn net(&mut self, number: usize, parameters: &[Parameter]) -> Result<Bytes> {
        let refuse = |what: String| Error::Incompatible { format: TITLE, what };
        let block = self.program.blocks.get(number);
        let block = block.ok_or_else(|| refuse(format!("block {number}, which does not exist")))?;
        self.depth += 1;
        // A file has fewer levels; a program built by hand may contain a cycle of blocks.
        if self.depth > Limits::default().depth {
            return Err(refuse(format!("block {number}, which is in {} others", self.depth - 1)));
        }
        let mut last = HashMap::new();
        for (index, op) in block.ops.iter().enumerate().filter(|_| number == 0) {
            last.extend(op.writes().map(|name| (name, index)));
        }
        let mut ops = Vec::new();
        for (index, op) in block.ops.iter().enumerate() {
            ops.extend(self.op(op, |name| last.get(name) == Some(&index))?);
        }
        for Parameter { name, tensor } in
            parameters.iter().filter(|it| !last.contains_key(&*it.name))
        {
            let (op, values) = weights::fill_of(name, tensor, &mut self.holes)?;
            ops.push(self.plain(&op, &values)?.finish().into());
        }
        let then = facts(&block.residual)?;
        // Only the attributes of the outermost net are part of the model.
        let attributes = match (number, &then) {
            (0, _) | (_, None) => &self.program.attributes,
            (_, Some((_, attributes))) => attributes,
        };
        let now = canonical(block, attributes, &ops)?;
        let bytes = self.patched(&schema::NET, &block.residual, now, |message| {
            let ops = message.fields().filter(|field| !matches!(field, Ok(it) if it.number != 2));
            let ops = ops.map(|field| Ok(field?.message()?.bytes)).collect::<Result<Vec<_>>>()?;
            let then = then.ok_or_else(|| Error::internal("a net that was read has no bytes"))?;
            canonical(&then.0, &then.1, &ops)
        });
        self.depth -= 1;
        bytes
    }

    /// Encodes an operator; `None` if it fills a blob that was removed. `is_last` returns whether it is the last one of
    /// the net that writes a blob.
    fn op(&mut self, op: &Op, is_last: impl Fn(&str) -> bool) -> Result<Option<Bytes>> {
        let written = match (&self.parameters, op.output("")) {
            (Some(parameters), [name]) if weights::is_fill(op) && is_last(name) => {
                weights::written(op, name, parameters.get(name.as_str()).copied(), &mut self.holes)?
            }
            _ => Written::Unedited,
        };
        let raw = self.raw(&schema::OP, &op.residual)?;
        let then_values = raw.as_ref().map(weights::values_of).transpose()?.unwrap_or_default();
        let (edited, values) = match written {
            Written::Removed => return Ok(None),
            Written::Unedited => (op.clone(), then_values.clone()),
            Written::Edited(op, values) => (*op, values),
        };
        let now = self.plain(&edited, &values)?;
        let omits = op.attributes.iter().any(weights::is_omitted);
        let bytes = self.patched(&schema::OP, &op.residual, now, |_| {
            let limits = Limits::none();
            let source = Source::new("the encoding of a node", &limits);
            let raw = op.residual.with_holes_of(OWNER);
            let (raw, holes) = raw.ok_or_else(|| Error::internal("a node has no bytes"))?;
            let mut nets = net::Nets::new();
            let then = net::op(&Message::new(&source, raw.clone()), holes, &mut nets, omits)?;
            encode_op(&then, &then_values, &mut |number| nets.raw(number))
        })?;
        Ok(Some(bytes))
    }

    /// Encodes an operator in its current state, with `values` as the encoded argument with its values.
    fn plain(&mut self, op: &Op, values: &Bytes) -> Result<Encoder> {
        encode_op(op, values, &mut |number| {
            let what = || format!("block {number}, which does not exist");
            let block = usize::try_from(number);
            let block = block.map_err(|_| Error::Incompatible { format: TITLE, what: what() })?;
            self.net(block, &[])
        })
    }
}

/// Returns a net that was read, without its operators, and its attributes.
fn facts(residual: &Residual) -> Result<Option<(Block, Vec<Attribute>)>> {
    let Some((raw, holes)) = residual.with_holes_of(OWNER) else { return Ok(None) };
    let limits = Limits::none();
    let source = Source::new("the encoding of a net", &limits);
    net::facts(&Message::new(&source, raw.clone()), holes, &mut net::Nets::new()).map(Some)
}

fn canonical(block: &Block, attributes: &[Attribute], ops: &[Bytes]) -> Result<Encoder> {
    let mut out = Encoder::default();
    if !block.name.is_empty() {
        out.bytes(1, block.name.as_bytes());
    }
    ops.iter().for_each(|op| out.bytes(2, op));
    for attribute in attributes {
        match &attribute.value {
            AttributeValue::String(text) if attribute.name == "type" => out.bytes(3, &text.0),
            _ => {}
        }
    }
    for attribute in attributes {
        let is_type =
            attribute.name == "type" && matches!(attribute.value, AttributeValue::String(_));
        if !is_type {
            let mut refuse = |_| Ok(Bytes::new());
            out.bytes(6, &argument::encode(attribute, &mut refuse)?.finish());
        }
    }
    block.inputs.iter().for_each(|name| out.bytes(7, name.as_bytes()));
    block.outputs.iter().for_each(|name| out.bytes(8, name.as_bytes()));
    Ok(out)
}

fn encode_op(
    op: &Op,
    values: &Bytes,
    net: &mut dyn FnMut(i32) -> Result<Bytes>,
) -> Result<Encoder> {
    let mut out = Encoder::default();
    op.input("").iter().for_each(|name| out.bytes(1, name.as_bytes()));
    op.output("").iter().for_each(|name| out.bytes(2, name.as_bytes()));
    if !op.name.is_empty() {
        out.bytes(3, op.name.as_bytes());
    }
    out.bytes(4, op.kind.as_bytes());
    for attribute in &op.attributes {
        match weights::is_omitted(attribute) {
            true if !values.is_empty() => out.bytes(5, values),
            _ => out.bytes(5, &argument::encode(attribute, net)?.finish()),
        }
    }
    if !op.domain.is_empty() {
        out.bytes(11, op.domain.as_bytes());
    }
    Ok(out)
}
