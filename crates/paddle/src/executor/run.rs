//! Prepared programs, and an executor that keeps the last one.

use std::sync::Arc;

use lodstone_engine::Threads;
use lodstone_model::{Program, Revision, Tensor};
use lodstone_schema::paddle::{gradient_of, interface, set_stop_gradient};

use crate::executor::error::{Error, Result};
use crate::executor::files::{Dirs, Files};
use crate::executor::frame::{Blocks, Frame, Limits};
use crate::executor::plan::Plan;
use crate::executor::random::{RANDOM_STATE, Random};
use crate::executor::scope::Scope;
use crate::executor::value::Value;
use crate::program::{Variable, append_backward};

/// A program that is ready to be run, again and again.
#[derive(Clone, Debug)]
pub struct Prepared {
    plan: Arc<Plan>,
    /// What the caller asked for; empty for the outputs that the program declares.
    asked: Vec<String>,
    fetch: Vec<String>,
    checks_finite: bool,
    max_steps: u64,
    threads: Threads,
}

/// Runs programs, and keeps the last of them prepared, until a program of another [`Revision`] is run.
#[derive(Debug, Default)]
pub struct Executor {
    last: Option<(Revision, Prepared)>,
}

impl Executor {
    /// Runs a program from its first operator to its last, in their order; gives the variables that `fetch`
    /// names, or, if it names none, what the program itself fetches.
    ///
    /// Variables that persist are those of `scope`, and stay there; the others are gone afterwards. `feed` has the
    /// variables that come from outside; `dirs` are where operators that load and save may do that.
    ///
    /// # Errors
    /// If the program contradicts itself, nothing computes one of its operators, a variable is missing, or an
    /// operator fails. The scope is then as it was; files that were published before that stay.
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
    /// If it contradicts itself, or nothing computes one of its operators: all of those are told at once.
    pub fn new(program: &Program, fetch: &[&str]) -> Result<Self> {
        let asked: Vec<String> = fetch.iter().map(|name| (*name).to_owned()).collect();
        let fetch = match asked.as_slice() {
            [] => interface(program).outputs.into_iter().map(str::to_owned).collect(),
            names => names.to_vec(),
        };
        Ok(Self {
            plan: Arc::new(Plan::new(program, &fetch)?),
            asked,
            fetch,
            checks_finite: false,
            max_steps: u64::MAX,
            threads: Threads::default(),
        })
    }

    /// Prepares a program that computes `value`, one number, to give it and its gradients by the variables `by`, in
    /// their order. These may be parameters, what is fed, or anything on the way.
    ///
    /// # Errors
    /// As [`Prepared::new`]; if it is not one number, does not depend on one of them, or depends on it through an operator
    /// whose gradient is not known.
    pub fn value_and_grad(program: &Program, value: &str, by: &[&str]) -> Result<Self> {
        let mut program = program.clone();
        let vars = program.blocks.iter_mut().flat_map(|block| &mut block.vars);
        vars.filter(|var| by.contains(&var.name.as_str()))
            .for_each(|var| set_stop_gradient(var, false));
        append_backward(&mut program, &Variable::named(value), &[])
            .map_err(|error| Error::Gradients(Box::new(error)))?;
        let gradients: Vec<String> = by.iter().map(|name| gradient_of(name)).collect();
        for (name, gradient) in by.iter().zip(&gradients) {
            if !program.ops().any(|op| op.writes().any(|written| written == gradient)) {
                let what = format!("`{value}` does not depend on it");
                return Err(Error::Variable { name: (*name).to_owned(), finding: what.into() });
            }
        }
        let fetch = std::iter::once(value).chain(gradients.iter().map(String::as_str));
        Self::new(&program, &fetch.collect::<Vec<_>>())
    }

    /// The same, where an operator fails that gives an infinite number or none (NaN): the first that does is named.
    #[must_use]
    pub fn checking_finite(mut self) -> Self {
        self.checks_finite = true;
        self
    }

    /// The same, where a run that has not ended after so many steps fails. A step is an operator that is run; those
    /// in loops count each time.
    #[must_use]
    pub fn with_max_steps(mut self, steps: u64) -> Self {
        self.max_steps = steps;
        self
    }

    /// The same on other threads than those that all programs share.
    #[must_use]
    pub fn with_threads(mut self, threads: Threads) -> Self {
        self.threads = threads;
        self
    }

    fn asks(&self, fetch: &[&str]) -> bool {
        self.asked.iter().map(String::as_str).eq(fetch.iter().copied())
    }

    /// The names of what it gives.
    pub fn fetched(&self) -> &[String] {
        &self.fetch
    }

    /// Runs it once.
    ///
    /// # Errors
    /// As [`Executor::run`].
    pub fn run(
        &self,
        scope: &mut Scope,
        feed: &[(&str, Tensor)],
        dirs: &Dirs,
    ) -> Result<Vec<Tensor>> {
        // On the pool from the beginning: handing over each kernel takes longer than most of them run.
        self.threads.run(|| self.run_here(scope, feed, dirs)).map_err(Error::Program)?
    }

    /// Runs it on this thread.
    fn run_here(
        &self,
        scope: &mut Scope,
        feed: &[(&str, Tensor)],
        dirs: &Dirs,
    ) -> Result<Vec<Tensor>> {
        let layout = &self.plan.layout;
        let variable = |name: &str, finding| Error::Variable { name: name.to_owned(), finding };
        let random = Random::of(scope).map_err(|finding| variable(RANDOM_STATE, finding))?;
        let limits = Limits { checks_finite: self.checks_finite, max_steps: self.max_steps };
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
                finding: "it is fed, and the program has no such variable".into(),
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
                _ => Err("it was not computed".into()),
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

/// Fails if what is fed is not of the type that the program declares.
fn check_fed(program: &Program, name: &str, tensor: &Tensor) -> Result<()> {
    let wrong = |what: String| Err(Error::Variable { name: name.to_owned(), finding: what.into() });
    if let Err(broken) = tensor.lod.check(tensor.shape.first().copied().unwrap_or(0)) {
        return wrong(broken.to_string());
    }
    let vars = program.blocks.first().map_or(&[][..], |block| &block.vars);
    let declared = vars.iter().find(|var| var.name == name);
    let Some(wanted) = declared.and_then(|var| var.value.tensor_type()) else { return Ok(()) };
    if wanted.dtype != tensor.dtype || !wanted.admits(&tensor.shape) {
        return wrong(format!("expected {wanted}, was fed {}{:?}", tensor.dtype, tensor.shape));
    }
    Ok(())
}
