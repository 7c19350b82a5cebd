//! What Python says, as options of the facade.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use lodstone::{ConvertOptions, DType, ExternalData, Loss, OpenOptions, Renames, Target};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::errors::raise;
use crate::model::Model;

/// How to open a model.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Opening {
    params: Option<PathBuf>,
    mmap: bool,
    verify: bool,
}

impl Opening {
    pub(crate) fn options(self) -> OpenOptions {
        let Self { params, mmap, verify } = self;
        OpenOptions { params, mmap, verify, ..OpenOptions::default() }
    }
}

/// What of a model to write, and how.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Converting {
    to: Option<String>,
    include: Vec<String>,
    exclude: Vec<String>,
    rename: HashMap<String, String>,
    transpose: Vec<String>,
    cast: Option<String>,
    opset: Option<i64>,
    allow: Vec<String>,
    strip_source: bool,
    align: u64,
    max_shard_size: Option<u64>,
    external_data: Option<String>,
    seal: bool,
}

impl Converting {
    pub(crate) fn options(self, py: Python<'_>) -> PyResult<ConvertOptions> {
        let mut options = ConvertOptions {
            include: self.include,
            exclude: self.exclude,
            renames: renames(py, &self.rename)?,
            transpose: self.transpose,
            opset: self.opset,
            strip_source: self.strip_source,
            ..ConvertOptions::default()
        };
        options.to = self.to.map(|name| match name.as_str() {
            "same" => Target::Same,
            _ => Target::Format(name),
        });
        let dtype = |name: String| DType::from_name(&name).ok_or_else(|| unknown("cast", &name));
        options.cast = self.cast.map(dtype).transpose()?;
        let loss = |name: &String| {
            let found = Loss::ALL.iter().copied().find(|loss| loss.name() == name);
            found.ok_or_else(|| unknown("allow", name))
        };
        options.allow = self.allow.iter().map(loss).collect::<PyResult<_>>()?;
        options.write.align = self.align;
        options.write.max_shard_size = self.max_shard_size;
        options.write.external_data = match self.external_data.as_deref() {
            None => None,
            Some("none") => Some(ExternalData::Inside),
            Some("one") => Some(ExternalData::One),
            Some("each") => Some(ExternalData::Each),
            Some(other) => return Err(unknown("external_data", other)),
        };
        options.write.seal = self.seal;
        Ok(options)
    }
}

/// A map of names.
pub(crate) fn renames(py: Python<'_>, names: &HashMap<String, String>) -> PyResult<Renames> {
    let text =
        serde_json::to_string(names).map_err(|error| PyValueError::new_err(error.to_string()))?;
    Renames::parse(&text).map_err(|error| raise(py, error))
}

fn unknown(argument: &str, value: &str) -> PyErr {
    PyValueError::new_err(format!("`{value}` is nothing that `{argument}` can be"))
}

/// A model that is open, or where one is.
#[derive(FromPyObject)]
pub(crate) enum Source<'py> {
    Open(Bound<'py, Model>),
    Path(PathBuf),
}

impl Source<'_> {
    /// The model, which is opened on the way.
    pub(crate) fn ready(self) -> Ready {
        match self {
            Self::Open(model) => Ready::Open(Arc::clone(&model.get().model)),
            Self::Path(path) => Ready::Path(path),
        }
    }
}

/// The same, for another thread.
pub(crate) enum Ready {
    Open(Arc<lodstone::Model>),
    Path(PathBuf),
}

impl Ready {
    pub(crate) fn open(self, options: &OpenOptions) -> lodstone::Result<lodstone::Model> {
        match self {
            Self::Open(model) => Ok(Arc::unwrap_or_clone(model)),
            Self::Path(path) => lodstone::open_with(path, options),
        }
    }
}
