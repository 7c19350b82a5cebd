//! Errors of building programs.

use std::fmt;

use lodstone_model::{Block, Program};
use lodstone_schema::Finding;

/// The result of an operation of this module.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a program could not be built.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The registry does not have an operator, or not with these slots or attributes.
    Operator {
        /// The kind of the operator.
        kind: String,
        /// The problem.
        finding: Finding,
    },
    /// A variable does not exist, or cannot be used as requested.
    Variable {
        /// The name of the variable.
        name: String,
        /// The problem.
        finding: Finding,
    },
    /// A file name that a program must not have.
    Path {
        /// The file name.
        path: String,
        /// The reason.
        what: String,
    },
    /// A merged file whose record order neither the caller nor a program states.
    UnknownOrder {
        /// The file.
        path: String,
    },
    /// The records of a file are not those to be loaded, or their order is ambiguous.
    Records {
        /// The file.
        path: String,
        /// The problem.
        what: String,
    },
    /// A program cannot be read or written.
    Format(lodstone_formats::Error),
    /// A state that cannot occur unless this program has a defect.
    Internal(Finding),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Operator { kind, finding } => write!(f, "`{kind}`: {finding}"),
            Self::Variable { name, finding } => write!(f, "variable `{name}`: {finding}"),
            Self::Path { path, what } => write!(f, "file `{path}`: {what}"),
            Self::UnknownOrder { path } => write!(
                f,
                "file `{path}`: the order of its records is unknown: pass the program that saves it, or the names"
            ),
            Self::Records { path, what } => write!(f, "file `{path}`: {what}"),
            Self::Format(error) => error.fmt(f),
            Self::Internal(finding) => finding.fmt(f),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Format(error) => Some(error),
            Self::Operator { finding, .. }
            | Self::Variable { finding, .. }
            | Self::Internal(finding) => Some(finding),
            _ => None,
        }
    }
}

impl From<lodstone_formats::Error> for Error {
    fn from(error: lodstone_formats::Error) -> Self {
        Self::Format(error)
    }
}

impl From<lodstone_store::Error> for Error {
    fn from(error: lodstone_store::Error) -> Self {
        Self::Format(error.into())
    }
}

/// A state that cannot occur unless this program has a defect.
#[track_caller]
pub(crate) fn internal(message: &str) -> Error {
    Error::Internal(Finding::internal(message))
}

/// Returns a block that the program must have.
#[track_caller]
pub(crate) fn block_mut(program: &mut Program, number: usize) -> Result<&mut Block> {
    program.blocks.get_mut(number).ok_or_else(|| internal("a block of the program is missing"))
}

/// Converts the index of a block.
#[track_caller]
pub(crate) fn block_number(block: usize) -> Result<i32> {
    i32::try_from(block).map_err(|_| internal("the program has too many blocks"))
}

pub(crate) fn operator<T>(kind: &str, finding: impl Into<Finding>) -> Result<T> {
    Err(Error::Operator { kind: kind.to_owned(), finding: finding.into() })
}

pub(crate) fn variable<T>(name: &str, finding: impl Into<Finding>) -> Result<T> {
    Err(Error::Variable { name: name.to_owned(), finding: finding.into() })
}
