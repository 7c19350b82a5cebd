//! The file layout of a model, stored so that the model can be written back in the same layout.

use std::collections::BTreeMap;

use lodstone_model::Model;
use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::format;
use crate::paddle::stream::Layout;

/// The owner of the residual of a model.
const OWNER: &str = "paddle";

/// The names of the files in their directory, and the layout of the parameters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Bundle {
    /// Whether a directory was opened, instead of one of its files.
    pub(super) directory: bool,
    /// The file of the program.
    pub(super) program: Option<String>,
    /// The file of the combined parameters; `None` if each variable has its own.
    pub(super) params: Option<String>,
    /// The layout of the records of combined parameters.
    pub(super) layout: Layout,
    /// The layouts of variables in separate files, if not the default.
    pub(super) layouts: BTreeMap<String, Layout>,
    /// The file of structured names beside the combined parameters.
    #[serde(default)]
    pub(super) info: Option<String>,
    /// The pickles of the parameters, if they are not in combined files.
    #[serde(default)]
    pub(super) pickles: Vec<Pickle>,
}

/// A pickle beside a program, without the elements of its tensors.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Pickle {
    /// The extension of the file.
    pub(super) extension: String,
    /// The names of its tensors.
    pub(super) names: Vec<String>,
    /// Its other contents.
    pub(super) metadata: BTreeMap<String, String>,
    /// The residual of `paddle::pickle`, in hexadecimal.
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
