//! Errors of planning and running programs.

use std::fmt;

use lodstone_model::{Dialect, Op};
use lodstone_schema::Finding;

/// The result of an operation of this module.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a program was not run, or not to its end.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The program is of another framework.
    Dialect(Dialect),
    /// The program contradicts itself.
    Program(Finding),
    /// No gradients can be appended to the program.
    Gradients(Box<crate::program::Error>),
    /// Operators that are not supported, sorted and without duplicates.
    Unknown(Vec<String>),
    /// An operator failed.
    Operator {
        /// The position of the operator.
        place: OpPosition,
        /// The problem, with variables and dims.
        finding: Finding,
    },
    /// The files of an operator cannot be read or written.
    File {
        /// The position of the operator.
        place: OpPosition,
        /// The problem with the files.
        error: Box<lodstone_formats::Error>,
    },
    /// A variable that is fed or fetched does not exist, or does not have its declared type.
    Variable {
        /// The name of the variable.
        name: String,
        /// The problem.
        finding: Finding,
    },
    /// The run was cancelled.
    Cancelled,
}

/// The position of an operator in its program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpPosition {
    /// The index of its block.
    pub block: usize,
    /// Its index in the block.
    pub number: usize,
    /// The kind of the operator.
    pub kind: String,
}

impl OpPosition {
    pub(crate) fn of(block: usize, number: usize, op: &Op) -> Self {
        Self { block, number, kind: op.kind.clone() }
    }
}

impl fmt::Display for OpPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "block {}, operator {} (`{}`)", self.block, self.number, self.kind)
    }
}

impl Error {
    /// Returns the finding, if the error has one.
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
                write!(f, "the program has {one} not supported: {}", kinds.join(", "))
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

/// The result of an operator.
pub(crate) type Outcome<T = ()> = std::result::Result<T, Failure>;

/// Why an operator failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The operator itself failed.
    Here(Finding),
    /// Files that it loads or saves cannot be read or written.
    File(lodstone_formats::Error),
    /// An operator of its block failed.
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
