//! Compares the variables of a checkpoint with those that a program declares.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use lodstone_model::{Parameter, Program, Tensor, TensorType, Var};
use serde::Serialize;
use serde_json::Value;

use crate::checkpoint::error::{Error, Result, listed};
use crate::checkpoint::loader::is_checkpointed;
use crate::executor::RANDOM_STATE;

/// Options of a restore into a program.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct RestoreOptions {
    /// Whether to load the variables that match if others do not [default: no].
    pub partial: bool,
    /// Names in the program, by names in the checkpoint [default: the same].
    pub renames: BTreeMap<String, String>,
}

lodstone_model::with_fields!(RestoreOptions {
    with_partial(partial: bool),
    with_renames(renames: BTreeMap<String, String>),
});

/// The result of a restore.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct Restored {
    /// The number of steps done.
    pub step: u64,
    /// The variables that were loaded, sorted.
    pub loaded: Vec<String>,
    /// The variables that were initialized, sorted.
    pub initialised: Vec<String>,
    /// The variables that do not match and were skipped; empty unless the restore was partial.
    pub mismatch: Mismatch,
    /// Reasons why results may differ from those of an uninterrupted run.
    pub warnings: Vec<String>,
    /// The user's entries in the manifest.
    pub metadata: BTreeMap<String, Value>,
}

/// Differences between the variables of a checkpoint and those of a program; each list is sorted by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Mismatch {
    /// Variables of the program that the checkpoint does not have.
    pub missing: Vec<String>,
    /// Variables of the checkpoint that the program does not have.
    pub extra: Vec<String>,
    /// Variables with another element type or other dims.
    pub misshapen: Vec<Misfit>,
}

/// A variable whose type differs from its declaration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Misfit {
    /// The name of the variable.
    pub name: String,
    /// The type in the checkpoint: `float32[2, 3]`.
    pub saved: String,
    /// The type that the program declares.
    pub wanted: String,
}

impl Mismatch {
    /// Whether all variables match.
    pub fn is_empty(&self) -> bool {
        self.missing.is_empty() && self.extra.is_empty() && self.misshapen.is_empty()
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        if !self.missing.is_empty() {
            parts.push(format!("missing: {}", listed(&self.missing)));
        }
        if !self.extra.is_empty() {
            parts.push(format!("extra: {}", listed(&self.extra)));
        }
        let misfits = self.misshapen.iter().map(Misfit::to_string).collect::<Vec<_>>();
        if !misfits.is_empty() {
            parts.push(misfits.join(", "));
        }
        f.write_str(&parts.join("; "))
    }
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`: expected {}, found {}", self.name, self.wanted, self.saved)
    }
}

/// Renames tensors.
///
/// # Errors
/// If a tensor to rename does not exist, or two tensors would have the same name.
pub(super) fn rename(
    tensors: Vec<Parameter>,
    renames: &BTreeMap<String, String>,
) -> Result<Vec<Parameter>> {
    let wrong = |name: &str, what| Err(Error::Variable { name: name.to_owned(), what });
    let known: BTreeSet<&str> = tensors.iter().map(|tensor| tensor.name.as_str()).collect();
    if let Some(name) = renames.keys().find(|name| !known.contains(name.as_str())) {
        return wrong(name, "the checkpoint does not have this variable, which is to be renamed");
    }
    let mut seen = BTreeSet::new();
    let mut renamed = Vec::with_capacity(tensors.len());
    for Parameter { name, tensor } in tensors {
        let name = renames.get(&name).cloned().unwrap_or(name);
        if !seen.insert(name.clone()) {
            return wrong(&name, "two variables of the checkpoint would have this name");
        }
        renamed.push(Parameter { name, tensor });
    }
    Ok(renamed)
}

/// Returns the tensors that match the variables of a program, and the differences. Variables that are `known` to be
/// initialized otherwise are not missing.
pub(super) fn split(
    tensors: Vec<Parameter>,
    main: &Program,
    known: impl Fn(&str) -> bool,
) -> (Vec<Parameter>, Mismatch) {
    let mut wanted: BTreeMap<&str, &Var> = main
        .vars()
        .filter(|var| is_checkpointed(var))
        .map(|var| (var.name.as_str(), var))
        .collect();
    let (mut fitting, mut mismatch) = (Vec::new(), Mismatch::default());
    for parameter in tensors {
        let name = &parameter.name;
        match wanted.remove(name.as_str()).map(|var| var.value.tensor_type()) {
            None if name == RANDOM_STATE => fitting.push(parameter),
            None => mismatch.extra.push(name.clone()),
            Some(Some(wanted)) if !is_of(&parameter.tensor, wanted) => {
                let Tensor { dtype, shape, .. } = &parameter.tensor;
                let (name, saved) = (name.clone(), format!("{dtype}{shape:?}"));
                mismatch.misshapen.push(Misfit { name, saved, wanted: wanted.to_string() });
            }
            Some(_) => fitting.push(parameter),
        }
    }
    mismatch.missing = wanted.into_keys().filter(|name| !known(name)).map(str::to_owned).collect();
    mismatch.extra.sort();
    mismatch.misshapen.sort_by(|a, b| a.name.cmp(&b.name));
    (fitting, mismatch)
}

fn is_of(tensor: &Tensor, wanted: &TensorType) -> bool {
    tensor.dtype == wanted.dtype && wanted.admits(&tensor.shape)
}
