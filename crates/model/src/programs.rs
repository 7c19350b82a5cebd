//! The programs of a model.

use crate::Program;

/// Programs by name, each name once, in the order in which they were added.
///
/// What a model computes is the program [`MAIN`](Self::MAIN), which most formats have alone.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Programs(Vec<(String, Program)>);

impl Programs {
    /// The name of the program that computes what the model is for.
    pub const MAIN: &str = "main";

    /// The name of the program that gives variables their first values.
    pub const STARTUP: &str = "startup";

    /// The main program, if there is one.
    pub fn main(&self) -> Option<&Program> {
        self.get(Self::MAIN)
    }

    /// The main program, for edits.
    pub fn main_mut(&mut self) -> Option<&mut Program> {
        self.get_mut(Self::MAIN)
    }

    /// The program of a name.
    pub fn get(&self, name: &str) -> Option<&Program> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, program)| program)
    }

    /// The program of a name, for edits.
    pub fn get_mut(&mut self, name: &str) -> Option<&mut Program> {
        self.0.iter_mut().find(|(known, _)| known == name).map(|(_, program)| program)
    }

    /// Adds a program, or puts it in the place of the one of the same name; returns that.
    pub fn insert(&mut self, name: &str, program: Program) -> Option<Program> {
        match self.get_mut(name) {
            Some(known) => Some(std::mem::replace(known, program)),
            None => {
                self.0.push((name.to_owned(), program));
                None
            }
        }
    }

    /// Removes the program of a name and returns it; the others keep their order.
    pub fn remove(&mut self, name: &str) -> Option<Program> {
        let place = self.0.iter().position(|(known, _)| known == name)?;
        Some(self.0.remove(place).1)
    }

    /// All programs with their names, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Program)> {
        self.0.iter().map(|(name, program)| (name.as_str(), program))
    }

    /// All programs, in order, for edits.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Program> {
        self.0.iter_mut().map(|(_, program)| program)
    }

    /// The main program by itself.
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

/// A main program, or none.
impl<T: Into<Option<Program>>> From<T> for Programs {
    fn from(main: T) -> Self {
        let main = main.into().map(|program| (Self::MAIN.to_owned(), program));
        Self(main.into_iter().collect())
    }
}
