//! Scopes and executors.

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use lodstone::model::Revision;
use lodstone::paddle::executor::Dirs;
use lodstone::paddle::executor::{self, Prepared};
use lodstone::paddle::program::Paths;
use lodstone::run::Threads;
use lodstone::{Location, Parameter, Progress};
use pyo3::prelude::*;

use super::{Program, texts};
use crate::errors::{raise, raise_store};
use crate::tensor::{Tensor, own};
use crate::work::run_on;

/// Maximum number of programs that an executor keeps prepared: a training loop has few.
const MAX_PREPARED: usize = 16;

/// Variables that outlive a run.
#[pyclass(frozen, module = "lodstone._lodstone")]
#[derive(Debug, Default)]
pub(crate) struct Scope(Mutex<executor::Scope>);

impl Scope {
    pub(super) fn locked(&self) -> MutexGuard<'_, executor::Scope> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the variables of these names that hold tensors.
    pub(super) fn parameters(&self, names: &[String]) -> Vec<Parameter> {
        let scope = self.locked();
        let tensor = |name: &String| {
            let tensor = scope.tensor(name)?.clone();
            Some(Parameter { name: name.clone(), tensor })
        };
        names.iter().filter_map(tensor).collect()
    }
}

#[pymethods]
impl Scope {
    #[new]
    fn new(memory_limit: Option<u64>) -> Self {
        let scope = executor::Scope::default();
        Self(Mutex::new(match memory_limit {
            Some(bytes) => scope.with_memory(bytes),
            None => scope,
        }))
    }

    fn names(&self, py: Python<'_>) -> Vec<String> {
        py.detach(|| self.locked().names().map(str::to_owned).collect())
    }

    /// The tensor of a variable; `None` if there is none.
    fn tensor(&self, py: Python<'_>, name: &str) -> Option<Tensor> {
        let tensor = py.detach(|| self.locked().tensor(name).cloned());
        tensor.map(|tensor| Tensor::alone(name.to_owned(), tensor))
    }

    fn __contains__(&self, py: Python<'_>, name: &str) -> bool {
        py.detach(|| self.locked().get(name).is_some())
    }

    /// Sets a variable to a copy of a tensor.
    fn set(&self, py: Python<'_>, name: &str, tensor: &Bound<'_, Tensor>) -> PyResult<()> {
        let tensor = tensor.get().tensor();
        let copied = py.detach(|| own(tensor).map(|tensor| self.locked().set(name, tensor)));
        copied.map_err(|error| raise_store(py, error))
    }

    fn remove(&self, py: Python<'_>, name: &str) -> bool {
        py.detach(|| self.locked().remove(name).is_some())
    }
}

/// Runs programs, and keeps them prepared.
#[pyclass(frozen, module = "lodstone._lodstone")]
#[derive(Debug)]
pub(crate) struct Executor {
    threads: Threads,
    checks_finite: bool,
    max_steps: Option<u64>,
    /// The programs that were run, the last one at the end.
    prepared: Mutex<Vec<(Key, Prepared)>>,
}

/// What a prepared program depends on.
#[derive(Clone, Debug, PartialEq)]
struct Key {
    revision: Revision,
    fetch: Vec<String>,
}

impl Executor {
    fn known(&self, key: &Key) -> Option<Prepared> {
        let mut all = self.prepared.lock().unwrap_or_else(PoisonError::into_inner);
        let place = all.iter().position(|(known, _)| known == key)?;
        let found = all.remove(place);
        let prepared = found.1.clone();
        all.push(found);
        Some(prepared)
    }

    fn keep(&self, key: Key, prepared: Prepared) {
        let mut all = self.prepared.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() == MAX_PREPARED {
            all.remove(0);
        }
        all.push((key, prepared));
    }

    fn prepare(
        &self,
        program: &lodstone::model::Program,
        fetch: &[&str],
    ) -> executor::Result<Prepared> {
        let mut prepared = Prepared::new(program, fetch)?.with_threads(self.threads.clone());
        if let Some(steps) = self.max_steps {
            prepared = prepared.with_max_steps(steps);
        }
        Ok(if self.checks_finite { prepared.checking_finite() } else { prepared })
    }
}

#[pymethods]
impl Executor {
    #[new]
    fn new(threads: Option<usize>, check_finite: bool, max_steps: Option<u64>) -> Self {
        let threads = threads.map_or_else(Threads::default, Threads::new);
        Self { threads, checks_finite: check_finite, max_steps, prepared: Mutex::default() }
    }

    /// Runs a program in a scope; returns the names and values of what it fetches.
    #[expect(clippy::too_many_arguments, reason = "the arguments of the method in Python")]
    fn run<'py>(
        &self,
        py: Python<'py>,
        program: &Bound<'py, Program>,
        scope: &Bound<'py, Scope>,
        feed: Vec<(String, Bound<'py, Tensor>)>,
        fetch: Vec<String>,
        read: Option<PathBuf>,
        write: Option<PathBuf>,
    ) -> PyResult<Vec<Tensor>> {
        let (program, scope) = (program.get(), scope.get());
        let found = program.with(|state| {
            let key = Key { revision: state.program.revision(), fetch };
            self.known(&key).ok_or_else(|| Box::new((key, state.program.clone())))
        })?;
        let feed: Vec<(String, lodstone::Tensor)> =
            feed.into_iter().map(|(name, tensor)| (name, tensor.get().tensor().clone())).collect();
        let work = |scope: &mut executor::Scope, progress: &Progress| {
            let prepared = match found {
                Ok(prepared) => prepared,
                Err(unknown) => {
                    let (key, program) = *unknown;
                    let prepared = self.prepare(&program, &texts(&key.fetch))?;
                    self.keep(key, prepared.clone());
                    prepared
                }
            };
            let feed = feed.iter().map(|(name, tensor)| Ok((name.as_str(), own(tensor)?)));
            let feed = feed.collect::<Result<Vec<_>, lodstone::store::Error>>()?;
            let dirs = Dirs {
                read: read.map(Location::from),
                write: write.map(Location::from),
                paths: Paths::Inside,
                progress: progress.clone(),
                ..Dirs::default()
            };
            let values = prepared.run(scope, &feed, &dirs)?;
            let named: Vec<_> = prepared.fetched().iter().cloned().zip(values).collect();
            Ok::<_, lodstone::Error>(named)
        };
        let values =
            run_on(py, &self.threads, &scope.0, work)?.map_err(|error| raise(py, error))?;
        Ok(values.into_iter().map(|(name, tensor)| Tensor::alone(name, tensor)).collect())
    }
}
