//! What goes wrong when programs are planned and run.

use std::fmt;

use lodstone_model::{Dialect, Op};
use lodstone_schema::Finding;

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a program is not run, or not to its end.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The program is of another framework.
    Dialect(Dialect),
    /// The program contradicts itself.
    Program(Finding),
    /// No gradients can be appended to the program.
    Gradients(Box<crate::program::Error>),
    /// Operators that nothing here computes, each once, sorted.
    Unknown(Vec<String>),
    /// An operator failed.
    Operator {
        /// Where it is.
        place: Place,
        /// What is wrong, with variables and extents.
        finding: Finding,
    },
    /// Files that an operator loads or saves cannot be read or written.
    File {
        /// Where the operator is.
        place: Place,
        /// What is wrong with the files.
        error: Box<lodstone_formats::Error>,
    },
    /// A variable that is fed or fetched is not there, or not what the program says.
    Variable {
        /// Its name.
        name: String,
        /// What is wrong with it.
        finding: Finding,
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

impl Error {
    /// The finding that it reports, if a program, an operator or a variable is the reason.
    pub fn finding(&self) -> Option<&Finding> {
        match self {
            Self::Program(finding)
            | Self::Operator { finding, .. }
            | Self::Variable { finding, .. } => Some(finding),
            _ => None,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dialect(dialect) => {
                write!(f, "running {} programs is not supported", dialect.framework())
            }
            Self::Program(finding) => write!(f, "the program cannot be run: {finding}"),
            Self::Gradients(error) => write!(f, "the program cannot be run: {error}"),
            Self::Unknown(kinds) => {
                let one =
                    if kinds.len() == 1 { "an operator that is" } else { "operators that are" };
                write!(f, "the program has {one} not computed here: {}", kinds.join(", "))
            }
            Self::Operator { place, finding } => write!(f, "{place}: {finding}"),
            Self::File { place, error } => write!(f, "{place}: {error}"),
            Self::Variable { name, finding } => write!(f, "`{name}`: {finding}"),
            Self::Cancelled => f.write_str("cancelled"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Gradients(error) => Some(&**error),
            Self::File { error, .. } => Some(&**error),
            other => other.finding().map(|finding| finding as _),
        }
    }
}

/// What an operator returns.
pub(crate) type Outcome<T = ()> = std::result::Result<T, Failure>;

/// Why an operator failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Because of this.
    Here(Finding),
    /// Because files that it loads or saves cannot be read or written.
    File(lodstone_formats::Error),
    /// Because one that it runs did.
    Inside(Error),
}

impl From<String> for Failure {
    fn from(message: String) -> Self {
        Self::Here(message.into())
    }
}

impl From<&str> for Failure {
    fn from(message: &str) -> Self {
        Self::Here(message.into())
    }
}

impl From<Finding> for Failure {
    fn from(finding: Finding) -> Self {
        Self::Here(finding)
    }
}

impl From<lodstone_formats::Error> for Failure {
    fn from(error: lodstone_formats::Error) -> Self {
        Self::File(error)
    }
}

impl From<lodstone_store::Error> for Failure {
    fn from(error: lodstone_store::Error) -> Self {
        Self::File(error.into())
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Inside(error)
    }
}
