//! What goes wrong when programs are made.

use std::fmt;

use lodstone_model::{Block, Program};
use lodstone_schema::Finding;

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a program is not what was asked for.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// An operator that the registry does not have, or not so.
    Operator {
        /// Its kind.
        kind: String,
        /// What is wrong.
        finding: Finding,
    },
    /// A variable that is not there, or not what is asked of it.
    Variable {
        /// Its name.
        name: String,
        /// What is wrong.
        finding: Finding,
    },
    /// A name of a file that a program may not have.
    Path {
        /// The name.
        path: String,
        /// Why.
        what: String,
    },
    /// A merged file whose record order neither the caller nor a program states.
    UnknownOrder {
        /// The file.
        path: String,
    },
    /// Records of a file that are not those to be loaded, or whose order is ambiguous.
    Records {
        /// The file.
        path: String,
        /// What is wrong.
        what: String,
    },
    /// A program that cannot be read or written.
    Format(lodstone_formats::Error),
    /// A state that cannot occur unless this program has a defect.
    Internal(Finding),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Operator { kind, finding } => write!(f, "`{kind}`: {finding}"),
            Self::Variable { name, finding } => write!(f, "the variable `{name}`: {finding}"),
            Self::Path { path, what } => write!(f, "the file `{path}`: {what}"),
            Self::UnknownOrder { path } => write!(
                f,
                "the file `{path}`: the order of its records is unknown: pass the program that saves it, or the names"
            ),
            Self::Records { path, what } => write!(f, "the file `{path}`: {what}"),
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

/// A block of a program that has it.
#[track_caller]
pub(crate) fn block_mut(program: &mut Program, number: usize) -> Result<&mut Block> {
    program.blocks.get_mut(number).ok_or_else(|| internal("a block of the program is missing"))
}

/// The number of a block as programs have it.
#[track_caller]
pub(crate) fn block_number(block: usize) -> Result<i32> {
    i32::try_from(block).map_err(|_| internal("a program has more blocks than it can number"))
}

pub(crate) fn operator<T>(kind: &str, finding: impl Into<Finding>) -> Result<T> {
    Err(Error::Operator { kind: kind.to_owned(), finding: finding.into() })
}

pub(crate) fn variable<T>(name: &str, finding: impl Into<Finding>) -> Result<T> {
    Err(Error::Variable { name: name.to_owned(), finding: finding.into() })
}
