//! Snapshots: the tensors to save, and what a framework adds to them.
//!
//! A framework adds values: hashes of its programs and the names of variables with random states and schedules
//! ([`Origin`]), what computed the tensors ([`Numerics`]), and a loader that encodes its program for a container.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use lodstone_model::Parameter;
use lodstone_store::Blob;
use serde_json::Value;

use crate::container::Container;
use crate::error::{Error, Result};
use crate::manifest::{Numerics, Programs};

/// The values of variables at one moment. A snapshot shares their bytes until the variables are changed, so taking one
/// copies nothing.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The tensors, sorted by name.
    pub(crate) tensors: Vec<Parameter>,
    pub(crate) numerics: Option<Numerics>,
    pub(crate) origin: Option<Origin>,
    pub(crate) metadata: BTreeMap<String, Value>,
}

/// The program that the variables of a snapshot belong to.
#[derive(Clone, Debug)]
pub struct Origin {
    /// The hashes of the programs.
    pub programs: Programs,
    /// The variables with the state of random numbers.
    pub random: Vec<String>,
    /// The variables that learning rates are computed from.
    pub schedule: Vec<String>,
    /// Builds the program that restores the variables.
    pub loader: Arc<dyn Loader>,
}

/// An error of a framework.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Builds the program that restores the variables of a serial.
pub trait Loader: fmt::Debug + Send + Sync {
    /// Returns the program's files, at least one, for variables in this container: names below [`LOADER`](crate::LOADER),
    /// and bytes.
    ///
    /// # Errors
    /// If no program can load this container.
    fn files(&self, container: Container) -> Result<Vec<(String, Blob)>, BoxError>;
}

impl Snapshot {
    /// Creates a snapshot of tensors that belong to no program.
    ///
    /// # Errors
    /// If a tensor has no name, or two have the same.
    pub fn of_tensors(tensors: impl IntoIterator<Item = Parameter>) -> Result<Self> {
        let mut tensors: Vec<Parameter> = tensors.into_iter().collect();
        tensors.sort_by(|a, b| a.name.cmp(&b.name));
        let wrong = |name: &str, what| Err(Error::Variable { name: name.to_owned(), what });
        if tensors.first().is_some_and(|first| first.name.is_empty()) {
            return wrong("", "the tensor has no name");
        }
        let mut pairs = tensors.iter().zip(tensors.iter().skip(1));
        if let Some((_, again)) = pairs.find(|(one, next)| one.name == next.name) {
            return wrong(&again.name, "two tensors have this name");
        }
        Ok(Self { tensors, numerics: None, origin: None, metadata: BTreeMap::new() })
    }

    /// Returns the tensors, sorted by name.
    pub fn tensors(&self) -> &[Parameter] {
        &self.tensors
    }

    /// Adds an entry to the manifest's metadata: the epoch, the position in the data, a score.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.metadata.insert(key.to_owned(), value.into());
        self
    }

    /// Records what computed the values [default: not recorded].
    #[must_use]
    pub fn with_numerics(mut self, numerics: Numerics) -> Self {
        self.numerics = Some(numerics);
        self
    }

    /// Records the program that the variables belong to [default: none].
    #[must_use]
    pub fn with_origin(mut self, origin: Origin) -> Self {
        self.origin = Some(origin);
        self
    }
}
