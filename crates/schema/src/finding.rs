//! What is wrong with a program by the rules of its framework, and what in it does not agree.

use std::fmt;

/// What kind of thing was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FindingKind {
    /// A rule is broken.
    Rule,
    /// Two places say different shapes of a value. Runtimes tell that, and run the program all the same.
    Inconsistent,
}

/// Something that was found in a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What kind of thing it is.
    pub kind: FindingKind,
    /// Where: "the graph, operator 3 (`Conv` `conv1`)".
    pub place: String,
    /// What is wrong there: what was expected and what was found.
    pub what: String,
}

/// What was found, and how much of it is not told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// What was found, in the order of the program.
    pub told: Vec<Finding>,
    /// How many more rules are broken.
    pub more: usize,
    /// How many more places are inconsistent.
    pub more_inconsistent: usize,
}

impl Findings {
    /// A program of a million operators may be wrong a million times.
    const MOST: usize = 1000;

    /// Adds the rule that is broken at `place`.
    pub fn add(&mut self, place: impl Into<String>, what: impl Into<String>) {
        let (kind, place, what) = (FindingKind::Rule, place.into(), what.into());
        self.push(Finding { kind, place, what });
    }

    /// Adds what is found at `place`.
    pub fn push(&mut self, finding: Finding) {
        if self.told.len() < Self::MOST {
            self.told.push(finding);
            return;
        }
        match finding.kind {
            FindingKind::Rule => self.more += 1,
            FindingKind::Inconsistent => self.more_inconsistent += 1,
        }
    }

    /// Whether a rule is broken.
    pub fn breaks_rules(&self) -> bool {
        self.more > 0 || self.told.iter().any(|finding| finding.kind == FindingKind::Rule)
    }

    /// How much was found.
    pub fn count(&self) -> usize {
        self.told.len() + self.more + self.more_inconsistent
    }

    /// Whether nothing was found.
    pub fn is_empty(&self) -> bool {
        self.told.is_empty()
    }

    /// Adds what was found elsewhere.
    pub fn extend(&mut self, others: Self) {
        others.told.into_iter().for_each(|finding| self.push(finding));
        self.more += others.more;
        self.more_inconsistent += others.more_inconsistent;
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.what)
    }
}
