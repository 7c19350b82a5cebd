//! Programs in files, and operators that save and load.

use std::path::PathBuf;
use std::sync::Arc;

use lodstone::WriteOptions;
use lodstone::paddle::program::{self, Form, LoadOptions, Placement, SaveOptions, load, save};
use lodstone::paddle::{InferenceFiles, save_inference_model};
use pyo3::prelude::*;

use super::{Program, build::variables};
use crate::arguments::unknown;
use crate::errors::{raise, raise_program};
use crate::model::Model;
use crate::work::run;

/// Where variables are saved: the kind, and a file name.
pub(super) fn placement((kind, file): (String, String)) -> PyResult<Placement> {
    Ok(match kind.as_str() {
        "each" => Placement::Each,
        "combined" => Placement::Combined(file),
        "merged" => Placement::Merged(file),
        other => return Err(unknown("placement", other)),
    })
}

#[pyfunction]
pub(crate) fn save_program(
    py: Python<'_>,
    program: &Bound<'_, Program>,
    directory: PathBuf,
    is_text: bool,
) -> PyResult<()> {
    let program = program.get().copied()?;
    let form = if is_text { Form::Text } else { Form::Binary };
    let saved = py.detach(|| program::save_program(&program, directory, form));
    saved.map_err(|error| raise_program(py, error))
}

#[pyfunction]
pub(crate) fn load_program(py: Python<'_>, directory: PathBuf) -> PyResult<Program> {
    let loaded = py.detach(|| program::load_program(directory));
    loaded.map(Program::of).map_err(|error| raise_program(py, error))
}

/// Appends operators that save variables.
#[pyfunction]
pub(crate) fn append_save(
    py: Python<'_>,
    program: &Bound<'_, Program>,
    names: Vec<String>,
    directory: &str,
    placement: (String, String),
    overwrite: bool,
) -> PyResult<()> {
    let options = SaveOptions::default()
        .with_placement(self::placement(placement)?)
        .with_overwrite(overwrite);
    let mut edited = program.get().copied()?;
    save(&mut edited, &variables(&names), directory, &options)
        .map_err(|error| raise_program(py, error))?;
    program.get().replace(edited)
}

/// Appends operators that load variables, which are declared as in `source`.
#[pyfunction]
pub(crate) fn append_load(
    py: Python<'_>,
    program: &Bound<'_, Program>,
    names: Vec<String>,
    source: &Bound<'_, Program>,
    directory: &str,
    placement: (String, String),
    records: Option<Vec<String>>,
) -> PyResult<()> {
    let options =
        LoadOptions::default().with_placement(self::placement(placement)?).with_records(records);
    let (mut edited, from) = (program.get().copied()?, source.get().copied()?);
    load(&mut edited, &variables(&names), &from, directory, &options)
        .map_err(|error| raise_program(py, error))?;
    program.get().replace(edited)
}

/// Writes an inference model.
#[pyfunction]
pub(crate) fn save_model(
    py: Python<'_>,
    model: &Bound<'_, Model>,
    directory: PathBuf,
    program: String,
    params: Option<String>,
) -> PyResult<()> {
    let model = Arc::clone(&model.get().model);
    let files = InferenceFiles::default().with_program(program).with_params(params);
    let saved = run(py, None, move |progress| {
        let options = WriteOptions::default().with_progress(progress.clone());
        save_inference_model(&model, directory, &files, &options)
    })?;
    saved.map_err(|error| raise(py, error))
}

/// The PaddlePaddle program of a model.
#[pyfunction]
pub(crate) fn program_of(py: Python<'_>, model: &Bound<'_, Model>) -> PyResult<Program> {
    let model = Arc::clone(&model.get().model);
    let found = py.detach(move || lodstone::program::program_of(&model));
    found.map(Program::of).map_err(|error| raise(py, error))
}
