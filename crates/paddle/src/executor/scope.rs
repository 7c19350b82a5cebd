//! Variables that outlive a run.

use std::collections::BTreeMap;

use lodstone_model::{Model, Tensor};
use lodstone_store::Result;

use crate::executor::value::Value;
use lodstone_engine::Budget;

/// Values of variables by name: parameters, statistics, counters. Programs that run in the same scope share them.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    values: BTreeMap<String, Value>,
    budget: Budget,
}

impl Scope {
    /// Limits the memory of tensors that programs create in the scope. The default is all that the system gives this
    /// process: the least of the available memory, the limits of its control groups, and its own (`ulimit -v`,
    /// `ulimit -d`). Tensors that are set from outside do not count.
    #[must_use]
    pub fn with_memory(mut self, bytes: u64) -> Self {
        self.budget = Budget::new(bytes);
        self
    }

    pub(crate) fn budget(&self) -> &Budget {
        &self.budget
    }

    /// Creates a scope from the parameters of a model, which are read into memory when they are first used.
    ///
    /// # Errors
    /// If a parameter cannot be read.
    pub fn of(model: &Model) -> Result<Self> {
        let mut model = model.clone();
        model.load()?;
        let mut scope = Self::default();
        for parameter in model.parameters {
            scope.set(&parameter.name, parameter.tensor);
        }
        Ok(scope)
    }

    /// Returns the value of a variable.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.values.get(name)
    }

    /// Returns the tensor in a variable.
    pub fn tensor(&self, name: &str) -> Option<&Tensor> {
        self.get(name)?.tensor().ok()
    }

    /// Sets a variable to a tensor.
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

    /// Removes a variable, and returns its value.
    pub fn remove(&mut self, name: &str) -> Option<Value> {
        self.values.remove(name)
    }

    /// Returns the names of all variables, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.values.keys().map(String::as_str)
    }
}
