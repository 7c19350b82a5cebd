//! Opens the shards of `HuggingFaceStorageWriter`: files of safetensors without metadata or index.

use std::collections::{BTreeMap, HashMap};

use lodstone_model::{DType, Limits, Model, Parameter, Tensor, some};
use lodstone_store::{Blob, Entry, Location};
use serde::Deserialize;

use super::checkpoint::Open;
use crate::boxes::{Boxed, assemble as whole, extent};
use crate::encoding::json::malformed;
use crate::error::{Error, Result};
use crate::safetensors;
use crate::torch::DISTRIBUTED_NAME;

/// The key of a file's metadata with the offsets of its tensors.
pub(super) const INFO: &str = "DCP_SHARDING_INFO";

/// The key with the version of the layout, a constant.
pub(super) const VERSION: &str = "DCP_VERSION";

/// Number of bytes in which the metadata of a file is searched for the key: PyTorch writes few keys before it.
const SEARCHED: u64 = 512;

/// The place of a file's tensor in the whole one.
#[derive(Deserialize)]
struct Saved {
    saved_offsets: Vec<u64>,
}

/// A tensor: its chunks, of one type.
struct Chunks {
    dtype: DType,
    boxes: Vec<Boxed>,
}

/// Returns the files of a directory that may be shards, sorted; none if it has an index.
pub(super) fn files(entries: &[Entry]) -> Vec<String> {
    let names = || entries.iter().filter(|entry| !entry.is_dir).map(|entry| &entry.name);
    if names().any(|name| name.ends_with(".safetensors.index.json")) {
        return Vec::new();
    }
    let mut files: Vec<String> =
        names().filter(|name| name.ends_with(".safetensors")).cloned().collect();
    files.sort();
    files
}

/// Returns whether a directory holds shards.
pub(super) fn detect(path: &Location, entries: &[Entry]) -> bool {
    let is_shard = |name: &String| {
        let blob = Blob::open(path.join(name), false).ok()?;
        let head = blob.head(SEARCHED).ok()?;
        let has = head.windows(INFO.len()).any(|bytes| bytes == INFO.as_bytes());
        Some(has && safetensors::is_file(&head))
    };
    files(entries).first().and_then(is_shard).unwrap_or_default()
}

/// Returns the model whose tensors are spread over files.
pub(super) fn assemble(names: &[String], open: Open<'_>, limits: &Limits) -> Result<Model> {
    let mut model = Model { format: DISTRIBUTED_NAME.to_owned(), ..Model::default() };
    let mut tensors: BTreeMap<String, Chunks> = BTreeMap::new();
    let mut count = 0_usize;
    for name in names {
        let absent = || Error::NoModel { path: name.into(), why: "no such file".to_owned() };
        let blob = open(name)?.ok_or_else(absent)?;
        let inside = |error: Error| error.inside(format!("file `{name}`"));
        let mut file = safetensors::read_blob(&blob, limits).map_err(inside)?;
        let info = file.metadata.remove(INFO).ok_or_else(|| {
            let expected = format!("the key `{INFO}` in the metadata of each file");
            inside(blob.malformed(8, expected, "none").into())
        })?;
        let info: HashMap<String, Saved> = serde_json::from_str(&info).map_err(|error| {
            inside(malformed(&blob, (8, info.as_bytes()), "offsets of tensors", &error))
        })?;
        file.metadata.remove(VERSION);
        count = count.saturating_add(file.parameters.len());
        if count > limits.tensors {
            return Err(blob.over_limit(8, limits.at_most_tensors("tensors")).into());
        }
        for Parameter { name, tensor } in file.parameters {
            let odd = |expected: &str, found: String| {
                let error = Error::from(blob.malformed(8, expected, found));
                inside(error.inside(format!("tensor `{name}`")))
            };
            let saved = info.get(&name).ok_or_else(|| odd("its offsets", "none".to_owned()))?;
            let offsets = saved.saved_offsets.clone();
            if offsets.len() != tensor.shape.len() {
                return Err(odd("an offset for each dim", format!("{offsets:?}")));
            }
            let boxed = Boxed { offsets, sizes: tensor.shape, data: tensor.data };
            let chunks = tensors.entry(name.clone());
            let chunks = chunks.or_insert(Chunks { dtype: tensor.dtype, boxes: Vec::new() });
            let rank = chunks.boxes.first().map(|first| first.sizes.len());
            if chunks.dtype != tensor.dtype || rank.is_some_and(|rank| rank != boxed.sizes.len()) {
                let found = format!("{} {:?}", tensor.dtype, boxed.sizes);
                return Err(odd("chunks of one type and rank", found));
            }
            chunks.boxes.push(boxed);
        }
        for (key, value) in file.metadata {
            let first = model.metadata.entry(key.clone()).or_insert_with(|| value.clone());
            if *first != value {
                model.report.warn(format!("`{name}`: `{key}` of the metadata differs, skipped"));
            }
        }
        model.files.push(blob);
    }
    let Some(main) = model.files.first().cloned() else {
        return Err(Error::internal("a checkpoint without files"));
    };
    let mut open_ended = Vec::new();
    for (name, Chunks { dtype, boxes }) in tensors {
        let inside = |expected: String| {
            let error = Error::from(main.malformed(8, expected, "others"));
            error.inside(format!("tensor `{name}`"))
        };
        let places = boxes.iter().map(|it| (it.offsets.as_slice(), it.sizes.as_slice()));
        let shape = extent(places).ok_or_else(|| inside("offsets that fit 64 bits".to_owned()))?;
        let item = dtype.bits().map(|bits| u64::from(bits) / 8);
        let item = item.ok_or_else(|| inside("elements of a known size".to_owned()))?;
        if !shape.is_empty() {
            open_ended.push(format!("`{name}`"));
        }
        let data = whole(&shape, item, boxes).map_err(inside)?;
        let tensor = Tensor::dense(dtype, shape, data);
        model.parameters.push(Parameter { name, tensor });
    }
    if !open_ended.is_empty() {
        let what = "the files do not record the dims of whole tensors, so that a missing last \
                    file would not be noticed";
        model.report.warn(format!("{what}: {}", some(&open_ended)));
    }
    Ok(model)
}
