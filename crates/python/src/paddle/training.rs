//! Training of models.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lodstone::checkpoint::{Serial, Snapshot};
use lodstone::model::Programs;
use lodstone::train::{SampleOptions, TrainOptions};
use lodstone::{Location, OpenOptions, WriteOptions};
use pyo3::prelude::*;

use super::checkpoint::described;
use crate::arguments::{Arguments, Place, Ready, Source, dirs_of, renames};
use crate::errors::raise;
use crate::model::{Model, json};
use crate::session::inputs_of;
use crate::work::run;

/// Named values, as Python gives them.
type Values<'py> = Vec<(String, Bound<'py, PyAny>)>;

/// A model in training.
#[pyclass(frozen, module = "lodstone._lodstone")]
#[derive(Debug)]
pub(crate) struct Training(Mutex<lodstone::train::Training>);

impl Training {
    fn locked(&self) -> MutexGuard<'_, lodstone::train::Training> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A snapshot for a checkpoint.
    pub(crate) fn snapshot(&self, py: Python<'_>) -> PyResult<Snapshot> {
        let snapshot = py.detach(|| self.locked().snapshot());
        snapshot.map_err(|error| raise(py, error))
    }
}

#[pymethods]
impl Training {
    /// Starts to train a model, on data of its own, or on a batch that each step is given.
    #[new]
    fn new(
        py: Python<'_>,
        model: &Bound<'_, Model>,
        data: Option<Values<'_>>,
        facts: Arguments<'_>,
    ) -> PyResult<Self> {
        let location =
            |name: &str| Ok::<_, PyErr>(facts.get::<Option<Place>>(name)?.map(Location::from));
        let mut dirs = dirs_of(py, facts.get("path")?)?;
        dirs.read = location("load_from")?.or(dirs.read);
        dirs.write = location("save_to")?;
        let resume: Option<(Place, u64)> = facts.get("resume")?;
        let resume = resume.map(|(directory, step)| Serial::find(directory, Some(step)));
        let resume = resume.transpose().map_err(|error| raise(py, error.into()))?;
        let renames = renames(py, &facts.get::<HashMap<String, String>>("rename")?)?;
        let options = TrainOptions::default()
            .with_loss(facts.get("loss")?)
            .with_watch(facts.get("watch")?)
            .with_samples(
                SampleOptions::default()
                    .with_batch(facts.get("batch_size")?)
                    .with_shuffle(facts.get("shuffle")?),
            )
            .with_check_finite(facts.get("check_finite")?)
            .with_dirs(dirs)
            .with_resume(resume)
            .with_partial(facts.get("partial")?)
            .with_renames(renames);
        let data = data.map(|data| inputs_of(&data)).transpose()?;
        let model = model.get().model.clone();
        let training = run(py, None, move |_| match data {
            Some(data) => lodstone::train::Training::new(&model, data, options),
            None => lodstone::train::Training::without_data(&model, options),
        })?;
        training.map(|training| Self(Mutex::new(training))).map_err(|error| raise(py, error))
    }

    /// Runs a step; returns the values of the reported variables.
    fn step(&self, py: Python<'_>, batch: Option<Values<'_>>) -> PyResult<Vec<f64>> {
        let batch = batch.map(|batch| inputs_of(&batch)).transpose()?;
        let values = run(py, None, |progress| {
            let mut training = self.locked();
            training.stopped_by(progress);
            match batch {
                Some(batch) => training.step_with(batch),
                None => training.step(),
            }
        })?;
        values.map_err(|error| raise(py, error))
    }

    /// The names of the reported variables, the loss first.
    #[getter]
    fn watched(&self) -> Vec<String> {
        self.locked().watched().to_vec()
    }

    /// The number of completed steps.
    #[getter]
    pub(crate) fn done(&self) -> u64 {
        self.locked().done()
    }

    fn warnings(&self) -> Vec<String> {
        self.locked().warnings()
    }

    /// What was restored from a checkpoint.
    fn restored<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let found = self.locked().restored().map(described);
        found.map(|found| json(py, &found)).transpose()
    }

    /// The program with its current variables.
    fn model(&self, py: Python<'_>) -> Model {
        Model::new(py.detach(|| self.locked().model()))
    }

    /// Writes the program with its current variables into a directory.
    fn save(&self, py: Python<'_>, directory: Place, no_clobber: bool) -> PyResult<()> {
        let saved = run(py, None, |progress| {
            let options =
                WriteOptions::default().with_progress(progress.clone()).with_no_clobber(no_clobber);
            self.locked().save(directory, &[], &options)
        })?;
        saved.map_err(|error| raise(py, error))
    }
}

/// Opens a model with its startup program, or adds one to an open model.
#[pyfunction]
pub(crate) fn open_training(
    py: Python<'_>,
    source: Source<'_>,
    startup: Option<Place>,
    params: Option<Place>,
) -> PyResult<Model> {
    let (source, startup) = (source.ready(), startup.map(Location::from));
    let options = OpenOptions::default().with_params(params.map(Location::from));
    let opened = run(py, None, move |progress| {
        let options = options.stopped_by(progress);
        match source {
            Ready::Path(path) => lodstone::train::open_training(path, startup.as_ref(), &options),
            Ready::Open(model) => {
                let mut model = Arc::unwrap_or_clone(model);
                if let Some(startup) = &startup {
                    let program = lodstone::train::open_program(startup, &options)?;
                    model.programs.insert(Programs::STARTUP, program);
                }
                Ok(model)
            }
        }
    })?;
    opened.map(Model::new).map_err(|error| raise(py, error))
}
