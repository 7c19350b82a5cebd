//! Opens distributed checkpoints.

use std::collections::{HashMap, HashSet};

use lodstone_model::{Kind, Limits, Model, Parameter, Tensor, some};
use lodstone_store::{Blob, Entry as DirEntry, Location};

use super::metadata::{Entry, Metadata, Place};
use super::{Layout, shards};
use crate::boxes::{Boxed, assemble as whole};
use crate::error::{Error, Result};
use crate::format::Probe;
use crate::options::OpenOptions;
use crate::safetensors;
use crate::torch::DISTRIBUTED_NAME;
use crate::torch::saved::read_blob;

/// The name of the file that lists the tensors.
pub(super) const METADATA: &str = ".metadata";

/// Maximum size in bytes of the metadata.
const MAX_METADATA: u64 = 1 << 30;

/// Opens a file of a checkpoint by its name.
pub(super) type Open<'a> = &'a dyn Fn(&str) -> Result<Option<Blob>>;

/// Returns whether a path is a checkpoint: a directory with metadata, metadata, or a directory of shards.
pub(in crate::torch) fn detect(probe: &Probe<'_>) -> bool {
    match probe.entries {
        Some(entries) => !mains(entries).is_empty() || shards::detect(probe.path, entries),
        None => {
            let name = b"torch.distributed.checkpoint.metadata";
            let file = probe.path.name().unwrap_or_default();
            (file == METADATA || rank_of(file).is_some())
                && probe.head.windows(name.len()).any(|bytes| bytes == name)
        }
    }
}

/// Returns the number of the process that wrote its own metadata, `__R.metadata`.
fn rank_of(name: &str) -> Option<u64> {
    let rank = name.strip_prefix("__")?.strip_suffix(METADATA)?;
    rank.parse().ok().filter(|_| rank.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Returns the metadata of a directory: one file, or those of all processes in their order.
fn mains(entries: &[DirEntry]) -> Vec<String> {
    let names = || entries.iter().filter(|entry| !entry.is_dir).map(|entry| &entry.name);
    if names().any(|name| name == METADATA) {
        return vec![METADATA.to_owned()];
    }
    let mut ranks: Vec<(u64, &String)> =
        names().filter_map(|name| Some((rank_of(name)?, name))).collect();
    ranks.sort_unstable();
    ranks.into_iter().map(|(_, name)| name.clone()).collect()
}

/// Opens a checkpoint: a directory, or a file of its metadata.
///
/// # Errors
/// Fails if the metadata is damaged, or an item is missing or damaged.
pub(in crate::torch) fn read(path: &Location, options: &OpenOptions) -> Result<Model> {
    let directory = path.is_dir()?;
    let root = if directory { path.clone() } else { path.directory() };
    let dir = options.dir(&root)?;
    let open = |name: &str| dir.open_file(name);
    let entries = if directory { path.list()? } else { Vec::new() };
    let mains = match directory {
        true => mains(&entries),
        false => vec![path.name().unwrap_or_default().to_owned()],
    };
    // The metadata of processes: those of some may be missing.
    let ranks: Vec<u64> = mains.iter().filter_map(|name| rank_of(name)).collect();
    if let Some(missing) = (0..).zip(&ranks).find(|(rank, found)| rank != *found)
        && directory
    {
        let why = format!("it has no `__{}{METADATA}`, but that of a later process", missing.0);
        return Err(Error::NoModel { path: path.to_path_buf(), why });
    }
    let (mut model, layout) = if mains.is_empty() {
        let files = shards::files(&entries);
        (
            shards::assemble(&files, &open, &options.limits)?,
            Layout { names: files, ..Layout::default() },
        )
    } else {
        let (model, names) = assemble(&mains, &open, &options.limits)?;
        let mut all = mains.clone();
        all.extend(names);
        (model, Layout { names: all, mains: mains.len(), ..Layout::default() })
    };
    if directory && !ranks.is_empty() {
        let what = "the number of processes is not recorded, so that the metadata of a missing last \
                    one would not be noticed";
        model.report.warn(what);
    }
    Layout { directory, ..layout }.remember(&mut model)?;
    Ok(model)
}

/// Reads the metadata of all processes; also returns the files.
pub(super) fn merged(
    mains: &[String],
    open: Open<'_>,
    limits: &Limits,
) -> Result<(Metadata, Vec<Blob>)> {
    let (mut merged, mut files): (Option<Metadata>, _) = (None, Vec::with_capacity(mains.len()));
    for name in mains {
        let why = || Error::NoModel { path: name.into(), why: "no such file".to_owned() };
        let main = open(name)?.ok_or_else(why)?;
        if main.len() > MAX_METADATA {
            let limit = format!("at most {MAX_METADATA} bytes of metadata");
            return Err(main.over_limit(0, limit).into());
        }
        let read = Metadata::read(&main, limits)?;
        match &mut merged {
            None => merged = Some(read),
            Some(merged) => merged.merge(read, &main)?,
        }
        files.push(main);
    }
    let merged = merged.ok_or_else(|| Error::internal("a checkpoint without metadata"))?;
    Ok((merged, files))
}

/// Returns the checkpoint that files of metadata describe, and the names of its other files.
pub(super) fn assemble(
    mains: &[String],
    open: Open<'_>,
    limits: &Limits,
) -> Result<(Model, Vec<String>)> {
    let mut model = Model { format: DISTRIBUTED_NAME.to_owned(), ..Model::default() };
    let (metadata, mains) = merged(mains, open, limits)?;
    let main = mains.first().cloned().unwrap_or_default();
    model.files = mains;
    let Metadata { entries, places, repeated, also, .. } = metadata;
    if !repeated.is_empty() {
        let what = "several processes saved values of these names; those of the first were taken";
        model.report.warn(format!("{what}: {}", some(&repeated)));
    }
    if entries.len() > limits.tensors {
        return Err(main.over_limit(0, limits.at_most_tensors("tensors")).into());
    }
    check_apart(&entries, &places, &main)?;
    let mut files = Files::new(open, &main, limits);
    for (name, entry) in entries {
        let inside = |error: Error| error.inside(format!("tensor `{name}`"));
        match entry {
            Entry::Bytes => {
                let place = places.get(&(name.clone(), None));
                let place = place.ok_or_else(|| inside(no_place(&main)))?;
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
                let mut parts = Vec::with_capacity(chunks.len());
                for (offsets, sizes) in chunks {
                    let key = (name.clone(), Some(offsets.clone()));
                    let zeros = offsets.iter().all(|offset| *offset == 0);
                    let alone = || places.get(&(name.clone(), None)).filter(|_| zeros);
                    let place = places.get(&key).or_else(alone);
                    let place = place.ok_or_else(|| inside(no_place(&main)))?;
                    let tensor = files.tensor(place, &name).map_err(inside)?;
                    let stored = packed(sizes.clone(), element.packed);
                    if tensor.shape != stored || tensor.dtype != element.dtype {
                        let expected = format!("a chunk of {} {sizes:?}", element.name);
                        let found = format!("{} {:?}", tensor.dtype, tensor.shape);
                        return Err(inside(main.malformed(0, expected, found).into()));
                    }
                    parts.push((Boxed { offsets, sizes, data: tensor.data.clone() }, tensor));
                }
                let tensor = match parts.as_mut_slice() {
                    [(chunk, tensor)]
                        if chunk.sizes == shape && chunk.offsets.iter().all(|at| *at == 0) =>
                    {
                        tensor.clone()
                    }
                    _ => {
                        let boxes = parts.into_iter().map(|(chunk, _)| chunk).collect();
                        let data = whole(&shape, element.size, boxes).map_err(|expected| {
                            inside(main.malformed(0, expected, "others").into())
                        })?;
                        Tensor::dense(element.dtype, packed(shape, element.packed), data)
                    }
                };
                model.parameters.push(Parameter { name, tensor });
            }
        }
    }
    // Files of items that are not read belong to the checkpoint, too.
    for name in also {
        files.file(&name)?;
    }
    let mut names = files.names;
    names.sort();
    let opened = names.iter().filter_map(|name| files.opened.remove(name));
    model.files.extend(opened.map(|file| file.blob));
    Ok((model, names))
}

/// Fails if the bytes of an object are those of another item, too: they would be a pickle among the elements of a tensor.
fn check_apart(
    entries: &[(String, Entry)],
    places: &HashMap<(String, Option<Vec<u64>>), Place>,
    main: &Blob,
) -> Result<()> {
    let objects: HashSet<&str> = entries
        .iter()
        .filter(|(_, entry)| matches!(entry, Entry::Bytes))
        .map(|(name, _)| name.as_str())
        .collect();
    if objects.is_empty() {
        return Ok(());
    }
    let is_used =
        |name: &str, offsets: &Option<Vec<u64>>| offsets.is_none() || !objects.contains(name);
    let used = places.iter().filter(|((name, offsets), _)| is_used(name, offsets));
    let mut ranges: Vec<_> = used
        .map(|((name, _), place)| (&place.file, place.offset, place.len, name.as_str()))
        .collect();
    ranges.sort_unstable();
    // The range that reaches farthest, and the same of an object, in the current file.
    let mut farthest: [Option<(&String, u64, &str)>; 2] = [None, None];
    for (file, start, len, name) in ranges {
        let is_object = objects.contains(name);
        let [any, object] = farthest;
        let before = if is_object { any } else { object };
        let other = before.filter(|(of, end, _)| *of == file && *end > start);
        if let Some((_, _, other)) = other.filter(|_| len > 0) {
            let found = format!("bytes of `{other}`");
            return Err(main.malformed(0, format!("bytes of its own for `{name}`"), found).into());
        }
        let end = start.saturating_add(len);
        for (at, kept) in farthest.iter_mut().enumerate() {
            let reaches = kept.is_none_or(|(of, far, _)| of != file || far < end);
            if (at == 0 || is_object) && reaches {
                *kept = Some((file, end, name));
            }
        }
    }
    Ok(())
}

pub(super) fn no_place(main: &Blob) -> Error {
    main.malformed(0, "a place of every item", "none").into()
}

/// Returns dims in elements of the model, of which `count` are packed into each of PyTorch along the last axis.
fn packed(mut dims: Vec<u64>, count: u64) -> Vec<u64> {
    if let Some(last) = dims.last_mut() {
        *last = last.saturating_mul(count);
    }
    dims
}

/// Appends the path of a value inside of an item to the name of the item.
pub(super) fn joined(name: &str, path: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{name}.{path}") }
}

/// The files of a checkpoint, of which each is opened once.
pub(super) struct Files<'a> {
    open: Open<'a>,
    main: &'a Blob,
    limits: &'a Limits,
    opened: HashMap<String, File>,
    names: Vec<String>,
}

/// An open file.
struct File {
    blob: Blob,
    /// The tensors of safetensors in the file, by the offset of their header.
    tensors: HashMap<u64, HashMap<String, Tensor>>,
}

impl<'a> Files<'a> {
    pub(super) fn new(open: Open<'a>, main: &'a Blob, limits: &'a Limits) -> Self {
        Self { open, main, limits, opened: HashMap::new(), names: Vec::new() }
    }

    fn file(&mut self, name: &str) -> Result<&mut File> {
        if !self.opened.contains_key(name) {
            let blob = (self.open)(name)?.ok_or_else(|| {
                Error::from(self.main.malformed(0, format!("a file `{name}`"), "no such file"))
            })?;
            self.names.push(name.to_owned());
            self.opened.insert(name.to_owned(), File { blob, tensors: HashMap::new() });
        }
        self.opened.get_mut(name).ok_or_else(|| Error::internal("a file was not opened"))
    }

    pub(super) fn item(&mut self, place: &Place) -> Result<Blob> {
        let File { blob: file, .. } = self.file(&place.file)?;
        let end = place.offset.checked_add(place.len).filter(|end| *end <= file.len());
        if end.is_none() {
            let expected = format!("an item of {} bytes at {}", place.len, place.offset);
            return Err(file.malformed(0, expected, format!("a file of {}", file.len())).into());
        }
        Ok(file.slice(place.offset, place.len)?)
    }

    /// Returns a chunk of a tensor: an item, or a tensor of the safetensors that begin the file or follow its items.
    fn tensor(&mut self, place: &Place, name: &str) -> Result<Tensor> {
        let (main, limits) = (self.main, self.limits);
        let file = self.file(&place.file)?;
        for start in [0, place.offset] {
            if !file.tensors.contains_key(&start) {
                let rest = file.blob.len().checked_sub(start);
                let Some(rest) = rest.filter(|rest| *rest > 0) else { continue };
                let rest = file.blob.slice(start, rest)?;
                if !safetensors::is_file(&rest.head(64)?) {
                    continue;
                }
                let named = safetensors::read_blob(&rest, limits)?.parameters.into_iter();
                let named = named.map(|parameter| (parameter.name, parameter.tensor)).collect();
                file.tensors.insert(start, named);
            }
            let found = file.tensors.get(&start).and_then(|tensors| tensors.get(name)).cloned();
            let expected = || format!("a tensor `{name}` in `{}`", place.file);
            return found.ok_or_else(|| main.malformed(0, expected(), "none").into());
        }
        let item = self.item(place)?;
        let mut model = read_blob(&item, limits)?;
        match (model.parameters.pop(), model.parameters.is_empty()) {
            (Some(Parameter { tensor, .. }), true) if matches!(tensor.kind, Kind::Dense) => {
                Ok(tensor)
            }
            _ => Err(item.malformed(0, "one dense tensor", "another value").into()),
        }
    }
}
