//! How the files of a model are laid out, remembered so that it can be written back the same way.

use std::collections::BTreeMap;

use lodstone_model::Model;
use serde::{Deserialize, Serialize};

use crate::paddle::stream::Layout;
use crate::{Result, format};

/// Owner of the residual of a model.
const OWNER: &str = "paddle";

/// Names of the files in their directory, and the layout of the parameters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Bundle {
    /// Whether a directory was opened rather than one of its files.
    pub(super) directory: bool,
    /// The program's file.
    pub(super) program: Option<String>,
    /// The combined parameters' file; none if each variable has its own.
    pub(super) params: Option<String>,
    /// How the records of combined parameters are laid out.
    pub(super) layout: Layout,
    /// The same for variables with files of their own, where it is not the usual layout.
    pub(super) layouts: BTreeMap<String, Layout>,
    /// The file with structured names beside the combined parameters, if there is one.
    #[serde(default)]
    pub(super) info: Option<String>,
    /// The pickles that the parameters are in, instead.
    #[serde(default)]
    pub(super) pickles: Vec<Pickle>,
}

/// A pickle beside a program, without the elements of its tensors.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Pickle {
    /// Extension of the file.
    pub(super) extension: String,
    /// Names of its tensors.
    pub(super) names: Vec<String>,
    /// What else it says.
    pub(super) metadata: BTreeMap<String, String>,
    /// What `paddle::pickle` remembers of it, in hexadecimal.
    pub(super) kept: String,
}

impl Bundle {
    pub(super) fn of(model: &Model) -> Result<Option<Self>> {
        format::recall(model, OWNER)
    }

    pub(super) fn remember(&self, model: &mut Model) -> Result<()> {
        format::remember(model, OWNER, self)
    }

    pub(super) fn set_layout_of(&mut self, name: &str, layout: Layout) {
        if layout != Layout::default() {
            self.layouts.insert(name.to_owned(), layout);
        }
    }
}
