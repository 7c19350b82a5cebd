//! The metadata of a distributed checkpoint.

use std::collections::hash_map::Entry as MapEntry;
use std::collections::{HashMap, HashSet};

use lodstone_model::Limits;
use lodstone_store::Blob;

use crate::encoding::array::MAX_RANK;
use crate::encoding::pickle::{self, Id, Node};
use crate::error::{Error, Result};
use crate::sharding::Key;
use crate::torch::element::Element;
use crate::torch::object::Objects;

/// The tensors and other values of a checkpoint, and where they are.
pub(super) struct Metadata {
    /// In the order of the file.
    pub(super) entries: Vec<(String, Entry)>,
    /// The place of each item, by name and offsets.
    pub(super) places: HashMap<(String, Option<Vec<u64>>), Place>,
    /// Names with items of several processes, of which the first was kept.
    pub(super) repeated: Vec<String>,
    /// The files of the items that were not kept.
    pub(super) also: Vec<String>,
    /// The keys of nested values, by name.
    pub(super) paths: HashMap<String, Vec<Key>>,
}

/// A value of a checkpoint.
pub(super) enum Entry {
    Tensor {
        element: &'static Element,
        shape: Vec<u64>,
        /// Offsets and sizes.
        chunks: Vec<(Vec<u64>, Vec<u64>)>,
    },
    Bytes,
}

/// The place of an item.
pub(super) struct Place {
    pub(super) file: String,
    pub(super) offset: u64,
    pub(super) len: u64,
}

/// The module of the classes.
const MODULE: &str = "torch.distributed.checkpoint.";

/// Attributes by name, and the state of an instance that is no dict.
type Attributes = (HashMap<String, Id>, Vec<Id>);

impl Metadata {
    /// Reads the metadata.
    ///
    /// # Errors
    /// Fails if the pickle is not one of `Metadata`.
    pub(super) fn read(blob: &Blob, limits: &Limits) -> Result<Self> {
        let objects = Objects::new(pickle::read(blob, 0, limits)?);
        let root = objects.tree().root();
        let (attributes, _) = instance(&objects, root, "Metadata")?;
        let entries =
            pairs(&objects, attribute(&objects, root, &attributes, "state_dict_metadata")?)?;
        let entries = entries
            .iter()
            .map(|(name, value)| Ok((text(&objects, *name)?, entry(&objects, *value)?)));
        let mut metadata = Self {
            entries: entries.collect::<Result<_>>()?,
            places: HashMap::new(),
            repeated: Vec::new(),
            also: Vec::new(),
            paths: attributes
                .get("planner_data")
                .map(|id| paths(&objects, *id))
                .unwrap_or_default(),
        };
        let places = pairs(&objects, attribute(&objects, root, &attributes, "storage_data")?)?;
        for (index, info) in places {
            let (key, _) = instance(&objects, *index, "MetadataIndex")?;
            let name = text(&objects, attribute(&objects, *index, &key, "fqn")?)?;
            let offsets = key.get("offset").filter(|id| !is_none(&objects, **id));
            let offsets = offsets.map(|id| numbers(&objects, *id)).transpose()?;
            let place = place(&objects, *info)?;
            if metadata.places.insert((name.clone(), offsets), place).is_some() {
                return Err(odd(&objects, *index, "one place for each item"));
            }
        }
        Ok(metadata)
    }

    /// Adds the metadata of another process of a checkpoint without collectives, in which each lists what it saved itself.
    ///
    /// # Errors
    /// Fails if the two disagree on the type or the dims of a tensor.
    pub(super) fn merge(&mut self, other: Self, main: &Blob) -> Result<()> {
        let known: HashMap<String, usize> = self
            .entries
            .iter()
            .enumerate()
            .map(|(index, (name, _))| (name.clone(), index))
            .collect();
        for (name, entry) in other.entries {
            let mine = known.get(&name).and_then(|index| self.entries.get_mut(*index));
            let Some((_, mine)) = mine else {
                self.entries.push((name, entry));
                continue;
            };
            match (mine, entry) {
                (
                    Entry::Tensor { element, shape, chunks },
                    Entry::Tensor { element: also, shape: dims, chunks: more },
                ) if *element == also && *shape == dims => {
                    let known: HashSet<Vec<u64>> =
                        chunks.iter().map(|(offsets, _)| offsets.clone()).collect();
                    let new = |(offsets, _): &(Vec<u64>, Vec<u64>)| !known.contains(offsets);
                    let before = more.len();
                    let more: Vec<_> = more.into_iter().filter(new).collect();
                    if more.len() < before {
                        self.repeated.push(format!("`{name}`"));
                    }
                    chunks.extend(more);
                }
                (Entry::Bytes, Entry::Bytes) => self.repeated.push(format!("`{name}`")),
                _ => {
                    let expected =
                        format!("the type and dims of `{name}` that other processes have");
                    return Err(main.malformed(0, expected, "others").into());
                }
            }
        }
        self.paths.extend(other.paths);
        for (index, place) in other.places {
            match self.places.entry(index) {
                MapEntry::Vacant(free) => drop(free.insert(place)),
                MapEntry::Occupied(_) => self.also.push(place.file),
            }
        }
        Ok(())
    }
}

/// Returns the keys of nested values. What is no path belongs to another planner.
fn paths(objects: &Objects, id: Id) -> HashMap<String, Vec<Key>> {
    let Node::Dict(pairs) = objects.tree().node(id) else { return HashMap::new() };
    let word = |id: Id| objects.tree().word(id).ok().flatten();
    let key = |id: &Id| match word(*id) {
        Some(name) => Some(Key::Name(name)),
        None => objects.number(*id).map(Key::Index),
    };
    let path = |(name, path): &(Id, Id)| {
        let path = objects.items(*path).filter(|path| path.len() <= MAX_RANK)?;
        Some((word(*name)?, path.iter().map(key).collect::<Option<_>>()?))
    };
    pairs.iter().filter_map(path).collect()
}

fn entry(objects: &Objects, id: Id) -> Result<Entry> {
    let Ok((attributes, _)) = instance(objects, id, "TensorStorageMetadata") else {
        instance(objects, id, "BytesStorageMetadata")?;
        return Ok(Entry::Bytes);
    };
    let properties = attribute(objects, id, &attributes, "properties")?;
    let (named, state) = instance(objects, properties, "TensorProperties")?;
    let dtype = named.get("dtype").or_else(|| state.first());
    let dtype = dtype.and_then(|id| objects.import(*id));
    let element = dtype.filter(|(module, _)| module == "torch");
    let element = element.and_then(|(_, name)| Element::named(&name));
    let element = element.ok_or_else(|| odd(objects, properties, "an element type"))?;
    let shape = numbers(objects, attribute(objects, id, &attributes, "size")?)?;
    let chunks = attribute(objects, id, &attributes, "chunks")?;
    let chunks = objects.items(chunks).ok_or_else(|| odd(objects, chunks, "a list of chunks"))?;
    let chunk = |id: &Id| {
        let (attributes, _) = instance(objects, *id, "ChunkStorageMetadata")?;
        let of = |name| numbers(objects, attribute(objects, *id, &attributes, name)?);
        Ok((of("offsets")?, of("sizes")?))
    };
    let chunks = chunks.iter().map(chunk).collect::<Result<_>>()?;
    Ok(Entry::Tensor { element, shape, chunks })
}

fn place(objects: &Objects, id: Id) -> Result<Place> {
    let (attributes, _) = instance(objects, id, "_StorageInfo")?;
    let of = |name| {
        let id = attribute(objects, id, &attributes, name)?;
        objects.number(id).ok_or_else(|| odd(objects, id, "a nonnegative integer"))
    };
    let transformed = attributes.get("transform_descriptors");
    if let Some(id) = transformed.filter(|id| !is_none(objects, **id))
        && objects.items(*id).is_none_or(|items| !items.is_empty())
    {
        return Err(odd(objects, *id, "an item that was not transformed"));
    }
    let file = text(objects, attribute(objects, id, &attributes, "relative_path")?)?;
    Ok(Place { file, offset: of("offset")?, len: of("length")? })
}

/// Returns the attributes of an instance of a class.
fn instance(objects: &Objects, id: Id, class: &str) -> Result<Attributes> {
    let expected = || odd(objects, id, &format!("an instance of {class}"));
    let Node::Object(object) = objects.tree().node(id) else { return Err(expected()) };
    let (module, name) = objects.import(object.callable).ok_or_else(expected)?;
    let is_known = module.starts_with(MODULE) || module.starts_with("torch.distributed._shard");
    if name != class || !is_known {
        return Err(expected());
    }
    let (mut attributes, mut state) = (HashMap::new(), Vec::new());
    for given in &object.state {
        match objects.tree().node(*given) {
            Node::Dict(pairs) => {
                for (key, value) in pairs {
                    attributes.insert(text(objects, *key)?, *value);
                }
            }
            Node::Tuple(items) => state.extend(items),
            _ => return Err(expected()),
        }
    }
    Ok((attributes, state))
}

fn attribute(
    objects: &Objects,
    id: Id,
    attributes: &HashMap<String, Id>,
    name: &str,
) -> Result<Id> {
    let found = attributes.get(name).copied();
    found.ok_or_else(|| odd(objects, id, &format!("an attribute `{name}`")))
}

fn pairs(objects: &Objects, id: Id) -> Result<&[(Id, Id)]> {
    match objects.tree().node(id) {
        Node::Dict(pairs) => Ok(pairs),
        _ => Err(odd(objects, id, "a dict")),
    }
}

fn text(objects: &Objects, id: Id) -> Result<String> {
    objects.tree().word(id)?.ok_or_else(|| odd(objects, id, "a string"))
}

/// Returns dims or offsets.
fn numbers(objects: &Objects, id: Id) -> Result<Vec<u64>> {
    // Before they are copied: many tensors may refer to one long list.
    if objects.items(id).is_some_and(|items| items.len() > MAX_RANK) {
        return Err(odd(objects, id, &format!("at most {MAX_RANK} dims")));
    }
    objects.numbers(id).ok_or_else(|| odd(objects, id, "nonnegative integers"))
}

fn is_none(objects: &Objects, id: Id) -> bool {
    matches!(objects.tree().node(id), Node::None)
}

fn odd(objects: &Objects, id: Id, expected: &str) -> Error {
    objects.tree().error(id, expected, format!("`{}`", objects.tree().describe(id)))
}
