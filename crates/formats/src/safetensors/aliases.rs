//! Tensors that share their bytes with another one, as the functions `save_model` and `load_model` of the reference
//! record them: only one is stored, and `__metadata__` maps the names of the others to its name.
//!
//! In a model, such tensors are present under all their names, and not in its metadata. A name in the metadata is an
//! alias if the file has a tensor of the name that it maps to and none of its own.
//!
//! Source of truth: `_remove_duplicate_names` and `save_model` of the Python package `safetensors` 0.8.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;

use lodstone_model::{DType, Kind, Limits, Model, Parameter};

use crate::{Error, Result};

/// The key of the name of the framework that wrote a file, which is never an alias.
const FORMAT_KEY: &str = "format";

/// Adds the tensors that the metadata lists as aliases.
///
/// # Errors
/// Fails if there are more tensors than the limit.
pub(super) fn expand(model: &mut Model, limits: &Limits) -> Result<()> {
    let by_name: HashMap<&str, usize> =
        model.parameters.iter().enumerate().map(|(i, p)| (p.name.as_str(), i)).collect();
    let is_alias = |(name, kept): (&String, &String)| {
        let index = by_name.get(kept.as_str())?;
        let is_new = name != FORMAT_KEY && !by_name.contains_key(name.as_str());
        is_new.then(|| (name.clone(), *index))
    };
    let aliases: Vec<_> = model.metadata.iter().filter_map(is_alias).collect();
    if model.parameters.len() + aliases.len() > limits.tensors {
        let blob = model.files.first().cloned().unwrap_or_default();
        return Err(blob.over_limit(8, format!("at most {} tensors", limits.tensors)).into());
    }
    for (name, index) in aliases {
        model.metadata.remove(&name);
        let kept = model.parameters.get(index).ok_or_else(lost)?;
        model.parameters.push(Parameter { name, tensor: kept.tensor.clone() });
    }
    Ok(())
}

fn lost() -> Error {
    Error::internal("an alias has no tensor")
}

/// The place of the elements of a tensor in a file, and its type.
type Identity<'a> = (&'a Path, u64, u64, DType, &'a [u64]);

/// Returns the model with each group of tensors that are the same bytes of a file as one tensor, and the names of
/// the others in the metadata. The kept tensor is the one that the file kept, or the first by name.
pub(super) fn collapse<'a>(
    model: &'a Model,
    recorded: &BTreeMap<String, String>,
) -> Cow<'a, Model> {
    let mut groups: HashMap<Identity<'_>, Vec<&str>> = HashMap::new();
    for Parameter { name, tensor } in &model.parameters {
        let place = tensor.data.file_range().filter(|_| !tensor.data.is_empty());
        if let Some((file, offset)) = place.filter(|_| matches!(tensor.kind, Kind::Dense)) {
            let identity = (file.path(), offset, tensor.data.len(), tensor.dtype, &*tensor.shape);
            groups.entry(identity).or_default().push(name);
        }
    }
    let mut kept_by = BTreeMap::new();
    for names in groups.values().filter(|names| names.len() > 1) {
        let members: HashSet<&str> = names.iter().copied().collect();
        let was_kept =
            |name: &&str| recorded.get(*name).is_none_or(|kept| !members.contains(kept.as_str()));
        let first = names.iter().copied().filter(was_kept).min();
        let Some(kept) = first.or_else(|| names.iter().copied().min()) else { continue };
        for name in names.iter().filter(|name| **name != kept) {
            // A name that has another meaning in the metadata is stored in full.
            if *name != FORMAT_KEY && !model.metadata.contains_key(*name) {
                kept_by.insert((*name).to_owned(), kept.to_owned());
            }
        }
    }
    if kept_by.is_empty() {
        return Cow::Borrowed(model);
    }
    let mut model = model.clone();
    model.parameters.retain(|parameter| !kept_by.contains_key(&parameter.name));
    model.metadata.extend(kept_by);
    Cow::Owned(model)
}
