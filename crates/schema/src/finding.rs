//! What is wrong with a program by the rules of its framework.

use std::fmt;

/// A rule that a program breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Where: "the graph, operator 3 (`Conv` `conv1`)".
    pub place: String,
    /// What is wrong there: what was expected and what was found.
    pub what: String,
}

/// What was found, and how much of it is not told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// Rules that are broken, in the order of the program.
    pub told: Vec<Finding>,
    /// How many more there are.
    pub more: usize,
}

impl Findings {
    /// A program of a million operators may be wrong a million times.
    const MOST: usize = 1000;

    /// Adds what is wrong at `place`.
    pub fn add(&mut self, place: impl Into<String>, what: impl Into<String>) {
        if self.told.len() < Self::MOST {
            self.told.push(Finding { place: place.into(), what: what.into() });
        } else {
            self.more += 1;
        }
    }

    /// Whether nothing is wrong.
    pub fn is_empty(&self) -> bool {
        self.told.is_empty()
    }

    /// Adds what was found elsewhere.
    pub fn extend(&mut self, others: Self) {
        others.told.into_iter().for_each(|finding| self.add(finding.place, finding.what));
        self.more += others.more;
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.what)
    }
}
