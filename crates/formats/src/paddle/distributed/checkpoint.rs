//! Opens distributed checkpoints, and writes unedited ones back.

use std::collections::{BTreeMap, HashMap};

use lodstone_model::{DType, Kind, Limits, Model, Parameter, Tensor, some};
use lodstone_store::{Blob, Entry, Location};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::NAME;
use super::metadata::{Local, Metadata, Place};
use crate::boxes::{Boxed, assemble as whole, extent};
use crate::error::{Error, Result};
use crate::format::{Probe, recall, remember};
use crate::options::{OpenOptions, WriteOptions};
use crate::paddle::pickle::{AS_INTEGERS, TABLE, is_pickle, read_blob};
use crate::safetensors;
use crate::staged::Staged;

/// The suffix of metadata.
const METADATA: &str = ".metadata";

/// Opens a file of a checkpoint by its name.
type Open<'a> = &'a dyn Fn(&str) -> Result<Option<Blob>>;

/// Ranges of the elements of a box: the first element, and the bytes.
type Ranges = Vec<(u64, Blob)>;

/// The names of the files of a model: the metadata and the others.
#[derive(Debug, Serialize, Deserialize)]
struct Layout {
    names: Vec<String>,
    /// Whether a directory was opened, instead of the metadata.
    directory: bool,
}

/// Returns whether a path is a checkpoint: a directory with metadata, or metadata.
pub(super) fn detect(probe: &Probe<'_>) -> bool {
    match probe.entries {
        Some(entries) => newest(entries).is_some(),
        None => {
            let module = b"paddle.distributed.";
            probe.path.name().is_some_and(|name| number(name).is_some())
                && is_pickle(probe.head)
                && probe.head.windows(module.len()).any(|bytes| bytes == module)
        }
    }
}

/// Returns the number of a checkpoint, by the name of its metadata.
fn number(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(METADATA)?;
    digits.parse().ok().filter(|_| digits.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Returns the name of the newest metadata in a directory, and those of the others.
fn newest(entries: &[Entry]) -> Option<(String, Vec<String>)> {
    let names = entries.iter().filter(|entry| !entry.is_dir).map(|entry| &entry.name);
    let mut found: Vec<(u64, &String)> =
        names.filter_map(|name| Some((number(name)?, name))).collect();
    found.sort_unstable();
    let (_, newest) = found.pop()?;
    Some((newest.clone(), found.into_iter().map(|(_, name)| format!("`{name}`")).collect()))
}

/// Opens a checkpoint: a directory, or its metadata.
///
/// # Errors
/// Fails if the metadata is damaged, or a file is missing or damaged.
pub(super) fn read(path: &Location, options: &OpenOptions) -> Result<Model> {
    let directory = path.is_dir()?;
    let root = if directory { path.clone() } else { path.directory() };
    let dir = options.dir(&root)?;
    let (main, others) = match directory {
        true => newest(&path.list()?).ok_or_else(|| {
            let why = "it has no `0.metadata`".to_owned();
            Error::NoModel { path: path.to_path_buf(), why }
        })?,
        false => (path.name().unwrap_or_default().to_owned(), Vec::new()),
    };
    let (mut model, names) = assemble(&main, &|name| dir.open_file(name), &options.limits)?;
    if !others.is_empty() {
        let others = some(&others);
        let what = "the directory holds other checkpoints";
        model.report.warn(format!("{what}: {others}; `{main}` was opened"));
    }
    remember(&mut model, NAME, &Layout { names, directory })?;
    Ok(model)
}

/// Returns the checkpoint of a file of metadata, and the names of all files.
fn assemble(name: &str, open: Open<'_>, limits: &Limits) -> Result<(Model, Vec<String>)> {
    let why = || Error::NoModel { path: name.into(), why: "no such file".to_owned() };
    let main = open(name)?.ok_or_else(why)?;
    let Metadata { tensors, files: places, replicas } = Metadata::read(&main, limits)?;
    let mut model =
        Model { format: NAME.to_owned(), files: vec![main.clone()], ..Model::default() };
    let mut files = Files { open, main: &main, limits, opened: BTreeMap::new() };
    for (name, parts) in tensors {
        let inside = |error: Error| error.inside(format!("tensor `{name}`"));
        let odd =
            |expected: String, found: String| inside(main.malformed(0, expected, found).into());
        let Some(Local { dtype, .. }) = parts.first() else {
            return Err(odd("parts of every tensor".to_owned(), "none".to_owned()));
        };
        let dtype = *dtype;
        let shape =
            match parts.iter().find_map(|part| part.whole.clone()) {
                Some(shape) => shape,
                None => extent(
                    parts.iter().map(|it| (it.place.offsets.as_slice(), it.sizes.as_slice())),
                )
                .ok_or_else(|| odd("offsets that fit 64 bits".to_owned(), "others".to_owned()))?,
            };
        // The ranges of each box.
        let mut boxes: BTreeMap<(Vec<u64>, Vec<u64>), Ranges> = BTreeMap::new();
        for Local { place, sizes, dtype: also, whole } in parts {
            if also != dtype || whole.is_some_and(|whole| whole != shape) {
                let found = format!("{also} at {:?}", place.offsets);
                return Err(odd(format!("parts of a tensor {dtype} {shape:?}"), found));
            }
            let exact = Place { sizes: Some(sizes.clone()), ..place.clone() };
            let file = places
                .get(&(name.clone(), exact))
                .or_else(|| places.get(&(name.clone(), place.clone())));
            let Some(file) = file else {
                let found = format!("none for the part at {:?}", place.offsets);
                return Err(odd("a file of every part".to_owned(), found));
            };
            let tensor = files.tensor(file, &name).map_err(inside)?;
            let expected = match place.range {
                Some((start, end)) => vec![end - start],
                None => sizes.clone(),
            };
            if !is_type(tensor.dtype, dtype) || tensor.shape != expected {
                let found = format!("{} {:?} in `{file}`", tensor.dtype, tensor.shape);
                return Err(odd(format!("a part {dtype} {expected:?}"), found));
            }
            // A part without a range is whole.
            let start = place.range.map_or(0, |(start, _)| start);
            boxes.entry((place.offsets, sizes)).or_default().push((start, tensor.data));
        }
        let item = dtype.bits().map(|bits| u64::from(bits) / 8);
        let item =
            item.ok_or_else(|| odd("elements of a known size".to_owned(), dtype.to_string()))?;
        let mut joined = Vec::with_capacity(boxes.len());
        for ((offsets, sizes), mut ranges) in boxes {
            ranges.sort_by_key(|(start, _)| *start);
            let mut end = 0_u64;
            for (start, data) in &ranges {
                if start.checked_mul(item) != Some(end) {
                    let expected = format!("adjacent ranges of the box at {offsets:?}");
                    return Err(odd(expected, format!("one that begins at element {start}")));
                }
                end = end.saturating_add(data.len());
            }
            let data = Blob::concat(ranges.into_iter().map(|(_, data)| data).collect());
            joined.push(Boxed { offsets, sizes, data });
        }
        let data =
            whole(&shape, item, joined).map_err(|expected| odd(expected, "others".to_owned()))?;
        model.parameters.push(Parameter { name, tensor: Tensor::dense(dtype, shape, data) });
    }
    // Files of replicas belong to the checkpoint, too.
    for file in &replicas {
        files.file(file)?;
    }
    let (mut names, mut table) = (vec![name.to_owned()], Map::new());
    for (name, File { blob, names: of_file, .. }) in files.opened {
        names.push(name);
        model.files.push(blob);
        for (structured, parameter) in of_file {
            table.entry(structured).or_insert(parameter);
        }
    }
    if !table.is_empty() {
        model.metadata.insert(TABLE.to_owned(), Value::Object(table).to_string());
    }
    Ok((model, names))
}

/// Returns whether elements of type `held` in a file are of type `wanted`.
fn is_type(held: DType, wanted: DType) -> bool {
    held == wanted || AS_INTEGERS.contains(&(wanted, held))
}

/// The files of a checkpoint, of which each is opened once.
struct Files<'a> {
    open: Open<'a>,
    main: &'a Blob,
    limits: &'a Limits,
    opened: BTreeMap<String, File>,
}

/// An open file: its tensors, and the names of the variables that held them.
struct File {
    blob: Blob,
    tensors: HashMap<String, Tensor>,
    names: Map<String, Value>,
}

impl Files<'_> {
    fn tensor(&mut self, file: &str, name: &str) -> Result<Tensor> {
        self.file(file)?;
        let found = self.opened.get(file).and_then(|file| file.tensors.get(name));
        let found = found.filter(|tensor| matches!(tensor.kind, Kind::Dense)).cloned();
        let expected = || format!("a tensor `{name}` in `{file}`");
        found.ok_or_else(|| self.main.malformed(0, expected(), "none").into())
    }

    /// Opens a file, unless it is open.
    fn file(&mut self, file: &str) -> Result<()> {
        if !self.opened.contains_key(file) {
            let blob = (self.open)(file)?.ok_or_else(|| {
                Error::from(self.main.malformed(0, format!("a file `{file}`"), "no such file"))
            })?;
            let inside = |error: Error| error.inside(format!("file `{file}`"));
            let model = match safetensors::is_file(&blob.head(64)?) {
                true => safetensors::read_blob(&blob, self.limits),
                false => read_blob(&blob, self.limits),
            };
            let mut model = model.map_err(inside)?;
            let names = match model.metadata.remove(TABLE) {
                Some(text) => serde_json::from_str(&text).map_err(|error| {
                    inside(blob.malformed(0, "a table of names", error.to_string()).into())
                })?,
                None => Map::new(),
            };
            let tensors = model.parameters.into_iter();
            let tensors = tensors.map(|parameter| (parameter.name, parameter.tensor)).collect();
            self.opened.insert(file.to_owned(), File { blob, tensors, names });
        }
        Ok(())
    }
}

/// Writes the files of an unedited model.
///
/// # Errors
/// Fails if the model was not read from this format, or was edited.
pub(super) fn write_back(model: &Model, path: &Location, options: &WriteOptions) -> Result<Staged> {
    let refused = || {
        let what = "an edited model, or one of another format: its files are written back \
                    unchanged only";
        Error::Incompatible { format: NAME, what: what.to_owned() }
    };
    let layout = recall::<Layout>(model, NAME)?.filter(|_| model.format == NAME);
    let layout = layout.ok_or_else(refused)?;
    let open = |name: &str| -> Result<Option<Blob>> {
        let index = layout.names.iter().position(|known| known == name);
        Ok(index.and_then(|index| model.files.get(index)).cloned())
    };
    let main = layout.names.first().cloned().unwrap_or_default();
    let (then, _) = assemble(&main, &open, &Limits::none())?;
    if !same(&then, model)? {
        return Err(refused());
    }
    let root = if layout.directory { path.clone() } else { path.directory() };
    let mut staged = Staged::directory(&root, options)?;
    // The metadata refers to the others, and is written last.
    for (name, file) in layout.names.iter().zip(&model.files).rev() {
        staged.write(name, |out| out.copy(file))?;
    }
    Ok(if layout.directory { staged } else { staged.opened_by(main) })
}

/// Returns whether two models have the same tensors.
fn same(then: &Model, now: &Model) -> Result<bool> {
    if then.metadata != now.metadata || then.parameters.len() != now.parameters.len() {
        return Ok(false);
    }
    for (then, now) in then.parameters.iter().zip(&now.parameters) {
        let (one, two) = (&then.tensor, &now.tensor);
        let types = (one.dtype, &one.shape, &one.lod) == (two.dtype, &two.shape, &two.lod);
        if then.name != now.name || !types || !matches!(two.kind, Kind::Dense) {
            return Ok(false);
        }
        if !one.data.is(&two.data) && !one.data.is_equal(&two.data)? {
            return Ok(false);
        }
    }
    Ok(true)
}
