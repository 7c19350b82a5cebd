//! Reads the weights of exported programs.

use std::collections::{BTreeSet, HashMap};

use lodstone_model::{Limits, Model, Parameter, some};
use lodstone_store::Blob;

use super::config::{Config, Entry};
use crate::error::{Error, Result};
use crate::torch::archive::{Archive, Kind};

/// A folder of tensors, the endings of its configurations, and the prefix of those of its files that are tensors.
struct Folder {
    path: &'static str,
    configurations: [&'static str; 2],
    file: &'static str,
}

const FOLDERS: [Folder; 2] = [
    Folder {
        path: "data/weights/",
        configurations: ["_weights_config.json", "_model_param_config.json"],
        file: "weight_",
    },
    Folder {
        path: "data/constants/",
        // The second one ends with the first, so it comes first.
        configurations: ["_model_constants_config.json", "_constants_config.json"],
        file: "tensor_",
    },
];

/// The files of `torch.save` in archives until 2.7.
const EARLY: [&str; 2] = ["serialized_state_dict.pt", "serialized_constants.pt"];

/// Reads a file of `torch.save` inside of an archive.
pub(crate) type ReadSaved = fn(&Blob, &Limits) -> Result<Model>;

/// Adds the weights and constants of all programs of an archive to a model.
///
/// # Errors
/// Fails if a tensor is damaged, or its storage is missing.
pub(crate) fn parameters(
    archive: &Archive,
    limits: &Limits,
    saved: ReadSaved,
    model: &mut Model,
) -> Result<()> {
    if archive.kind == Kind::EarlyExported {
        // Until 2.4, weights were text in JSON.
        let [state, constants] = EARLY;
        whole(archive, state, "", limits, saved, model)?;
        if archive.member(constants).is_some() {
            whole(archive, constants, "", limits, saved, model)?;
        }
        return Ok(());
    }
    let models = models(archive);
    let mut skipped = Vec::new();
    for folder in FOLDERS {
        let mut known = HashMap::new();
        for (name, member) in archive.named() {
            let Some(rest) = name.strip_prefix(folder.path) else { continue };
            let endings = folder.configurations.iter().chain(&[".pt"]);
            let mut stems = endings.filter_map(|ending| Some((rest.strip_suffix(ending)?, ending)));
            let Some((stem, ending)) = stems.next() else { continue };
            let prefix = if models.len() > 1 { format!("{stem}.") } else { String::new() };
            if *ending == ".pt" {
                whole(archive, name, &prefix, limits, saved, model)?;
                continue;
            }
            let inside = |error: Error| error.inside(format!("member `{}`", member.name));
            let config = Config::parse(&archive.bytes(member)?).map_err(inside)?;
            for (tensor, entry) in config.config.0 {
                let place = format!("tensor `{tensor}`");
                if !entry.path_name.starts_with(folder.file) {
                    skipped.push(format!("`{prefix}{tensor}`"));
                    continue;
                }
                if model.parameters.len() >= limits.tensors {
                    let limit = limits.at_most_tensors("tensors");
                    return Err(archive.blob.over_limit(member.header, limit).into());
                }
                let path = format!("{}{}", folder.path, entry.path_name);
                let name = format!("{prefix}{tensor}");
                if entry.use_pickle {
                    pickled(archive, &path, &name, limits, saved, model)
                        .map_err(|error| error.inside(place))?;
                    continue;
                }
                let wrong = |expected: String| {
                    let error = archive.blob.malformed(member.header, expected, "another");
                    Error::from(error).inside(place.clone())
                };
                model.parameters.push(Parameter {
                    tensor: tensor_of(archive, &path, entry, &mut known).map_err(wrong)?,
                    name,
                });
            }
        }
    }
    if !skipped.is_empty() {
        let what = some(&skipped);
        model.report.warn(format!("objects that are not tensors were not read: {what}"));
    }
    Ok(())
}

/// Returns the names of the programs of an archive.
fn models(archive: &Archive) -> BTreeSet<&str> {
    let name = |(name, _)| {
        let name: &str = name;
        name.strip_prefix("models/")?.strip_suffix(".json")
    };
    archive.named().filter_map(name).collect()
}

/// Returns a tensor; its storage is one for all tensors of the same path.
fn tensor_of(
    archive: &Archive,
    path: &str,
    entry: Entry,
    known: &mut HashMap<String, Blob>,
) -> Result<lodstone_model::Tensor, String> {
    let storage = match known.get(path) {
        Some(storage) => storage.clone(),
        None => {
            let storage = archive.storage(path, None)?;
            known.insert(path.to_owned(), storage.clone());
            storage
        }
    };
    let meta = entry.tensor_meta.ok_or("a description of the tensor")?;
    meta.view(storage, archive.is_big)?.tensor()
}

/// Adds the tensors of a file of `torch.save`.
fn whole(
    archive: &Archive,
    name: &str,
    prefix: &str,
    limits: &Limits,
    saved: ReadSaved,
    model: &mut Model,
) -> Result<()> {
    let inner = saved(&archive.file(name)?, limits);
    let inner = inner.map_err(|error| error.inside(format!("member `{name}`")))?;
    for Parameter { name, tensor } in inner.parameters {
        model.parameters.push(Parameter { name: format!("{prefix}{name}"), tensor });
    }
    model.report.warnings.extend(inner.report.warnings);
    Ok(())
}

/// Adds a tensor that is a file of `torch.save`, or its parts.
fn pickled(
    archive: &Archive,
    path: &str,
    name: &str,
    limits: &Limits,
    saved: ReadSaved,
    model: &mut Model,
) -> Result<()> {
    let inner = saved(&archive.file(path)?, limits)?;
    for parameter in inner.parameters {
        let name = match parameter.name.as_str() {
            "" => name.to_owned(),
            part if part.starts_with('@') => format!("{name}{part}"),
            part => format!("{name}.{part}"),
        };
        model.parameters.push(Parameter { name, tensor: parameter.tensor });
    }
    for (key, value) in inner.metadata {
        model.metadata.insert(format!("{name}{key}"), value);
    }
    Ok(())
}
