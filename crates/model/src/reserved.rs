//! Dialect-specific properties of nodes.

use crate::AttributeValue;

/// Properties of a node that only its dialect has, under names that the schema of the dialect reserves.
///
/// They are not attributes: formats do not write them as such, and reports do not list them. Their names are constants
/// of this program, so that no attribute in a file can clash with one. The schema of the dialect provides the accessors.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reserved(
    /// Sorted by unique name, so that equality does not depend on the order in which values were set.
    Vec<(&'static str, AttributeValue)>,
);

impl Reserved {
    /// Returns the value called `name`.
    pub fn get(&self, name: &str) -> Option<&AttributeValue> {
        self.0.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    /// Returns whether the value called `name` is true.
    pub fn is_set(&self, name: &str) -> bool {
        self.get(name) == Some(&AttributeValue::Bool(true))
    }

    /// Sets the value called `name`, or removes it.
    pub fn set(&mut self, name: &'static str, value: Option<AttributeValue>) {
        match (self.0.binary_search_by_key(&name, |(known, _)| known), value) {
            (Ok(place), Some(value)) => {
                if let Some(known) = self.0.get_mut(place) {
                    known.1 = value;
                }
            }
            (Ok(place), None) => drop(self.0.remove(place)),
            (Err(place), Some(value)) => self.0.insert(place, (name, value)),
            (Err(_), None) => {}
        }
    }

    /// Sets the value called `name` to true, or removes it.
    pub fn set_flag(&mut self, name: &'static str, value: bool) {
        self.set(name, value.then_some(AttributeValue::Bool(true)));
    }
}
