//! Rewrites the tree of a pickle with other tensors.

use lodstone_model::Model;
use lodstone_store::{Blob, Output};
use serde_json::Value as Json;

use super::contents::{Contents, Cut, Name, tensor};
use super::write::{Arrays, Plan};
use super::{CUT, TABLE};
use crate::encoding::pickle::json::{Budget, key};
use crate::encoding::pickle::write as put;
use crate::encoding::pickle::{Builds, Data, Id, Node, Shapes, Value};
use crate::error::{Error, Result};

/// Visits the values in the order in which they were read. Their depth was bounded
/// then.
pub(super) struct Writer<'a> {
    out: &'a mut Output,
    model: &'a Model,
    shapes: &'a Shapes,
    contents: &'a Contents,
    plan: &'a Plan,
    arrays: Arrays,
    /// The index of the next tensor.
    next: usize,
    path: String,
    budget: Budget,
}

impl<'a> Writer<'a> {
    pub(super) fn new(
        out: &'a mut Output,
        model: &'a Model,
        shapes: &'a Shapes,
        contents: &'a Contents,
        plan: &'a Plan,
    ) -> Self {
        let (arrays, path, budget) = (Arrays::default(), String::new(), Budget::of(shapes));
        Self { out, model, shapes, contents, plan, arrays, next: 0, path, budget }
    }

    /// Writes the whole pickle.
    pub(super) fn root(&mut self) -> Result<()> {
        let root = self.shapes.tree.root();
        match self.shapes.tree.node(root) {
            Node::Dict(pairs) => {
                put::op(self.out, put::EMPTY_DICT)?;
                put::op(self.out, put::MARK)?;
                self.pairs(pairs, true)?;
                self.additions()?;
                Ok(put::op(self.out, put::SETITEMS)?)
            }
            _ => self.value(root),
        }
    }

    /// Writes new parameters and metadata.
    fn additions(&mut self) -> Result<()> {
        for index in &self.plan.moved {
            if let Some(parameter) = self.model.parameters.get(*index) {
                put::text(self.out, &parameter.name)?;
                self.arrays.put(self.out, &parameter.tensor)?;
            }
        }
        for (path, value) in &self.model.metadata {
            if !self.contents.metadata.contains_key(path) {
                put::text(self.out, path)?;
                self.json(value)?;
            }
        }
        Ok(())
    }

    /// Writes the remaining items of a dict.
    fn pairs(&mut self, pairs: &[(Id, Id)], outermost: bool) -> Result<()> {
        for (id, value) in pairs {
            let name = key(self.shapes, *id, &mut self.budget)?;
            let cut = self.contents.walk.cut.get(&name).filter(|_| outermost);
            match cut {
                Some(Cut::First { name, .. }) => {
                    // In one piece, because only protocols before 4 required splitting.
                    if let Some((index, renamed)) = self.take() {
                        put::text(self.out, renamed.as_ref().unwrap_or(name))?;
                        self.array(index)?;
                    }
                    continue;
                }
                Some(Cut::Later) => continue,
                None if outermost && name == CUT => continue,
                None => {}
            }
            let before = self.path.len();
            if before > 0 {
                self.path.push('.');
            }
            self.path.push_str(&name);
            if !self.is_gone(*value)? {
                match self.plan.now.get(self.next).cloned().flatten() {
                    Some((_, Some(renamed))) if self.is_tensor(*value)? => {
                        put::text(self.out, &renamed)?;
                    }
                    _ => self.plain(*id)?,
                }
                match self.shapes.tree.node(*value) {
                    Node::Dict(table) if outermost && name == TABLE && self.is_kept() => {
                        self.table(table)?;
                    }
                    _ => self.value(*value)?,
                }
            }
            self.path.truncate(before);
        }
        Ok(())
    }

    fn is_tensor(&self, id: Id) -> Result<bool> {
        Ok(tensor(self.shapes, id)?.is_some())
    }

    /// Returns whether the metadata at the path is unchanged.
    fn is_kept(&self) -> bool {
        self.model.metadata.get(&self.path) == self.contents.metadata.get(&self.path)
    }

    /// Returns whether a value was removed, and skips its tensor if so.
    fn is_gone(&mut self, id: Id) -> Result<bool> {
        if self.is_tensor(id)? {
            let gone = self.plan.now.get(self.next).is_none_or(Option::is_none);
            self.next += usize::from(gone);
            return Ok(gone);
        }
        Ok(!self.contents.walk.holds(id) && !self.model.metadata.contains_key(&self.path))
    }

    /// Returns the next tensor.
    fn take(&mut self) -> Option<(usize, Option<String>)> {
        let now = self.plan.now.get(self.next).cloned().flatten();
        self.next += 1;
        now
    }

    fn array(&mut self, index: usize) -> Result<()> {
        match self.model.parameters.get(index) {
            Some(parameter) => self.arrays.put(self.out, &parameter.tensor).map(drop),
            None => Ok(put::op(self.out, put::NONE)?),
        }
    }

    /// Writes the names of the remaining parameters.
    fn table(&mut self, pairs: &[(Id, Id)]) -> Result<()> {
        put::op(self.out, put::EMPTY_DICT)?;
        put::op(self.out, put::MARK)?;
        for (id, value) in pairs {
            let name = key(self.shapes, *id, &mut self.budget)?;
            match self.plan.renamed.get(&name) {
                Some(None) => continue,
                Some(Some(renamed)) => put::text(self.out, renamed)?,
                None => self.plain(*id)?,
            }
            self.plain(*value)?;
        }
        Ok(put::op(self.out, put::SETITEMS)?)
    }

    fn value(&mut self, id: Id) -> Result<()> {
        if let Some((_, name)) = tensor(self.shapes, id)? {
            return self.tensor(id, name);
        }
        if !self.contents.walk.holds(id) {
            let now = self.model.metadata.get(&self.path);
            return match now.filter(|_| !self.is_kept()) {
                Some(now) => self.json(now),
                None => self.plain(id),
            };
        }
        match self.shapes.tree.node(id) {
            Node::List(items) => {
                put::op(self.out, put::EMPTY_LIST)?;
                self.items(items, put::APPENDS)
            }
            Node::Tuple(items) => self.items(items, put::TUPLE),
            Node::Set(items) | Node::FrozenSet(items) => {
                put::op(self.out, put::EMPTY_SET)?;
                self.items(items, put::ADDITEMS)
            }
            Node::Dict(pairs) => {
                put::op(self.out, put::EMPTY_DICT)?;
                put::op(self.out, put::MARK)?;
                self.pairs(pairs, false)?;
                Ok(put::op(self.out, put::SETITEMS)?)
            }
            Node::Object(object) => {
                let builds = self.shapes.builds(object.callable);
                match (self.shapes.value(id)?, builds) {
                    (Value::Dict(pairs), _) => {
                        self.arrays.global(self.out, "collections", "OrderedDict")?;
                        put::op(self.out, put::EMPTY_TUPLE)?;
                        put::op(self.out, put::REDUCE)?;
                        put::op(self.out, put::MARK)?;
                        self.pairs(pairs, false)?;
                        Ok(put::op(self.out, put::SETITEMS)?)
                    }
                    (Value::Record(_, pairs), _) => {
                        self.callable(object.callable)?;
                        put::op(self.out, put::EMPTY_TUPLE)?;
                        put::op(self.out, put::NEWOBJ)?;
                        put::op(self.out, put::EMPTY_DICT)?;
                        put::op(self.out, put::MARK)?;
                        self.pairs(pairs, false)?;
                        put::op(self.out, put::SETITEMS)?;
                        Ok(put::op(self.out, put::BUILD)?)
                    }
                    (Value::Set(items), _) => {
                        put::op(self.out, put::EMPTY_SET)?;
                        self.items(items, put::ADDITEMS)
                    }
                    (Value::Tuple(items), _) => self.items(items, put::TUPLE),
                    _ => self.plain(id),
                }
            }
            _ => self.plain(id),
        }
    }

    /// Writes a mark, the remaining items, and the opcode that builds a value from them.
    fn items(&mut self, items: &[Id], code: u8) -> Result<()> {
        put::op(self.out, put::MARK)?;
        for (number, item) in items.iter().enumerate() {
            let before = self.path.len();
            if before > 0 {
                self.path.push('.');
            }
            self.path.push_str(&number.to_string());
            if !self.is_gone(*item)? {
                self.value(*item)?;
            }
            self.path.truncate(before);
        }
        Ok(put::op(self.out, code)?)
    }

    /// Writes a tensor in its original form: an array, a name and an array, or an evaluation.
    fn tensor(&mut self, id: Id, name: Name) -> Result<()> {
        let Some((index, _)) = self.take() else { return Ok(put::op(self.out, put::NONE)?) };
        let builds = match self.shapes.tree.node(id) {
            Node::Object(object) => self.shapes.builds(object.callable),
            _ => None,
        };
        match (builds, name) {
            (Some(Builds::Eval(_)), _) => {
                self.arrays.global(self.out, "builtins", "eval")?;
                put::op(self.out, put::MARK)?;
                put::text(self.out, "data")?;
                put::op(self.out, put::EMPTY_DICT)?;
                put::op(self.out, put::MARK)?;
                put::text(self.out, "data")?;
                self.array(index)?;
                put::op(self.out, put::SETITEMS)?;
                put::op(self.out, put::TUPLE)?;
                Ok(put::op(self.out, put::REDUCE)?)
            }
            (builds, Some((span, encoding))) => {
                if builds == Some(Builds::Tuple) {
                    self.arrays.global(self.out, "builtins", "tuple")?;
                    put::op(self.out, put::MARK)?;
                }
                put::op(self.out, put::MARK)?;
                let named = self.model.metadata.get(&format!("{}@name", self.path));
                match named.and_then(|name| serde_json::from_str::<String>(name).ok()) {
                    Some(name) => put::text(self.out, &name)?,
                    None => put::text(self.out, &self.shapes.tree.text(id, span, encoding)?)?,
                }
                self.array(index)?;
                put::op(self.out, put::TUPLE)?;
                if builds == Some(Builds::Tuple) {
                    put::op(self.out, put::TUPLE)?;
                    put::op(self.out, put::REDUCE)?;
                }
                Ok(())
            }
            (_, None) => self.array(index),
        }
    }

    /// Writes an unchanged value without tensors.
    fn plain(&mut self, id: Id) -> Result<()> {
        let tree = &self.shapes.tree;
        match tree.node(id) {
            Node::None => Ok(put::op(self.out, put::NONE)?),
            Node::Bool(value) => Ok(put::bool(self.out, *value)?),
            Node::Int(value) => Ok(put::int(self.out, *value)?),
            Node::BigInt(span) => Ok(put::long(self.out, &tree.bytes(*span)?)?),
            Node::Digits(span) => {
                put::op(self.out, b'L')?;
                self.out.put(&tree.bytes(*span)?)?;
                Ok(self.out.put(b"L\n")?)
            }
            Node::Float(value) => Ok(put::float(self.out, *value)?),
            Node::Text(span, encoding) => {
                Ok(put::text(self.out, &tree.text(id, *span, *encoding)?)?)
            }
            Node::Bytes(span) => self.data(Data::plain(*span)),
            Node::ByteArray(span) => self.byte_array(Data::plain(*span)),
            Node::List(items) => {
                put::op(self.out, put::EMPTY_LIST)?;
                self.all(items, put::APPENDS)
            }
            Node::Tuple(items) => self.all(items, put::TUPLE),
            Node::Set(items) => {
                put::op(self.out, put::EMPTY_SET)?;
                self.all(items, put::ADDITEMS)
            }
            Node::FrozenSet(items) => self.all(items, put::FROZENSET),
            Node::Dict(pairs) => {
                put::op(self.out, put::EMPTY_DICT)?;
                self.all_pairs(pairs)
            }
            Node::Object(object) => match self.shapes.value(id)? {
                Value::Bytes(data) => match self.shapes.builds(object.callable) {
                    Some(Builds::ByteArray) => self.byte_array(data),
                    _ => self.data(data),
                },
                Value::Tuple(items) => self.all(items, put::TUPLE),
                Value::Set(items) => {
                    put::op(self.out, put::EMPTY_SET)?;
                    self.all(items, put::ADDITEMS)
                }
                Value::Dict(pairs) => {
                    self.arrays.global(self.out, "collections", "OrderedDict")?;
                    put::op(self.out, put::EMPTY_TUPLE)?;
                    put::op(self.out, put::REDUCE)?;
                    self.all_pairs(pairs)
                }
                Value::Record(_, pairs) => {
                    self.callable(object.callable)?;
                    put::op(self.out, put::EMPTY_TUPLE)?;
                    put::op(self.out, put::NEWOBJ)?;
                    put::op(self.out, put::EMPTY_DICT)?;
                    self.all_pairs(pairs)?;
                    Ok(put::op(self.out, put::BUILD)?)
                }
                Value::Complex(re, im) => {
                    self.arrays.global(self.out, "builtins", "complex")?;
                    put::op(self.out, put::MARK)?;
                    put::float(self.out, re)?;
                    put::float(self.out, im)?;
                    put::op(self.out, put::TUPLE)?;
                    Ok(put::op(self.out, put::REDUCE)?)
                }
                Value::Number(number) => {
                    self.arrays.global(self.out, "numpy.core.multiarray", "scalar")?;
                    put::op(self.out, put::MARK)?;
                    self.arrays.dtype(self.out, number.dtype)?;
                    let mut bytes = self.shapes.decoded(number.data)?.to_vec();
                    if let Some(size) = number.swap {
                        bytes.chunks_exact_mut(size).for_each(<[u8]>::reverse);
                    }
                    put::bytes(self.out, &Blob::memory(bytes))?;
                    put::op(self.out, put::TUPLE)?;
                    Ok(put::op(self.out, put::REDUCE)?)
                }
                _ => Err(tree.error(id, "a value", format!("`{}`", tree.describe(id)))),
            },
            _ => Err(tree.error(id, "a value", format!("`{}`", tree.describe(id)))),
        }
    }

    fn all(&mut self, items: &[Id], code: u8) -> Result<()> {
        put::op(self.out, put::MARK)?;
        items.iter().try_for_each(|item| self.plain(*item))?;
        Ok(put::op(self.out, code)?)
    }

    fn all_pairs(&mut self, pairs: &[(Id, Id)]) -> Result<()> {
        put::op(self.out, put::MARK)?;
        for (key, value) in pairs {
            self.plain(*key)?;
            self.plain(*value)?;
        }
        Ok(put::op(self.out, put::SETITEMS)?)
    }

    /// Writes a callable under its original name.
    fn callable(&mut self, id: Id) -> Result<()> {
        let global = self.shapes.tree.global(id);
        let (module, name) =
            global.ok_or_else(|| Error::internal("what a pickle calls has no name"))?;
        self.arrays.global(self.out, &module, &name)
    }

    fn data(&mut self, data: Data) -> Result<()> {
        Ok(put::bytes(self.out, &Blob::memory(self.shapes.decoded(data)?))?)
    }

    fn byte_array(&mut self, data: Data) -> Result<()> {
        self.arrays.global(self.out, "builtins", "bytearray")?;
        put::op(self.out, put::MARK)?;
        self.data(data)?;
        put::op(self.out, put::TUPLE)?;
        Ok(put::op(self.out, put::REDUCE)?)
    }

    /// Writes changed or new metadata.
    fn json(&mut self, text: &str) -> Result<()> {
        // Text that is not JSON is a string.
        let value = serde_json::from_str(text).unwrap_or_else(|_| Json::from(text));
        self.json_value(&value)
    }

    /// Writes a JSON value; the parser has bounded its depth.
    fn json_value(&mut self, value: &Json) -> Result<()> {
        match value {
            Json::Null => Ok(put::op(self.out, put::NONE)?),
            Json::Bool(value) => Ok(put::bool(self.out, *value)?),
            Json::Number(number) => match (number.as_i64(), number.as_u64(), number.as_f64()) {
                (Some(value), ..) => Ok(put::int(self.out, value)?),
                // A sign bit must follow.
                (_, Some(value), _) => {
                    Ok(put::long(self.out, &[&value.to_le_bytes()[..], &[0]].concat())?)
                }
                (.., Some(value)) => Ok(put::float(self.out, value)?),
                _ => Err(Error::internal("a number is neither an integer nor a float")),
            },
            Json::String(text) => Ok(put::text(self.out, text)?),
            Json::Array(items) => {
                put::op(self.out, put::EMPTY_LIST)?;
                put::op(self.out, put::MARK)?;
                items.iter().try_for_each(|item| self.json_value(item))?;
                Ok(put::op(self.out, put::APPENDS)?)
            }
            Json::Object(pairs) => {
                put::op(self.out, put::EMPTY_DICT)?;
                put::op(self.out, put::MARK)?;
                for (key, value) in pairs {
                    put::text(self.out, key)?;
                    self.json_value(value)?;
                }
                Ok(put::op(self.out, put::SETITEMS)?)
            }
        }
    }
}
