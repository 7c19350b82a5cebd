//! What a file says beyond its tensors, remembered so that it can be written back.

use lodstone_model::{Model, Parameter};
use serde::{Deserialize, Serialize};

use crate::{Result, format};

/// Owner of the residual of a model: a layout, as JSON.
const OWNER: &str = "mxnet params";

/// What is around the tensors of a file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Layout {
    /// Whether it is an archive of NumPy's.
    pub(super) archive: bool,
    /// The number behind the magic.
    pub(super) reserved: u64,
    /// Whether there are names, which may all be empty.
    pub(super) named: bool,
    /// How many tensors there were.
    pub(super) tensors: usize,
    /// Arrays that were never filled.
    pub(super) nones: Vec<Unfilled>,
    /// Names that are not UTF-8, by the number of the tensor.
    pub(super) names: Vec<(usize, Vec<u8>)>,
    /// What follows the names.
    pub(super) trailing: Vec<u8>,
}

/// An array that was never filled.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Unfilled {
    /// How many tensors are before it.
    pub(super) before: usize,
    pub(super) name: Vec<u8>,
    /// The whole record.
    pub(super) record: Vec<u8>,
}

impl Layout {
    /// Remembers what is not what every file of these tensors has.
    pub(super) fn remember(&self, model: &mut Model) -> Result<()> {
        match *self == Self::usual(model) {
            true => Ok(()),
            false => format::remember(model, OWNER, self),
        }
    }

    /// What is around the tensors of a model, if they are as many as they were.
    pub(crate) fn of(model: &Model) -> Result<Self> {
        let layout: Option<Self> = format::recall(model, OWNER)?;
        let same = layout.filter(|layout| layout.fits(model));
        Ok(same.unwrap_or_else(|| Self::usual(model)))
    }

    /// Whether a model has as many tensors as there were.
    pub(crate) fn fits(&self, model: &Model) -> bool {
        self.tensors == model.parameters.len()
    }

    /// What is around tensors that come from elsewhere.
    pub(crate) fn usual(model: &Model) -> Self {
        let named = model.parameters.iter().any(|parameter| !parameter.name.is_empty());
        Self { named, tensors: model.parameters.len(), ..Self::default() }
    }

    /// Whether the file is an archive of NumPy's.
    pub(super) fn is_archive(&self) -> bool {
        self.archive
    }

    /// The name of tensor `index` as it is in the file.
    pub(super) fn name<'a>(&'a self, index: usize, parameter: &'a Parameter) -> &'a [u8] {
        let place = self.names.binary_search_by_key(&index, |(index, _)| *index).ok();
        let raw = place.and_then(|place| self.names.get(place)).map(|(_, raw)| raw.as_slice());
        raw.filter(|raw| String::from_utf8_lossy(raw) == parameter.name)
            .unwrap_or(parameter.name.as_bytes())
    }
}
