//! The file layout of a model in a directory, or in several files, stored so that
//! the model can be written back in the same layout.

use std::collections::BTreeMap;

use lodstone_model::{Model, Parameter};
use lodstone_store::Location;
use serde::{Deserialize, Serialize};

use super::header::Header;
use super::write::put;
use crate::error::Result;
use crate::format;
use crate::options::WriteOptions;
use crate::staged::Staged;

/// The owner of the residual of a model: a layout, as JSON.
const OWNER: &str = "safetensors layout";

/// The files of a model.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Layout {
    /// Whether a directory was opened, instead of a file in it.
    pub(super) directory: bool,
    /// The index, if there is one.
    pub(super) index: Option<Text>,
    /// The metadata of the files.
    pub(super) metadata: BTreeMap<String, String>,
    /// The files with tensors and their headers, in the order of the model.
    pub(super) files: Vec<Text>,
}

/// The tensors of each file.
type Split<'a> = Vec<&'a [Parameter]>;

/// The name of a file, and its text.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Text {
    pub(super) name: String,
    pub(super) text: String,
}

impl Layout {
    pub(super) fn remember(mut self, model: &mut Model) -> Result<()> {
        self.metadata.clone_from(&model.metadata);
        format::remember(model, OWNER, &self)
    }

    /// Returns the original layout of a model.
    pub(super) fn of(model: &Model) -> Result<Option<Self>> {
        format::recall(model, OWNER)
    }

    /// Returns the original layout of a model and the tensors of each of its files, if the model is unedited.
    pub(super) fn unedited(model: &Model) -> Result<Option<(Self, Split<'_>)>> {
        let layout = Self::of(model)?.filter(|layout| layout.metadata == model.metadata);
        Ok(layout.and_then(|layout| layout.split(model).map(|split| (layout, split))))
    }

    /// Writes every file in its original layout: into the directory `path`, or, if a file was opened, with
    /// `path` in its place and the others beside it.
    pub(super) fn write(
        &self,
        split: &[&[Parameter]],
        path: &Location,
        options: &WriteOptions,
    ) -> Result<Staged> {
        let (root, index_name) = match path.file_name().filter(|_| !self.directory) {
            Some(name) => (path.directory(), Some(name.to_string_lossy().into_owned())),
            None => (path.clone(), None),
        };
        let mut staged = Staged::directory(&root, options)?;
        let mut main = String::new();
        for (file, tensors) in self.files.iter().zip(split) {
            let tensors: Vec<&Parameter> = tensors.iter().collect();
            staged.write(&file.name, |out| put(out, file.text.as_bytes(), &tensors))?;
            main.clone_from(&file.name);
        }
        if let Some(index) = &self.index {
            let name = index_name.unwrap_or_else(|| index.name.clone());
            staged.write(&name, |out| out.put(index.text.as_bytes()))?;
            main = name;
        }
        Ok(if self.directory { staged } else { staged.opened_by(main) })
    }

    /// Returns the tensors of each file; `None` if the headers do not describe the model.
    fn split<'a>(&self, model: &'a Model) -> Option<Split<'a>> {
        let mut rest = model.parameters.as_slice();
        let mut split = Vec::new();
        for file in &self.files {
            let header = Header::decode(file.text.as_bytes()).ok()?;
            let (now, later) = rest.split_at_checked(header.tensors.len())?;
            if !header.describes(now) {
                return None;
            }
            split.push(now);
            rest = later;
        }
        rest.is_empty().then_some(split)
    }
}
