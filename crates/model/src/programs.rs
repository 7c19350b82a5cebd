//! The programs of a model.

use crate::Program;

/// Programs by unique name, in insertion order.
///
/// The program [`MAIN`](Self::MAIN) is the computation of the model; most formats hold only this one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Programs(Vec<(String, Program)>);

impl Programs {
    /// The name of the program that computes the model.
    pub const MAIN: &str = "main";

    /// The name of the program that initializes variables.
    pub const STARTUP: &str = "startup";

    /// Returns the main program.
    pub fn main(&self) -> Option<&Program> {
        self.get(Self::MAIN)
    }

    /// Returns the main program for modification.
    pub fn main_mut(&mut self) -> Option<&mut Program> {
        self.get_mut(Self::MAIN)
    }

    /// Returns the program called `name`.
    pub fn get(&self, name: &str) -> Option<&Program> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, program)| program)
    }

    /// Returns the program called `name` for modification.
    pub fn get_mut(&mut self, name: &str) -> Option<&mut Program> {
        self.0.iter_mut().find(|(known, _)| known == name).map(|(_, program)| program)
    }

    /// Inserts a program, and returns the one of the same name that it replaces.
    pub fn insert(&mut self, name: &str, program: Program) -> Option<Program> {
        match self.get_mut(name) {
            Some(known) => Some(std::mem::replace(known, program)),
            None => {
                self.0.push((name.to_owned(), program));
                None
            }
        }
    }

    /// Removes and returns the program called `name`; the others keep their order.
    pub fn remove(&mut self, name: &str) -> Option<Program> {
        let place = self.0.iter().position(|(known, _)| known == name)?;
        Some(self.0.remove(place).1)
    }

    /// Returns all programs with their names, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Program)> {
        self.0.iter().map(|(name, program)| (name.as_str(), program))
    }

    /// Returns all programs, in order, for modification.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Program> {
        self.0.iter_mut().map(|(_, program)| program)
    }

    /// Returns the main program, consuming the others.
    pub fn into_main(mut self) -> Option<Program> {
        self.remove(Self::MAIN)
    }
}

impl IntoIterator for Programs {
    type Item = (String, Program);
    type IntoIter = std::vec::IntoIter<Self::Item>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

/// Programs with an optional main program.
impl<T: Into<Option<Program>>> From<T> for Programs {
    fn from(main: T) -> Self {
        let main = main.into().map(|program| (Self::MAIN.to_owned(), program));
        Self(main.into_iter().collect())
    }
}
