//! Opens distributed checkpoints.

use std::collections::HashMap;
use std::sync::Arc;

use lodstone_model::{Kind, Limits, Model, Parameter, Tensor};
use lodstone_store::{Blob, Location};

use super::Layout;
use super::assembled::{Assembled, Chunk};
use super::metadata::{Entry, Metadata, Place};
use crate::torch::DISTRIBUTED_NAME;
use crate::torch::saved::read_blob;
use crate::{Error, OpenOptions, Probe, Result, safetensors};

/// The name of the file that lists the tensors.
const METADATA: &str = ".metadata";

/// Maximum size in bytes of the metadata.
const MAX_METADATA: u64 = 1 << 30;

/// Opens a file of a checkpoint by its name.
pub(super) type Open<'a> = &'a dyn Fn(&str) -> Result<Option<Blob>>;

/// Returns whether a path is a checkpoint: a directory with metadata, or the metadata.
pub(in crate::torch) fn detect(probe: &Probe<'_>) -> bool {
    match probe.entries {
        Some(entries) => entries.iter().any(|entry| entry.name == METADATA && !entry.is_dir),
        None => {
            let name = b"torch.distributed.checkpoint.metadata";
            probe.path.file_name().is_some_and(|file| file == METADATA)
                && probe.head.windows(name.len()).any(|bytes| bytes == name)
        }
    }
}

/// Opens a checkpoint: a directory, or its metadata.
///
/// # Errors
/// Fails if the metadata is damaged, or an item is missing or damaged.
pub(in crate::torch) fn read(path: &Location, options: &OpenOptions) -> Result<Model> {
    let directory = path.is_dir();
    let root = if directory { path.clone() } else { path.directory() };
    let dir = options.dir(&root)?;
    let main = match directory {
        true => dir.open_file(METADATA)?,
        false => Some(options.file(path)?),
    };
    let why = "it has no `.metadata`".to_owned();
    let main = main.ok_or_else(|| Error::NoModel { path: path.to_path_buf(), why })?;
    let (mut model, mut names) = assemble(&main, &|name| dir.open_file(name), &options.limits)?;
    names.insert(0, METADATA.to_owned());
    Layout { names, directory }.remember(&mut model)?;
    Ok(model)
}

/// Returns a checkpoint, and the names of its files.
pub(super) fn assemble(
    main: &Blob,
    open: Open<'_>,
    limits: &Limits,
) -> Result<(Model, Vec<String>)> {
    if main.len() > MAX_METADATA {
        return Err(main.over_limit(0, format!("at most {MAX_METADATA} bytes of metadata")).into());
    }
    let Metadata { entries, places } = Metadata::read(main, limits)?;
    let format = DISTRIBUTED_NAME.to_owned();
    let mut model = Model { format, files: vec![main.clone()], ..Model::default() };
    let mut files = Files { open, main, limits, opened: HashMap::new(), names: Vec::new() };
    if entries.len() > limits.tensors {
        return Err(main.over_limit(0, format!("at most {} tensors", limits.tensors)).into());
    }
    for (name, entry) in entries {
        let missing = || {
            let error = main.malformed(0, "a place of every item", "none");
            Error::from(error).inside(format!("tensor `{name}`"))
        };
        let inside = |error: Error| error.inside(format!("tensor `{name}`"));
        match entry {
            Entry::Bytes => {
                let place = places.get(&(name.clone(), None)).ok_or_else(missing)?;
                let item = files.item(place).map_err(inside)?;
                let inner = read_blob(&item, limits).map_err(inside)?;
                for (key, value) in inner.metadata {
                    model.metadata.insert(joined(&name, &key), value);
                }
                for Parameter { name: key, tensor } in inner.parameters {
                    model.parameters.push(Parameter { name: joined(&name, &key), tensor });
                }
            }
            Entry::Tensor { element, shape, chunks } => {
                let mut parts = Vec::new();
                for (offsets, sizes) in chunks {
                    let key = (name.clone(), Some(offsets.clone()));
                    let zeros = offsets.iter().all(|offset| *offset == 0);
                    let alone = || places.get(&(name.clone(), None)).filter(|_| zeros);
                    let place = places.get(&key).or_else(alone).ok_or_else(missing)?;
                    let tensor = files.tensor(place, &name).map_err(inside)?;
                    let mut stored = sizes.clone();
                    if let Some(last) = stored.last_mut() {
                        *last = last.saturating_mul(element.packed);
                    }
                    if tensor.shape != stored || tensor.dtype != element.dtype {
                        let expected = format!("a chunk of {} {sizes:?}", element.name);
                        let found = format!("{} {:?}", tensor.dtype, tensor.shape);
                        return Err(inside(main.malformed(0, expected, found).into()));
                    }
                    parts.push((Chunk { offsets, sizes, data: tensor.data.clone() }, tensor));
                }
                let tensor = match parts.as_mut_slice() {
                    [(chunk, tensor)] if chunk.sizes == shape => tensor.clone(),
                    _ => {
                        let chunks = parts.into_iter().map(|(chunk, _)| chunk).collect();
                        let assembled = Assembled::new(shape.clone(), element.size, chunks);
                        let assembled = assembled.map_err(|expected| {
                            inside(main.malformed(0, expected, "others").into())
                        })?;
                        let mut dims = shape;
                        if let Some(last) = dims.last_mut() {
                            *last = last.saturating_mul(element.packed);
                        }
                        Tensor::dense(element.dtype, dims, Blob::derived(Arc::new(assembled)))
                    }
                };
                model.parameters.push(Parameter { name, tensor });
            }
        }
    }
    let mut names = files.names;
    names.sort();
    for name in &names {
        if let Some((file, _)) = files.opened.remove(name) {
            model.files.push(file);
        }
    }
    Ok((model, names))
}

/// Appends the path of a value inside of an item to the name of the item.
fn joined(name: &str, path: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{name}.{path}") }
}

/// The files of a checkpoint, of which each is opened once.
struct Files<'a> {
    open: Open<'a>,
    main: &'a Blob,
    limits: &'a Limits,
    /// Each file, and its tensors if it is one of safetensors.
    opened: HashMap<String, (Blob, Option<HashMap<String, Tensor>>)>,
    names: Vec<String>,
}

impl Files<'_> {
    fn file(&mut self, name: &str) -> Result<&(Blob, Option<HashMap<String, Tensor>>)> {
        if !self.opened.contains_key(name) {
            let blob = (self.open)(name)?.ok_or_else(|| {
                Error::from(self.main.malformed(0, format!("a file `{name}`"), "no such file"))
            })?;
            let tensors = match safetensors::is_file(&blob.head(64)?) {
                true => {
                    let model = safetensors::read_blob(&blob, self.limits)?;
                    let named = model.parameters.into_iter();
                    Some(named.map(|parameter| (parameter.name, parameter.tensor)).collect())
                }
                false => None,
            };
            self.names.push(name.to_owned());
            self.opened.insert(name.to_owned(), (blob, tensors));
        }
        self.opened.get(name).ok_or_else(|| Error::internal("a file was not opened"))
    }

    fn item(&mut self, place: &Place) -> Result<Blob> {
        let (file, _) = self.file(&place.file)?;
        Ok(file.slice(place.offset, place.len)?)
    }

    /// Returns a chunk of a tensor.
    fn tensor(&mut self, place: &Place, name: &str) -> Result<Tensor> {
        let (main, limits) = (self.main.clone(), self.limits.clone());
        let (_, tensors) = self.file(&place.file)?;
        if let Some(tensors) = tensors {
            let found = tensors.get(name).cloned();
            let expected = || format!("a tensor `{name}` in `{}`", place.file);
            return found.ok_or_else(|| main.malformed(0, expected(), "none").into());
        }
        let item = self.item(place)?;
        let mut model = read_blob(&item, &limits)?;
        match (model.parameters.pop(), model.parameters.is_empty()) {
            (Some(Parameter { tensor, .. }), true) if matches!(tensor.kind, Kind::Dense) => {
                Ok(tensor)
            }
            _ => Err(item.malformed(0, "one dense tensor", "another value").into()),
        }
    }
}
