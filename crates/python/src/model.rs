//! Models.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, OnceLock};

use lodstone::inspect::Names;
use lodstone::model::{Kind, Program};
use lodstone::store::Memory;
use lodstone::{Blob, InspectOptions, Progress, inspect};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use serde::Serialize;

use crate::arguments::{Arguments, Place, losses};
use crate::buffer::{Buffer, Held};
use crate::errors::{consists_of, raise, raise_store};
use crate::session::Session;
use crate::tensor::{Tensor, losses_of};
use crate::work::run;

/// A model: its tensors by name, in the order of the file, its program and its metadata.
#[pyclass(frozen, mapping, module = "lodstone")]
#[derive(Debug)]
pub(crate) struct Model {
    pub(crate) model: Arc<lodstone::Model>,
    /// A model of all weights, those that the program holds too; the same model if there are none of these.
    weights: Arc<lodstone::Model>,
    /// The index of tensor names, built on the first lookup.
    names: OnceLock<Names>,
}

impl Model {
    pub(crate) fn new(model: lodstone::Model) -> Self {
        let model = Arc::new(model);
        let weights = match lodstone::inspect::weights(&model) {
            Cow::Borrowed(_) => Arc::clone(&model),
            Cow::Owned(parameters) => {
                let format = model.format.clone();
                let mut weights =
                    lodstone::Model { format, parameters, ..lodstone::Model::default() };
                if let Some(program) = model.main() {
                    // The dialect determines what tensors record.
                    weights.set_main(Program::new(program.dialect));
                }
                Arc::new(weights)
            }
        };
        Self { model, weights, names: OnceLock::new() }
    }

    fn names(&self) -> &Names {
        self.names.get_or_init(|| {
            let tensors = self.tensors();
            Names::new(&self.model.format, tensors.iter().map(Tensor::name))
        })
    }
}

#[pymethods]
impl Model {
    /// The format of the files: `"npz"`, `"safetensors"`.
    #[getter]
    fn format(&self) -> &str {
        &self.model.format
    }

    /// The free-form metadata of the file.
    #[getter]
    fn metadata<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let facts = PyDict::new(py);
        self.model.metadata.iter().try_for_each(|(key, value)| facts.set_item(key, value))?;
        Ok(facts)
    }

    /// The warnings of opening the model.
    #[getter]
    fn warnings(&self) -> Vec<String> {
        self.model.report.warnings.clone()
    }

    /// All tensors, in the order of the file.
    #[getter]
    fn tensors(&self) -> Vec<Tensor> {
        let numbers = 0..self.weights.parameters.len();
        numbers.map(|number| Tensor::of(&self.weights, number)).collect()
    }

    #[pyo3(name = "_inspect")]
    fn inspect<'py>(
        &self,
        py: Python<'py>,
        hash: bool,
        operators: bool,
        inferred: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let model = Arc::clone(&self.model);
        let found = run(py, None, |progress| {
            inspect(
                &model,
                &InspectOptions::default()
                    .with_hash(hash)
                    .with_operators(operators)
                    .with_inferred(inferred)
                    .with_progress(progress.clone()),
            )
        })?;
        json(py, &found.map_err(|error| raise(py, error))?)
    }

    #[pyo3(name = "_names")]
    fn all_names<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        PyList::new(py, self.tensors().iter().map(Tensor::name))
    }

    /// A name that several tensors have.
    #[pyo3(name = "_repeated")]
    fn repeated(&self) -> Option<&str> {
        let mut known = HashSet::new();
        let mut names = self.weights.parameters.iter().map(|one| &*one.name);
        names.find(|name| !name.is_empty() && !known.insert(*name))
    }

    /// The model as plain arrays; fails if that loses something that is not allowed.
    #[pyo3(name = "_arrays")]
    fn arrays(slf: Bound<'_, Self>, allow: Vec<String>) -> PyResult<Bound<'_, Self>> {
        let (py, model) = (slf.py(), Arc::clone(&slf.get().model));
        let is_plain = |tensor: &lodstone::Tensor| {
            losses_of(tensor).is_empty() && !matches!(tensor.kind, Kind::Absent)
        };
        if slf.get().weights.parameters.iter().all(|one| is_plain(&one.tensor)) {
            return Ok(slf);
        }
        let allow = losses(&allow)?;
        let arrays = py.detach(|| lodstone::convert::arrays(&model, &allow));
        Bound::new(py, Self::new(arrays.map_err(|error| raise(py, error))?))
    }

    /// Tensors that only consist of others: an explanation for each of them.
    #[pyo3(name = "_composed")]
    fn composed(&self) -> BTreeMap<&str, String> {
        let composed = lodstone::convert::composed(&self.weights.parameters).into_iter();
        composed.map(|(name, parts)| (name, consists_of(name, &parts))).collect()
    }

    /// The model with all tensors read into memory, independent of its files.
    #[pyo3(name = "_loaded")]
    fn loaded(&self, py: Python<'_>, progress: Option<Py<PyAny>>) -> PyResult<Self> {
        let mut model = lodstone::Model::clone(&self.model);
        let work = move |progress: &Progress| model.load_with(progress).map(|()| model);
        let loaded = run(py, progress.as_ref(), work)?;
        loaded.map(Self::new).map_err(|error| raise_store(py, error))
    }

    /// The model, ready to run. `path` is where it was opened, beside which its operators may load files.
    #[pyo3(name = "_session")]
    fn session(
        &self,
        py: Python<'_>,
        running: Arguments<'_>,
        path: Option<Place>,
    ) -> PyResult<Session> {
        Session::new(py, self, &running, path)
    }

    /// The tensors, and their bytes, all read into one block of memory. With `meta`, tensors that had no elements have no
    /// bytes; without, they are an error.
    #[pyo3(name = "_load")]
    fn load(
        &self,
        py: Python<'_>,
        progress: Option<Py<PyAny>>,
        meta: bool,
    ) -> PyResult<(Vec<Tensor>, Vec<Buffer>)> {
        let tensors = self.tensors();
        if !meta || !lodstone::formats::has_meta(&self.model) {
            tensors.iter().try_for_each(|tensor| tensor.check_there(py))?;
        }
        let blobs: Vec<_> = tensors.iter().map(|one| one.tensor().data.clone()).collect();
        let read = run(py, progress.as_ref(), |progress| {
            let read = Memory::read(&blobs, progress)?;
            Blob::check_all_unchanged(&blobs)?;
            Ok(read)
        })?;
        let (memory, places) = read.map_err(|error| raise_store(py, error))?;
        Ok((tensors, Held::own(memory, places).into_iter().map(Buffer).collect()))
    }

    fn __len__(&self) -> usize {
        self.weights.parameters.len()
    }

    fn __contains__(&self, name: &Bound<'_, PyAny>) -> bool {
        name.extract::<&str>().is_ok_and(|name| self.names().contains(name))
    }

    fn __getitem__(&self, name: &Bound<'_, PyAny>) -> PyResult<Tensor> {
        let py = name.py();
        let found = match name.extract::<&str>() {
            Ok(name) => self.names().find(name),
            // Not a string, or a string that is not valid Unicode.
            Err(_) => {
                let name = name.repr()?.to_string_lossy().into_owned();
                Err(lodstone::Error::NoSuchTensor { name, similar: Vec::new() })
            }
        };
        let number = found.map_err(|error| raise(py, error))?;
        Ok(Tensor::of(&self.weights, number))
    }
}

/// Converts a value to Python objects through its JSON form.
pub(crate) fn json<'py>(py: Python<'py>, value: &impl Serialize) -> PyResult<Bound<'py, PyAny>> {
    let text = serde_json::to_string(value)
        .map_err(|error| pyo3::exceptions::PyRuntimeError::new_err(error.to_string()))?;
    py.import("json")?.call_method1("loads", (text,))
}
