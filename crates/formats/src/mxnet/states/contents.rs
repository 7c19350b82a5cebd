//! What states hold: arrays and plain values, each with its path.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use lodstone_model::{Limits, Tensor};
use lodstone_store::{Blob, Cursor};

use crate::Result;
use crate::encoding::pickle::json::{Budget, again, json, key, quoted};
use crate::encoding::pickle::{Builds, Id, Latin1, Node, Shapes, Span, Spelling, Value, survey};
use crate::mxnet::params::{read_alone, replace_stored, stored_blobs};

/// The state of an optimizer has this name where it is in the pickle.
const OPTIMIZER: &str = "optimizer";

/// An array of MXNet's.
#[derive(Debug)]
pub(super) struct Array {
    pub(super) tensor: Tensor,
    /// What is behind the description in its record: elements, then index arrays.
    pub(super) hole: Span,
    pub(super) spelling: Spelling,
}

/// All there is.
#[derive(Debug, Default)]
pub(super) struct Contents {
    /// The arrays of the pickle; `None` for those that were never filled.
    pub(super) arrays: HashMap<Id, Option<Array>>,
    /// Paths of arrays, and which they are.
    pub(super) tensors: Vec<(String, Id)>,
    pub(super) metadata: BTreeMap<String, String>,
    /// Paths that two values have.
    pub(super) clashes: Vec<String>,
}

/// Whether the elements are there, or zeros in their place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Elements {
    Whole,
    Cut,
}

/// Sees what a pickle holds.
///
/// # Errors
/// If an array is not as MXNet pickles it; if values lie in circles, too deep, or are shared so
/// often that the whole would be many times what is stored; if a dict has a key twice.
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

/// What a value is, if it is no array.
fn value<'a>(shapes: &'a Shapes, contents: &Contents, id: Id) -> Result<Option<Value<'a>>> {
    if contents.arrays.contains_key(&id) { Ok(None) } else { shapes.value(id).map(Some) }
}

/// Every array in a pickle, reachable or not.
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
                let inside = |error: crate::Error| {
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

/// The record of an array, or that there is none; `None` for what MXNet does not write.
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

/// A record as it is in the file.
fn plain(shapes: &Shapes, span: Span) -> Result<Option<Array>> {
    // Behind it, so that offsets in messages are those in the file.
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

/// A record that is written as text. Its bytes are taken apart so that each part knows its own text.
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
    // Zeros are shorter than what they stand for.
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
    /// Whether each value is or holds an array.
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

    /// One step down. How deep that goes was bounded by [`survey`].
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
                    let limit = format!("at most {} tensors", self.limits.tensors);
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
