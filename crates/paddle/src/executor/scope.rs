//! Variables that outlive a run.

use std::collections::BTreeMap;

use lodstone_model::{Model, Tensor};
use lodstone_store::Result;

use crate::executor::value::Value;
use lodstone_engine::Budget;

/// Values of variables by name: parameters, statistics, counters. Programs that are run in one scope share them.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    values: BTreeMap<String, Value>,
    budget: Budget,
}

impl Scope {
    /// The same scope, where tensors that programs make may take so many bytes, if the system gives that many; by
    /// default it is all that the system gives this process: the least of what is available in the machine, the
    /// limits of its control groups, and its own (`ulimit -v`, `ulimit -d`). What was put in by hand does not count.
    #[must_use]
    pub fn with_memory(mut self, bytes: u64) -> Self {
        self.budget = Budget::new(bytes);
        self
    }

    pub(crate) fn budget(&self) -> &Budget {
        &self.budget
    }

    /// The parameters of a model, read into memory when they are first used.
    ///
    /// # Errors
    /// What reading them gives.
    pub fn of(model: &Model) -> Result<Self> {
        let mut model = model.clone();
        model.load()?;
        let mut scope = Self::default();
        for parameter in model.parameters {
            scope.set(&parameter.name, parameter.tensor);
        }
        Ok(scope)
    }

    /// The value of a variable.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.values.get(name)
    }

    /// The tensor that a variable is.
    pub fn tensor(&self, name: &str) -> Option<&Tensor> {
        self.get(name)?.tensor().ok()
    }

    /// Gives a variable a tensor.
    pub fn set(&mut self, name: &str, tensor: Tensor) {
        self.put(name, Value::Tensor(tensor));
    }

    pub(crate) fn put(&mut self, name: &str, value: Value) {
        match self.values.get_mut(name) {
            Some(slot) => *slot = value,
            None => {
                self.values.insert(name.to_owned(), value);
            }
        }
    }

    /// Removes a variable, and gives what it was.
    pub fn remove(&mut self, name: &str) -> Option<Value> {
        self.values.remove(name)
    }

    /// The names of all variables, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.values.keys().map(String::as_str)
    }
}
