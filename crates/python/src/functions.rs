//! The functions of the module.

use std::collections::{BTreeMap, HashMap};

use lodstone::ops::OperatorTarget;
use lodstone::{
    ConvertOptions, DiffOptions, Location, MemoryStore, OpenOptions, Parameter, Progress,
    ScanOptions,
};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;
use serde_json::json;

use crate::arguments::{Arguments, Place, Source, renames, unknown_of};
use crate::errors::raise;
use crate::model::{Model, json};
use crate::tensor::Tensor;
use crate::work::run;

/// A result for Python.
type Found<'py> = PyResult<Bound<'py, PyAny>>;

#[pyfunction]
pub(crate) fn open(py: Python<'_>, path: Place, opening: Arguments<'_>) -> PyResult<Model> {
    let options = opening.opening()?;
    let opened =
        run(py, None, |progress| lodstone::open_with(path, &options.stopped_by(progress)))?;
    opened.map(Model::new).map_err(|error| raise(py, error))
}

/// Opens a model in bytes, which its tensors share.
#[pyfunction]
pub(crate) fn open_bytes(
    py: Python<'_>,
    bytes: PyBackedBytes,
    opening: Arguments<'_>,
) -> PyResult<Model> {
    let options = opening.opening()?;
    let bytes = bytes::Bytes::from_owner(bytes);
    let opened = run(py, None, |progress| {
        lodstone::open::open_bytes_with(bytes, &options.stopped_by(progress))
    })?;
    opened.map(Model::new).map_err(|error| raise(py, error))
}

#[pyfunction]
pub(crate) fn convert<'py>(
    py: Python<'py>,
    source: Source<'py>,
    out: Place,
    opening: Arguments<'py>,
    converting: Arguments<'py>,
    progress: Option<Py<PyAny>>,
) -> Found<'py> {
    let (source, opening) = (source.ready(), opening.opening()?);
    let options = converting.converting()?;
    let open = move |progress: &Progress| source.open(&opening.stopped_by(progress));
    write(py, open, out.into(), options, progress)
}

/// Writes tensors as a model. `notes` are metadata that are dropped if the format has none.
#[pyfunction]
pub(crate) fn save<'py>(
    py: Python<'py>,
    tensors: Vec<Bound<'py, Tensor>>,
    metadata: BTreeMap<String, String>,
    notes: BTreeMap<String, String>,
    out: Place,
    converting: Arguments<'py>,
    progress: Option<Py<PyAny>>,
) -> Found<'py> {
    let mut model = model_of(&tensors, metadata);
    let (out, mut options) = (Location::from(out), converting.converting()?);
    options.write.repeats = true;
    let format = lodstone::convert::target_format(&model, &out, options.to.as_ref());
    if format.map_err(|error| raise(py, error))?.holds.metadata {
        for (key, value) in notes {
            model.metadata.entry(key).or_insert(value);
        }
    }
    write(py, move |_| Ok(model), out, options, progress)
}

/// Returns the bytes of tensors in a format that uses a single file.
#[pyfunction]
pub(crate) fn save_bytes<'py>(
    py: Python<'py>,
    tensors: Vec<Bound<'py, Tensor>>,
    metadata: BTreeMap<String, String>,
    converting: Arguments<'py>,
) -> PyResult<Bound<'py, PyBytes>> {
    let (store, model) = (MemoryStore::default(), model_of(&tensors, metadata));
    let (out, mut options) = (store.location("model"), converting.converting()?);
    options.write.repeats = true;
    let done = run(py, None, move |_| lodstone::convert(model, out, &options))?;
    let done = done.map_err(|error| raise(py, error))?;
    match done.files.as_slice() {
        [file] => {
            let bytes = store.get(file);
            let lost = || PyRuntimeError::new_err("internal error: the written file is missing");
            Ok(PyBytes::new(py, &bytes.ok_or_else(lost)?))
        }
        files => {
            let (format, count) = (done.format, files.len());
            let what = format!("{format} would write {count} files, expected a single file");
            Err(PyValueError::new_err(what))
        }
    }
}

fn model_of(tensors: &[Bound<'_, Tensor>], metadata: BTreeMap<String, String>) -> lodstone::Model {
    let parameter = |tensor: &Bound<'_, Tensor>| {
        let tensor = tensor.get();
        Parameter { name: tensor.name().into_owned(), tensor: tensor.tensor().clone() }
    };
    let parameters = tensors.iter().map(parameter).collect();
    lodstone::Model { parameters, metadata, ..lodstone::Model::default() }
}

fn write<'py>(
    py: Python<'py>,
    model: impl FnOnce(&Progress) -> lodstone::Result<lodstone::Model> + Send,
    out: Location,
    mut options: ConvertOptions,
    progress: Option<Py<PyAny>>,
) -> Found<'py> {
    let converted = run(py, progress.as_ref(), move |progress| {
        options.write.progress = progress.clone();
        lodstone::convert(model(progress)?, out, &options)
    })?;
    let done = converted.map_err(|error| raise(py, error))?;
    let losses: BTreeMap<_, _> =
        done.report.losses.iter().map(|(loss, places)| (loss.name(), places)).collect();
    let told = json!({
        "format": done.format,
        "files": done.files,
        "tensors": done.tensors,
        "nbytes": done.nbytes,
        "opset": done.opset,
        "warnings": done.report.warnings,
        "losses": losses,
    });
    json(py, &told)
}

#[pyfunction]
pub(crate) fn verify<'py>(
    py: Python<'py>,
    path: Place,
    params: Option<Place>,
    progress: Option<Py<PyAny>>,
) -> Found<'py> {
    let params = params.map(Location::from);
    let options = OpenOptions::default().with_params(params);
    let work = |progress: &_| lodstone::verify(path, &options, progress);
    let found = run(py, progress.as_ref(), work)?;
    json(py, &found.map_err(|error| raise(py, error))?)
}

#[pyfunction]
pub(crate) fn seal<'py>(
    py: Python<'py>,
    path: Place,
    params: Option<Place>,
    replace: bool,
    progress: Option<Py<PyAny>>,
) -> Found<'py> {
    let params = params.map(Location::from);
    let options = OpenOptions::default().with_params(params);
    let work = |progress: &_| lodstone::seal(path, &options, replace, progress);
    let sealing = run(py, progress.as_ref(), work)?.map_err(|error| raise(py, error))?;
    let told = json!({
        "seals": sealing.seals,
        "files": sealing.files,
        "tensors": sealing.tensors,
        "nbytes": sealing.nbytes,
    });
    json(py, &told)
}

#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "the arguments of the Python function")]
pub(crate) fn diff<'py>(
    py: Python<'py>,
    a: Source<'py>,
    b: Source<'py>,
    rename: HashMap<String, String>,
    transpose: Vec<String>,
    rtol: f64,
    atol: f64,
    progress: Option<Py<PyAny>>,
) -> Found<'py> {
    let (a, b, renames) = (a.ready(), b.ready(), renames(py, &rename)?);
    let found = run(py, progress.as_ref(), move |progress| {
        let options = DiffOptions::default()
            .with_renames(renames)
            .with_transpose(transpose)
            .with_rtol(rtol)
            .with_atol(atol)
            .with_progress(progress.clone());
        let opening = OpenOptions::default().stopped_by(progress);
        lodstone::diff(a.open(&opening)?, &b.open(&opening)?, &options)
    })?;
    json(py, &found.map_err(|error| raise(py, error))?)
}

/// Lists the operators of a model by kind.
#[pyfunction]
pub(crate) fn operators<'py>(py: Python<'py>, model: Source<'py>, target: &str) -> Found<'py> {
    let target = match target {
        "onnx" => OperatorTarget::Onnx,
        "run" => OperatorTarget::Run,
        other => return Err(unknown_of("target", other, ["onnx", "run"])),
    };
    let model = model.ready();
    let found = run(py, None, move |progress| {
        lodstone::operators(&model.open(&OpenOptions::default().stopped_by(progress))?, target)
    })?;
    json(py, &found.map_err(|error| raise(py, error))?)
}

/// Returns where the operators and constants of an export come from.
#[pyfunction]
pub(crate) fn origins<'py>(
    py: Python<'py>,
    model: Source<'py>,
    options: Arguments<'py>,
) -> Found<'py> {
    let (model, options) = (model.ready(), options.converting()?);
    let found = run(py, None, move |progress| {
        let model = model.open(&OpenOptions::default().stopped_by(progress))?;
        lodstone::Origins::of(&model, &options)
    })?;
    json(py, &found.map_err(|error| raise(py, error))?)
}

#[pyfunction]
pub(crate) fn scan<'py>(
    py: Python<'py>,
    path: Place,
    ignore: Vec<String>,
    allow_import: Vec<String>,
    progress: Option<Py<PyAny>>,
) -> Found<'py> {
    let found = run(py, progress.as_ref(), |progress| {
        let open = OpenOptions::default().stopped_by(progress);
        lodstone::scan(
            path,
            &ScanOptions::default()
                .with_open(open)
                .with_ignore(ignore)
                .with_allow_imports(allow_import)
                .with_progress(progress.clone()),
        )
    })?;
    json(py, &found.map_err(|error| raise(py, error))?)
}

/// Lists the fields of files with their offsets.
#[pyfunction]
pub(crate) fn byte_map<'py>(
    py: Python<'py>,
    path: Place,
    tensor: Option<String>,
    opening: Arguments<'py>,
) -> Found<'py> {
    let options = opening.opening()?;
    let work = |progress: &Progress| {
        lodstone::byte_map(path, tensor.as_deref(), &options.stopped_by(progress))
    };
    let found = run(py, None, work)?;
    json(py, &found.map_err(|error| raise(py, error))?)
}

/// Runs the command with the arguments that follow its name, and returns its exit status.
#[pyfunction]
pub(crate) fn main(py: Python<'_>, arguments: Vec<std::ffi::OsString>) -> u8 {
    py.detach(|| lodstone_cli::run(arguments))
}
