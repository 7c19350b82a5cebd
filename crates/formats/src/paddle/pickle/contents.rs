//! The contents of a pickle: tensors and plain values, each with its path.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet};

use lodstone_model::Limits;

use super::CUT;
use crate::encoding::pickle::json::{Budget, again, json, key, quoted};
use crate::encoding::pickle::{Array, Encoding, Id, Shapes, Span, Value, survey};
use crate::error::Result;

/// A tensor.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) path: String,
    /// The length of the path before its own key, if it is a value of a dict.
    pub(super) prefix: Option<usize>,
    /// The dims.
    pub(super) shape: Vec<u64>,
    /// The array, or the parts of a split array.
    pub(super) parts: Vec<Array>,
}

/// The contents, in the order of [`Walk`].
#[derive(Debug, Default)]
pub(super) struct Contents {
    pub(super) tensors: Vec<Found>,
    pub(super) metadata: BTreeMap<String, String>,
    /// Paths of more than one value.
    pub(super) clashes: Vec<String>,
    pub(super) walk: Walk,
}

/// Properties of each reachable value.
#[derive(Debug, Default)]
pub(super) struct Walk {
    /// By value: whether it is or contains a tensor.
    holds: HashMap<Id, bool>,
    /// Split arrays: their name, by the key of the first part; and all keys of parts.
    pub(super) cut: HashMap<String, Cut>,
}

/// A key of the outermost dict that is a part of a split array.
#[derive(Debug)]
pub(super) enum Cut {
    /// The first part, with the name, shape and parts of the array.
    First { name: String, shape: Vec<u64>, parts: Vec<Id> },
    /// Another part.
    Later,
}

/// Collects the contents of a pickle.
///
/// # Errors
/// Fails if values are cyclic, nested too deeply, or shared so often that their expansion would be many times
/// the file, or if a dict has a duplicate key.
pub(super) fn contents(shapes: &Shapes, limits: &Limits) -> Result<Contents> {
    let root = shapes.tree.root();
    let mut contents = Contents::default();
    let mut budget = Budget::of(shapes);
    contents.walk.holds = survey(shapes, limits, |id| Ok(tensor(shapes, id)?.is_some()))?;
    if let Value::Dict(pairs) = shapes.value(root)? {
        contents.walk.cut = cut(shapes, pairs, &mut budget)?;
    }
    let mut seeker = Seeker { shapes, contents, budget, limits, path: String::new() };
    match shapes.value(root)? {
        Value::Dict(pairs) => seeker.dict(pairs, true)?,
        Value::Record(class, pairs) => {
            seeker.contents.metadata.insert("__class__".to_owned(), format!("\"{class}\""));
            seeker.dict(pairs, false)?;
        }
        _ => seeker.value(root, None)?,
    }
    Ok(seeker.contents)
}

/// The name that a tensor has in addition to its path, as stored.
pub(super) type Name = Option<(Span, Encoding)>;

/// Returns the array of a value, and its additional name.
pub(super) fn tensor(shapes: &Shapes, id: Id) -> Result<Option<(Array, Name)>> {
    Ok(match shapes.value(id)? {
        Value::Array(array) => Some((array, None)),
        // A PaddlePaddle tensor: its name and its value.
        Value::Tuple([name, array]) => match (shapes.value(*name)?, shapes.value(*array)?) {
            (Value::Text(span, encoding), Value::Array(array)) => {
                Some((array, Some((span, encoding))))
            }
            _ => None,
        },
        _ => None,
    })
}

/// Reads the table of split arrays.
fn cut(shapes: &Shapes, root: &[(Id, Id)], budget: &mut Budget) -> Result<HashMap<String, Cut>> {
    let mut cut = HashMap::new();
    let mut table = None;
    for (key, value) in root {
        if shapes.tree.short(*key).as_deref() == Some(CUT) {
            table = Some(*value);
        }
    }
    let Some(table) = table else { return Ok(cut) };
    let odd = |id: Id| {
        let found = format!("`{}`", shapes.tree.describe(id));
        shapes.tree.error(id, "names, shapes and parts of split arrays", found)
    };
    let mut values = HashMap::new();
    for (id, value) in root {
        values.insert(key(shapes, *id, budget)?, *value);
    }
    let Value::Dict(arrays) = shapes.value(table)? else { return Err(odd(table)) };
    for (id, info) in arrays {
        let name = key(shapes, *id, budget)?;
        let Value::Dict(pairs) = shapes.value(*info)? else { return Err(odd(*info)) };
        let (mut shape, mut slices) = (None, None);
        for (key, value) in pairs {
            match shapes.tree.short(*key).as_deref() {
                Some("OriginShape") => shape = Some(*value),
                Some("slices") => slices = Some(*value),
                _ => return Err(odd(*key)),
            }
        }
        let (Some(shape), Some(slices)) = (shape, slices) else { return Err(odd(*info)) };
        let (Value::Tuple(dims) | Value::List(dims)) = shapes.value(shape)? else {
            return Err(odd(shape));
        };
        let dim = |id: &Id| match shapes.value(*id)? {
            Value::Int(dim) => u64::try_from(dim).map_err(|_| odd(*id)),
            _ => Err(odd(*id)),
        };
        let shape = dims.iter().take(65).map(dim).collect::<Result<Vec<_>>>()?;
        let (Value::List(keys) | Value::Tuple(keys)) = shapes.value(slices)? else {
            return Err(odd(slices));
        };
        if shape.len() > 64 || keys.is_empty() || values.contains_key(&name) {
            return Err(odd(*info));
        }
        let (mut parts, mut names) = (Vec::new(), Vec::new());
        for id in keys {
            let part = key(shapes, *id, budget)?;
            parts.push(*values.get(&part).ok_or_else(|| odd(*id))?);
            names.push(part);
        }
        let first = Cut::First { name, shape, parts };
        for (number, (part, whole)) in names
            .into_iter()
            .zip(std::iter::once(first).chain(std::iter::repeat_with(|| Cut::Later)))
            .enumerate()
        {
            // A part of two arrays, or a duplicate part of one.
            if cut.insert(part, whole).is_some() {
                return Err(odd(keys.get(number).copied().unwrap_or(slices)));
            }
        }
    }
    Ok(cut)
}

impl Walk {
    /// Returns whether a value is or contains a tensor.
    pub(super) fn holds(&self, id: Id) -> bool {
        self.holds.get(&id).copied().unwrap_or_default()
    }
}

struct Seeker<'a> {
    shapes: &'a Shapes,
    contents: Contents,
    budget: Budget,
    limits: &'a Limits,
    path: String,
}

impl Seeker<'_> {
    /// Visits the values of a dict; the outermost may contain split arrays.
    fn dict(&mut self, pairs: &[(Id, Id)], outermost: bool) -> Result<()> {
        let mut keys = HashSet::new();
        for (id, value) in pairs {
            let key = key(self.shapes, *id, &mut self.budget)?;
            let cut = if outermost { self.contents.walk.cut.remove(&key) } else { None };
            match &cut {
                Some(Cut::First { name, shape, parts }) => self.joined(*id, name, shape, parts)?,
                Some(Cut::Later) => {}
                None if outermost && key == CUT => {}
                None => self.inside(&key, *value)?,
            }
            if let Some(cut) = cut {
                self.contents.walk.cut.insert(key.clone(), cut);
            }
            if !keys.insert(key.clone()) {
                return Err(again(self.shapes, *id, &key));
            }
        }
        Ok(())
    }

    /// Descends into a value.
    fn inside(&mut self, key: &str, id: Id) -> Result<()> {
        let before = self.path.len();
        let prefix = self.step(key);
        self.value(id, Some(prefix))?;
        self.path.truncate(before);
        Ok(())
    }

    /// Appends a key to the path; returns its previous length, including the dot.
    fn step(&mut self, key: &str) -> usize {
        if !self.path.is_empty() {
            self.path.push('.');
        }
        let prefix = self.path.len();
        self.path.push_str(key);
        prefix
    }

    fn value(&mut self, id: Id, prefix: Option<usize>) -> Result<()> {
        self.budget.step(self.shapes, id)?;
        self.budget.say(self.shapes, id, self.path.len() as u64 + 64)?;
        if let Some((array, name)) = tensor(self.shapes, id)? {
            if let Some((span, encoding)) = name {
                self.budget.say(self.shapes, id, span.len)?;
                let name = self.shapes.tree.text(id, span, encoding)?;
                if !name.is_empty() && !is_made_up(&name) {
                    self.note(format!("{}@name", self.path), quoted(&name));
                }
            }
            let shape = array.shape.clone();
            return self.found(id, self.path.clone(), prefix, shape, vec![array]);
        }
        if !self.contents.walk.holds(id) {
            let mut value = String::new();
            json(self.shapes, id, &mut value, &mut self.budget)?;
            self.note(self.path.clone(), value);
            return Ok(());
        }
        match self.shapes.value(id)? {
            Value::Dict(pairs) | Value::Record(_, pairs) => self.dict(pairs, false),
            Value::List(items) | Value::Tuple(items) | Value::Set(items) => {
                for (number, item) in items.iter().enumerate() {
                    let before = self.path.len();
                    self.step(&number.to_string());
                    self.value(*item, None)?;
                    self.path.truncate(before);
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Adds a split array.
    fn joined(&mut self, id: Id, name: &str, shape: &[u64], parts: &[Id]) -> Result<()> {
        let mut arrays = Vec::new();
        let mut size = 0u64;
        for part in parts {
            let Value::Array(array) = self.shapes.value(*part)? else {
                return Err(self.shapes.tree.error(*part, "a part of an array", "another value"));
            };
            let more = array.dtype.size_of(&array.shape);
            size = more.and_then(|more| size.checked_add(more)).ok_or_else(|| {
                let found = format!("a part of shape {:?}", array.shape);
                self.shapes.tree.error(*part, "a size that fits 64 bits", found)
            })?;
            arrays.push(array);
        }
        let dtype = arrays.first().map(|array| array.dtype);
        let whole = dtype.and_then(|dtype| dtype.size_of(shape));
        let same = arrays.iter().all(|array| Some(array.dtype) == dtype && array.shape.len() == 1);
        if whole != Some(size) || !same {
            let expected = format!("parts that make up an array of shape {shape:?}");
            return Err(self.shapes.tree.error(id, expected, format!("parts of {size} bytes")));
        }
        self.budget.say(self.shapes, id, name.len() as u64 + 64)?;
        self.found(id, name.to_owned(), Some(0), shape.to_vec(), arrays)
    }

    fn found(
        &mut self,
        id: Id,
        path: String,
        prefix: Option<usize>,
        shape: Vec<u64>,
        parts: Vec<Array>,
    ) -> Result<()> {
        if self.contents.tensors.len() >= self.limits.tensors {
            let limit = self.limits.at_most_tensors("tensors");
            return Err(self.shapes.tree.over_limit(id, limit));
        }
        self.contents.tensors.push(Found { path, prefix, shape, parts });
        Ok(())
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

/// Returns whether PaddlePaddle generated the name of an unnamed tensor.
fn is_made_up(name: &str) -> bool {
    ["generated_tensor_", "eager_tmp_", "generated_var_"].iter().any(|start| {
        name.strip_prefix(start).is_some_and(|rest| rest.bytes().all(|b| b.is_ascii_digit()))
    })
}
