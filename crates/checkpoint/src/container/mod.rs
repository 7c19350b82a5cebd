//! The layouts of variables in files.

mod paddle;
mod safetensors;

use lodstone_model::{Parameter, Tensor};
use lodstone_store::{Blob, Commit};
use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::manifest::SavedVariable;

/// A layout of variables in files. Whatever loads serials by programs has to decide how it loads each, so a match on
/// containers is exhaustive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Container {
    /// One file, `params`: records end to end, sorted by name; elements begin at multiples of 64 bytes.
    #[default]
    Combined,
    /// One file for each variable, which has its name.
    Each,
    /// One file, `params`, in which each record follows its size.
    Sized,
    /// One safetensors file, `params.safetensors`. It can hold neither LoD nor row-sparse tensors.
    Safetensors,
}

impl Container {
    /// The file of all variables; `None` if each has a file of its own.
    pub fn file(self) -> Option<&'static str> {
        match self {
            Self::Combined | Self::Sized => Some(paddle::FILE),
            Self::Each => None,
            Self::Safetensors => Some(safetensors::FILE),
        }
    }

    /// Writes tensors, which are sorted by name; returns the names of the files.
    pub(crate) fn write(self, commit: &mut Commit, tensors: &[Parameter]) -> Result<Vec<String>> {
        match self {
            Self::Combined => paddle::write_all(commit, tensors, false),
            Self::Sized => paddle::write_all(commit, tensors, true),
            Self::Each => paddle::write_each(commit, tensors),
            Self::Safetensors => safetensors::write(commit, tensors),
        }
    }

    /// Opens the tensors in files that `open` opens; their elements are not read.
    ///
    /// # Errors
    /// If the files do not hold these variables in this order.
    pub(crate) fn read(
        self,
        variables: &[SavedVariable],
        open: impl Fn(&str) -> Result<Blob>,
    ) -> Result<Vec<Parameter>> {
        match self {
            Self::Combined | Self::Sized => paddle::read_all(variables, open),
            Self::Each => paddle::read_each(variables, open),
            Self::Safetensors => safetensors::read(variables, open),
        }
    }
}

/// A tensor with the name that the manifest has for it, and without what its file had beside its value.
fn parameter(SavedVariable { name, .. }: &SavedVariable, mut tensor: Tensor) -> Parameter {
    tensor.residual = Default::default();
    Parameter { name: name.clone(), tensor }
}
