//! Reads tensors without their elements.

use std::collections::btree_map::Entry as Listed;
use std::collections::{BTreeMap, BTreeSet, HashSet};

use bytes::Bytes;
use lodstone_model::{Limits, Model, Parameter, Report, Residual, Tensor, some};
use lodstone_store::{Blob, Cursor, Entry as DirEntry, Location};

use super::header::{Entry, Header, Index};
use super::layout::{Layout, Text};
use super::numbered::{Numbered, numbered};
use super::{MAX_HEADER, NAME, aliases, detect};
use crate::byte_map::{self, Recorded};
use crate::error::{Error, Result};
use crate::options::OpenOptions;
use crate::seal::entries::ModelDir;

/// Opens a file, an index, or a directory that holds either.
///
/// # Errors
/// The errors of [`read_blob`]. Fails if an index refers to a file that does not exist, leads out of its directory
/// or lacks the tensor, or if a directory holds no model or several.
pub fn read(path: &Location, options: &OpenOptions) -> Result<Model> {
    let mut model = files(path, options)?;
    if !options.as_stored {
        aliases::expand(&mut model, &options.limits)?;
    }
    Ok(model)
}

fn files(path: &Location, options: &OpenOptions) -> Result<Model> {
    if path.is_dir()? {
        let entries = path.list()?;
        let name = detect::entry(&entries).ok_or_else(|| {
            let why = "expected `model.safetensors`, `model.safetensors.index.json`, or one file \
                       with such an extension";
            Error::NoModel { path: path.to_path_buf(), why: why.to_owned() }
        })?;
        let dir = options.dir(path)?;
        let blob = open(&dir, name)?;
        let mut model = one_or_many(&blob, &path.join(name), &dir, options)?;
        let mut layout = match Layout::of(&model)? {
            Some(layout) => layout,
            None => alone(&model, name)?,
        };
        check_others(path, name, &entries, &layout, &mut model.report)?;
        layout.directory = true;
        layout.remember(&mut model)?;
        return Ok(model);
    }
    let blob = options.file(path)?;
    let dir = options.dir(&path.directory())?;
    one_or_many(&blob, path, &dir, options)
}

/// Returns the layout of a model in one file, with its original header.
fn alone(model: &Model, name: &str) -> Result<Layout> {
    let header = model.residual.of(NAME).map(|header| header.to_vec());
    let text = header.and_then(|header| String::from_utf8(header).ok());
    let text = text.ok_or_else(|| Error::internal("the header of a file was not kept"))?;
    Ok(Layout { files: vec![Text { name: name.to_owned(), text }], ..Layout::default() })
}

/// Reads a single file.
///
/// # Errors
/// Fails with what was expected, and where, if the file is not exactly a safetensors file.
pub fn read_blob(blob: &Blob, limits: &Limits) -> Result<Model> {
    let (json, header) = header(&mut Cursor::new(blob), blob, limits)?;
    Ok(Model {
        format: NAME.to_owned(),
        parameters: parameters(blob, header.tensors, 8 + json.len() as u64)?,
        metadata: header.metadata,
        files: vec![blob.clone()],
        residual: Residual::new(NAME, json),
        ..Model::default()
    })
}

/// Reads the header of a file with a recording cursor, and lists the ranges of the tensors.
pub(super) fn map(blob: &Blob, limits: &Limits) -> Recorded {
    byte_map::record(blob, |cursor| {
        let json = text(cursor, blob, limits)?;
        let start = cursor.position();
        let (header, checked) = match Header::parse(&json, blob, limits) {
            Ok(header) => (header, Ok(())),
            // The ranges of a truncated file are those before the damage.
            Err(error) => match Header::decode(&json) {
                Ok(header) => (header, Err(error)),
                Err(_) => return Err(error),
            },
        };
        for (number, (name, Entry { dtype, shape, offsets })) in header.tensors.iter().enumerate() {
            let Some(len) = offsets.1.checked_sub(offsets.0) else { break };
            if start.checked_add(offsets.0) != Some(cursor.position()) {
                break;
            }
            cursor.set_tensor(Some(number));
            cursor.blob(len, &format!("elements of `{name}`, {dtype} {shape:?}"))?;
        }
        checked
    })
}

/// Warns about files that are not part of the opened model, and fails if one has the conventional name of a model: an
/// index and such a file are two models.
fn check_others(
    directory: &Location,
    name: &str,
    entries: &[DirEntry],
    layout: &Layout,
    report: &mut Report,
) -> Result<()> {
    let mut others: Vec<&str> = detect::files(entries).filter(|other| *other != name).collect();
    let shards: HashSet<&str> = layout.files.iter().map(|file| file.name.as_str()).collect();
    others.retain(|other| !shards.contains(other));
    if others.contains(&detect::USUAL) {
        let why = format!("`{}` is not part of `{name}`; pass one of them", detect::USUAL);
        return Err(Error::NoModel { path: directory.to_path_buf(), why });
    }
    if !others.is_empty() {
        let others = some(others.iter().map(|other| format!("`{other}`")));
        report.warn(format!("the directory holds other files: {others}; `{name}` was opened"));
    }
    Ok(())
}

fn one_or_many(
    blob: &Blob,
    path: &Location,
    dir: &ModelDir,
    options: &OpenOptions,
) -> Result<Model> {
    // By name: an index begins with `{`, but so does a file whose header has 123 bytes.
    if path.extension().is_some_and(|extension| extension == "json") {
        return sharded(blob, path, dir, &options.limits);
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let names: Vec<String> = numbered(&name).iter().flat_map(Numbered::names).collect();
    // Interfaces that open one file as it is stored get just this one.
    if names.len() < 2 || options.as_stored {
        return read_blob(blob, &options.limits);
    }
    siblings(blob, &name, &names, dir, &options.limits)
}

/// Reads a file with its numbered siblings, if all of them are there. Otherwise, the file is opened alone, with a warning.
fn siblings(
    blob: &Blob,
    name: &str,
    names: &[String],
    dir: &ModelDir,
    limits: &Limits,
) -> Result<Model> {
    let (mut blobs, count) = (Vec::new(), names.len());
    for sibling in names {
        let found = if sibling == name { Some(blob.clone()) } else { dir.open_file(sibling)? };
        let Some(found) = found else {
            let mut model = read_blob(blob, limits)?;
            let what = format!("`{name}` is one of {count} files, and the model is incomplete");
            model.report.warn(format!("{what}: there is no `{sibling}`"));
            return Ok(model);
        };
        blobs.push(found);
    }
    let mut model = Model { format: NAME.to_owned(), ..Model::default() };
    let mut shards = Shards::default();
    for (sibling, blob) in names.iter().zip(blobs) {
        shards.read(&mut model, sibling, &blob, &[], limits)?;
    }
    let layout = Layout { files: shards.texts, ..Layout::default() };
    model.report.warn(format!("`{name}` was opened with the other {} of {count} files", count - 1));
    layout.remember(&mut model)?;
    Ok(model)
}

/// Reads the files of an index, in the order of their names.
fn sharded(blob: &Blob, path: &Location, dir: &ModelDir, limits: &Limits) -> Result<Model> {
    let json = Cursor::new(blob).bytes(limited(blob, 0, blob.len(), limits)?, "an index")?;
    // Parts that the parser skips need not be UTF-8, and could not be kept.
    let text = utf8(blob, 0, json)?;
    let index: Index =
        serde_json::from_str(&text).map_err(|source| Error::json(path, blob, source))?;
    let (format, files) = (NAME.to_owned(), vec![blob.clone()]);
    let mut model = Model { format, files, ..Model::default() };
    for key in &index.unknown {
        model.report.warn(format!("`{}`: unknown key `{key}`", path.display()));
    }
    let mut listed: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, file) in &index.weight_map {
        listed.entry(file.clone()).or_default().push(name.clone());
    }
    // Files that the index lacks belong to the model, too.
    let all = listed.keys().filter_map(|name| numbered(name));
    let all: BTreeSet<String> = all.flat_map(|of| of.names().collect::<Vec<_>>()).collect();
    for name in all {
        listed.entry(name).or_default();
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut shards = Shards { files: Some(index.weight_map), ..Shards::default() };
    let mut opened = HashSet::new();
    for (shard, expected) in &listed {
        let place = || format!("`{}`", path.display());
        let blob = open(dir, shard).map_err(|error| error.inside(place()))?;
        // An alias by another spelling or link would repeat the tensors.
        if !opened.insert(blob.file_range().map(|(file, _)| file.identity())) {
            let error = blob.malformed(0, "a file that the index lists once", "a duplicate");
            return Err(Error::from(error).inside(place()));
        }
        shards.read(&mut model, shard, &blob, expected, limits)?;
    }
    let Shards { texts, unlisted, elsewhere, .. } = shards;
    if unlisted > 0 {
        let what = "are in the files but not in the index";
        model.report.warn(format!("tensors that {what}: {unlisted}"));
    }
    if elsewhere > 0 {
        let what = "belong to another file according to the index, skipped";
        model.report.warn(format!("tensors that {what}: {elsewhere}"));
    }
    let layout = Layout { index: Some(Text { name, text }), files: texts, ..Layout::default() };
    layout.remember(&mut model)?;
    Ok(model)
}

/// The files of a model, as they are read.
#[derive(Default)]
struct Shards {
    /// The file of each tensor, if there is an index.
    files: Option<BTreeMap<String, String>>,
    texts: Vec<Text>,
    /// The number of tensors that the index lacks.
    unlisted: usize,
    /// The number of tensors that belong to another file.
    elsewhere: usize,
}

impl Shards {
    /// Adds the tensors of a file, which has those that are `expected` in it.
    fn read(
        &mut self,
        model: &mut Model,
        shard: &str,
        blob: &Blob,
        expected: &[String],
        limits: &Limits,
    ) -> Result<()> {
        model.files.push(blob.clone());
        let (json, header) = header(&mut Cursor::new(blob), blob, limits)?;
        let names: HashSet<&String> = header.tensors.iter().map(|(name, _)| name).collect();
        if let Some(name) = expected.iter().find(|name| !names.contains(name)) {
            let expected = format!("a tensor `{name}`, which the index maps to this file");
            return Err(blob.malformed(8, expected, "no such tensor").into());
        }
        let start = 8 + json.len() as u64;
        let text = utf8(blob, 8, json.to_vec())?;
        self.texts.push(Text { name: shard.to_owned(), text });
        for parameter in parameters(blob, header.tensors, start)? {
            let name = &parameter.name;
            let file = self.files.as_mut().map(|files| files.entry(name.clone()));
            match file {
                None => model.parameters.push(parameter),
                Some(Listed::Vacant(file)) => {
                    self.unlisted += 1;
                    file.insert(shard.to_owned());
                    model.parameters.push(parameter);
                }
                Some(Listed::Occupied(file)) if file.get() == shard => {
                    model.parameters.push(parameter);
                }
                Some(Listed::Occupied(_)) => self.elsewhere += 1,
            }
        }
        if model.parameters.len() > limits.tensors {
            return Err(blob.over_limit(8, limits.at_most_tensors("tensors")).into());
        }
        for (key, value) in header.metadata {
            let first = model.metadata.entry(key.clone()).or_insert_with(|| value.clone());
            if *first != value {
                let warning = format!("`{shard}`: `{key}` of the metadata differs, skipped");
                model.report.warn(warning);
            }
        }
        Ok(())
    }
}

fn open(dir: &ModelDir, name: &str) -> Result<Blob> {
    let absent = || Error::NoModel { path: dir.path().join(name), why: "no such file".to_owned() };
    dir.open_file(name)?.ok_or_else(absent)
}

/// Reads the header of a file: its text and its contents.
fn header(cursor: &mut Cursor<'_>, blob: &Blob, limits: &Limits) -> Result<(Bytes, Header)> {
    let json = text(cursor, blob, limits)?;
    let header = Header::parse(&json, blob, limits)?;
    Ok((json.into(), header))
}

/// Reads the text of the header of a file.
fn text(cursor: &mut Cursor<'_>, blob: &Blob, limits: &Limits) -> Result<Vec<u8>> {
    let size = cursor.u64("the size of the header")?;
    Ok(cursor.bytes(limited(blob, 0, size, limits)?, "a header")?)
}

/// Converts bytes at offset `start` to text.
fn utf8(blob: &Blob, start: u64, bytes: Vec<u8>) -> Result<String> {
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to() as u64;
        blob.malformed(start + at, "text in UTF-8", "other bytes").into()
    })
}

/// Returns `size` if it is within the limits of a JSON text.
fn limited(blob: &Blob, offset: u64, size: u64, limits: &Limits) -> Result<u64> {
    if size > MAX_HEADER {
        let expected = format!("a header or index of at most {MAX_HEADER} bytes");
        return Err(blob.malformed(offset, expected, format!("{size} bytes")).into());
    }
    if size > limits.structure_bytes {
        let limit = limits.at_most_bytes("of a header or index");
        return Err(blob.over_limit(offset, limit).into());
    }
    Ok(size)
}

/// Returns the tensors of a checked header that ends at offset `start`.
fn parameters(blob: &Blob, tensors: Vec<(String, Entry)>, start: u64) -> Result<Vec<Parameter>> {
    let parameters = tensors.into_iter().map(|(name, Entry { dtype, shape, offsets })| {
        let data = blob.slice(start + offsets.0, offsets.1 - offsets.0)?;
        Ok(Parameter { name, tensor: Tensor::dense(dtype, shape, data) })
    });
    parameters.collect()
}
