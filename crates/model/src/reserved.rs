//! What only one dialect has.

use crate::AttributeValue;

/// Facts about a node that only its dialect has, under names that the schema of the dialect reserves.
///
/// They are no attributes: formats do not write them as such, and reports do not list them. Their names are constants
/// of the program that reads the model, so that no attribute in a file can clash with one. The accessors are in the
/// schema of the dialect.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reserved(
    /// Sorted by name, each once, so that equal facts are equal in whichever order they were set.
    Vec<(&'static str, AttributeValue)>,
);

impl Reserved {
    /// The value of a name.
    pub fn get(&self, name: &str) -> Option<&AttributeValue> {
        self.0.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    /// Whether the value of a name is true.
    pub fn is_set(&self, name: &str) -> bool {
        self.get(name) == Some(&AttributeValue::Bool(true))
    }

    /// Sets the value of a name, or removes it.
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

    /// Sets the value of a name to true, or removes it.
    pub fn set_flag(&mut self, name: &'static str, value: bool) {
        self.set(name, value.then_some(AttributeValue::Bool(true)));
    }
}
