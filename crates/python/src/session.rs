//! Runs of models.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use lodstone::convert::fix_types;
use lodstone::run::{Engine, OperatorTime, Output, Profile, Threads, Value};
use lodstone::{CompareOptions, Inputs, OpenOptions, Progress, RunOptions};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use serde_json::json;

use crate::arguments::{Arguments, Place, Ready, Source, dirs_of, dtypes};
use crate::errors::raise;
use crate::model::{Model, json};
use crate::tensor::Tensor;
use crate::work::{run, run_here, run_on};

/// A model that is ready to run.
#[pyclass(frozen, module = "lodstone._lodstone")]
#[derive(Debug)]
pub(crate) struct Session {
    session: Mutex<lodstone::Session>,
    threads: Threads,
    /// Whether ONNX Runtime runs it, on its own threads; nothing cancels it.
    is_foreign: bool,
    inputs: Vec<String>,
    outputs: Vec<String>,
    profile: Option<Arc<Profile>>,
}

impl Session {
    /// Prepares a model.
    pub(crate) fn new(
        py: Python<'_>,
        model: &Model,
        running: &Arguments<'_>,
        directory: Option<Place>,
    ) -> PyResult<Self> {
        let profile = running.profile()?;
        let mut options = running.running()?.with_profile(profile.clone());
        options.dirs = dirs_of(py, directory)?;
        let model = Arc::clone(&model.model);
        let threads = options.threads.clone().unwrap_or_default();
        let is_foreign = options.engine == Engine::OnnxRuntime;
        let session = run(py, None, |_| lodstone::Session::new(&model, &options))?;
        let session = session.map_err(|error| raise(py, error))?;
        let (inputs, outputs) = (session.inputs().to_vec(), session.outputs());
        Ok(Self { session: Mutex::new(session), threads, is_foreign, inputs, outputs, profile })
    }
}

#[pymethods]
impl Session {
    #[getter]
    fn inputs(&self) -> Vec<String> {
        self.inputs.clone()
    }

    #[getter]
    fn outputs(&self) -> Vec<String> {
        self.outputs.clone()
    }

    /// The names and values of the outputs.
    fn run<'py>(
        &self,
        py: Python<'py>,
        inputs: Vec<(String, Bound<'py, PyAny>)>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let inputs = inputs_of(&inputs)?;
        let work = |session: &mut lodstone::Session, progress: &Progress| {
            session.run_with(inputs, progress)
        };
        let outputs = match self.is_foreign {
            true => run_here(py, &self.session, |session| work(session, &Progress::default()))?,
            false => run_on(py, &self.threads, &self.session, work)?,
        };
        let named = PyDict::new(py);
        for Output { name, value } in outputs.map_err(|error| raise(py, error))? {
            named.set_item(&name, output(py, &name, value)?)?;
        }
        Ok(named)
    }

    /// The operators that ran, if the session measures them.
    fn profile<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let what = "the session was created without `profile=True`";
        let profile = self.profile.as_ref().ok_or_else(|| PyValueError::new_err(what))?;
        let row = |OperatorTime { kind, name, calls, time, .. }| {
            let seconds = time.as_secs_f64();
            json!({ "type": kind, "name": name, "calls": calls, "seconds": seconds })
        };
        json(py, &profile.operators().into_iter().map(row).collect::<Vec<_>>())
    }
}

impl Arguments<'_> {
    /// How to run a model.
    fn running(&self) -> PyResult<RunOptions> {
        let engine = engine(&self.get::<String>("engine")?)?;
        Ok(RunOptions::default()
            .with_fetch(self.get("fetch")?)
            .with_max_memory(self.get("memory_limit")?)
            .with_max_steps(self.get("max_steps")?)
            .with_threads(self.get::<Option<usize>>("threads")?.map(Threads::new))
            .with_engine(engine)
            .with_engine_path(self.get("engine_path")?))
    }

    fn profile(&self) -> PyResult<Option<Arc<Profile>>> {
        Ok(self.get::<bool>("profile")?.then(Arc::default))
    }
}

/// The engine called `name`.
fn engine(name: &str) -> PyResult<Engine> {
    name.parse().map_err(PyValueError::new_err)
}

/// Names and values as inputs; a value whose name is empty is the next input.
pub(crate) fn inputs_of(given: &[(String, Bound<'_, PyAny>)]) -> PyResult<Inputs> {
    let mut inputs = Inputs::default();
    for (name, value) in given {
        let name = Some(name.clone()).filter(|name| !name.is_empty());
        inputs.values.push((name, input(value)?));
    }
    Ok(inputs)
}

/// A value: a tensor, a list of values, a tuple of keys and values, or `None`.
fn input(value: &Bound<'_, PyAny>) -> PyResult<Value> {
    let all = |values: Vec<Bound<'_, PyAny>>| values.iter().map(input).collect::<PyResult<_>>();
    if value.is_none() {
        return Ok(Value::Absent);
    }
    if let Ok(values) = value.cast::<PyList>() {
        return Ok(Value::Sequence(all(values.extract()?)?));
    }
    if let Ok((keys, values)) = value.extract::<(Bound<'_, Tensor>, Vec<Bound<'_, PyAny>>)>() {
        return Ok(Value::Map { keys: keys.get().tensor().clone(), values: all(values)? });
    }
    Ok(Value::Tensor(value.cast::<Tensor>()?.get().tensor().clone()))
}

/// The value of an output: a tensor, a list, a dictionary or `None`.
fn output<'py>(py: Python<'py>, name: &str, value: Value) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Value::Tensor(tensor) => Bound::new(py, Tensor::alone(name.to_owned(), tensor))?.into_any(),
        Value::Sequence(values) => {
            let values = values.into_iter().map(|value| output(py, name, value));
            PyList::new(py, values.collect::<PyResult<Vec<_>>>()?)?.into_any()
        }
        Value::Map { keys, values } => {
            let keys = Tensor::alone(name.to_owned(), keys).keys(py)?;
            let map = PyDict::new(py);
            for (key, value) in keys.into_iter().zip(values) {
                map.set_item(key, output(py, name, value)?)?;
            }
            map.into_any()
        }
        _ => py.None().into_bound(py),
    })
}

/// Random tensors for the inputs of a model that have no default.
#[pyfunction]
pub(crate) fn random_inputs<'py>(
    py: Python<'py>,
    model: &Bound<'py, Model>,
    seed: u64,
    shapes: BTreeMap<String, Vec<u64>>,
    types: BTreeMap<String, String>,
) -> PyResult<Bound<'py, PyDict>> {
    let shapes: Vec<_> = shapes.into_iter().collect();
    let mut inputs = Inputs::default();
    let mut model = lodstone::Model::clone(&model.get().model);
    fix_types(&mut model, &dtypes("types", types)?).map_err(|error| raise(py, error))?;
    let added = inputs.add_random(&model, seed, &shapes);
    added.map_err(|error| raise(py, error))?;
    let named = PyDict::new(py);
    for (name, value) in inputs.values {
        let name = name.unwrap_or_default();
        named.set_item(&name, output(py, &name, value)?)?;
    }
    Ok(named)
}

/// Runs two models on the same inputs; random ones where `inputs` has none.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "the arguments of the function in Python")]
pub(crate) fn compare<'py>(
    py: Python<'py>,
    a: Source<'py>,
    b: Source<'py>,
    inputs: Vec<(String, Bound<'py, PyAny>)>,
    seed: u64,
    shapes: BTreeMap<String, Vec<u64>>,
    types: BTreeMap<String, String>,
    rtol: f64,
    atol: f64,
    outputs_only: bool,
    engine_b: Option<String>,
    running: Arguments<'py>,
) -> PyResult<Bound<'py, PyAny>> {
    let (a, b, mut inputs) = (a.ready(), b.ready(), inputs_of(&inputs)?);
    let shapes: Vec<_> = shapes.into_iter().collect();
    let types = dtypes("types", types)?;
    let options = CompareOptions::default()
        .with_rtol(rtol)
        .with_atol(atol)
        .with_outputs_only(outputs_only)
        .with_engine_b(engine_b.map(|name| engine(&name)).transpose()?)
        .with_run(running.running()?);
    let found = run(py, None, move |progress: &Progress| {
        let open = |source: Ready| source.open(&OpenOptions::default().stopped_by(progress));
        let (mut a, b) = (open(a)?, open(b)?);
        fix_types(&mut a, &types)?;
        inputs.add_random(&a, seed, &shapes)?;
        lodstone::compare(&a, &b, inputs, &options.with_progress(progress.clone()))
    })?;
    json(py, &found.map_err(|error| raise(py, error))?)
}
