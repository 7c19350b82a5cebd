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

/// How a container lays out variables.
struct Layout {
    /// The file of all variables; `None` if each has a file of its own.
    file: Option<&'static str>,
    /// Writes tensors, which are sorted by name; returns the names of the files.
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

    /// The file of all variables; `None` if each has a file of its own.
    pub fn file(self) -> Option<&'static str> {
        self.layout().file
    }

    /// Writes tensors, which are sorted by name; returns the names of the files.
    pub(crate) fn write(self, commit: &mut Commit, tensors: &[Parameter]) -> Result<Vec<String>> {
        (self.layout().write)(commit, tensors)
    }

    /// Opens the tensors in files that `open` opens; their elements are not read.
    ///
    /// # Errors
    /// If the files do not hold these variables in this order.
    pub(crate) fn read(
        self,
        variables: &[SavedVariable],
        open: Open<'_>,
    ) -> Result<Vec<Parameter>> {
        (self.layout().read)(variables, open)
    }
}

/// A tensor with the name that the manifest has for it, and without what its file had beside its value.
fn parameter(SavedVariable { name, .. }: &SavedVariable, mut tensor: Tensor) -> Parameter {
    tensor.residual = Default::default();
    Parameter { name: name.clone(), tensor }
}
