//! How the files of a model are laid out, remembered so that it can be written back the same way.

use lodstone_model::Model;
use serde::{Deserialize, Serialize};

use crate::mxnet::params::Layout;
use crate::{Result, format};

/// Owner of the residual of a model.
const OWNER: &str = "mxnet";

/// Names of the files in their directory, and what is around the parameters.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Bundle {
    /// Whether a directory was opened rather than one of its files.
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

    /// What is behind the prefix in the name of the parameters: `-0012.params`.
    pub(super) fn epoch(&self) -> Option<&str> {
        let prefix = self.symbol.strip_suffix(super::detect::SYMBOL)?;
        self.params.as_ref()?.strip_prefix(prefix)
    }
}
