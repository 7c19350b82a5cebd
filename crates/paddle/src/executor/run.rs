//! Prepared programs, and an executor that keeps the last one.

use std::sync::Arc;

use lodstone_engine::{Profile, Threads};
use lodstone_model::{Program, Revision, Tensor};
use lodstone_schema::paddle::interface;

use crate::executor::error::{Error, Result};
use crate::executor::files::{Dirs, Files};
use crate::executor::frame::{Blocks, Frame, Limits};
use crate::executor::plan::Plan;
use crate::executor::random::{RANDOM_STATE, Random};
use crate::executor::scope::Scope;
use crate::executor::value::{Value, rows};
use crate::program::{Variable, gradients};

/// A program that is ready to be run, again and again.
#[derive(Clone, Debug)]
pub struct Prepared {
    plan: Arc<Plan>,
    /// The requested variables; empty for those that the program fetches.
    requested: Vec<String>,
    fetch: Vec<String>,
    checks_finite: bool,
    max_steps: u64,
    threads: Threads,
    profile: Option<Arc<Profile>>,
}

/// Runs programs, and keeps the last one prepared until a program of another [`Revision`] is run.
#[derive(Debug, Default)]
pub struct Executor {
    last: Option<(Revision, Prepared)>,
}

impl Executor {
    /// Runs the operators of a program in order; returns the variables in `fetch`, or, if it is empty, those that the
    /// program itself fetches.
    ///
    /// Persistable variables are read from and written to `scope`; the others are dropped after the run. `feed` has the
    /// values of input variables, `dirs` the directories of operators that load and save.
    ///
    /// # Errors
    /// If the program contradicts itself, an operator is not supported or fails, or a variable is missing. The scope is
    /// then unchanged; files that were already published stay.
    pub fn run(
        &mut self,
        program: &Program,
        scope: &mut Scope,
        feed: &[(&str, Tensor)],
        fetch: &[&str],
        dirs: &Dirs,
    ) -> Result<Vec<Tensor>> {
        let (last, revision) = (self.last.take(), program.revision());
        let prepared = match last {
            Some((known, prepared)) if known == revision && prepared.asks(fetch) => prepared,
            _ => Prepared::new(program, fetch)?,
        };
        let result = prepared.run(scope, feed, dirs);
        self.last = Some((revision, prepared));
        result
    }
}

impl Prepared {
    /// Prepares a program.
    ///
    /// # Errors
    /// If it contradicts itself, or operators are not supported: all of those are reported at once.
    pub fn new(program: &Program, fetch: &[&str]) -> Result<Self> {
        let requested: Vec<String> = fetch.iter().map(|name| (*name).to_owned()).collect();
        let fetch = match requested.as_slice() {
            [] => interface(program).outputs.into_iter().map(str::to_owned).collect(),
            names => names.to_vec(),
        };
        Ok(Self {
            plan: Arc::new(Plan::new(program, &fetch)?),
            requested,
            fetch,
            checks_finite: false,
            max_steps: u64::MAX,
            threads: Threads::default(),
            profile: None,
        })
    }

    /// Prepares a program that computes `value`, a single number, to return it and its gradients with respect to the
    /// variables `by`, in their order. These may be parameters, inputs, or intermediate values.
    ///
    /// # Errors
    /// Like [`Prepared::new`]; also if `value` is not a single number, does not depend on one of the variables, or depends
    /// on it through an operator without a known gradient.
    pub fn value_and_grad(program: &Program, value: &str, by: &[&str]) -> Result<Self> {
        let mut program = program.clone();
        let named: Vec<Variable> = by.iter().map(|name| Variable::named(name)).collect();
        let made = gradients(&mut program, &Variable::named(value), &named, &[])
            .map_err(|error| Error::Gradients(Box::new(error)))?;
        let mut found = Vec::new();
        for (name, gradient) in by.iter().zip(&made) {
            let Some(gradient) = gradient else {
                let what = format!("`{value}` does not depend on it");
                return Err(Error::Variable { name: (*name).to_owned(), finding: what.into() });
            };
            found.push(gradient.name());
        }
        let fetch = std::iter::once(value).chain(found);
        Self::new(&program, &fetch.collect::<Vec<_>>())
    }

    /// Makes operators fail that compute an infinite number or NaN: the first one is reported.
    #[must_use]
    pub fn checking_finite(mut self) -> Self {
        self.checks_finite = true;
        self
    }

    /// Limits the number of steps: a run that exceeds it fails. Each run of an operator is a step, also in loops.
    #[must_use]
    pub fn with_max_steps(mut self, steps: u64) -> Self {
        self.max_steps = steps;
        self
    }

    /// Runs on other threads than those that all programs share.
    #[must_use]
    pub fn with_threads(mut self, threads: Threads) -> Self {
        self.threads = threads;
        self
    }

    /// The same, with a profile that measures its operators.
    #[must_use]
    pub fn with_profile(mut self, profile: Arc<Profile>) -> Self {
        self.profile = Some(profile);
        self
    }

    fn asks(&self, fetch: &[&str]) -> bool {
        self.requested.iter().map(String::as_str).eq(fetch.iter().copied())
    }

    /// Returns the names of the variables that a run returns.
    pub fn fetched(&self) -> &[String] {
        &self.fetch
    }

    /// Runs the program once.
    ///
    /// # Errors
    /// Like [`Executor::run`].
    pub fn run(
        &self,
        scope: &mut Scope,
        feed: &[(&str, Tensor)],
        dirs: &Dirs,
    ) -> Result<Vec<Tensor>> {
        // On the pool from the start: handing over each kernel takes longer than most of them run.
        self.threads.run(|| self.run_here(scope, feed, dirs)).map_err(Error::Program)?
    }

    /// Runs the program on this thread.
    fn run_here(
        &self,
        scope: &mut Scope,
        feed: &[(&str, Tensor)],
        dirs: &Dirs,
    ) -> Result<Vec<Tensor>> {
        let layout = &self.plan.layout;
        let variable = |name: &str, finding| Error::Variable { name: name.to_owned(), finding };
        let random = Random::of(scope).map_err(|finding| variable(RANDOM_STATE, finding))?;
        let limits = Limits {
            checks_finite: self.checks_finite,
            max_steps: self.max_steps,
            profile: self.profile.clone(),
        };
        let (budget, threads) = (scope.budget().clone(), self.threads.clone());
        let mut frame =
            Frame::new(layout, &*self.plan, Files::new(dirs), random, limits, budget, threads);
        for (slot, var) in layout.vars.iter().enumerate().filter(|(_, var)| var.persistable) {
            if let Some(value) = scope.get(&var.name) {
                frame.fill(slot, value.clone()).map_err(|finding| variable(&var.name, finding))?;
            }
        }
        for (name, tensor) in feed {
            let slot = layout.names.get(*name).copied().ok_or_else(|| Error::Variable {
                name: (*name).to_owned(),
                finding: "the program does not have this fed variable".into(),
            })?;
            check_fed(&layout.program, name, tensor)?;
            let value = Value::Tensor(tensor.clone());
            frame.fill(slot, value).map_err(|finding| variable(name, finding))?;
        }
        self.plan.run(&mut frame, 0)?;
        let fetched = |name: &String| {
            let slot = layout.names.get(name).copied();
            match slot.map(|slot| frame.value(slot)) {
                Some(Ok(value)) => value.tensor().cloned(),
                _ => Err("the variable was not computed".into()),
            }
            .map_err(|finding| Error::Variable { name: name.clone(), finding })
        };
        let fetched = self.fetch.iter().map(fetched).collect::<Result<Vec<_>>>()?;
        frame.random.keep(scope).map_err(|finding| variable(RANDOM_STATE, finding))?;
        for (slot, var) in layout.vars.iter().enumerate() {
            if var.persistable
                && let Some(value) = frame.take_changed(slot)
            {
                scope.put(&var.name, value);
            }
        }
        Ok(fetched)
    }
}

/// Fails if a fed tensor does not have the type that the program declares.
fn check_fed(program: &Program, name: &str, tensor: &Tensor) -> Result<()> {
    let wrong = |what: String| Err(Error::Variable { name: name.to_owned(), finding: what.into() });
    if let Err(broken) = tensor.lod.check(rows(tensor)) {
        return wrong(broken.to_string());
    }
    let vars = program.blocks.first().map_or(&[][..], |block| &block.vars);
    let declared = vars.iter().find(|var| var.name == name);
    let Some(wanted) = declared.and_then(|var| var.value.tensor_type()) else { return Ok(()) };
    if wanted.dtype != tensor.dtype || !wanted.admits(&tensor.shape) {
        return wrong(format!("expected {wanted}, found {}{:?}", tensor.dtype, tensor.shape));
    }
    Ok(())
}
