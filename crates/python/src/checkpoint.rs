//! Checkpoints of arrays.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use lodstone::Parameter;
use lodstone::checkpoint::{Container, Error, ManagerOptions, Saved, Serial, Snapshot, serials};
use lodstone::train::numerics;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use serde_json::{Value, json};

use crate::arguments::Place;
use crate::errors::{raise, raise_checkpoint};
use crate::model::{Model, json};
use crate::program::{ProgramContents, Scope, Training};
use crate::tensor::{Tensor, own};
use crate::work::run;

/// A writer of checkpoints with an exclusive lock on their directory.
#[pyclass(frozen, module = "lodstone.checkpoint")]
#[derive(Debug)]
pub(crate) struct Manager(Mutex<Option<lodstone::checkpoint::Manager>>);

/// Converts the outcome of a save for Python.
fn outcome(saved: &Saved) -> Value {
    json!({
        "step": saved.serial.step,
        "path": saved.serial.path(),
        "removed": saved.removed,
        "warnings": saved.warnings,
    })
}

impl Manager {
    /// Runs work with the manager, without the GIL.
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut lodstone::checkpoint::Manager) -> Result<T, Error> + Send,
    ) -> PyResult<T> {
        let done = run(py, None, |_| {
            let mut manager = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            manager.as_mut().map(work)
        })?;
        let closed = || PyValueError::new_err("the manager is closed");
        done.ok_or_else(closed)?.map_err(|error| raise_checkpoint(py, error))
    }
}

impl Manager {
    /// Saves a snapshot; in the background, it returns the outcome of the previous save.
    fn save_snapshot<'py>(
        &self,
        py: Python<'py>,
        step: u64,
        snapshot: impl FnOnce(bool) -> Result<Snapshot, Error> + Send,
        metadata: &str,
        background: bool,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let facts: BTreeMap<String, Value> = serde_json::from_str(metadata)
            .map_err(|error| PyValueError::new_err(error.to_string()))?;
        let saved = self.with(py, move |manager| {
            let snapshot = facts
                .into_iter()
                .fold(snapshot(background)?, |it, (key, value)| it.with(&key, value));
            match background {
                true => manager.save_in_background(step, snapshot).transpose(),
                false => manager.save(step, &snapshot).map(Some),
            }
        })?;
        saved.map(|saved| json(py, &outcome(&saved))).transpose()
    }
}

#[pymethods]
impl Manager {
    #[new]
    fn new(
        py: Python<'_>,
        directory: Place,
        keep: Option<usize>,
        container: &str,
    ) -> PyResult<Self> {
        let container = match container {
            "combined" => Container::Combined,
            "each" => Container::Each,
            "sized" => Container::Sized,
            "safetensors" => Container::Safetensors,
            other => return Err(PyValueError::new_err(format!("unknown container `{other}`"))),
        };
        let options = ManagerOptions::default().with_keep(keep).with_container(container);
        let opened = py.detach(|| lodstone::checkpoint::Manager::open(directory, options));
        let manager = opened.map_err(|error| raise_checkpoint(py, error))?;
        Ok(Self(Mutex::new(Some(manager))))
    }

    /// Saves tensors; in the background, it copies them first, and returns the outcome of the previous save.
    fn save<'py>(
        &self,
        py: Python<'py>,
        step: u64,
        tensors: Vec<Bound<'py, Tensor>>,
        metadata: &str,
        background: bool,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let parameter = |tensor: &Bound<'py, Tensor>| {
            let tensor = tensor.get();
            Parameter { name: tensor.name().into_owned(), tensor: tensor.tensor().clone() }
        };
        let mut tensors: Vec<Parameter> = tensors.iter().map(parameter).collect();
        let snapshot = move |background: bool| {
            if background {
                for parameter in &mut tensors {
                    parameter.tensor = own(&parameter.tensor)?;
                }
            }
            Ok(Snapshot::of_tensors(tensors)?.with_numerics(numerics()))
        };
        self.save_snapshot(py, step, snapshot, metadata, background)
    }

    /// Saves the variables of a program, with its loader.
    fn save_program<'py>(
        &self,
        py: Python<'py>,
        step: u64,
        contents: &Bound<'py, ProgramContents>,
        scope: &Bound<'py, Scope>,
        metadata: &str,
        background: bool,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let snapshot = contents.get().snapshot(py, scope)?;
        self.save_snapshot(py, step, |_| Ok(snapshot), metadata, background)
    }

    /// Saves a model in training.
    fn save_training<'py>(
        &self,
        py: Python<'py>,
        training: &Bound<'py, Training>,
        background: bool,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let snapshot = training.get().snapshot(py)?;
        self.save_snapshot(py, training.get().done(), |_| Ok(snapshot), "{}", background)
    }

    fn wait<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let saved = self.with(py, lodstone::checkpoint::Manager::wait)?;
        saved.map(|saved| json(py, &outcome(&saved))).transpose()
    }

    fn prune(&self, py: Python<'_>, keep: usize) -> PyResult<Vec<u64>> {
        self.with(py, |manager| manager.prune(keep))
    }

    fn rewind(&self, py: Python<'_>, step: u64) -> PyResult<Vec<u64>> {
        self.with(py, |manager| manager.rewind(step))
    }

    /// Waits for the background save, and releases the lock.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let closed = run(py, None, |_| {
            let manager = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
            manager.map_or(Ok(()), |mut manager| manager.wait().map(drop))
        })?;
        closed.map_err(|error| raise_checkpoint(py, error))
    }
}

#[pyfunction]
pub(crate) fn checkpoint_steps(py: Python<'_>, directory: Place) -> PyResult<Vec<u64>> {
    let found = py.detach(|| serials(directory)).map_err(|error| raise_checkpoint(py, error))?;
    Ok(found.iter().map(|serial| serial.step).collect())
}

#[pyfunction]
pub(crate) fn checkpoint_load(
    py: Python<'_>,
    directory: Place,
    step: Option<u64>,
) -> PyResult<Model> {
    let opened = py.detach(|| lodstone::open::open_serial(&Serial::find(directory, step)?));
    opened.map(Model::new).map_err(|error| raise(py, error))
}

#[pyfunction]
pub(crate) fn checkpoint_manifest(
    py: Python<'_>,
    directory: Place,
    step: Option<u64>,
) -> PyResult<Bound<'_, PyAny>> {
    let manifest = py.detach(|| Serial::find(directory, step)?.manifest());
    json(py, &manifest.map_err(|error| raise_checkpoint(py, error))?)
}

#[pyfunction]
pub(crate) fn checkpoint_verify(
    py: Python<'_>,
    directory: Place,
    step: Option<u64>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Vec<String>> {
    let work =
        |progress: &_| lodstone::verify::verify_serial(&Serial::find(directory, step)?, progress);
    let found = run(py, progress.as_ref(), work)?;
    found.map_err(|error| raise(py, error))
}
