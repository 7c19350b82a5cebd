//! What goes wrong when programs are planned and run.

use std::fmt;

use lodstone_model::Op;

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a program is not run, or not to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The program contradicts itself.
    Program(String),
    /// Operators that nothing here computes, each once, sorted.
    Unknown(Vec<String>),
    /// An operator failed.
    Operator {
        /// Where it is.
        place: Place,
        /// What is wrong, with variables and extents.
        what: String,
    },
    /// A variable that is fed or fetched is not there, or not what the program says.
    Variable {
        /// Its name.
        name: String,
        /// What is wrong with it.
        what: String,
    },
    /// Whoever watches the run stopped it.
    Cancelled,
}

/// Where an operator is in its program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The number of its block.
    pub block: usize,
    /// Its number in the block.
    pub number: usize,
    /// Its kind.
    pub kind: String,
}

impl Place {
    pub(crate) fn of(block: usize, number: usize, op: &Op) -> Self {
        Self { block, number, kind: op.kind.clone() }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "block {}, operator {} (`{}`)", self.block, self.number, self.kind)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Program(what) => write!(f, "the program cannot be run: {what}"),
            Self::Unknown(kinds) => {
                let one =
                    if kinds.len() == 1 { "an operator that is" } else { "operators that are" };
                write!(f, "the program has {one} not computed here: {}", kinds.join(", "))
            }
            Self::Operator { place, what } => write!(f, "{place}: {what}"),
            Self::Variable { name, what } => write!(f, "`{name}`: {what}"),
            Self::Cancelled => f.write_str("cancelled"),
        }
    }
}

impl std::error::Error for Error {}
