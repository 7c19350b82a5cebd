//! Opens the shards of an index.

use std::collections::{BTreeMap, HashSet};

use lodstone_model::{Limits, Model, some};
use lodstone_store::{Blob, Location};

use super::Layout;
use super::checkpoint::Open;
use crate::encoding::json::malformed;
use crate::error::{Error, Result};
use crate::options::OpenOptions;
use crate::safetensors::Index;
use crate::torch::NAME;
use crate::torch::saved::read_blob;

/// The suffix of an index.
pub(in crate::torch) const INDEX: &str = ".bin.index.json";

/// Maximum size in bytes of an index.
const MAX_INDEX: u64 = 100_000_000;

/// Returns whether a file may be an index, by its name and its first byte.
pub(in crate::torch) fn is_index(name: &str, head: &[u8]) -> bool {
    name.ends_with(INDEX) && head.trim_ascii_start().first() == Some(&b'{')
}

/// Opens an index, by itself or in the directory that was opened.
///
/// # Errors
/// Fails if a file is missing, damaged, or lacks a tensor.
pub(in crate::torch) fn read(
    path: &Location,
    directory: bool,
    options: &OpenOptions,
) -> Result<Model> {
    let dir = options.dir(&path.directory())?;
    let main = options.file(path)?;
    let (mut model, mut names) = collect(&main, &|name| dir.open_file(name), &options.limits)?;
    names.insert(0, path.file_name().unwrap_or_default().to_string_lossy().into_owned());
    Layout { names, mains: 1, directory }.remember(&mut model)?;
    Ok(model)
}

/// Returns the model of an index, and the names of its files.
pub(super) fn collect(
    main: &Blob,
    open: Open<'_>,
    limits: &Limits,
) -> Result<(Model, Vec<String>)> {
    if main.len() > MAX_INDEX {
        return Err(main.over_limit(0, format!("at most {MAX_INDEX} bytes of an index")).into());
    }
    let json = main.bytes()?;
    let index: Index = serde_json::from_slice(&json)
        .map_err(|error| malformed(main, (0, &json), "an index of shards", &error))?;
    let mut model =
        Model { format: NAME.to_owned(), files: vec![main.clone()], ..Model::default() };
    for key in &index.unknown {
        model.report.warn(format!("unknown key `{key}` in the index"));
    }
    let mut shards: BTreeMap<&String, HashSet<&String>> = BTreeMap::new();
    for (name, file) in &index.weight_map {
        shards.entry(file).or_default().insert(name);
    }
    let mut unlisted = Vec::new();
    for (file, expected) in &shards {
        let blob = open(file)?.ok_or_else(|| {
            Error::from(main.malformed(0, format!("a file `{file}`"), "no such file"))
        })?;
        let inside = |error: Error| error.inside(format!("file `{file}`"));
        let shard = read_blob(&blob, limits).map_err(inside)?;
        let there: HashSet<&String> = shard.parameters.iter().map(|found| &found.name).collect();
        if let Some(name) = expected.iter().find(|name| !there.contains(**name)) {
            let expected = format!("a tensor `{name}`, which the index maps to this file");
            return Err(blob.malformed(0, expected, "no such tensor").into());
        }
        for parameter in shard.parameters {
            let of = index.weight_map.get(&parameter.name);
            if of.is_none() {
                unlisted.push(format!("`{}`", parameter.name));
            }
            if of.is_none_or(|of| of == *file) {
                model.parameters.push(parameter);
            }
        }
        if model.parameters.len() > limits.tensors {
            return Err(blob.over_limit(0, limits.at_most_tensors("tensors")).into());
        }
        model.metadata.extend(shard.metadata);
        model.report.warnings.extend(shard.report.warnings);
        model.files.push(blob);
    }
    if !unlisted.is_empty() {
        let what = "tensors that are in the files but not in the index";
        model.report.warn(format!("{what}: {}", some(&unlisted)));
    }
    let names = shards.keys().map(|name| (*name).clone()).collect();
    Ok((model, names))
}
