//! The contents of states: arrays and plain values, each with its path.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use lodstone_model::{Limits, Tensor};
use lodstone_store::{Blob, Cursor};

use crate::encoding::pickle::json::{Budget, again, json, key, quoted};
use crate::encoding::pickle::{Builds, Id, Latin1, Node, Shapes, Span, Spelling, Value, survey};
use crate::error::Result;
use crate::mxnet::params::{read_alone, replace_stored, stored_blobs};

/// The path of the optimizer's own state, if the pickle contains it.
const OPTIMIZER: &str = "optimizer";

/// An MXNet array.
#[derive(Debug)]
pub(super) struct Array {
    pub(super) tensor: Tensor,
    /// The part of the record after the description: elements, then index arrays.
    pub(super) hole: Span,
    pub(super) spelling: Spelling,
}

/// The contents of a pickle of states.
#[derive(Debug, Default)]
pub(super) struct Contents {
    /// The arrays of the pickle; `None` for those that were never filled.
    pub(super) arrays: HashMap<Id, Option<Array>>,
    /// The paths of arrays, with their ids.
    pub(super) tensors: Vec<(String, Id)>,
    pub(super) metadata: BTreeMap<String, String>,
    /// Paths of more than one value.
    pub(super) clashes: Vec<String>,
}

/// Whether the elements are present, or replaced by zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Elements {
    Whole,
    Cut,
}

/// Collects the contents of a pickle.
///
/// # Errors
/// Fails if an array is not pickled as MXNet does it, if values are cyclic, nested too deeply, or shared so
/// often that their expansion would be many times the file, or if a dict has a duplicate key.
pub(super) fn contents(shapes: &Shapes, limits: &Limits, elements: Elements) -> Result<Contents> {
    let arrays = arrays(shapes, elements)?;
    let holds = survey(shapes, limits, |id| Ok(arrays.contains_key(&id)))?;
    let contents = Contents { arrays, ..Contents::default() };
    let budget = Budget::of(shapes);
    let mut seeker = Seeker { shapes, contents, holds, budget, limits, path: String::new() };
    let root = shapes.tree.root();
    let (states, optimizer) = match value(shapes, &seeker.contents, root)? {
        Some(Value::Tuple([states, optimizer])) => (*states, Some(*optimizer)),
        _ => (root, None),
    };
    let odd = |id| {
        let found = format!("`{}`", shapes.tree.describe(id));
        shapes.tree.error(id, "a dict of states, alone or with their optimizer", found)
    };
    match value(shapes, &seeker.contents, states)? {
        Some(Value::Dict(pairs)) => seeker.pairs(pairs)?,
        _ => return Err(odd(root)),
    }
    if let Some(optimizer) = optimizer {
        match value(shapes, &seeker.contents, optimizer)? {
            Some(Value::Record(class, pairs)) => {
                seeker.path.push_str(OPTIMIZER);
                seeker.record(optimizer, &class, pairs)?;
            }
            _ => return Err(odd(optimizer)),
        }
    }
    Ok(seeker.contents)
}

/// Returns a value, if it is not an array.
fn value<'a>(shapes: &'a Shapes, contents: &Contents, id: Id) -> Result<Option<Value<'a>>> {
    if contents.arrays.contains_key(&id) { Ok(None) } else { shapes.value(id).map(Some) }
}

/// Returns every array in a pickle, reachable or not.
fn arrays(shapes: &Shapes, elements: Elements) -> Result<HashMap<Id, Option<Array>>> {
    let mut arrays = HashMap::new();
    for (id, node) in shapes.tree.nodes() {
        let Node::Object(object) = node else { continue };
        if shapes.builds(object.callable) != Some(Builds::Opaque) {
            continue;
        }
        let odd = || {
            let found = format!("`{}` with another state", shapes.tree.describe(id));
            shapes.tree.error(id, "`NDArray(None)` and the state `{'handle': bytearray}`", found)
        };
        let handle = handle(shapes, id).ok_or_else(odd)?;
        let array = match shapes.tree.node(handle) {
            Node::None => None,
            _ => {
                let data = shapes.data(handle).ok_or_else(odd)?;
                let inside = |error: crate::error::Error| {
                    error.inside(format!("the array at offset {}", data.span.start))
                };
                match data.spelling {
                    Spelling::Plain => plain(shapes, data.span).map_err(inside)?,
                    spelling => spelled(shapes, data.span, spelling, elements).map_err(inside)?,
                }
            }
        };
        arrays.insert(id, array);
    }
    Ok(arrays)
}

/// Returns the handle of an array: its record, or Python's `None`. Returns `None` for an object that MXNet does not
/// write.
fn handle(shapes: &Shapes, id: Id) -> Option<Id> {
    let Node::Object(object) = shapes.tree.node(id) else { return None };
    let is_none = |id: &Id| matches!(shapes.tree.node(*id), Node::None);
    let bare = object.items.is_empty() && object.pairs.is_empty() && object.named.is_none();
    let made = matches!(shapes.arguments(object), [none] if is_none(none));
    let [state] = object.state.as_slice() else { return None };
    let Node::Dict(pairs) = shapes.tree.node(*state) else { return None };
    let [(name, handle)] = pairs.as_slice() else { return None };
    let is_handle = shapes.tree.short(*name).as_deref() == Some("handle");
    (bare && made && is_handle && object.is_call()).then_some(*handle)
}

/// Reads a record that is stored as plain bytes.
fn plain(shapes: &Shapes, span: Span) -> Result<Option<Array>> {
    // The slice begins at 0, so that offsets in messages are those in the file.
    let blob = shapes.tree.blob().slice(0, span.start.saturating_add(span.len))?;
    let mut cursor = Cursor::at(&blob, span.start);
    let record = read_alone(&mut cursor)?;
    if cursor.remaining() > 0 {
        let found = format!("{} bytes more", cursor.remaining());
        return Err(cursor.error_at(cursor.position(), "the end of the record", found).into());
    }
    let Some((tensor, head)) = record else { return Ok(None) };
    let hole = Span { start: span.start.saturating_add(head), len: span.len.saturating_sub(head) };
    Ok(Some(Array { tensor, hole, spelling: Spelling::Plain }))
}

/// Reads a record that is encoded as a string. Its bytes are split so that each part has its own string.
fn spelled(
    shapes: &Shapes,
    span: Span,
    spelling: Spelling,
    elements: Elements,
) -> Result<Option<Array>> {
    let source = shapes.tree.blob().slice(span.start, span.len)?;
    let text = Arc::new(Latin1::new(source.clone(), spelling)?);
    let decoded = Blob::derived(Arc::clone(&text) as _);
    let mut cursor = Cursor::new(&decoded);
    let record = read_alone(&mut cursor)?;
    // Zeros are shorter than the bytes that they replace.
    if cursor.remaining() > 0 && elements == Elements::Whole {
        let found = format!("{} bytes more", cursor.remaining());
        return Err(cursor.error_at(cursor.position(), "the end of the record", found).into());
    }
    let Some((mut tensor, head)) = record else { return Ok(None) };
    let start = text.place(head)?;
    if elements == Elements::Whole {
        let (mut at, mut place, mut parts) = (head, start, Vec::new());
        for blob in stored_blobs(&tensor) {
            at = at.saturating_add(blob.len());
            let end = text.place(at)?;
            let own = source.slice(place, end.saturating_sub(place))?;
            parts.push(Blob::derived(Arc::new(Latin1::new(own, spelling)?)));
            place = end;
        }
        replace_stored(&mut tensor, parts);
    }
    let hole =
        Span { start: span.start.saturating_add(start), len: span.len.saturating_sub(start) };
    Ok(Some(Array { tensor, hole, spelling }))
}

struct Seeker<'a> {
    shapes: &'a Shapes,
    contents: Contents,
    /// Whether each value is or contains an array.
    holds: HashMap<Id, bool>,
    budget: Budget,
    limits: &'a Limits,
    path: String,
}

impl Seeker<'_> {
    fn pairs(&mut self, pairs: &[(Id, Id)]) -> Result<()> {
        let mut keys = HashSet::new();
        for (id, value) in pairs {
            let key = key(self.shapes, *id, &mut self.budget)?;
            self.inside(&key, *value)?;
            if let Some(key) = keys.replace(key) {
                return Err(again(self.shapes, *id, &key));
            }
        }
        Ok(())
    }

    fn record(&mut self, id: Id, class: &str, pairs: &[(Id, Id)]) -> Result<()> {
        let path = format!("{}.__class__", self.path);
        self.budget.say(self.shapes, id, (path.len() + class.len()) as u64)?;
        self.note(path, quoted(class));
        self.pairs(pairs)
    }

    /// Descends into a value. [`survey`] has bounded the depth.
    fn inside(&mut self, key: &str, id: Id) -> Result<()> {
        let before = self.path.len();
        if before > 0 {
            self.path.push('.');
        }
        self.path.push_str(key);
        self.value(id)?;
        self.path.truncate(before);
        Ok(())
    }

    fn value(&mut self, id: Id) -> Result<()> {
        self.budget.step(self.shapes, id)?;
        self.budget.say(self.shapes, id, self.path.len() as u64 + 64)?;
        match self.contents.arrays.get(&id) {
            Some(Some(_)) => {
                if self.contents.tensors.len() >= self.limits.tensors {
                    let limit = self.limits.at_most_tensors("tensors");
                    return Err(self.shapes.tree.over_limit(id, limit));
                }
                self.contents.tensors.push((self.path.clone(), id));
                return Ok(());
            }
            Some(None) => {
                self.note(self.path.clone(), "null".to_owned());
                return Ok(());
            }
            None => {}
        }
        if !self.holds.get(&id).copied().unwrap_or_default() {
            let mut text = String::new();
            json(self.shapes, id, &mut text, &mut self.budget)?;
            self.note(self.path.clone(), text);
            return Ok(());
        }
        match self.shapes.value(id)? {
            Value::Dict(pairs) => self.pairs(pairs),
            Value::Record(class, pairs) => self.record(id, &class, pairs),
            Value::List(items) | Value::Tuple(items) | Value::Set(items) => {
                let mut items = items.iter().enumerate();
                items.try_for_each(|(number, item)| self.inside(&number.to_string(), *item))
            }
            _ => Ok(()),
        }
    }

    fn note(&mut self, path: String, value: String) {
        match self.contents.metadata.entry(path) {
            Entry::Vacant(free) => drop(free.insert(value)),
            Entry::Occupied(mut taken) => {
                if *taken.get() != value {
                    self.contents.clashes.push(format!("`{}`", taken.key()));
                }
                taken.insert(value);
            }
        }
    }
}
