//! The layouts of variables in files.

mod paddle;
mod safetensors;

use lodstone_model::{Parameter, Tensor};
use lodstone_store::{Blob, Commit};
use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::manifest::SavedVariable;

/// A layout of variables in files. Code that loads serials by programs must handle each of them, so matches on containers
/// are exhaustive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Container {
    /// One file, `params`: concatenated records, sorted by name; elements are aligned to 64 bytes.
    #[default]
    Combined,
    /// One file for each variable, with its name.
    Each,
    /// One file, `params`, in which each record is preceded by its size.
    Sized,
    /// One safetensors file, `params.safetensors`. It can hold neither LoD nor row-sparse tensors.
    Safetensors,
}

/// The functions of a container.
struct Layout {
    /// The file of all variables; `None` if each has its own.
    file: Option<&'static str>,
    /// Writes tensors, sorted by name; returns the names of the files.
    write: fn(&mut Commit, &[Parameter]) -> Result<Vec<String>>,
    /// Opens the tensors of variables.
    read: fn(&[SavedVariable], Open<'_>) -> Result<Vec<Parameter>>,
}

/// Opens a file of a serial.
type Open<'a> = &'a dyn Fn(&str) -> Result<Blob>;

impl Container {
    fn layout(self) -> &'static Layout {
        match self {
            Self::Combined => &paddle::COMBINED,
            Self::Each => &paddle::EACH,
            Self::Sized => &paddle::SIZED,
            Self::Safetensors => &safetensors::LAYOUT,
        }
    }

    /// Returns the file of all variables; `None` if each has its own.
    pub fn file(self) -> Option<&'static str> {
        self.layout().file
    }

    /// Writes tensors, sorted by name; returns the names of the files.
    pub(crate) fn write(self, commit: &mut Commit, tensors: &[Parameter]) -> Result<Vec<String>> {
        (self.layout().write)(commit, tensors)
    }

    /// Reads the tensors from files that `open` opens; their elements are read later.
    ///
    /// # Errors
    /// If the files do not have these variables in this order.
    pub(crate) fn read(
        self,
        variables: &[SavedVariable],
        open: Open<'_>,
    ) -> Result<Vec<Parameter>> {
        (self.layout().read)(variables, open)
    }
}

/// Returns a tensor with its name in the manifest, and without annotations of its file.
fn parameter(SavedVariable { name, .. }: &SavedVariable, mut tensor: Tensor) -> Parameter {
    tensor.residual = Default::default();
    Parameter { name: name.clone(), tensor }
}
