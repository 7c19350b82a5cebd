//! Checkpoints of programs.

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;

use lodstone::checkpoint::Serial;
use lodstone::model::Var;
use lodstone::paddle::checkpoint::{
    self, CheckpointOptions, Contents, RestoreOptions, Restored, restore, restore_for,
};
use lodstone::paddle::program::LoadOptions;
use pyo3::prelude::*;
use serde_json::{Value, json};

use super::files::placement;
use super::{Program, Scope, edit};
use crate::errors::{raise, raise_checkpoint};
use crate::model::json;
use crate::work::run;

/// Returns the program that loads these variables of a program, and initializes the others as the startup program does.
#[pyfunction]
pub(crate) fn build_checkpoint_loader(
    py: Python<'_>,
    names: Vec<String>,
    source: &Bound<'_, Program>,
    startup: Option<Bound<'_, Program>>,
    placement: (String, String),
    records: Option<Vec<String>>,
) -> PyResult<Program> {
    let source = source.get().copied()?;
    let var = |name: &String| {
        let found = source.vars().find(|var| var.name == *name).cloned();
        found.ok_or_else(|| edit::no_variable(0, name))
    };
    let vars = names.iter().map(var).collect::<PyResult<Vec<Var>>>()?;
    let startup = startup.map(|startup| startup.get().copied()).transpose()?;
    let options =
        LoadOptions::default().with_placement(self::placement(placement)?).with_records(records);
    let loader = checkpoint::build_checkpoint_loader(&vars, startup.as_ref(), &options);
    loader.map(Program::of).map_err(|error| raise(py, error.into()))
}

/// Returns the main program as `make_checkpoint` completes it: with the state of random numbers, if it draws any.
#[pyfunction]
pub(crate) fn checkpointed_program(
    py: Python<'_>,
    startup: &Bound<'_, Program>,
    main: &Bound<'_, Program>,
) -> PyResult<Program> {
    let (mut begun, mut trained) = (startup.get().copied()?, main.get().copied()?);
    let kept = checkpoint::keep_random(&mut begun, &mut trained);
    kept.map_err(|error| raise(py, error.into()))?;
    Ok(Program::of(trained))
}

/// Appends operators to the main program that save a checkpoint, and writes its loader; returns warnings.
#[pyfunction]
pub(crate) fn make_checkpoint(
    py: Python<'_>,
    directory: PathBuf,
    names: Option<Vec<String>>,
    startup: &Bound<'_, Program>,
    main: &Bound<'_, Program>,
    every: u64,
    placement: (String, String),
) -> PyResult<Vec<String>> {
    let names: Option<HashSet<String>> = names.map(|names| names.into_iter().collect());
    let (mut begun, mut trained) = (startup.get().copied()?, main.get().copied()?);
    let options =
        CheckpointOptions::default().with_every(every).with_placement(self::placement(placement)?);
    let made = py.detach(|| {
        let is_named = |var: &Var| names.as_ref().is_none_or(|names| names.contains(&var.name));
        checkpoint::make_checkpoint(directory, Some(&is_named), &mut begun, &mut trained, &options)
    });
    let stale = made.map_err(|error| raise(py, error.into()))?;
    startup.get().replace(begun)?;
    main.get().replace(trained)?;
    Ok(stale.iter().map(ToString::to_string).collect())
}

#[pyfunction]
pub(crate) fn get_checkpoint_loader(py: Python<'_>, directory: PathBuf) -> PyResult<Program> {
    let loader = py.detach(|| checkpoint::get_checkpoint_loader(directory));
    loader.map(Program::of).map_err(|error| raise(py, error.into()))
}

/// Restores a serial into a scope: all of it, or the variables of a program.
#[pyfunction]
pub(crate) fn restore_checkpoint<'py>(
    py: Python<'py>,
    directory: PathBuf,
    step: Option<u64>,
    scope: &Bound<'py, Scope>,
    program: Option<Bound<'py, Program>>,
    partial: bool,
    renames: BTreeMap<String, String>,
) -> PyResult<Bound<'py, PyAny>> {
    let (scope, program) = (scope.get(), program.map(|it| it.get().copied()).transpose()?);
    let options =
        RestoreOptions::default().with_partial(partial).with_renames(renames.into_iter().collect());
    let restored = run(py, None, move |_| {
        let serial = Serial::find(&directory, step)?;
        let scope = &mut scope.locked();
        Ok::<_, lodstone::Error>(match program {
            Some(program) => restore_for(&serial, &program, scope, &options)?,
            None => restore(&serial, scope)?,
        })
    })?;
    json(py, &described(&restored.map_err(|error| raise(py, error))?))
}

/// Describes what was restored from a checkpoint.
pub(super) fn described(restored: &Restored) -> Value {
    json!({
        "step": restored.step,
        "loaded": restored.loaded,
        "initialized": restored.initialised,
        "warnings": restored.warnings,
        "metadata": restored.metadata,
    })
}

/// What checkpoints of a program contain.
#[pyclass(frozen, module = "lodstone._lodstone", name = "Contents")]
#[derive(Debug)]
pub(crate) struct ProgramContents(Contents);

#[pymethods]
impl ProgramContents {
    #[new]
    fn new(
        py: Python<'_>,
        main: &Bound<'_, Program>,
        startup: &Bound<'_, Program>,
        names: Option<Vec<String>>,
    ) -> PyResult<Self> {
        let names: Option<HashSet<String>> = names.map(|names| names.into_iter().collect());
        let (main, startup) = (main.get().copied()?, startup.get().copied()?);
        let is_named = |var: &Var| names.as_ref().is_none_or(|names| names.contains(&var.name));
        let contents = Contents::of(&main, &startup, Some(&is_named));
        contents.map(Self).map_err(|error| raise(py, error.into()))
    }
}

impl ProgramContents {
    /// A snapshot of a scope.
    pub(crate) fn snapshot(
        &self,
        py: Python<'_>,
        scope: &Bound<'_, Scope>,
    ) -> PyResult<lodstone::checkpoint::Snapshot> {
        let taken = self.0.snapshot(&scope.get().locked());
        taken.map_err(|error| match error {
            checkpoint::Error::Serial(error) => raise_checkpoint(py, error),
            error => raise(py, error.into()),
        })
    }
}
