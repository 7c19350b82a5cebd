//! The contents of a pickle: tensors and plain values, each with its path.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, HashSet};

use lodstone_model::{Indices, Kind as TensorKind, Limits, Parameter, Tensor, some};
use lodstone_store::Blob;

use super::form::{Form, Kind, Layout, Scheme, Strided, is_index};
use super::json::Writer;
use super::value::{Instance, Module, Objects, Value, is_machinery};
use super::{Element, Storages};
use crate::encoding::pickle::json::{Budget, again, quoted};
use crate::encoding::pickle::{Decoded, Id, Node, survey_by};
use crate::error::{Error, Result};
use crate::lengths::length;
use crate::torch::METADATA;
use crate::torch::view::{MAX_RANK, View};

/// The contents of a pickle.
#[derive(Debug, Default)]
pub(crate) struct Contents {
    /// The tensors, in the order of the pickle.
    pub(crate) parameters: Vec<Parameter>,
    /// Plain values as JSON, by path.
    pub(crate) metadata: BTreeMap<String, String>,
    /// What the user should know.
    pub(crate) warnings: Vec<String>,
}

/// The number of bytes that the tensors of a pickle may have for each byte of its storages, and in addition: strides
/// of 0 repeat elements.
const MAX_EXPANSION: u64 = 1024;
const MIN_BYTES: u64 = 64 << 20;

/// Collects the contents of a pickle.
///
/// # Errors
/// Fails if a tensor is damaged or exceeds its storage, if values are nested too deeply, or shared so often that their
/// expansion would be many times the file.
pub(crate) fn contents(
    objects: &Objects,
    storages: &dyn Storages,
    limits: &Limits,
) -> Result<Contents> {
    let mut cycles = HashSet::new();
    let holds = survey_by(
        objects.tree(),
        limits,
        |id| inspect(objects, id),
        |value, child| {
            cycles.insert((value, child));
            Ok(())
        },
    )?;
    let writer = Writer { objects, budget: Budget::of(&objects.shapes), cycles };
    let mut walk = Walk {
        objects,
        tensors: Tensors { objects, storages, known: RefCell::default() },
        holds,
        writer,
        limits,
        contents: Contents::default(),
        path: String::new(),
        decoded: Decoded::default(),
        bytes: 0,
        unsaved: Vec::new(),
        clashes: Vec::new(),
    };
    walk.value(objects.tree().root())?;
    walk.metadata()?;
    let Walk { mut contents, unsaved, clashes, .. } = walk;
    if !unsaved.is_empty() {
        let what = "buffers that are not part of the state of their modules";
        contents.warnings.push(format!("{what}: {}", some(&unsaved)));
    }
    if !clashes.is_empty() {
        let what = "values with the same path, of which one is shown";
        contents.warnings.push(format!("{what}: {}", some(&clashes)));
    }
    Ok(contents)
}

/// Returns whether a value is a tensor, and its children.
fn inspect(objects: &Objects, id: Id) -> Result<(bool, Vec<Id>)> {
    let pairs = |pairs: &[(Id, Id)]| pairs.iter().flat_map(|(key, value)| [*key, *value]).collect();
    Ok(match objects.value(id)? {
        Value::Array(_) => (true, Vec::new()),
        Value::Tensor(form) => (true, form.state.into_iter().collect()),
        Value::List(items) => (false, items.into_owned()),
        Value::Dict(items) => (false, pairs(&items)),
        Value::Module(module) => {
            (false, pairs(&[module.members.as_slice(), &module.attributes].concat()))
        }
        Value::Instance(instance) => {
            let mut children = pairs(&instance.attributes);
            children.extend(instance.pairs.iter().flat_map(|(key, value)| [*key, *value]));
            children.extend(instance.arguments.iter().chain(&instance.state).chain(instance.items));
            (false, children)
        }
        Value::Plain(_) | Value::Word(_) | Value::Import(_) => (false, Vec::new()),
    })
}

struct Walk<'a> {
    objects: &'a Objects,
    tensors: Tensors<'a>,
    /// Whether each value is or contains a tensor.
    holds: HashMap<Id, bool>,
    writer: Writer<'a>,
    limits: &'a Limits,
    contents: Contents,
    path: String,
    decoded: Decoded,
    /// The bytes of all tensors.
    bytes: u64,
    unsaved: Vec<String>,
    clashes: Vec<String>,
}

impl Walk<'_> {
    fn value(&mut self, id: Id) -> Result<()> {
        self.writer.say(id, self.path.len() as u64 + 64)?;
        let objects = self.objects;
        if !self.holds.get(&id).copied().unwrap_or_default() {
            let value = self.writer.json(id)?;
            self.note("", value);
            return Ok(());
        }
        match objects.value(id)? {
            Value::Array(array) => {
                let data = self.decoded.elements(&objects.shapes, &array)?;
                self.found(id, "", Tensor::dense(array.dtype, array.shape, data))
            }
            Value::Tensor(form) => self.form(id, form),
            Value::List(items) => self.items(id, &items),
            Value::Dict(pairs) => self.pairs(id, &pairs),
            Value::Module(module) => self.module(id, module),
            Value::Instance(instance) => self.instance(id, instance),
            Value::Plain(_) | Value::Word(_) | Value::Import(_) => Ok(()),
        }
    }

    /// Adds the metadata that our writer stores as an attribute of the dict.
    fn metadata(&mut self) -> Result<()> {
        let objects = self.objects;
        let tree = objects.tree();
        let Node::Object(object) = tree.node(tree.root()) else { return Ok(()) };
        let [state] = object.state.as_slice() else { return Ok(()) };
        let Node::Dict(attributes) = tree.node(*state) else { return Ok(()) };
        let is_ours = |key: Id| tree.short(key).is_some_and(|key| key == METADATA);
        let Some((_, texts)) = attributes.iter().find(|(key, _)| is_ours(*key)) else {
            return Ok(());
        };
        let Node::Dict(texts) = tree.node(*texts) else { return Ok(()) };
        for (key, value) in texts {
            let key = self.writer.key(*state, *key)?;
            let Node::Text(span, encoding) = tree.node(*value) else { continue };
            self.writer.say(*value, span.len)?;
            let value = tree.text(*value, *span, *encoding)?;
            self.contents.metadata.insert(key, value);
        }
        Ok(())
    }

    fn items(&mut self, parent: Id, items: &[Id]) -> Result<()> {
        items
            .iter()
            .enumerate()
            .try_for_each(|(number, item)| self.inside(parent, &number.to_string(), *item))
    }

    fn pairs(&mut self, parent: Id, pairs: &[(Id, Id)]) -> Result<()> {
        let mut keys = HashSet::new();
        for (id, value) in pairs {
            let key = self.writer.key(parent, *id)?;
            self.inside(parent, &key, *value)?;
            let is_text = matches!(self.objects.tree().node(*id), Node::Text(..));
            if let Some((_, key)) = keys.replace((is_text, key)) {
                return Err(again(&self.objects.shapes, *id, &key));
            }
        }
        Ok(())
    }

    fn module(&mut self, id: Id, module: Module) -> Result<()> {
        self.note(".__class__", quoted(&module.class));
        let mut unsaved = HashSet::new();
        for name in &module.unsaved {
            unsaved.insert(self.writer.key(id, *name)?);
        }
        let mut members = Vec::new();
        for (key, value) in module.members {
            let name = self.writer.key(id, key)?;
            if unsaved.contains(&name) {
                self.unsaved.push(format!("`{}`", joined(&self.path, &name)));
            } else {
                members.push((key, value));
            }
        }
        self.pairs(id, &members)?;
        self.pairs(id, &module.attributes)
    }

    fn instance(&mut self, id: Id, instance: Instance<'_>) -> Result<()> {
        self.note(".__class__", quoted(&instance.class));
        self.items(id, &instance.arguments)?;
        let mut attributes = Vec::new();
        for pair in &instance.attributes {
            let name = self.objects.tree().short(pair.0).unwrap_or_default();
            if !is_machinery(&name) {
                attributes.push(*pair);
            }
        }
        self.pairs(id, &attributes)?;
        self.items(id, &instance.state)?;
        self.items(id, instance.items)?;
        self.pairs(id, instance.pairs)
    }

    /// Descends into a part of a value.
    fn inside(&mut self, parent: Id, key: &str, id: Id) -> Result<()> {
        let before = self.path.len();
        self.path = joined(&self.path, key);
        match self.writer.is_cycle(parent, id) {
            true => {
                let what = self.writer.cycle(id)?;
                self.note("", what);
            }
            false => self.value(id)?,
        }
        self.path.truncate(before);
        Ok(())
    }

    fn form(&mut self, id: Id, form: Form) -> Result<()> {
        let parts = self.tensors.parts(id, &form.kind, self.limits);
        let parts = parts.map_err(|error| match self.path.is_empty() {
            true => error,
            false => error.inside(format!("tensor `{}`", self.path)),
        })?;
        for (name, part) in parts {
            match part {
                Part::Tensor(tensor) => self.found(id, &name, *tensor)?,
                Part::Note(value) => self.note(&name, value),
            }
        }
        if let Some(class) = &form.class {
            self.note("@class", quoted(class));
        }
        match form.state {
            Some(state) if !self.writer.is_cycle(id, state) => {
                self.state(state, form.class.as_deref())
            }
            _ => Ok(()),
        }
    }

    /// Adds the attributes of a tensor: a dict, dicts of attributes and slots, or what its class lists, such as local shards.
    fn state(&mut self, id: Id, class: Option<&str>) -> Result<()> {
        match self.objects.value(id)? {
            Value::Dict(pairs) => self.pairs(id, &pairs),
            Value::List(parts) => {
                let is_sharded = class.is_some_and(|class| class.ends_with(".ShardedTensor"));
                let names = if is_sharded { SHARDED } else { &[] };
                for (number, part) in parts.iter().enumerate() {
                    if self.writer.is_cycle(id, *part) {
                        continue;
                    }
                    let name = names.get(number).map(|name| (*name).to_owned());
                    match (self.objects.value(*part)?, name) {
                        (Value::Dict(pairs), None) => self.pairs(*part, &pairs)?,
                        (_, Some(name)) => self.inside(id, &name, *part)?,
                        (Value::List(_) | Value::Tensor(_) | Value::Instance(_), None) => {
                            self.inside(id, &number.to_string(), *part)?;
                        }
                        _ => {}
                    }
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn found(&mut self, id: Id, part: &str, tensor: Tensor) -> Result<()> {
        let tree = self.objects.tree();
        if self.contents.parameters.len() >= self.limits.tensors {
            let limit = self.limits.at_most_tensors("tensors");
            return Err(tree.over_limit(id, limit));
        }
        self.bytes = self.bytes.saturating_add(tensor.nbytes());
        let stored: u64 = tree.blob().len().max(self.tensors.bytes());
        if self.bytes > stored.saturating_mul(MAX_EXPANSION).saturating_add(MIN_BYTES) {
            let expected = "tensors that are not shared excessively";
            return Err(tree.error(id, expected, "many times the stored bytes"));
        }
        let name = format!("{}{part}", self.path);
        let name = name.strip_prefix('.').map(str::to_owned).unwrap_or(name);
        self.contents.parameters.push(Parameter { name, tensor });
        Ok(())
    }

    fn note(&mut self, part: &str, value: String) {
        let name = format!("{}{part}", self.path);
        let name = name.strip_prefix('.').map(str::to_owned).unwrap_or(name);
        if let Some(other) = self.contents.metadata.get(&name)
            && *other != value
        {
            self.clashes.push(format!("`{name}`"));
        }
        self.contents.metadata.insert(name, value);
    }
}

/// The attributes that the state of a `ShardedTensor` lists.
const SHARDED: &[&str] =
    &["_local_shards", "_metadata", "_process_group", "_sharding_spec", "_init_rrefs"];

fn joined(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

/// A part of a tensor, whose name is appended to the path.
enum Part {
    Tensor(Box<Tensor>),
    Note(String),
}

impl Part {
    fn tensor(tensor: Tensor) -> Self {
        Self::Tensor(Box::new(tensor))
    }
}

/// The tensors of a pickle, and their storages.
struct Tensors<'a> {
    objects: &'a Objects,
    storages: &'a dyn Storages,
    /// Storages by key: each is opened once.
    known: RefCell<HashMap<String, (Blob, &'static str)>>,
}

impl Tensors<'_> {
    /// Returns the bytes of all storages that were opened.
    fn bytes(&self) -> u64 {
        self.known.borrow().values().map(|(blob, _)| blob.len()).fold(0, u64::saturating_add)
    }

    fn wrong(&self, id: Id, expected: impl Into<String>) -> Error {
        self.objects.tree().error(id, expected, format!("`{}`", self.objects.tree().describe(id)))
    }

    /// Returns the tensors and values that a tensor consists of.
    fn parts(&self, id: Id, kind: &Kind, limits: &Limits) -> Result<Vec<(String, Part)>> {
        let one = |tensor| Ok(vec![(String::new(), Part::tensor(tensor))]);
        match kind {
            Kind::View(strided) => {
                let view = self.view(id, strided)?;
                let mut parts = vec![(String::new(), Part::tensor(self.tensor(id, &view)?))];
                if !view.element.is_exact {
                    parts.push(("@dtype".to_owned(), Part::Note(quoted(view.element.name))));
                }
                Ok(parts)
            }
            Kind::Storage(storage) => {
                let (element, storage) = self.storage(*storage)?;
                let count = storage.len() / element.size;
                let view = View {
                    is_big: self.storages.is_big(),
                    ..View::contiguous(element, vec![count], storage)
                };
                one(self.tensor(id, &view)?)
            }
            Kind::Numbered(_) => one(self.part(id)?),
            Kind::Quantized(strided, scheme) => self.quantized(id, strided, scheme),
            Kind::Coo { indices, values, shape } => {
                let (indices, values) = (self.part(*indices)?, self.part(*values)?);
                self.coo(id, indices, values, shape)
            }
            Kind::Compressed { layout, offsets, indices, values, shape } => {
                let parts = [self.part(*offsets)?, self.part(*indices)?, self.part(*values)?];
                self.compressed(id, *layout, parts, shape)
            }
            Kind::Meta { element, shape } => one(Tensor {
                kind: TensorKind::Absent,
                ..Tensor::dense(element.dtype, shape.clone(), Blob::default())
            }),
            Kind::Nested { buffer, sizes, strides, offsets } => {
                self.nested(id, *buffer, [*sizes, *strides, *offsets], limits)
            }
        }
    }

    /// Returns a part of another tensor, which is a view.
    fn part(&self, id: Id) -> Result<Tensor> {
        let view = self.view_of(id)?;
        self.tensor(id, &view)
    }

    fn view_of(&self, id: Id) -> Result<View> {
        let id = self.objects.unwrapped(id);
        match self.objects.value(id)? {
            Value::Tensor(Form { kind: Kind::View(strided), .. }) => self.view(id, &strided),
            Value::Tensor(Form { kind: Kind::Numbered(number), .. }) => {
                let tree = self.objects.tree();
                let key = match tree.node(number) {
                    Node::Int(number) => number.to_string(),
                    _ => tree.short(number).unwrap_or_default(),
                };
                self.storages.numbered(&key).map_err(|expected| self.wrong(id, expected))
            }
            _ => Err(self.wrong(id, "a dense tensor as a part of another")),
        }
    }

    fn tensor(&self, id: Id, view: &View) -> Result<Tensor> {
        view.tensor().map_err(|expected| {
            self.objects.tree().error(id, expected, self.objects.tree().describe(id))
        })
    }

    fn view(&self, id: Id, strided: &Strided) -> Result<View> {
        let (of_storage, storage) = self.storage(strided.storage)?;
        let element = strided.element.unwrap_or(of_storage);
        // A type without a storage class has a storage of bytes.
        if element != of_storage && of_storage.size != 1 {
            return Err(self.wrong(id, format!("a storage of bytes for {}", element.name)));
        }
        Ok(View {
            element,
            shape: strided.shape.clone(),
            strides: strided.strides.clone(),
            offset: strided.offset,
            storage,
            is_big: self.storages.is_big(),
            sign: strided.sign,
        })
    }

    /// Returns the storage of a persistent id, and the type of its elements.
    fn storage(&self, id: Id) -> Result<(&'static Element, Blob)> {
        let (objects, tree) = (self.objects, self.objects.tree());
        let odd = || self.wrong(id, "`('storage', class, key, location, number of elements)`");
        let Node::Persistent(inner) = tree.node(id) else { return Err(odd()) };
        let Node::Tuple(items) = tree.node(*inner) else { return Err(odd()) };
        let ([kind, class, key, _, count] | [kind, class, key, _, count, _]) = items.as_slice()
        else {
            return Err(odd());
        };
        if tree.short(*kind).as_deref() != Some("storage") {
            return Err(odd());
        }
        let (module, name) = objects.import(*class).ok_or_else(odd)?;
        let Some(element) = Element::of_storage(&module, &name) else {
            return Err(self.wrong(*class, "a class of storages"));
        };
        let key = tree.short(*key).ok_or_else(odd)?;
        let count = objects.number(*count).ok_or_else(odd)?;
        let view = items.get(5).filter(|view| !matches!(tree.node(**view), Node::None));
        let cached = self.known.borrow().get(&key).cloned();
        let storage = match cached {
            Some((storage, class)) if class == element.name => storage,
            Some((_, class)) => {
                let expected = format!("the storage `{key}` as one of {class}, as before");
                return Err(self.wrong(id, expected));
            }
            None => {
                let opened = self.storages.storage(&key, element, count);
                let opened = opened.map_err(|expected| tree.error(id, expected, tree.describe(id)));
                let storage = opened?;
                self.known.borrow_mut().insert(key, (storage.clone(), element.name));
                storage
            }
        };
        let Some(view) = view else { return Ok((element, storage)) };
        // A view of a storage, as before 0.4: key, offset, number of elements.
        let Some([_, offset, count]) = objects.items(*view) else { return Err(odd()) };
        let bytes = |id: Id| objects.number(id)?.checked_mul(element.size);
        let (offset, len) = bytes(*offset).zip(bytes(*count)).ok_or_else(odd)?;
        Ok((element, storage.slice(offset, len)?))
    }

    fn quantized(&self, id: Id, strided: &Strided, scheme: &Scheme) -> Result<Vec<(String, Part)>> {
        let view = self.view(id, strided)?;
        let dtype = ("dtype", quoted(view.element.name));
        let mut parts = vec![(String::new(), Part::tensor(self.tensor(id, &view)?))];
        let known = match scheme {
            Scheme::Tensor { scale, zero_point } => {
                let scale = serde_json::Number::from_f64(*scale)
                    .map_or_else(|| quoted(&scale.to_string()), |scale| scale.to_string());
                vec![dtype, ("scale", scale), ("zero_point", zero_point.to_string())]
            }
            Scheme::Channel { scales, zero_points, axis } => {
                let channels = usize::try_from(*axis).ok().and_then(|axis| view.shape.get(axis));
                let Some(channels) = channels else {
                    let expected = format!("an axis of {} dims, not {axis}", view.shape.len());
                    return Err(self.wrong(id, expected));
                };
                for (name, part) in [("@scales", *scales), ("@zero_points", *zero_points)] {
                    let part = self.part(part)?;
                    if part.shape != [*channels] {
                        let expected = format!("{channels} numbers for axis {axis}");
                        return Err(self.wrong(id, expected));
                    }
                    parts.push((name.to_owned(), Part::tensor(part)));
                }
                vec![dtype, ("axis", axis.to_string())]
            }
        };
        let known: Vec<_> =
            known.iter().map(|(name, value)| format!("{}:{value}", quoted(name))).collect();
        let known = format!("{{{}}}", known.join(","));
        parts.push(("@quantization".to_owned(), Part::Note(known)));
        Ok(parts)
    }

    fn coo(
        &self,
        id: Id,
        indices: Tensor,
        values: Tensor,
        shape: &[u64],
    ) -> Result<Vec<(String, Part)>> {
        let odd = |expected: &str| self.wrong(id, expected);
        let [rank, count] = indices.shape.as_slice() else {
            return Err(odd("indices of two dims"));
        };
        let (rank, count) = (*rank, *count);
        let dense = usize::try_from(rank).ok().and_then(|rank| shape.get(rank..));
        let Some(dense) = dense.filter(|_| shape.len() <= MAX_RANK && rank > 0) else {
            return Err(odd("an index for each sparse dim"));
        };
        if values.shape.split_first() != Some((&count, dense)) || !is_index(indices.dtype) {
            return Err(odd("as many values as indices"));
        }
        let sparse = shape.get(..shape.len() - dense.len()).unwrap_or_default();
        check_rows(&indices, sparse).map_err(|expected| odd(&expected))?;
        if !dense.is_empty() {
            // Some dims are dense: the model has no such tensors.
            return Ok(in_parts("sparse_coo", indices, values, shape));
        }
        let stored_indices = indices.clone();
        // Indices by element, which are stored by dim.
        let item = if indices.dtype == lodstone_model::DType::Int32 { 4 } else { 8 };
        let (dims, order) = ([rank, count], [1, 0]);
        let data = match lodstone_store::Permuted::new(indices.data.clone(), item, &dims, &order) {
            Some(_) if rank == 1 || count == 0 => indices.data,
            Some(permuted) => Blob::derived(std::sync::Arc::new(permuted)),
            None => return Err(odd("indices of the size that their dims imply")),
        };
        let kind =
            TensorKind::Coo { indices: Indices { dtype: indices.dtype, data }, linear: false };
        let data = values.data.clone();
        let tensor = Tensor { kind, ..Tensor::dense(values.dtype, shape.to_vec(), data) };
        if tensor.broken_indices()?.is_some() {
            // Uncoalesced indices may repeat, in any order.
            return Ok(in_parts("sparse_coo", stored_indices, values, shape));
        }
        Ok(vec![(String::new(), Part::tensor(tensor))])
    }

    fn compressed(
        &self,
        id: Id,
        layout: Layout,
        [offsets, indices, values]: [Tensor; 3],
        shape: &[u64],
    ) -> Result<Vec<(String, Part)>> {
        let is_fine = is_index(offsets.dtype) && is_index(indices.dtype);
        if !is_fine || shape.len() > MAX_RANK {
            return Err(self.wrong(id, "offsets and indices as integers"));
        }
        let is_matrix = layout == Layout::Csr && shape.len() == 2 && values.shape.len() == 1;
        if is_matrix && offsets.dtype == indices.dtype {
            let rows = shape.first().and_then(|rows| rows.checked_add(1));
            if offsets.shape.first() != rows.as_ref() || indices.shape != values.shape {
                return Err(self.wrong(id, "an offset for each row, and an index for each value"));
            }
            let kind = TensorKind::Csr {
                indptr: Box::new(Indices { dtype: offsets.dtype, data: offsets.data }),
                indices: Indices { dtype: indices.dtype, data: indices.data },
            };
            let tensor =
                Tensor { kind, ..Tensor::dense(values.dtype, shape.to_vec(), values.data) };
            if let Some(broken) = tensor.broken_indices()? {
                return Err(self.wrong(id, format!("valid indices, not {broken}")));
            }
            return Ok(vec![(String::new(), Part::tensor(tensor))]);
        }
        let mut parts = in_parts(layout.name(), indices, values, shape);
        parts.push(("@offsets".to_owned(), Part::tensor(offsets)));
        Ok(parts)
    }

    /// Returns the parts of a nested tensor, each a view of its buffer.
    fn nested(
        &self,
        id: Id,
        buffer: Id,
        [sizes, strides, offsets]: [Id; 3],
        limits: &Limits,
    ) -> Result<Vec<(String, Part)>> {
        let odd = |expected: &str| self.wrong(id, expected);
        let buffer = self.view_of(buffer)?;
        let rows = |id: Id| -> Result<Vec<Vec<u64>>> {
            let table = self.part(id)?;
            let (count, width) = match table.shape.as_slice() {
                [count, width] => (*count, *width),
                [count] => (*count, 1),
                _ => return Err(odd("tables of dims")),
            };
            let max = length(count)?;
            if max > limits.tensors || width > MAX_RANK as u64 || table.dtype.bits() != Some(64) {
                return Err(odd("tables of dims as 64-bit integers"));
            }
            let bytes = table.data.read()?;
            let numbers = bytes.as_chunks::<8>().0.iter().map(|bytes| {
                let number = u64::try_from(i64::from_le_bytes(*bytes));
                number.map_err(|_| odd("tables of dims of 0 or more"))
            });
            let numbers = numbers.collect::<Result<Vec<u64>>>()?;
            match usize::try_from(width) {
                Ok(width) if width > 0 => {
                    Ok(numbers.chunks_exact(width).map(<[u64]>::to_vec).collect())
                }
                _ => Ok(vec![Vec::new(); max]),
            }
        };
        let (sizes, strides) = (rows(sizes)?, rows(strides)?);
        let offsets = match self.objects.numbers(offsets) {
            Some(offsets) => offsets,
            None => rows(offsets)?.into_iter().flatten().collect(),
        };
        if sizes.len() != strides.len() || sizes.len() != offsets.len() {
            return Err(odd("dims, strides and an offset for each part"));
        }
        let mut parts = Vec::new();
        for (number, ((shape, strides), offset)) in
            sizes.into_iter().zip(strides).zip(offsets).enumerate()
        {
            let offset = buffer.offset.checked_add(offset);
            let offset = offset.ok_or_else(|| odd("an offset inside the buffer"))?;
            let view = View { shape, strides, offset, ..buffer.clone() };
            parts.push((format!(".{number}"), Part::tensor(self.tensor(id, &view)?)));
        }
        Ok(parts)
    }
}

/// Returns the parts of a sparse tensor that the model has no kind for.
fn in_parts(layout: &str, indices: Tensor, values: Tensor, shape: &[u64]) -> Vec<(String, Part)> {
    let dims: Vec<_> = shape.iter().map(u64::to_string).collect();
    vec![
        ("@indices".to_owned(), Part::tensor(indices)),
        ("@values".to_owned(), Part::tensor(values)),
        ("@shape".to_owned(), Part::Note(format!("[{}]", dims.join(",")))),
        ("@layout".to_owned(), Part::Note(quoted(layout))),
    ]
}

/// Fails unless every index is inside its dim; `indices` has a row for each dim.
fn check_rows(indices: &Tensor, dims: &[u64]) -> Result<(), String> {
    let [_, count] = *indices.shape.as_slice() else {
        return Err("a row of indices for each dim".to_owned());
    };
    let all = Indices { dtype: indices.dtype, data: indices.data.clone() };
    let (mut number, mut outside) = (0_u64, None);
    all.for_each(|index| {
        let row = number.checked_div(count).and_then(|row| usize::try_from(row).ok());
        let dim = row.and_then(|row| dims.get(row)).copied();
        let is_inside = dim.zip(u64::try_from(index).ok()).is_some_and(|(dim, index)| index < dim);
        if !is_inside && outside.is_none() {
            outside = Some((index, dim));
        }
        number += 1;
    })
    .map_err(|error| error.to_string())?;
    match outside {
        Some((index, Some(dim))) => Err(format!("indices below {dim}, not {index}")),
        Some((_, None)) => Err(format!("indices of {} dims", dims.len())),
        None => Ok(()),
    }
}
