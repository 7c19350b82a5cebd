//! What the names of a block stand for.
//!
//! In some dialects a block sees the names of the blocks around it, and assigns to them. What it assigns is kept apart
//! until the block ends, because what becomes of it depends on the operator that runs the block.

use std::collections::HashMap;
use std::sync::Arc;

use lodstone_schema::Finding;
use lodstone_schema::onnx::quoted;

use super::{Halt, Step};

/// What a name of a program stands for.
#[derive(Clone, Debug)]
enum Bound<T> {
    Item(T),
    /// It cannot be used, for this reason.
    Unusable(Finding),
    /// The result of an operator that could not be translated.
    Failed,
}

/// The variables that a block declares, and what they stand for when it begins.
pub(crate) type Variables<T> = Arc<HashMap<String, Option<T>>>;

/// What a block assigned to names of the blocks around it, in any order.
pub(super) type Assigned<T> = Vec<(String, Step<T>)>;

/// The names of one block.
#[derive(Clone, Debug)]
struct Layer<T> {
    variables: Variables<T>,
    names: HashMap<String, Bound<T>>,
}

/// What the names of a block stand for.
#[derive(Clone, Debug)]
pub(crate) struct Scope<T> {
    block: Layer<T>,
    /// The blocks around it whose names it sees, outermost first.
    around: Vec<Layer<T>>,
}

impl<T> From<Variables<T>> for Layer<T> {
    fn from(variables: Variables<T>) -> Self {
        Self { variables, names: HashMap::new() }
    }
}

impl<T> Default for Scope<T> {
    fn default() -> Self {
        Self { block: Layer::from(Variables::default()), around: Vec::new() }
    }
}

impl<T> FromIterator<(String, T)> for Scope<T> {
    fn from_iter<I: IntoIterator<Item = (String, T)>>(items: I) -> Self {
        let mut scope = Self::default();
        items.into_iter().for_each(|(name, item)| scope.bind(&name, item));
        scope
    }
}

impl<T> Scope<T> {
    /// Binds a name; a later item replaces an earlier one.
    pub(crate) fn bind(&mut self, name: &str, item: T) {
        self.block.names.insert(name.to_owned(), Bound::Item(item));
    }

    /// Marks a name that cannot be used.
    pub(crate) fn refuse(&mut self, name: &str, why: Finding) {
        self.block.names.insert(name.to_owned(), Bound::Unusable(why));
    }

    /// Marks the result of an operator that could not be translated.
    pub(crate) fn fail(&mut self, name: &str) {
        self.block.names.insert(name.to_owned(), Bound::Failed);
    }

    /// Marks the results of an operator that could not be translated; returns the reason, unless it was reported before.
    pub(crate) fn fail_all<'n>(
        &mut self,
        names: impl Iterator<Item = &'n str>,
        halt: Halt,
    ) -> Option<Finding> {
        names.for_each(|name| self.fail(name));
        match halt {
            Halt::Finding(finding) => Some(finding),
            Halt::Failed => None,
        }
    }

    /// Returns an item, if the name has a usable one.
    pub(crate) fn get(&self, name: &str) -> Option<&T> {
        self.find(name).ok().flatten()
    }

    /// Returns an item to change, if this block bound a usable one to the name.
    pub(crate) fn get_mut(&mut self, name: &str) -> Option<&mut T> {
        match self.block.names.get_mut(name)? {
            Bound::Item(item) => Some(item),
            Bound::Unusable(_) | Bound::Failed => None,
        }
    }

    /// Returns an item; `None` if nothing has the name.
    ///
    /// # Errors
    /// If the item cannot be used.
    pub(crate) fn find(&self, name: &str) -> Step<Option<&T>> {
        for layer in std::iter::once(&self.block).chain(self.around.iter().rev()) {
            if let Some(bound) = layer.names.get(name) {
                return match bound {
                    Bound::Item(item) => Ok(Some(item)),
                    Bound::Unusable(finding) => Err(finding.clone().into()),
                    Bound::Failed => Err(Halt::Failed),
                };
            }
            if let Some(first) = layer.variables.get(name) {
                return Ok(first.as_ref());
            }
        }
        Ok(None)
    }

    /// Returns an item.
    ///
    /// # Errors
    /// If there is none, or it cannot be used.
    pub(crate) fn item(&self, name: &str) -> Step<&T> {
        self.find(name)?.ok_or_else(|| format!("{} has no value", quoted(name)).into())
    }

    /// Returns all usable items that this block bound.
    pub(crate) fn items(&self) -> impl Iterator<Item = (&str, &T)> {
        self.block.names.iter().filter_map(|(name, bound)| match bound {
            Bound::Item(item) => Some((name.as_str(), item)),
            Bound::Unusable(_) | Bound::Failed => None,
        })
    }

    /// Opens a block inside this one, which declares variables of its own.
    pub(crate) fn open(&mut self, variables: &Variables<T>) {
        let inner = Layer::from(Arc::clone(variables));
        self.around.push(std::mem::replace(&mut self.block, inner));
    }

    /// Closes the block that was opened last.
    ///
    /// # Errors
    /// An internal error if none is open.
    pub(crate) fn close(&mut self) -> Step<Assigned<T>> {
        let outer = self.around.pop();
        let outer = outer.ok_or_else(|| Finding::internal("a block is closed that is not open"))?;
        let Layer { variables, names } = std::mem::replace(&mut self.block, outer);
        let outside = names.into_iter().filter(|(name, _)| !variables.contains_key(name));
        let step = |bound| match bound {
            Bound::Item(item) => Ok(item),
            Bound::Unusable(finding) => Err(Halt::from(finding)),
            Bound::Failed => Err(Halt::Failed),
        };
        Ok(outside.map(|(name, bound)| (name, step(bound))).collect())
    }
}
