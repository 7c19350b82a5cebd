//! Runs plans.

use std::sync::Arc;

use crate::program::{Variable, append_backward};
use lodstone_model::{Kind, Op, Program, Revision, Tensor};
use lodstone_schema::paddle::{gradient_of, interface, set_stop_gradient};
use lodstone_schema::{Code, Finding};

use crate::executor::error::{Error, Result};
use crate::executor::files::{Dirs, Files};
use crate::executor::finite::{has_nan, not_finite};
use crate::executor::native::{RANDOM_STATE, Random};
use crate::executor::plan::{Does, Plan, Slot, Step, op_of};
use crate::executor::scope::Scope;
use crate::executor::value::Value;
use lodstone_engine::{Budget, Charge, Context, Threads};

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
        let plan = &self.plan;
        let variable = |name: &str, finding| Error::Variable { name: name.to_owned(), finding };
        let random = Random::of(scope).map_err(|finding| variable(RANDOM_STATE, finding))?;
        let mut frame = Frame {
            plan,
            values: Vec::new(),
            changed: Vec::new(),
            files: Files::new(dirs),
            random,
            checks_finite: self.checks_finite,
            max_steps: self.max_steps,
            steps: 0,
            budget: scope.budget().clone(),
            threads: self.threads.clone(),
        };
        frame.values.resize_with(plan.vars.len(), || None);
        frame.changed.resize(plan.vars.len(), false);
        for (slot, var) in plan.vars.iter().enumerate().filter(|(_, var)| var.persistable) {
            if let Some(value) = scope.get(&var.name) {
                frame.fill(slot, value.clone()).map_err(|finding| variable(&var.name, finding))?;
            }
        }
        for (name, tensor) in feed {
            let slot = plan.names.get(*name).copied().ok_or_else(|| Error::Variable {
                name: (*name).to_owned(),
                finding: "it is fed, and the program has no such variable".into(),
            })?;
            check_fed(&plan.program, name, tensor)?;
            let value = Value::Tensor(tensor.clone());
            frame.fill(slot, value).map_err(|finding| variable(name, finding))?;
        }
        frame.block(0)?;
        let fetched = |name: &String| {
            let slot = plan.names.get(name).copied();
            let found = slot.and_then(|slot| frame.values.get(slot)?.as_ref());
            match found {
                Some(value) => value.tensor().cloned(),
                None => Err("it was not computed".into()),
            }
            .map_err(|finding| Error::Variable { name: name.clone(), finding })
        };
        let fetched = self.fetch.iter().map(fetched).collect::<Result<Vec<_>>>()?;
        frame.random.keep(scope).map_err(|finding| variable(RANDOM_STATE, finding))?;
        for (slot, var) in plan.vars.iter().enumerate() {
            if frame.changed.get(slot) == Some(&true)
                && var.persistable
                && let Some(value) = frame.values.get_mut(slot).and_then(Option::take)
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

/// The variables of a run.
pub(crate) struct Frame<'p> {
    pub(crate) plan: &'p Plan,
    values: Vec<Option<Value>>,
    /// Which of them were written.
    changed: Vec<bool>,
    /// What is saved, and where.
    pub(crate) files: Files<'p>,
    /// Where random numbers come from.
    pub(crate) random: Random,
    /// Whether results that are no finite numbers are errors.
    checks_finite: bool,
    /// How many operators the run may run, and has run.
    max_steps: u64,
    steps: u64,
    budget: Budget,
    /// What kernels run on.
    pub(crate) threads: Threads,
}

impl Frame<'_> {
    /// The version of PaddlePaddle that the program follows.
    pub(crate) fn release(&self) -> i64 {
        self.plan.program.version.unwrap_or(0)
    }

    /// The value of a variable.
    pub(crate) fn value(&self, slot: Slot) -> std::result::Result<&Value, Finding> {
        self.values.get(slot).and_then(Option::as_ref).ok_or_else(|| {
            let name = self.plan.vars.get(slot).map_or("", |var| &var.name);
            format!("`{name}` has no value").into()
        })
    }

    /// The tensor that a variable is.
    pub(crate) fn tensor(&self, slot: Slot) -> std::result::Result<&Tensor, Finding> {
        self.value(slot)?.tensor().map_err(|finding| {
            let name = self.plan.vars.get(slot).map_or("", |var| &var.name);
            finding.within(format!("`{name}`"))
        })
    }

    /// The place of a variable's value.
    fn place(&mut self, slot: Slot) -> std::result::Result<&mut Option<Value>, Finding> {
        let place = self.values.get_mut(slot);
        place.ok_or_else(|| Finding::internal(format!("the frame has no slot {slot}")))
    }

    /// Takes a variable's value away, to be changed.
    pub(crate) fn take(&mut self, slot: Slot) -> std::result::Result<Option<Value>, Finding> {
        Ok(self.place(slot)?.take())
    }

    /// Gives a variable a value that it has had before.
    pub(crate) fn fill(&mut self, slot: Slot, value: Value) -> std::result::Result<(), Finding> {
        *self.place(slot)? = Some(value);
        Ok(())
    }

    /// Gives a variable a value.
    pub(crate) fn set(&mut self, slot: Slot, value: Value) -> std::result::Result<(), Finding> {
        self.fill(slot, value)?;
        let changed = self.changed.get_mut(slot);
        *changed.ok_or_else(|| Finding::internal(format!("the frame has no slot {slot}")))? = true;
        Ok(())
    }

    /// Fails if so many more bytes are more than the tensors of the scope may take.
    pub(crate) fn reserve(&self, bytes: u64) -> std::result::Result<(), Finding> {
        self.budget.check(bytes)
    }

    /// What the engine may use for this run.
    pub(crate) fn context(&self) -> Context<'_> {
        Context::new(&self.budget, &self.threads)
    }

    /// Counts so many bytes until that is gone.
    ///
    /// # Errors
    /// If they are more than the tensors of the scope may take.
    pub(crate) fn charge(&self, bytes: u64) -> std::result::Result<Charge, Finding> {
        self.budget.check(bytes)?;
        Ok(self.budget.charge(bytes))
    }

    /// A tensor that has just been made.
    pub(crate) fn charged(&self, tensor: Tensor) -> std::result::Result<Tensor, Finding> {
        self.budget.charged(tensor)
    }

    /// Gives a variable a tensor that has just been made.
    pub(crate) fn make(&mut self, slot: Slot, tensor: Tensor) -> std::result::Result<(), Finding> {
        let tensor = self.charged(tensor)?;
        self.set(slot, Value::Tensor(tensor))
    }

    /// Takes away what a variable is.
    pub(crate) fn clear(&mut self, slot: Slot) -> std::result::Result<(), Finding> {
        *self.place(slot)? = None;
        Ok(())
    }

    /// Runs a block.
    fn block(&mut self, number: usize) -> Result<()> {
        let plan = self.plan;
        let block = plan.block_of(number).map_err(Error::Program)?;
        for step in &block.steps {
            self.step(step)?;
            step.last.iter().try_for_each(|slot| self.clear(*slot)).map_err(Error::Program)?;
        }
        Ok(())
    }

    /// Runs the block of an operator; gives its own variables, which are gone afterwards.
    pub(crate) fn inner(&mut self, step: &Step) -> Result<Vec<(Slot, Value)>> {
        let plan = self.plan;
        let failed = |finding| Error::Operator { place: step.place.clone(), finding };
        let number = step.block.ok_or_else(|| failed("it has no block".into()))?;
        self.block(number)?;
        let own = &plan.block_of(number).map_err(Error::Program)?.own;
        let mut left = Vec::with_capacity(own.len());
        for slot in own {
            let value = self.take(*slot).map_err(failed)?;
            left.extend(value.map(|value| (*slot, value)));
        }
        Ok(left)
    }

    fn step(&mut self, step: &Step) -> Result<()> {
        let plan = self.plan;
        let failed = |finding| Error::Operator { place: step.place.clone(), finding };
        let op = op_of(&plan.program, &step.place);
        let op = op.ok_or_else(|| failed(Finding::internal("the program has no such operator")))?;
        if self.steps == self.max_steps {
            let what = format!("the run has taken {} steps, which is the most it may", self.steps);
            return Err(failed(Finding::new(Code::Limit, what)));
        }
        self.steps += 1;
        let random = self.random;
        let outcome = match &step.does {
            Does::Native(run) => run(self, step, op),
            Does::NativeIfSparse(run, _) if !self.reads_dense(step) => run(self, step, op),
            Does::NativeIfNan(run, _) if self.reads_nan(step).map_err(failed)? => {
                run(self, step, op)
            }
            Does::NativeIfSparse(_, lowered)
            | Does::NativeIfNan(_, lowered)
            | Does::Lowered(lowered) => lowered.run(self, step, op).map_err(Failure::Here),
        };
        match outcome {
            Ok(()) => {}
            Err(Failure::Here(finding)) => return Err(failed(finding)),
            Err(Failure::File(error)) => {
                return Err(Error::File { place: step.place.clone(), error: Box::new(error) });
            }
            Err(Failure::Inside(error)) => return Err(error),
        }
        self.follow_random(random).map_err(failed)?;
        match self.checks_finite {
            true => self.check_finite(op, step).map_err(failed),
            false => Ok(()),
        }
    }

    /// Brings the variable that the state of random numbers is, if the program has it, and the state together: an
    /// operator has drawn since `before`, or may have written to the variable.
    fn follow_random(&mut self, before: Random) -> std::result::Result<(), Finding> {
        let Some(slot) = self.plan.random else { return Ok(()) };
        if self.random != before {
            return self.set(slot, Value::Tensor(self.random.tensor()));
        }
        if let Ok(tensor) = self.tensor(slot) {
            self.random = Random::told(tensor)?;
        }
        Ok(())
    }

    /// Whether an operator reads tensors with all their elements, and nothing else.
    fn reads_dense(&self, step: &Step) -> bool {
        let is_dense = |slot: Slot| match self.value(slot) {
            Ok(Value::Tensor(tensor)) => matches!(tensor.kind, Kind::Dense),
            Ok(_) => false,
            Err(_) => true,
        };
        step.reads().all(is_dense)
    }

    /// Whether an element of a tensor that an operator reads is NaN.
    fn reads_nan(&self, step: &Step) -> std::result::Result<bool, Finding> {
        for tensor in step.reads().filter_map(|slot| self.tensor(slot).ok()) {
            if has_nan(tensor)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Fails if an operator that has run gave numbers that are not finite.
    fn check_finite(&self, op: &Op, step: &Step) -> std::result::Result<(), Finding> {
        for name in op.writes() {
            // Arrays and what was not written have no elements to check.
            let tensor = step.slot(name).and_then(|slot| self.tensor(slot).ok());
            if let Some(what) = tensor.map(not_finite).transpose()?.flatten() {
                return Err(format!("`{name}`: {what}").into());
            }
        }
        Ok(())
    }

    /// Whether a variable of one element is true.
    pub(crate) fn is_true(&self, slot: Slot) -> std::result::Result<bool, Finding> {
        let tensor = self.tensor(slot)?;
        let bytes = tensor.data.bytes().map_err(|error| error.to_string())?;
        let elements = tensor.shape.iter().product::<u64>();
        if elements != 1 {
            return Err(format!("expected one truth value, found {elements} elements").into());
        }
        Ok(bytes.iter().any(|byte| *byte != 0))
    }
}

/// Why an operator failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Because of this.
    Here(Finding),
    /// Because files that it loads or saves cannot be read or written.
    File(lodstone_formats::Error),
    /// Because one that it runs did.
    Inside(Error),
}

impl From<String> for Failure {
    fn from(message: String) -> Self {
        Self::Here(message.into())
    }
}

impl From<&str> for Failure {
    fn from(message: &str) -> Self {
        Self::Here(message.into())
    }
}

impl From<Finding> for Failure {
    fn from(finding: Finding) -> Self {
        Self::Here(finding)
    }
}

impl From<lodstone_formats::Error> for Failure {
    fn from(error: lodstone_formats::Error) -> Self {
        Self::File(error)
    }
}

impl From<lodstone_store::Error> for Failure {
    fn from(error: lodstone_store::Error) -> Self {
        Self::File(error.into())
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Inside(error)
    }
}
