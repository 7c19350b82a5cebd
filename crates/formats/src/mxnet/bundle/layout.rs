//! The file layout of a model, stored so that the model can be written back in the same layout.

use lodstone_model::Model;
use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::format;
use crate::mxnet::params::Layout;

/// The owner of the residual of a model.
const OWNER: &str = "mxnet";

/// The names of the files in their directory, and the layout of the parameters.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Bundle {
    /// Whether a directory was opened, instead of one of its files.
    pub(super) directory: bool,
    pub(super) symbol: String,
    pub(super) params: Option<String>,
    pub(super) layout: Layout,
}

impl Bundle {
    pub(super) fn of(model: &Model) -> Result<Option<Self>> {
        format::recall(model, OWNER)
    }

    pub(super) fn remember(&self, model: &mut Model) -> Result<()> {
        format::remember(model, OWNER, self)
    }

    /// Returns the part of the parameter file's name after the prefix: `-0012.params`.
    pub(super) fn epoch(&self) -> Option<&str> {
        let prefix = self.symbol.strip_suffix(super::detect::SYMBOL)?;
        self.params.as_ref()?.strip_prefix(prefix)
    }
}
