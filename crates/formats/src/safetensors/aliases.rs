//! Tensors that share their bytes with another one, as the functions `save_model` and `load_model` of the reference
//! record them: only one is stored, and `__metadata__` maps the names of the others to its name.
//!
//! In a model, such tensors are present under all their names, and not in its metadata. A name in the metadata is an
//! alias if the file has a tensor of the name that it maps to and none of its own. Where other metadata looks like an
//! alias, our writer lists the aliases as JSON under the key `lodstone_aliases`.
//!
//! Source of truth: `_remove_duplicate_names` and `save_model` of the Python package `safetensors` 0.8.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};

use lodstone_model::{DType, Kind, Limits, Model, Parameter};
use lodstone_store::Identity;
use serde_json::Value;

use crate::error::{Error, Result};

/// The key of the name of the framework that wrote a file, which is never an alias.
pub(super) const FRAMEWORK: &str = "format";

/// The key of the names of all aliases.
const LIST_KEY: &str = "lodstone_aliases";

/// Adds the tensors that the metadata lists as aliases.
///
/// # Errors
/// Fails if there are more tensors than the limit.
pub(super) fn expand(model: &mut Model, limits: &Limits) -> Result<()> {
    let listed = model.metadata.get(LIST_KEY);
    let listed: Option<HashSet<String>> = listed.and_then(|it| serde_json::from_str(it).ok());
    let by_name: HashMap<&str, usize> =
        model.parameters.iter().enumerate().map(|(i, p)| (p.name.as_str(), i)).collect();
    let aliases: Vec<_> = apparent(&model.metadata, &by_name)
        .filter(|(name, _)| listed.as_ref().is_none_or(|listed| listed.contains(*name)))
        .map(|(name, index)| (name.clone(), index))
        .collect();
    if model.parameters.len() + aliases.len() > limits.tensors {
        let blob = model.files.first().cloned().unwrap_or_default();
        return Err(blob.over_limit(8, limits.at_most_tensors("tensors")).into());
    }
    if listed.is_some() {
        model.metadata.remove(LIST_KEY);
    }
    for (name, index) in aliases {
        model.metadata.remove(&name);
        let kept = model.parameters.get(index).ok_or_else(lost)?;
        model.parameters.push(Parameter { name, tensor: kept.tensor.clone() });
    }
    Ok(())
}

/// Returns the metadata that looks like aliases, with the indices of the tensors.
fn apparent<'a>(
    metadata: &'a BTreeMap<String, String>,
    by_name: &HashMap<&str, usize>,
) -> impl Iterator<Item = (&'a String, usize)> {
    metadata.iter().filter_map(|(name, kept)| {
        let index = by_name.get(kept.as_str())?;
        let is_new = name != FRAMEWORK && !by_name.contains_key(name.as_str());
        is_new.then_some((name, *index))
    })
}

fn lost() -> Error {
    Error::internal("an alias has no tensor")
}

/// The location of the elements of a tensor, and its type.
type Place<'a> = (Identity, DType, &'a [u64]);

/// Returns the model with each group of tensors that are the same bytes of a file, or are computed from them together, as one
/// tensor, and the names of the others in the metadata. The kept tensor is the one that the file kept, according to its metadata `recorded`, or the
/// first by name.
pub(super) fn collapse<'a>(
    model: &'a Model,
    recorded: &BTreeMap<String, String>,
) -> Cow<'a, Model> {
    let kept_by = repeated(model, recorded);
    let names = model.parameters.iter().map(|parameter| parameter.name.as_str());
    let by_name = names.filter(|name| !kept_by.contains_key(*name)).map(|name| (name, 0)).collect();
    let was_listed = recorded.contains_key(LIST_KEY);
    let is_ambiguous = was_listed || apparent(&model.metadata, &by_name).next().is_some();
    if kept_by.is_empty() && !is_ambiguous {
        return Cow::Borrowed(model);
    }
    let mut model = model.clone();
    if is_ambiguous {
        let names: Vec<&str> = kept_by.keys().map(String::as_str).collect();
        model.metadata.insert(LIST_KEY.to_owned(), Value::from(names).to_string());
    }
    model.parameters.retain(|parameter| !kept_by.contains_key(&parameter.name));
    model.metadata.extend(kept_by);
    Cow::Owned(model)
}

/// Returns the names of tensors that need not be stored, with the name of the tensor that is.
fn repeated(model: &Model, recorded: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let mut groups: HashMap<Place<'_>, Vec<&str>> = HashMap::new();
    for Parameter { name, tensor } in &model.parameters {
        let data = &tensor.data;
        let is_shared = !data.is_empty() && data.in_memory().is_none();
        if let Some(identity) = data.identity()
            && is_shared
            && matches!(tensor.kind, Kind::Dense)
        {
            groups.entry((identity, tensor.dtype, &tensor.shape)).or_default().push(name);
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
            if *name != FRAMEWORK && !model.metadata.contains_key(*name) {
                kept_by.insert((*name).to_owned(), kept.to_owned());
            }
        }
    }
    kept_by
}
