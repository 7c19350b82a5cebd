//! Byte maps of the files of a model. Their JSON form is a contract, versioned by `schema`.

use std::borrow::Cow;
use std::collections::HashSet;

use lodstone_formats::{Mapper, OpenOptions, Probe, byte_maps};
use lodstone_model::{Model, Parameter};
use lodstone_schema::{Finding, weights};
use lodstone_store::{Blob, Field, Location};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

pub use lodstone_formats::ByteMap;

use crate::names::Names;
use crate::{Error, Result, open_with};

/// The byte maps of files.
#[derive(Debug, Default, Serialize)]
pub struct ByteMaps {
    /// The version of this structure.
    pub schema: u32,
    /// The files that have a byte map.
    pub files: Vec<FileMap>,
    /// The files that have none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unmapped: Vec<String>,
    /// The reason why the files are no model, although none of them is damaged: another file may be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unopened: Option<String>,
}

/// The byte map of a file.
#[derive(Debug, Serialize)]
pub struct FileMap {
    /// The path.
    pub path: String,
    /// The kind of file: `safetensors files`.
    pub kind: &'static str,
    /// The fields, and the damage that ends them.
    #[serde(flatten, serialize_with = "serialize")]
    pub map: ByteMap,
}

/// The kind of a file that only holds elements.
const ELEMENTS: &str = "elements of tensors";

/// Returns the fields of the files at `path` with their offsets, or those of one tensor of the model there.
///
/// Elements of tensors are not read. A damaged file is mapped up to the damage, which is the
/// [error](ByteMap::error) of its map; its tensors are called by their index.
///
/// # Errors
/// Fails if there is no model at `path`, if none of its files has a byte map, or if it does not have the tensor.
pub fn byte_map(
    path: impl Into<Location>,
    tensor: Option<&str>,
    options: &OpenOptions,
) -> Result<ByteMaps> {
    let path = path.into();
    let opened = match open_with(path.clone(), options) {
        Err(error) if !path.exists()? => return Err(error),
        opened => opened,
    };
    let mut maps = ByteMaps { schema: 1, ..ByteMaps::default() };
    if let (Ok(model), Some(name)) = (&opened, tensor) {
        maps.files = of_tensor(model, name, options)?;
        return Ok(maps);
    }
    let model = opened.as_ref().ok();
    for file in files(&path, &opened, options)? {
        match of_file(&file, model, options)? {
            Some(map) => maps.files.push(map),
            None => maps.unmapped.push(file.path().display().to_string()),
        }
    }
    let unopened = opened.as_ref().err().map(ToString::to_string);
    if let (Err(error), Some(name)) = (opened, tensor) {
        let number = name.parse().ok();
        for file in &mut maps.files {
            file.map.fields.retain(|field| field.tensor.is_some() && field.tensor == number);
        }
        maps.files.retain(|file| !file.map.fields.is_empty());
        maps.unmapped.clear();
        return if maps.files.is_empty() { Err(error) } else { Ok(maps) };
    }
    if maps.files.is_empty() {
        return Err(Error::Unmapped(path.to_path_buf()));
    }
    if maps.files.iter().all(|file| file.map.error.is_none()) {
        maps.unopened = unopened;
    }
    Ok(maps)
}

/// Returns the files at a path: those of the model, or of the directory if the model is damaged. A single file is
/// followed by those that hold its elements.
fn files(path: &Location, opened: &Result<Model>, options: &OpenOptions) -> Result<Vec<Blob>> {
    let is_file = path.exists()? && !path.is_dir()?;
    match opened {
        Ok(model) if !is_file => Ok(model.files.clone()),
        Ok(model) => {
            let mut files = vec![options.file(path)?];
            for file in &model.files {
                if mapper(file)?.is_none() && !files.iter().any(|known| is_same(known, file)) {
                    files.push(file.clone());
                }
            }
            Ok(files)
        }
        Err(_) if is_file => Ok(vec![options.file(path)?]),
        Err(_) => {
            let entries = path.list()?;
            let files = entries.iter().filter(|entry| !entry.is_dir);
            files.map(|entry| Ok(options.file(&path.join(&entry.name))?)).collect()
        }
    }
}

/// Maps a file; `None` if its kind has no byte map, and the model has no elements in it.
fn of_file(file: &Blob, model: Option<&Model>, options: &OpenOptions) -> Result<Option<FileMap>> {
    let path = file.path().display().to_string();
    if let Some(mapper) = mapper(file)? {
        let map = mapper.map(file, &options.limits);
        return Ok(Some(FileMap { path, kind: mapper.what, map }));
    }
    let Some(model) = model else { return Ok(None) };
    let weights = weights(model);
    let ranges = weights.iter().enumerate().flat_map(|(number, weight)| {
        ranges_in(weight, file).map(move |range| (range, number, weight))
    });
    let fields = elements(ranges.collect());
    let map = ByteMap::new(fields, file.len());
    Ok((!map.is_unread()).then_some(FileMap { path, kind: ELEMENTS, map }))
}

/// Returns the kind of a file.
fn mapper(file: &Blob) -> Result<Option<&'static Mapper>> {
    let location = Location::from(file.path());
    let probe = Probe { path: &location, head: &file.head(4096)?, len: file.len(), entries: None };
    Ok(byte_maps().find(|mapper| (mapper.detect)(&probe)))
}

fn is_same(one: &Blob, other: &Blob) -> bool {
    one.path() == other.path()
}

/// Returns the ranges of a file that hold a tensor: offset and length.
fn ranges_in(weight: &Parameter, file: &Blob) -> impl Iterator<Item = (u64, u64)> {
    let path = file.path();
    let ranges = weight.tensor.blobs().flat_map(Blob::file_ranges);
    ranges.filter(move |(other, ..)| other.path() == path).map(|(_, offset, len)| (offset, len))
}

/// Returns fields for the ranges of tensors in a file that has nothing else.
fn elements(mut ranges: Vec<((u64, u64), usize, &Parameter)>) -> Vec<Field> {
    ranges.sort_by_key(|(range, number, _)| (*range, *number));
    let mut fields: Vec<Field> = Vec::new();
    for ((offset, len), number, Parameter { name, tensor }) in ranges {
        let last = fields.last_mut();
        let end = last.as_ref().map_or(0, |last| last.offset + last.len);
        if let Some(last) = last.filter(|last| (last.offset, last.len) == (offset, len)) {
            last.name = format!("{}, `{name}`", last.name);
            continue;
        }
        // Of overlapping ranges, each byte is listed once.
        let (start, end) = (offset.max(end), offset.saturating_add(len));
        if let Some(len) = end.checked_sub(start).filter(|len| *len > 0) {
            let name = format!("elements of `{name}`");
            let value = format!("{} {:?}", tensor.dtype, tensor.shape);
            fields.push(Field { offset: start, len, tensor: Some(number), name, value });
        }
    }
    fields
}

/// Maps a tensor of a model, in the files that describe it and hold its elements.
fn of_tensor(model: &Model, name: &str, options: &OpenOptions) -> Result<Vec<FileMap>> {
    let weights = weights(model);
    let name_of = |(number, weight): (usize, &Parameter)| match weight.name.as_str() {
        "" => Cow::Owned(number.to_string()),
        name => Cow::Owned(name.to_owned()),
    };
    let number = Names::new(&model.format, weights.iter().enumerate().map(name_of)).find(name)?;
    let lost = || Finding::internal(format!("there is no tensor number {number}"));
    let weight = weights.get(number).ok_or_else(lost).map_err(Error::Internal)?;
    let (mut found, mut damage) = (Vec::new(), None);
    for file in &model.files {
        let Some(mut mapped) = of_file(file, Some(model), options)? else { continue };
        let fields = &mut mapped.map.fields;
        let here: Vec<_> = ranges_in(weight, file).filter(|(_, len)| *len > 0).collect();
        let holds = |field: &Field| {
            let end = field.offset.saturating_add(field.len);
            here.iter()
                .any(|(start, len)| *start < end && field.offset < start.saturating_add(*len))
        };
        let of_file = match fields.iter().find(|field| holds(field)) {
            Some(field) => field.tensor,
            // Elements in other files, or none, are found by the number of those before them.
            None if mapped.kind == ELEMENTS => None,
            None => Some(before(model, weights.iter().take(number), file)?),
        };
        if of_file.is_some() {
            fields.retain(|field| field.tensor == of_file);
        } else if let Some(message) = message_of(fields.iter().filter(|field| holds(field))) {
            // A constant of a subgraph has no index; the names of its fields have the same beginning.
            fields.retain(|field| {
                let rest = field.name.strip_prefix(message.as_str());
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
            });
        } else {
            fields.retain(holds);
        }
        damage = damage.or(mapped.map.error.as_ref().map(ToString::to_string));
        if !fields.is_empty() {
            found.push(mapped);
        }
    }
    if found.is_empty() {
        let why =
            damage.unwrap_or_else(|| "it has no bytes of its own in a binary file".to_owned());
        return Err(Error::UnmappedTensor { name: name.to_owned(), why });
    }
    Ok(found)
}

/// Returns the message that fields belong to, by their names: `graph.node[3].attribute[0].t`.
fn message_of<'a>(mut fields: impl Iterator<Item = &'a Field>) -> Option<String> {
    let (mut message, _) = fields.next()?.name.rsplit_once('.')?;
    for field in fields {
        while !field.name.starts_with(&format!("{message}.")) {
            (message, _) = message.rsplit_once('.')?;
        }
    }
    (!message.contains(' ')).then(|| message.to_owned())
}

/// Returns the number of tensors that no other file describes.
fn before<'a>(
    model: &Model,
    weights: impl Iterator<Item = &'a Parameter>,
    file: &Blob,
) -> Result<usize> {
    let mut others = Vec::new();
    for other in model.files.iter().filter(|other| !is_same(other, file)) {
        others.extend(mapper(other)?.map(|_| other));
    }
    let is_elsewhere =
        |weight: &&Parameter| others.iter().any(|other| ranges_in(weight, other).next().is_some());
    Ok(weights.filter(|weight| !is_elsewhere(weight)).count())
}

/// Returns the kinds of files that have a byte map.
pub(crate) fn mapped_kinds() -> String {
    let mut kinds: Vec<_> = byte_maps().map(|mapper| mapper.what).collect();
    let mut known = HashSet::new();
    kinds.retain(|kind| known.insert(*kind));
    kinds.join(", ")
}

fn serialize<S: Serializer>(map: &ByteMap, serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Keys<'a> {
        offset: u64,
        len: u64,
        #[serde(skip_serializing_if = "Option::is_none")]
        tensor: Option<usize>,
        name: &'a str,
        value: &'a str,
    }
    let keys = map.fields.iter().map(|Field { offset, len, tensor, name, value }| Keys {
        offset: *offset,
        len: *len,
        tensor: *tensor,
        name,
        value,
    });
    let mut entries = serializer.serialize_map(None)?;
    entries.serialize_entry("fields", &keys.collect::<Vec<_>>())?;
    if let Some(error) = &map.error {
        entries.serialize_entry("error", &error.to_string())?;
    }
    entries.end()
}
