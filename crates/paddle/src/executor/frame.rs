//! The variables of a run, and the operations on them.

use std::sync::{Arc, OnceLock};

use lodstone_engine::{Budget, Charge, Context, Profile, Threads};
use lodstone_model::{Kind, Op, Tensor};
use lodstone_schema::paddle::Release;
use lodstone_schema::{Code, Finding};

use crate::executor::error::{Error, Result};
use crate::executor::files::Files;
use crate::executor::finite::{has_nan, not_finite};
use crate::executor::layout::{Layout, Slot, Step};
use crate::executor::random::Random;
use crate::executor::value::Value;

/// Runs the blocks of a program.
pub(crate) trait Blocks: Sync {
    /// Runs a block.
    ///
    /// # Errors
    /// Like [`Executor::run`](crate::executor::Executor::run).
    fn run(&self, frame: &mut Frame<'_>, block: usize) -> Result<()>;
}

/// The limits of a run.
pub(crate) struct Limits {
    /// Whether results that are not finite are errors.
    pub(crate) checks_finite: bool,
    /// The maximum number of steps.
    pub(crate) max_steps: u64,
    /// Measures its operators.
    pub(crate) profile: Option<Arc<Profile>>,
}

/// The variables of a run.
pub(crate) struct Frame<'p> {
    pub(crate) layout: &'p Layout,
    /// Runs the blocks of the program.
    blocks: &'p dyn Blocks,
    values: Vec<Option<Value>>,
    /// The same tensors as values of the engine, once it has read them.
    engine_values: Vec<OnceLock<lodstone_engine::Value>>,
    /// Which variables were written.
    changed: Vec<bool>,
    /// The files that are saved.
    pub(crate) files: Files<'p>,
    /// The generator of random numbers.
    pub(crate) random: Random,
    limits: Limits,
    /// The number of operators that were run.
    steps: u64,
    budget: Budget,
    /// The threads of kernels.
    pub(crate) threads: Threads,
}

fn no_slot(slot: Slot) -> Finding {
    Finding::internal(format!("the frame has no slot {slot}"))
}

impl<'p> Frame<'p> {
    /// Creates a frame without values.
    pub(crate) fn new(
        layout: &'p Layout,
        blocks: &'p dyn Blocks,
        files: Files<'p>,
        random: Random,
        limits: Limits,
        budget: Budget,
        threads: Threads,
    ) -> Self {
        let values = layout.vars.iter().map(|_| None).collect();
        let engine_values = layout.vars.iter().map(|_| OnceLock::new()).collect();
        let changed = vec![false; layout.vars.len()];
        Self {
            layout,
            blocks,
            values,
            engine_values,
            changed,
            files,
            random,
            limits,
            steps: 0,
            budget,
            threads,
        }
    }

    /// Takes the value of a variable that was written.
    pub(crate) fn take_changed(&mut self, slot: Slot) -> Option<Value> {
        let is_changed = self.changed.get(slot) == Some(&true);
        if is_changed { self.place(slot).ok().and_then(Option::take) } else { None }
    }

    /// Counts a step.
    ///
    /// # Errors
    /// If the run exceeds its maximum number of steps.
    pub(crate) fn count_step(&mut self) -> std::result::Result<(), Finding> {
        if self.steps == self.limits.max_steps {
            let what = format!("the run exceeds the maximum of {} steps", self.steps);
            return Err(Finding::new(Code::Limit, what));
        }
        self.steps += 1;
        Ok(())
    }

    /// Returns the release of PaddlePaddle that the program follows.
    pub(crate) fn release(&self) -> Release {
        Release::of(&self.layout.program)
    }

    /// Returns the value of a variable.
    pub(crate) fn value(&self, slot: Slot) -> std::result::Result<&Value, Finding> {
        self.values.get(slot).and_then(Option::as_ref).ok_or_else(|| {
            let name = self.layout.vars.get(slot).map_or("", |var| &var.name);
            format!("`{name}` has no value").into()
        })
    }

    /// Returns the tensor in a variable.
    pub(crate) fn tensor(&self, slot: Slot) -> std::result::Result<&Tensor, Finding> {
        self.value(slot)?.tensor().map_err(|finding| {
            let name = self.layout.vars.get(slot).map_or("", |var| &var.name);
            finding.within(format!("`{name}`"))
        })
    }

    /// Returns the tensor in a variable, if it has one.
    pub(crate) fn known_tensor(&self, slot: Slot) -> Option<&Tensor> {
        match self.values.get(slot)? {
            Some(Value::Tensor(tensor)) => Some(tensor),
            _ => None,
        }
    }

    /// Returns the tensor in a variable as a value of the engine.
    pub(crate) fn engine_value(
        &self,
        slot: Slot,
    ) -> std::result::Result<&lodstone_engine::Value, Finding> {
        let value = self.engine_values.get(slot);
        let value = value.ok_or_else(|| no_slot(slot))?;
        match value.get() {
            Some(known) => Ok(known),
            None => {
                let read = lodstone_engine::Value::of(self.tensor(slot)?)?;
                Ok(value.get_or_init(|| read))
            }
        }
    }

    /// Returns the storage of a variable's value, which changes.
    fn place(&mut self, slot: Slot) -> std::result::Result<&mut Option<Value>, Finding> {
        if let Some(value) = self.engine_values.get_mut(slot) {
            value.take();
        }
        self.values.get_mut(slot).ok_or_else(|| no_slot(slot))
    }

    /// Takes the value of a variable, to change it in place.
    pub(crate) fn take(&mut self, slot: Slot) -> std::result::Result<Option<Value>, Finding> {
        Ok(self.place(slot)?.take())
    }

    /// Puts back a previous value of a variable.
    pub(crate) fn fill(&mut self, slot: Slot, value: Value) -> std::result::Result<(), Finding> {
        *self.place(slot)? = Some(value);
        Ok(())
    }

    /// Sets the value of a variable.
    pub(crate) fn set(&mut self, slot: Slot, value: Value) -> std::result::Result<(), Finding> {
        self.fill(slot, value)?;
        let changed = self.changed.get_mut(slot);
        *changed.ok_or_else(|| no_slot(slot))? = true;
        Ok(())
    }

    /// Checks that the tensors of the scope may take this many more bytes.
    pub(crate) fn reserve(&self, bytes: u64) -> std::result::Result<(), Finding> {
        self.budget.check(bytes)
    }

    /// Returns the profile that measures the operators of this run.
    pub(crate) fn profile(&self) -> Option<Arc<Profile>> {
        self.limits.profile.clone()
    }

    /// Returns the engine's context for this run.
    pub(crate) fn context(&self) -> Context<'_> {
        Context::new(&self.budget, &self.threads)
    }

    /// Charges bytes until the charge is dropped.
    ///
    /// # Errors
    /// If the tensors of the scope would exceed their limit.
    pub(crate) fn charge(&self, bytes: u64) -> std::result::Result<Charge, Finding> {
        self.budget.check(bytes)?;
        Ok(self.budget.charge(bytes))
    }

    /// Charges a new tensor.
    pub(crate) fn charged(&self, tensor: Tensor) -> std::result::Result<Tensor, Finding> {
        self.budget.charged(tensor)
    }

    /// Sets a variable to a new tensor.
    pub(crate) fn make(&mut self, slot: Slot, tensor: Tensor) -> std::result::Result<(), Finding> {
        let tensor = self.charged(tensor)?;
        self.set(slot, Value::Tensor(tensor))
    }

    /// Removes the value of a variable.
    pub(crate) fn clear(&mut self, slot: Slot) -> std::result::Result<(), Finding> {
        *self.place(slot)? = None;
        Ok(())
    }

    /// Runs the block of an operator; returns and removes the block's own variables.
    pub(crate) fn inner(&mut self, step: &Step) -> Result<Vec<(Slot, Value)>> {
        let (layout, blocks) = (self.layout, self.blocks);
        let failed = |finding| Error::Operator { place: step.place.clone(), finding };
        let number = step.block.ok_or_else(|| failed("the operator has no block".into()))?;
        blocks.run(self, number)?;
        let own = &layout.block_of(number).map_err(Error::Program)?.own;
        let mut left = Vec::with_capacity(own.len());
        for slot in own {
            let value = self.take(*slot).map_err(failed)?;
            left.extend(value.map(|value| (*slot, value)));
        }
        Ok(left)
    }

    /// Synchronizes the state of random numbers with its variable, if the program has one: an operator may have drawn
    /// since `before`, or may have written to the variable.
    pub(crate) fn sync_random(&mut self, before: Random) -> std::result::Result<(), Finding> {
        let Some(slot) = self.layout.random else { return Ok(()) };
        if self.random != before {
            return self.set(slot, Value::Tensor(self.random.tensor()));
        }
        if let Ok(tensor) = self.tensor(slot) {
            self.random = Random::from_tensor(tensor)?;
        }
        Ok(())
    }

    /// Whether an operator reads only dense tensors.
    pub(crate) fn reads_dense(&self, step: &Step) -> bool {
        let is_dense = |slot: Slot| match self.value(slot) {
            Ok(Value::Tensor(tensor)) => matches!(tensor.kind, Kind::Dense),
            Ok(_) => false,
            Err(_) => true,
        };
        step.reads().all(is_dense)
    }

    /// Whether an operator reads a tensor with NaN.
    pub(crate) fn reads_nan(&self, step: &Step) -> std::result::Result<bool, Finding> {
        for tensor in step.reads().filter_map(|slot| self.known_tensor(slot)) {
            if has_nan(tensor)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Fails if an operator wrote values that are not finite, if the run checks that.
    pub(crate) fn check_finite(&self, op: &Op, step: &Step) -> std::result::Result<(), Finding> {
        if !self.limits.checks_finite {
            return Ok(());
        }
        for name in op.writes() {
            // Arrays and variables without a value have no elements to check.
            let tensor = step.slot(name).and_then(|slot| self.known_tensor(slot));
            if let Some(what) = tensor.map(not_finite).transpose()?.flatten() {
                return Err(format!("`{name}`: {what}").into());
            }
        }
        Ok(())
    }

    /// Whether a Boolean variable of one element is true.
    pub(crate) fn is_true(&self, slot: Slot) -> std::result::Result<bool, Finding> {
        let tensor = self.tensor(slot)?;
        let bytes = tensor.data.bytes().map_err(|error| error.to_string())?;
        let elements = tensor.shape.iter().product::<u64>();
        if elements != 1 {
            return Err(format!("expected a single Boolean, found {elements} elements").into());
        }
        Ok(bytes.iter().any(|byte| *byte != 0))
    }
}
