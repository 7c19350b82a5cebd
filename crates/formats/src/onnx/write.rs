//! Writes a [`Model`].
//!
//! Every node is encoded canonically, with fields in numerical order, as by protobuf's own writers. For a node that
//! was read from a model, the difference to its original canonical encoding is applied to the original bytes.
//! Elements are not copied: the encoding has holes for them.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use bytes::Bytes;
use lodstone_model::{
    Attribute, AttributeValue, Block, ByteString, DType, Dialect, Function, Indices, Kind, Limits,
    Model, Op, Parameter, Program, Residual, Tensor, Topology, Var,
};
use lodstone_schema::onnx::dtype::ir_version as ir_version_of;
use lodstone_store::{Blob, Location};

use super::canonical::{self, Children, FORMAT};
use super::elements::{Encoding, Typed};
use super::external::{Layout, Outside};
use super::read::{self, Inside, Whole};
use super::strided::Strided;
use super::tensor::{Described, Fields, RAW_DATA, Sparse};
use super::{OWNER, TEXT, VERBATIM, schema, types};
use crate::encoding::protobuf::holes::{HoleTable, filled};
use crate::encoding::protobuf::patch::patch;
use crate::encoding::protobuf::schema::Message as MessageType;
use crate::encoding::protobuf::text::{self, Style};
use crate::encoding::protobuf::wire::{Encoder, Message, Source};
use crate::error::{Error, Result};
use crate::format::{block_number, signed_dims};
use crate::options::{ExternalData, WriteOptions};
use crate::staged::Staged;

/// Maximum message size of protobuf's own parsers.
const MAX_MESSAGE: u64 = (1 << 31) - 1;

/// Writes a binary file, and the files beside it for elements: those that the user requested,
/// the original ones, or one if the model would exceed the size limit of protobuf.
///
/// # Errors
/// Fails if ONNX cannot represent part of the model, or if reading or writing fails.
pub(super) fn write(model: &Model, path: &Location, options: &WriteOptions) -> Result<Staged> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let align = options.align;
    let requested = options.external_data.map(|how| Layout::from_option(how, &name, align));
    let layout = match requested {
        Some(layout) => layout,
        None if options.same => Layout::AsRead,
        None => Layout::Inside,
    };
    let mut encoded = encode(model, layout, options.same)?;
    if encoded.has_moved {
        encoded = encode(model, Layout::Again { align }, options.same)?;
    }
    if encoded.message.len() > MAX_MESSAGE {
        encoded =
            encode(model, Layout::from_option(ExternalData::One, &name, align), options.same)?;
    }
    let Encoded { message, files, .. } = encoded;
    if files.is_empty() {
        return Staged::file(path, options, |out| out.copy(&message));
    }
    let mut staged = Staged::begin(&path.directory(), false, options)?;
    for (location, blob) in files {
        staged.write(&location, |out| out.copy(&blob))?;
    }
    staged.write(&name, |out| out.copy(&message))?;
    Ok(staged.opened_by(name))
}

/// Writes a file in protobuf's text format.
///
/// # Errors
/// The errors of [`write`].
pub(super) fn write_text(model: &Model, path: &Location, options: &WriteOptions) -> Result<Staged> {
    let encoded = encode(model, Layout::Inside, options.same)?;
    if let Some(text) = model.residual.of(TEXT)
        && encoded.is_unedited
    {
        return Staged::file(path, options, |out| out.put(text));
    }
    let wire = encoded.message.read()?;
    let limits = Limits::none();
    let source = Source::new("the model", &limits);
    let text = text::print(&source, &schema::MODEL, &wire, Style::LATEST)?;
    Staged::file(path, options, |out| out.put(text.as_bytes()))
}

/// An encoded model.
#[derive(Debug)]
pub(super) struct Encoded {
    pub(super) message: Blob,
    /// Files of elements, by location.
    pub(super) files: Vec<(String, Blob)>,
    /// Whether the model is unedited.
    pub(super) is_unedited: bool,
    /// Whether elements in other files have moved.
    has_moved: bool,
}

/// Encodes a model. With `same`, tensors with missing elements are allowed.
pub(super) fn encode(model: &Model, layout: Layout, same: bool) -> Result<Encoded> {
    let mut writer = Writer::new(model, layout, same);
    let bytes = writer.model(model, &model.parameters)?;
    let then = model.main().and_then(|program| program.residual.with_holes_of(OWNER));
    let is_unedited = then.is_some_and(|(then, _)| *then == bytes);
    if let Some((structure, [whole])) =
        model.residual.with_holes_of(VERBATIM).map(|(b, h)| (b, &**h))
        && is_unedited
        && *structure == bytes
    {
        let (files, has_moved) = writer.outside.finish();
        return Ok(Encoded { message: whole.clone(), files, is_unedited, has_moved });
    }
    let message = filled(&schema::MODEL, &bytes, &writer.holes.blobs)?;
    let (files, has_moved) = writer.outside.finish();
    Ok(Encoded { message, files, is_unedited, has_moved })
}

/// Returns the structure of a model, and the contents of its holes.
///
/// # Errors
/// Fails if ONNX cannot represent part of the model.
pub(super) fn structure(model: &Model) -> Result<(Bytes, Vec<Blob>)> {
    let mut writer = Writer::new(model, Layout::Inside, true);
    let bytes = writer.model(model, &model.parameters)?;
    Ok((bytes, writer.holes.blobs))
}

/// Encodes a model without its parameters, and each parameter separately; sparse ones stay in the model.
///
/// # Errors
/// The errors of [`structure`].
pub(super) fn apart(model: &Model) -> Result<(Blob, Vec<Blob>)> {
    let mut writer = Writer::new(model, Layout::Inside, false);
    let is_sparse = |p: &&Parameter| matches!(p.tensor.kind, Kind::Coo { .. });
    let (sparse, dense): (Vec<_>, Vec<_>) = model.parameters.iter().partition(is_sparse);
    let sparse: Vec<Parameter> = sparse.into_iter().cloned().collect();
    let bytes = writer.model(model, &sparse)?;
    let mut weights = Vec::new();
    for Parameter { name, tensor } in dense {
        weights.push(writer.tensor(name, tensor)?);
    }
    let holes = &writer.holes.blobs;
    let message = filled(&schema::MODEL, &bytes, holes)?;
    let weights = weights.iter().map(|weight| filled(&schema::TENSOR, weight, holes));
    Ok((message, weights.collect::<Result<_>>()?))
}

/// Encodes a single tensor; also returns its structure.
///
/// # Errors
/// The errors of [`structure`].
pub(super) fn encode_tensor(name: &str, tensor: &Tensor, layout: Layout) -> Result<(Bytes, Blob)> {
    let then = tensor.residual.with_holes_of(OWNER);
    let holes = HoleTable::new(then.map(|(_, holes)| holes));
    let mut writer =
        Writer { program: None, holes, outside: Outside::new(layout), same: false, depth: 0 };
    let structure = writer.tensor(name, tensor)?;
    let message = filled(&schema::TENSOR, &structure, &writer.holes.blobs)?;
    Ok((structure, message))
}

/// The writer of nodes in their current state.
struct Writer<'m> {
    program: Option<&'m Program>,
    holes: HoleTable,
    outside: Outside,
    same: bool,
    /// The number of open blocks.
    depth: usize,
}

/// The original bytes of the nodes inside a node.
#[derive(Default)]
struct AsRead {
    graphs: Vec<Bytes>,
}

impl<'a> Inside<'a> for AsRead {
    fn graph(&mut self, message: &Message<'a>) -> Result<i32> {
        let number = block_number(self.graphs.len());
        self.graphs.push(message.bytes.clone());
        number
    }

    fn tensor(&mut self, message: &Message<'a>) -> Result<(String, Tensor)> {
        let mut tensor = Tensor::dense(DType::Bool, Vec::new(), Blob::default());
        tensor.residual = self.residual(message);
        Ok((String::new(), tensor))
    }

    fn sparse(&mut self, message: &Message<'a>) -> Result<(String, Tensor)> {
        let (_, mut tensor) = Inside::tensor(self, message)?;
        let indices = Indices { dtype: DType::Int64, data: Blob::default() };
        tensor.kind = Kind::Coo { indices, linear: true };
        Ok((String::new(), tensor))
    }

    fn residual(&self, message: &Message<'a>) -> Residual {
        Residual::new(OWNER, message.bytes.clone())
    }
}

impl Children for AsRead {
    fn op(&mut self, op: &Op) -> Result<Bytes> {
        as_read(&op.residual)
    }

    fn var(&mut self, var: &Var) -> Result<Bytes> {
        as_read(&var.residual)
    }

    fn block(&mut self, number: i32) -> Result<Bytes> {
        let graph = usize::try_from(number).ok().and_then(|number| self.graphs.get(number));
        graph.cloned().ok_or_else(|| Error::internal("a graph that was just read is missing"))
    }

    fn tensor(&mut self, _: &str, tensor: &Tensor) -> Result<Bytes> {
        as_read(&tensor.residual)
    }

    fn sparse(&mut self, name: &str, tensor: &Tensor) -> Result<Bytes> {
        Children::tensor(self, name, tensor)
    }
}

/// Returns the original bytes of a node.
fn as_read(residual: &Residual) -> Result<Bytes> {
    let bytes = residual.of(OWNER).cloned();
    bytes.ok_or_else(|| Error::internal("a node that was just read has no bytes"))
}

impl<'m> Writer<'m> {
    fn new(model: &'m Model, layout: Layout, same: bool) -> Self {
        let program = model.main();
        let then = program.and_then(|program| program.residual.with_holes_of(OWNER));
        let holes = HoleTable::new(then.map(|(_, holes)| holes));
        Self { program, holes, outside: Outside::new(layout), same, depth: 0 }
    }

    /// Applies the difference between `then` and the current node to its original bytes.
    fn patched(
        &mut self,
        schema: &'static MessageType,
        residual: &Residual,
        now: Encoder,
        then: impl FnOnce(&Message<'_>) -> Result<Encoder>,
    ) -> Result<Bytes> {
        let now: Bytes = now.finish().into();
        let Some((raw, holes)) = residual.with_holes_of(OWNER) else { return Ok(now) };
        let raw = self.holes.adopt(schema, raw, holes, FORMAT)?;
        let source = Source::new("the encoding of a node", &Limits::none());
        let then = then(&Message::new(&source, raw.clone()))?.finish().into();
        patch(schema, &raw, &then, &now)
    }

    fn model(&mut self, model: &Model, parameters: &[Parameter]) -> Result<Bytes> {
        let alone;
        let program = match self.program {
            Some(program) => program,
            None => {
                alone = tensors_alone(parameters);
                &alone
            }
        };
        let empty = Block { name: "model".to_owned(), ..Block::default() };
        let graph = self.graph(program.blocks.first().unwrap_or(&empty), parameters)?;
        let functions = program.functions.iter().map(|function| self.function(function));
        let functions = functions.collect::<Result<Vec<_>>>()?;
        let limits = Limits::none();
        let source = Source::new("the encoding of a model", &limits);
        let raw = program.residual.of(OWNER).cloned().unwrap_or_default();
        let then = Whole::read(&Message::new(&source, raw))?;
        let metadata = metadata(model, then.metadata);
        let now = canonical::model(program, &metadata, &graph, &functions);
        self.patched(&schema::MODEL, &program.residual, now, |message| {
            let whole = Whole::read(message)?;
            let graph = whole.graph.map(|graph| graph.bytes).unwrap_or_default();
            let functions: Vec<Bytes> =
                whole.functions.into_iter().map(|function| function.bytes).collect();
            Ok(canonical::model(&whole.program, &whole.metadata, &graph, &functions))
        })
    }

    fn graph(&mut self, block: &Block, initializers: &[Parameter]) -> Result<Bytes> {
        let now = canonical::graph(block, initializers, self)?;
        self.patched(&schema::GRAPH, &block.residual, now, |message| {
            let mut inside = AsRead::default();
            let block = read::graph_block(message, &mut inside)?;
            canonical::graph(&block, &block.initializers, &mut inside)
        })
    }

    fn block_of(&self, number: i32) -> Option<&'m Block> {
        self.program?.blocks.get(usize::try_from(number).ok()?)
    }

    fn function(&mut self, function: &Function) -> Result<Bytes> {
        let Some(block) = self.block_of(function.block) else {
            let what = format!("the function `{}`, which has no block", function.name);
            return Err(Error::Incompatible { format: FORMAT, what });
        };
        let now = canonical::function(function, block, self)?;
        self.patched(&schema::FUNCTION, &block.residual, now, |message| {
            let mut inside = AsRead::default();
            let mut function = read::signature(message)?;
            let block = read::function_block(message, &mut inside)?;
            function.defaults = read::defaults(message, &mut inside)?;
            canonical::function(&function, &block, &mut inside)
        })
    }

    /// Returns the message of a tensor to be written.
    fn described(
        &mut self,
        name: &str,
        (tensor, dims): (&Tensor, &[u64]),
        data: &Blob,
        then: Option<&Fields<'_>>,
    ) -> Result<Described> {
        let code = types::dtype_code(tensor.dtype);
        let code = code.ok_or_else(|| Error::dtype(FORMAT, name, tensor.dtype))?;
        let dims = signed_dims(FORMAT, name, dims)?;
        let mut described = Described { dims, code, name: name.to_owned(), ..Described::default() };
        described.number = 9;
        described.doc_string = tensor.doc_string.as_ref().map(|text| text.0.clone());
        let mut out = Encoder::default();
        match &tensor.kind {
            Kind::Strings { elements } => {
                described.number = 6;
                elements.iter().for_each(|text| out.bytes(6, text));
            }
            Kind::Absent => {
                let outside = then.filter(|then| then.place().is_some()).map(Fields::described);
                if outside.is_some() && !self.same {
                    let what = format!("the tensor `{name}`, whose elements are missing");
                    return Err(Error::Incompatible { format: FORMAT, what });
                }
                described.external = outside.map(|then| then.external).unwrap_or_default();
            }
            _ if data.is_empty() => {}
            Kind::Dense | Kind::Coo { .. } => {
                if let Some(external) = self.outside.place(name, data, then)? {
                    described.external = external;
                    return Ok(described);
                }
                let typed = data.derivation::<Typed>().filter(|typed| {
                    let encoding = Encoding::of(typed.number, tensor.dtype);
                    encoding == Some(typed.encoding)
                });
                if let Some(typed) = typed {
                    described.number = typed.number;
                    described.elements =
                        self.holes.adopt(&schema::TENSOR, &typed.fields, &typed.holes, FORMAT)?;
                    return Ok(described);
                }
                let fixed = |number: &u32| {
                    let encoding = Encoding::of(*number, tensor.dtype);
                    encoding == Some(Encoding::Fixed)
                };
                let number = then.and_then(Fields::typed_field).filter(fixed);
                described.number = number.unwrap_or(RAW_DATA);
                // Padding is preserved.
                let padded = data.derivation::<Strided>().map(|strided| &strided.source);
                out.hole(described.number, self.holes.number(padded.unwrap_or(data)));
            }
            kind => {
                let what = format!("the {} tensor `{name}`", kind.name());
                return Err(Error::Incompatible { format: FORMAT, what });
            }
        }
        described.elements = out.finish().into();
        Ok(described)
    }

    fn dense(
        &mut self,
        name: &str,
        shape: (&Tensor, &[u64]),
        data: &Blob,
        residual: &Residual,
    ) -> Result<Bytes> {
        let limits = Limits::none();
        let source = Source::new("the encoding of a tensor", &limits);
        let raw = residual.of(OWNER).map(|raw| Message::new(&source, raw.clone()));
        let then = raw.as_ref().map(Fields::read).transpose()?;
        let now = self.described(name, shape, data, then.as_ref())?.encode();
        let then = |message: &Message<'_>| Ok(Fields::read(message)?.described().encode());
        self.patched(&schema::TENSOR, residual, now, then)
    }
}

impl Children for Writer<'_> {
    fn op(&mut self, op: &Op) -> Result<Bytes> {
        let now = canonical::op(op, self)?;
        self.patched(&schema::NODE, &op.residual, now, |message| {
            let mut inside = AsRead::default();
            let op = read::op(message, &mut inside)?;
            canonical::op(&op, &mut inside)
        })
    }

    fn var(&mut self, var: &Var) -> Result<Bytes> {
        let now = canonical::var(var)?;
        self.patched(&schema::VALUE_INFO, &var.residual, now, |message| {
            canonical::var(&read::var(message, Residual::default())?)
        })
    }

    fn block(&mut self, number: i32) -> Result<Bytes> {
        let refuse = |what: String| Err(Error::Incompatible { format: FORMAT, what });
        let Some(block) = self.block_of(number) else {
            return refuse(format!("block {number}, which does not exist"));
        };
        self.depth += 1;
        // A file has fewer levels; a program built by hand may contain a cycle of blocks.
        if self.depth > Limits::default().depth {
            return refuse(format!("block {number}, which is in {} others", self.depth - 1));
        }
        let bytes = self.graph(block, &block.initializers);
        self.depth -= 1;
        bytes
    }

    fn tensor(&mut self, name: &str, tensor: &Tensor) -> Result<Bytes> {
        self.dense(name, (tensor, &tensor.shape), &tensor.data, &tensor.residual)
    }

    fn sparse(&mut self, name: &str, tensor: &Tensor) -> Result<Bytes> {
        let Kind::Coo { indices, linear } = &tensor.kind else {
            let what = format!("the {} tensor `{name}` as a sparse tensor", tensor.kind.name());
            return Err(Error::Incompatible { format: FORMAT, what });
        };
        let limits = Limits::none();
        let source = Source::new("the encoding of a tensor", &limits);
        let (mut then_values, mut then_indices) = (Residual::default(), Residual::default());
        if let Some((raw, holes)) = tensor.residual.with_holes_of(OWNER) {
            let then = Sparse::read(&Message::new(&source, raw.clone()))?;
            let residual = |message: Option<Message<'_>>| {
                message.map_or_else(Residual::default, |message| {
                    Residual::with_holes(OWNER, message.bytes, Arc::clone(holes))
                })
            };
            (then_values, then_indices) = (residual(then.values), residual(then.indices));
        }
        let stored = tensor.stored_shape();
        let values = self.dense(name, (tensor, &stored), &tensor.data, &then_values)?;
        // The elements of sparse tensors are a list.
        let mut places: Vec<u64> = stored.iter().take(1).copied().collect();
        places.extend((!linear).then_some(tensor.shape.len() as u64));
        let mut numbers = Tensor::dense(indices.dtype, places.clone(), indices.data.clone());
        let mut called = String::new();
        // Indices need no name, but may have one.
        if let Some(raw) = then_indices.of(OWNER) {
            let then = Fields::read(&Message::new(&source, raw.clone()))?;
            numbers.doc_string = then.doc_string.map(|text| Box::new(ByteString(text)));
            called = then.name;
        }
        let indices = self.dense(&called, (&numbers, &places), &indices.data, &then_indices)?;
        let dims = signed_dims(FORMAT, name, &tensor.shape)?;
        let now = canonical::sparse(&values, &indices, &dims);
        self.patched(&schema::SPARSE_TENSOR, &tensor.residual, now, |message| {
            let then = Sparse::read(message)?;
            let bytes = |message: Option<Message<'_>>| message.map(|m| m.bytes).unwrap_or_default();
            Ok(canonical::sparse(&bytes(then.values), &bytes(then.indices), &then.dims))
        })
    }
}

/// Returns the metadata of a model, in file order.
fn metadata(model: &Model, then: Vec<(String, String)>) -> Vec<(String, String)> {
    let mut seen = HashSet::new();
    let mut entries = Vec::new();
    // Of duplicate keys, the last one is used; the others are unchanged.
    let last: HashMap<String, usize> =
        then.iter().enumerate().map(|(index, (key, _))| (key.clone(), index)).collect();
    for (index, (key, value)) in then.into_iter().enumerate() {
        if let Some(now) = model.metadata.get(&key) {
            let value = if last.get(&key) == Some(&index) { now.clone() } else { value };
            seen.insert(key.clone());
            entries.push((key, value));
        }
    }
    let new = model.metadata.iter().filter(|(key, _)| !seen.contains(*key));
    entries.extend(new.map(|(key, value)| (key.clone(), value.clone())));
    entries
}

/// Returns the program of a model without one: it has no operators.
fn tensors_alone(parameters: &[Parameter]) -> Program {
    /// An opset version that is widely supported; none of its operators is used.
    const OPERATORS: i64 = 21;
    let name = Attribute {
        name: "producer_name".to_owned(),
        value: AttributeValue::String("lodstone".into()),
    };
    Program::from(Topology {
        version: Some(ir_version(parameters)),
        operator_versions: vec![(String::new(), OPERATORS)],
        attributes: vec![name],
        ..Topology::new(Dialect::Onnx)
    })
}

/// Returns an IR version that is widely supported, or the first that has the types of these
/// tensors.
fn ir_version(parameters: &[Parameter]) -> i64 {
    const USUAL: i64 = 9;
    let first = parameters.iter().map(|parameter| ir_version_of(parameter.tensor.dtype));
    first.fold(USUAL, i64::max)
}
