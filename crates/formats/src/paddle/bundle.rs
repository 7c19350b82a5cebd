//! How the files of a model are laid out, remembered so that it can be written back the same way.

use lodstone_model::{Model, Residual};
use serde::{Deserialize, Serialize};

use crate::paddle_stream::Layout;

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
    /// Whether records follow their sizes.
    pub(super) sized: bool,
    /// Whether the LoD follows the elements.
    pub(super) lod_last: bool,
}

impl Bundle {
    pub(super) fn of(model: &Model) -> Option<Self> {
        model.residual.of(OWNER).and_then(|bytes| serde_json::from_slice(bytes).ok())
    }

    pub(super) fn remember(&self, model: &mut Model) {
        if let Ok(bytes) = serde_json::to_vec(self) {
            model.residual = Residual::new(OWNER, bytes.into());
        }
    }

    pub(super) fn set_layout(&mut self, layout: Layout) {
        (self.sized, self.lod_last) = (layout.sized, layout.lod_last);
    }

    pub(super) fn layout(&self) -> Layout {
        Layout { sized: self.sized, lod_last: self.lod_last, align: 0 }
    }
}
