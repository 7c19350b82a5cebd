//! Reads a [`Model`] without the elements of its tensors.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use lodstone_model::{
    Attribute, AttributeValue, Block, ByteString, Dialect, Function, Limits, Model, Op, Operand,
    Parameter, Program, Residual, Tensor, ValueType, Var, some,
};
use lodstone_schema::onnx::attribute_kind;
use lodstone_store::{Blob, Location};

use super::external::External;
use super::tensor::{self, Fields, Sparse};
use super::{Container, OWNER, TEXT, VERBATIM, detect, format_of, schema, types, zip};
use crate::encoding::protobuf::holes::{Structure, without_elements};
use crate::encoding::protobuf::text;
use crate::encoding::protobuf::wire::{Field, Message, Packed, Source};
use crate::error::{Error, Result};
use crate::format::block_number;
use crate::options::OpenOptions;
use crate::registry::ONNX_FAMILIES;

/// Opens a file, binary or text.
///
/// # Errors
/// Fails if the file is not a model, with the location in the model and the offset in the file, or if elements are in
/// files outside its directory, or beyond their ends.
pub(super) fn read(path: &Location, options: &OpenOptions) -> Result<Model> {
    let (blob, origin) = (options.file(path)?, path.display().to_string());
    let mut files = External::beside(path, options);
    let mut model = read_any(&blob, &origin, &mut files, &options.limits)?;
    model.files.push(blob);
    model.files.extend(files.found().cloned());
    let absent: Vec<_> = files.absent().map(|location| format!("`{location}`")).collect();
    if !absent.is_empty() {
        let names = some(&absent);
        model.report.warn(format!("external data files not found: {names}"));
    }
    Ok(model)
}

/// Reads a model in any container; `origin` names it in messages. External data files are not
/// opened.
///
/// # Errors
/// Fails if the file is not a model, with the location in the model and the offset in the file.
pub fn read_blob(blob: &Blob, origin: &str, limits: &Limits) -> Result<Model> {
    let mut model = read_any(blob, origin, &mut External::none(), limits)?;
    model.files.push(blob.clone());
    Ok(model)
}

fn read_any(blob: &Blob, origin: &str, files: &mut External<'_>, limits: &Limits) -> Result<Model> {
    match detect::container(&blob.head(detect::HEAD)?) {
        Some(Container::Text) => read_text(blob, origin, files, limits),
        Some(Container::Zip) => zip::read(blob, origin, files, limits),
        _ => read_binary(blob, origin, files, limits),
    }
}

pub(super) fn read_binary(
    blob: &Blob,
    origin: &str,
    files: &mut External<'_>,
    limits: &Limits,
) -> Result<Model> {
    let structure = without_elements(blob, &schema::MODEL, limits)?;
    let mut model = model(&structure, origin, files, limits)?;
    name_format(&mut model, Container::Binary);
    if !structure.is_exact {
        let whole = Arc::from([blob.clone()]);
        model.residual = Residual::with_holes(VERBATIM, structure.bytes.clone(), whole);
    }
    Ok(model)
}

pub(super) fn read_text(
    blob: &Blob,
    origin: &str,
    files: &mut External<'_>,
    limits: &Limits,
) -> Result<Model> {
    if blob.len() > limits.structure_bytes {
        let limit = limits.at_most_bytes("of a text");
        return Err(blob.over_limit(0, limit).into());
    }
    let text = blob.read()?;
    let wire = text::parse(&Source::new(origin, limits), &schema::MODEL, &text, limits)?;
    let structure = without_elements(&Blob::memory(wire), &schema::MODEL, limits)?;
    // Errors in the messages are located by their place in the model; their offsets are not those of
    // the text.
    let mut model = model(&structure, &format!("the encoding of {origin}"), files, limits)?;
    name_format(&mut model, Container::Text);
    model.residual = Residual::new(TEXT, text);
    Ok(model)
}

/// Sets the format that a model was read from.
pub(super) fn name_format(model: &mut Model, container: Container) {
    let dialect = model.main().map_or(Dialect::Onnx, |program| program.dialect);
    model.format = format_of(dialect, container).name.to_owned();
}

/// Returns the dialect of the operators of a program.
fn dialect_of(program: &Program) -> Dialect {
    let is_by = |producer: &str| {
        let producer = AttributeValue::String(producer.into());
        program.attributes.iter().any(|it| it.name == "producer_name" && it.value == producer)
    };
    let own = ONNX_FAMILIES.iter().find(|family| is_by(family.producer));
    own.map_or(Dialect::Onnx, |family| family.dialect)
}

/// The attributes of a model, and their field numbers.
pub(super) const FACTS: [(u32, &str); 5] = [
    (2, "producer_name"),
    (3, "producer_version"),
    (4, "domain"),
    (5, "model_version"),
    (6, "doc_string"),
];

fn model(
    structure: &Structure,
    origin: &str,
    files: &mut External<'_>,
    limits: &Limits,
) -> Result<Model> {
    let source = Source::with_holes(origin, limits, structure);
    let message = Message::new(&source, structure.bytes.clone());
    let holes = &structure.holes;
    let mut whole = Whole::read(&message)?;
    let graph = whole.graph.take().ok_or_else(|| message.missing("the graph of a model"))?;
    let mut inside = Blocks { holes, files, open: VecDeque::new(), next: 1, parent: 0 };
    inside.open.push_back((graph, -1));
    let mut blocks = Vec::new();
    for (message, function) in whole.functions.iter().zip(&mut whole.program.functions) {
        function.block = inside.next;
        inside.next += 1;
        inside.open.push_back((message.clone(), FUNCTION));
    }
    while let Some((message, parent)) = inside.open.pop_front() {
        inside.parent = block_number(blocks.len())?;
        let place = || match parent {
            -1 => "the graph".to_owned(),
            FUNCTION => "a function".to_owned(),
            _ => format!("the subgraph {}", blocks.len()),
        };
        let read = if parent == FUNCTION { function_block } else { graph_block };
        let mut block = read(&message, &mut inside).map_err(|error| error.inside(place()))?;
        if parent == FUNCTION {
            // Function blocks are the first that were opened, after the graph.
            let defined = blocks.len().checked_sub(1);
            let defined = defined.and_then(|number| whole.program.functions.get_mut(number));
            let function = defined.ok_or_else(|| Error::internal("a function is missing"))?;
            function.defaults = defaults(&message, &mut inside)?;
        }
        block.index = inside.parent;
        block.parent = parent.max(-1);
        block.residual = Residual::with_holes(OWNER, message.bytes.clone(), Arc::clone(holes));
        blocks.push(block);
    }
    let mut program = whole.program;
    program.dialect = dialect_of(&program);
    program.blocks = blocks;
    program.residual = Residual::with_holes(OWNER, structure.bytes.clone(), Arc::clone(holes));
    let mut model = Model::default();
    let mut again = Vec::new();
    for (key, value) in whole.metadata {
        if model.metadata.insert(key.clone(), value).is_some() {
            again.push(format!("`{key}`"));
        }
    }
    if !again.is_empty() {
        let keys = some(&again);
        model.report.warn(format!(
            "`metadata_props` has duplicate keys, of which the last is used: {keys}"
        ));
    }
    if message.count([20]) != [0] {
        model.report.warn(TRAINING);
    }
    let main = program.blocks.first_mut();
    model.parameters = main.map(|main| std::mem::take(&mut main.initializers)).unwrap_or_default();
    if model.parameters.len() > limits.tensors {
        let limit = limits.at_most_tensors("tensors");
        return Err(message.source.over_limit(message.offset, limit));
    }
    let named: HashSet<&str> = model.parameters.iter().map(|p| p.name.as_str()).collect();
    for var in program.blocks.iter_mut().take(1).flat_map(|block| &mut block.vars) {
        var.persistable = named.contains(var.name.as_str());
    }
    model.set_main(program);
    Ok(model)
}

/// The warning for a model with `training_info`.
pub const TRAINING: &str =
    "graphs for training are kept as they are, and their contents were not read";

/// The parent of a block that defines a function, while it is being read.
const FUNCTION: i32 = -2;

/// A `ModelProto`, with its graph and functions as messages.
pub(super) struct Whole<'a> {
    pub(super) program: Program,
    /// In file order; keys may repeat.
    pub(super) metadata: Vec<(String, String)>,
    pub(super) graph: Option<Message<'a>>,
    pub(super) functions: Vec<Message<'a>>,
}

impl<'a> Whole<'a> {
    pub(super) fn read(message: &Message<'a>) -> Result<Self> {
        let [metadata, functions] = message.count([14, 25]);
        let mut program = Program::new(Dialect::Onnx);
        program.functions = message.list(functions)?;
        let mut whole = Self {
            program,
            metadata: message.list(metadata)?,
            graph: None,
            functions: message.list(functions)?,
        };
        let program = &mut whole.program;
        for field in message.fields() {
            let field = field?;
            match field.number {
                1 => program.version = Some(field.i64()?),
                7 => match whole.graph.replace(field.message()?) {
                    None => {}
                    Some(_) => return Err(field.error("one graph", "another")),
                },
                8 => program.operator_versions.push(operator_set(&field.message()?)?),
                14 => whole.metadata.push(tensor::entry(&field.message()?)?),
                25 => {
                    let message = field.message()?;
                    program.functions.push(signature(&message)?);
                    whole.functions.push(message);
                }
                number => {
                    let Some((_, name)) = FACTS.iter().find(|(known, _)| *known == number) else {
                        continue;
                    };
                    let value = match number {
                        5 => AttributeValue::Long(field.i64()?),
                        _ => AttributeValue::String(ByteString(field.bytes()?)),
                    };
                    // Of duplicates, the last one is used.
                    program.attributes.retain(|fact| fact.name != *name);
                    program.attributes.push(Attribute { name: (*name).to_owned(), value });
                }
            }
        }
        Ok(whole)
    }
}

fn operator_set(message: &Message<'_>) -> Result<(String, i64)> {
    let (mut domain, mut version) = (String::new(), 0);
    for field in message.fields() {
        let field = field?;
        match field.number {
            1 => domain = field.string()?,
            2 => version = field.i64()?,
            _ => {}
        }
    }
    Ok((domain, version))
}

/// The handling of messages inside nodes that have their own encodings.
pub(super) trait Inside<'a> {
    /// Reads a graph; returns the index of its block.
    fn graph(&mut self, message: &Message<'a>) -> Result<i32>;
    /// Reads a `TensorProto`; returns the name and the tensor.
    fn tensor(&mut self, message: &Message<'a>) -> Result<(String, Tensor)>;
    /// Reads a `SparseTensorProto`; returns the name and the tensor.
    fn sparse(&mut self, message: &Message<'a>) -> Result<(String, Tensor)>;
    /// Returns the residual of a node with this encoding.
    fn residual(&self, message: &Message<'a>) -> Residual;
}

/// Blocks of a file.
struct Blocks<'s, 'e, 'a> {
    holes: &'s Arc<[Blob]>,
    files: &'s mut External<'e>,
    /// Graphs to be read, each with its enclosing block.
    open: VecDeque<(Message<'a>, i32)>,
    /// The index of the next block.
    next: i32,
    /// The index of the block that is being read.
    parent: i32,
}

impl<'a> Inside<'a> for Blocks<'_, '_, 'a> {
    fn graph(&mut self, message: &Message<'a>) -> Result<i32> {
        let number = self.next;
        self.next = number.checked_add(1).ok_or_else(|| message.error("fewer graphs", "more"))?;
        self.open.push_back((message.clone(), self.parent));
        Ok(number)
    }

    fn tensor(&mut self, message: &Message<'a>) -> Result<(String, Tensor)> {
        let fields = Fields::read(message)?;
        let tensor = fields.tensor(self.holes, self.files)?;
        Ok((fields.name, tensor))
    }

    fn sparse(&mut self, message: &Message<'a>) -> Result<(String, Tensor)> {
        Sparse::read(message)?.tensor(self.holes, self.files)
    }

    fn residual(&self, message: &Message<'a>) -> Residual {
        Residual::with_holes(OWNER, message.bytes.clone(), Arc::clone(self.holes))
    }
}

/// Reads a `GraphProto` except for its index.
pub(super) fn graph_block<'a>(
    message: &Message<'a>,
    inside: &mut impl Inside<'a>,
) -> Result<Block> {
    let [ops, initializers] = message.count([1, 5]);
    let (ops, initializers) = (message.list(ops)?, message.list(initializers)?);
    let mut block = Block { ops, initializers, ..Block::default() };
    let mut vars = Vars::default();
    for field in message.fields() {
        let field = field?;
        match field.number {
            1 => block.ops.push(numbered_op(&field, block.ops.len(), inside)?),
            2 => block.name = field.string()?,
            5 | 15 => {
                let message = field.message()?;
                message.charge::<Parameter>()?;
                let (name, tensor) = match field.number {
                    5 => inside.tensor(&message)?,
                    _ => inside.sparse(&message)?,
                };
                block.initializers.push(Parameter { name, tensor });
            }
            11..=13 => {
                let place = match field.number {
                    11 => Some(&mut block.inputs),
                    12 => Some(&mut block.outputs),
                    _ => None,
                };
                vars.add(&field, place, inside)?;
            }
            _ => {}
        }
    }
    block.vars = vars.vars;
    Ok(block)
}

/// The variables of a block, with unique names.
#[derive(Default)]
pub(super) struct Vars {
    vars: Vec<Var>,
    known: HashSet<String>,
}

impl Vars {
    /// Reads a `ValueInfoProto`.
    fn add<'a>(
        &mut self,
        field: &Field<'a>,
        place: Option<&mut Vec<String>>,
        inside: &impl Inside<'a>,
    ) -> Result<()> {
        let message = field.message()?;
        let at = format!("variable {}", self.vars.len());
        let var = var(&message, inside.residual(&message)).map_err(|error| error.inside(at))?;
        if let Some(names) = place {
            names.push(var.name.clone());
        }
        // An input may also be an output: the first declaration is used.
        if self.known.insert(var.name.clone()) {
            self.vars.push(var);
        }
        Ok(())
    }
}

/// Reads a `ValueInfoProto`.
pub(super) fn var(message: &Message<'_>, residual: Residual) -> Result<Var> {
    message.charge::<Var>()?;
    let mut var = Var { residual, ..Var::default() };
    for field in message.fields() {
        let field = field?;
        match field.number {
            1 => var.name = field.string()?,
            2 => var.value = types::value_type(&field.message()?)?,
            3 => {
                let value = AttributeValue::String(ByteString(field.bytes()?));
                var.attributes = vec![Attribute { name: Var::DOC_STRING.to_owned(), value }];
            }
            _ => {}
        }
    }
    Ok(var)
}

fn numbered_op<'a>(field: &Field<'a>, number: usize, inside: &mut impl Inside<'a>) -> Result<Op> {
    op(&field.message()?, inside).map_err(|error| error.inside(format!("operator {number}")))
}

/// Reads a `NodeProto`.
pub(super) fn op<'a>(message: &Message<'a>, inside: &mut impl Inside<'a>) -> Result<Op> {
    message.charge::<Op>()?;
    let [attributes] = message.count([5]);
    let mut op = Op { attributes: message.list(attributes)?, ..Op::default() };
    let (mut inputs, mut outputs) = (Vec::new(), Vec::new());
    for field in message.fields() {
        let field = field?;
        match field.number {
            1 => inputs.push(field.string()?),
            2 => outputs.push(field.string()?),
            3 => op.name = field.string()?,
            4 => op.kind = field.string()?,
            5 => {
                let place = format!("attribute {}", op.attributes.len());
                let read = attribute(&field.message()?, inside);
                op.attributes.push(read.map_err(|error| error.inside(place))?);
            }
            7 => op.domain = field.string()?,
            8 => op.overload = field.string()?,
            _ => {}
        }
    }
    op.inputs = vec![Operand { slot: String::new(), args: inputs }];
    op.outputs = vec![Operand { slot: String::new(), args: outputs }];
    op.residual = inside.residual(message);
    Ok(op)
}

/// Returns the message in a field, and counts the structure of type `T` that is built from it.
fn charged<'a, T>(field: &Field<'a>) -> Result<Message<'a>> {
    let message = field.message()?;
    message.charge::<T>()?;
    Ok(message)
}

/// Converts messages into a list of exact capacity.
fn each<'a, T>(
    messages: &[Message<'a>],
    mut read: impl FnMut(&Message<'a>) -> Result<T>,
) -> Result<Vec<T>> {
    let mut all = Vec::with_capacity(messages.len());
    for message in messages {
        all.push(read(message)?);
    }
    Ok(all)
}

/// All values that an attribute message can hold; its type determines which is used.
#[derive(Default)]
struct Values<'a> {
    f: Option<f32>,
    i: Option<i64>,
    s: Option<ByteString>,
    t: Option<Message<'a>>,
    g: Option<Message<'a>>,
    tp: Option<ValueType>,
    sparse: Option<Message<'a>>,
    floats: Vec<f32>,
    ints: Vec<i64>,
    strings: Vec<ByteString>,
    tensors: Vec<Message<'a>>,
    graphs: Vec<Message<'a>>,
    types: Vec<ValueType>,
    sparses: Vec<Message<'a>>,
}

/// Reads an `AttributeProto`.
pub(super) fn attribute<'a>(
    message: &Message<'a>,
    inside: &mut impl Inside<'a>,
) -> Result<Attribute> {
    message.charge::<Attribute>()?;
    let (mut name, mut reference, mut kind) = (String::new(), String::new(), None);
    let mut v = Values::default();
    for field in message.fields() {
        let field = field?;
        match field.number {
            1 => name = field.string()?,
            2 => v.f = Some(field.f32()?),
            3 => v.i = Some(field.i64()?),
            4 => v.s = Some(ByteString(field.bytes()?)),
            5 => v.t = Some(field.message()?),
            6 => v.g = Some(charged::<Block>(&field)?),
            7 => field.each(Field::f32, Packed::Fixed32, &mut v.floats)?,
            8 => field.each(Field::i64, Packed::Varint, &mut v.ints)?,
            9 => v.strings.push(ByteString(field.bytes()?)),
            10 => v.tensors.push(charged::<Tensor>(&field)?),
            11 => v.graphs.push(charged::<Block>(&field)?),
            14 => v.tp = Some(types::value_type(&field.message()?)?),
            15 => v.types.push(types::value_type(&field.message()?)?),
            20 => kind = Some(field.i32()?),
            21 => reference = field.string()?,
            22 => v.sparse = Some(field.message()?),
            23 => v.sparses.push(charged::<Tensor>(&field)?),
            _ => {}
        }
    }
    let place = |error: crate::error::Error| error.inside(format!("`{name}`"));
    // Before IR version 3 there was no type: the value determines it.
    let kinds = v.kinds();
    // Without a value either, it is undefined, 0.
    let kind = kind.filter(|kind| *kind != 0).or(kinds.first().copied()).unwrap_or(0);
    if !reference.is_empty() {
        let value = AttributeValue::Reference { name: reference, kind };
        return Ok(Attribute { name, value });
    }
    if kinds.iter().any(|found| *found != kind) {
        let name = |kind: &i32| attribute_kind(&AttributeValue::Unknown(*kind));
        let found = kinds.iter().map(name).collect::<Vec<_>>().join(" and ");
        return Err(place(message.error(format!("values of {} alone", name(&kind)), found)));
    }
    let value = v.value(kind, message, inside).map_err(place)?;
    Ok(Attribute { name, value })
}

impl<'a> Values<'a> {
    /// Returns the types of the values that are present.
    fn kinds(&self) -> Vec<i32> {
        let there = [
            (1, self.f.is_some()),
            (2, self.i.is_some()),
            (3, self.s.is_some()),
            (4, self.t.is_some()),
            (5, self.g.is_some()),
            (13, self.tp.is_some()),
            (11, self.sparse.is_some()),
            (6, !self.floats.is_empty()),
            (7, !self.ints.is_empty()),
            (8, !self.strings.is_empty()),
            (9, !self.tensors.is_empty()),
            (10, !self.graphs.is_empty()),
            (14, !self.types.is_empty()),
            (12, !self.sparses.is_empty()),
        ];
        there.into_iter().filter(|(_, there)| *there).map(|(kind, _)| kind).collect()
    }

    fn value(
        self,
        kind: i32,
        message: &Message<'a>,
        inside: &mut impl Inside<'a>,
    ) -> Result<AttributeValue> {
        use AttributeValue as A;
        let missing = |what: &str| message.missing(&format!("{what} in an attribute of that type"));
        let dense = |inside: &mut _, message: &Message<'a>| -> Result<Tensor> {
            Ok(Inside::tensor(inside, message)?.1)
        };
        let sparse = |inside: &mut _, message: &Message<'a>| -> Result<Tensor> {
            Ok(Inside::sparse(inside, message)?.1)
        };
        Ok(match kind {
            1 => A::Float(self.f.unwrap_or_default()),
            2 => A::Long(self.i.unwrap_or_default()),
            3 => A::String(self.s.unwrap_or_default()),
            4 => {
                let tensor = self.t.ok_or_else(|| missing("a tensor"))?;
                A::Tensor(Box::new(dense(inside, &tensor)?))
            }
            5 => A::Block(inside.graph(&self.g.ok_or_else(|| missing("a graph"))?)?),
            6 => A::Floats(self.floats),
            7 => A::Longs(self.ints),
            8 => A::Strings(self.strings),
            9 => A::Tensors(each(&self.tensors, |message| dense(inside, message))?),
            10 => A::Blocks(each(&self.graphs, |message| inside.graph(message))?),
            11 => {
                let tensor = self.sparse.ok_or_else(|| missing("a sparse tensor"))?;
                A::SparseTensor(Box::new(sparse(inside, &tensor)?))
            }
            12 => A::SparseTensors(each(&self.sparses, |message| sparse(inside, message))?),
            13 => A::Type(Box::new(self.tp.unwrap_or_default())),
            14 => A::Types(self.types),
            code => A::Unknown(code),
        })
    }
}

/// Reads the signature of a `FunctionProto`, without the defaults of attributes.
pub(super) fn signature(message: &Message<'_>) -> Result<Function> {
    message.charge::<Function>()?;
    let mut function = Function::default();
    for field in message.fields() {
        let field = field?;
        match field.number {
            1 => function.name = field.string()?,
            6 => function.required.push(field.string()?),
            9 => function.operator_versions.push(operator_set(&field.message()?)?),
            10 => function.domain = field.string()?,
            13 => function.overload = field.string()?,
            _ => {}
        }
    }
    Ok(function)
}

/// Reads the optional attributes of a function.
pub(super) fn defaults<'a>(
    message: &Message<'a>,
    inside: &mut impl Inside<'a>,
) -> Result<Vec<Attribute>> {
    let mut defaults = Vec::new();
    for field in message.fields() {
        let field = field?;
        if field.number == 11 {
            defaults.push(attribute(&field.message()?, inside)?);
        }
    }
    Ok(defaults)
}

/// Reads the block of a `FunctionProto` except for its index.
pub(super) fn function_block<'a>(
    message: &Message<'a>,
    inside: &mut impl Inside<'a>,
) -> Result<Block> {
    message.charge::<Block>()?;
    let mut block = Block::default();
    let mut vars = Vars::default();
    for field in message.fields() {
        let field = field?;
        match field.number {
            4 => block.inputs.push(field.string()?),
            5 => block.outputs.push(field.string()?),
            7 => block.ops.push(numbered_op(&field, block.ops.len(), inside)?),
            12 => vars.add(&field, None, inside)?,
            _ => {}
        }
    }
    block.vars = vars.vars;
    Ok(block)
}
