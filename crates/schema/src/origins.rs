//! The mapping from the values of a program to those of its rewritten form.
//!
//! Lowerings, upgrades and simplification return one: for each value of the source, the value that it became, its
//! constant, or that it was removed.

use std::collections::HashMap;
use std::sync::Arc;

use lodstone_model::Tensor;

/// What a rewriting pass did with a value.
#[derive(Clone, Debug)]
pub enum Origin {
    /// A value of the result equals it.
    Value(Arc<str>),
    /// It was folded into a constant.
    Folded(Arc<Tensor>),
    /// No output depends on it.
    Removed,
}

/// The origins of all values of a source program, by the index of their block and their name.
#[derive(Clone, Debug, Default)]
pub struct Origins(HashMap<(usize, String), Origin>);

impl Origins {
    /// Returns the origin of a value; [`Origin::Removed`] also if the source has no such value.
    pub fn of(&self, block: usize, name: &str) -> Origin {
        self.0.get(&(block, name.to_owned())).cloned().unwrap_or(Origin::Removed)
    }

    /// Records the origin of a value.
    pub fn insert(&mut self, block: usize, name: &str, origin: Origin) {
        self.0.insert((block, name.to_owned()), origin);
    }

    /// Returns the origins of the values of this source in the result of a second pass over its result.
    #[must_use]
    pub fn then(self, second: &Self) -> Self {
        let follow = |((block, name), origin): ((usize, String), Origin)| match origin {
            Origin::Value(value) => ((block, name), second.of(block, &value)),
            other => ((block, name), other),
        };
        Self(self.0.into_iter().map(follow).collect())
    }

    /// Gives values of the result other names.
    pub fn rename(&mut self, names: &HashMap<String, String>) {
        for origin in self.0.values_mut() {
            if let Origin::Value(value) = origin
                && let Some(name) = names.get(&**value)
            {
                *value = name.as_str().into();
            }
        }
    }

    /// Marks values as removed whose counterpart the result does not have.
    pub fn retain(&mut self, has: impl Fn(&str) -> bool) {
        for origin in self.0.values_mut() {
            if matches!(origin, Origin::Value(name) if !has(name)) {
                *origin = Origin::Removed;
            }
        }
    }
}
