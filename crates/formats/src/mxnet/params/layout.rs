//! The contents of a file beyond its tensors, stored so that they can be written back.

use lodstone_model::{Model, Parameter};
use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::format;

/// The owner of the residual of a model: a layout, as JSON.
const OWNER: &str = "mxnet params";

/// The contents of a file around its tensors.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Layout {
    /// Whether the file is a NumPy archive.
    pub(super) archive: bool,
    /// The integer after the magic.
    pub(super) reserved: u64,
    /// Whether there are names, which may all be empty.
    pub(super) named: bool,
    /// The number of tensors.
    pub(super) tensors: usize,
    /// Arrays that were never filled.
    pub(super) nones: Vec<Unfilled>,
    /// Names that are not UTF-8, by the index of the tensor.
    pub(super) names: Vec<(usize, Vec<u8>)>,
    /// The bytes after the names.
    pub(super) trailing: Vec<u8>,
}

/// An array that was never filled.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Unfilled {
    /// The number of tensors before it.
    pub(super) before: usize,
    pub(super) name: Vec<u8>,
    /// The whole record.
    pub(super) record: Vec<u8>,
}

impl Layout {
    /// Stores the layout, unless it is the default one for these tensors.
    pub(super) fn remember(&self, model: &mut Model) -> Result<()> {
        match *self == Self::usual(model) {
            true => Ok(()),
            false => format::remember(model, OWNER, self),
        }
    }

    /// Returns the layout of a model, if the number of tensors is unchanged.
    pub(crate) fn of(model: &Model) -> Result<Self> {
        let layout: Option<Self> = format::recall(model, OWNER)?;
        let same = layout.filter(|layout| layout.fits(model));
        Ok(same.unwrap_or_else(|| Self::usual(model)))
    }

    /// Returns whether a model has the original number of tensors.
    pub(crate) fn fits(&self, model: &Model) -> bool {
        self.tensors == model.parameters.len()
    }

    /// Returns the default layout, for tensors from elsewhere.
    pub(crate) fn usual(model: &Model) -> Self {
        let named = model.parameters.iter().any(|parameter| !parameter.name.is_empty());
        Self { named, tensors: model.parameters.len(), ..Self::default() }
    }

    /// Returns whether the file is a NumPy archive.
    pub(super) fn is_archive(&self) -> bool {
        self.archive
    }

    /// Returns the name of tensor `index` in the file.
    pub(super) fn name<'a>(&'a self, index: usize, parameter: &'a Parameter) -> &'a [u8] {
        let place = self.names.binary_search_by_key(&index, |(index, _)| *index).ok();
        let raw = place.and_then(|place| self.names.get(place)).map(|(_, raw)| raw.as_slice());
        raw.filter(|raw| String::from_utf8_lossy(raw) == parameter.name)
            .unwrap_or(parameter.name.as_bytes())
    }
}
