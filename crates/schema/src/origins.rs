//! What became of the values of a program that a pass rewrote.

use std::collections::HashMap;
use std::sync::Arc;

use lodstone_model::Tensor;

/// What became of a value.
#[derive(Clone, Debug)]
pub enum Origin {
    /// This value of the result is equal to it.
    Value(Arc<str>),
    /// It is a constant.
    Folded(Arc<Tensor>),
    /// No output depends on it.
    Removed,
}

/// What became of the values of a program, by the number of their block and their name in the source.
#[derive(Clone, Debug, Default)]
pub struct Origins(HashMap<(usize, String), Origin>);

impl Origins {
    /// What became of a value; [`Origin::Removed`] also if the source has no such value.
    pub fn of(&self, block: usize, name: &str) -> Origin {
        self.0.get(&(block, name.to_owned())).cloned().unwrap_or(Origin::Removed)
    }

    /// Records what became of a value.
    pub fn insert(&mut self, block: usize, name: &str, origin: Origin) {
        self.0.insert((block, name.to_owned()), origin);
    }

    /// Records that values are removed which the result does not have.
    pub fn retain(&mut self, has: impl Fn(&str) -> bool) {
        for origin in self.0.values_mut() {
            if matches!(origin, Origin::Value(name) if !has(name)) {
                *origin = Origin::Removed;
            }
        }
    }
}
