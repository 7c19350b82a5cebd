//! Errors of planning and running.

use std::fmt;

use lodstone_model::Op;
use lodstone_schema::onnx::quoted;
use lodstone_schema::{Finding, Findings, Located};

/// The result of planning and running.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The result of a kernel.
pub(crate) type Outcome<T> = std::result::Result<T, Finding>;

/// The reason why a program cannot be planned or run.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Error {
    /// The program or the run as a whole: it is inconsistent, or exceeds its budget or its step limit.
    Program(Finding),
    /// All operators that prevent the program from running.
    Operators(Findings),
    /// An operator of the main graph failed, in planning or in the run.
    Op(Box<OpError>),
    /// An invalid input, by name.
    Input(String, Finding),
    /// The [`Progress`](lodstone_store::Progress) of the run was cancelled.
    Cancelled,
}

/// An operator that cannot be planned or failed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct OpError {
    /// The index of the operator in its block.
    pub number: usize,
    /// The operator kind.
    pub kind: String,
    /// The name of the operator, which may be empty.
    pub name: String,
    /// The reason.
    pub finding: Finding,
}

impl OpError {
    pub(crate) fn new(number: usize, op: &Op, finding: Finding) -> Self {
        Self { number, kind: op.kind.clone(), name: op.name.clone(), finding }
    }
}

impl fmt::Display for OpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "operator {} ({}", self.number, quoted(&self.kind))?;
        if !self.name.is_empty() {
            write!(f, " {}", quoted(&self.name))?;
        }
        write!(f, "): {}", self.finding)
    }
}

impl std::error::Error for OpError {}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Program(finding) => finding.fmt(f),
            Self::Operators(findings) => {
                let mut separator = "";
                for located in &findings.located {
                    write!(f, "{separator}{located}")?;
                    separator = "; ";
                }
                match findings.count() - findings.located.len() {
                    0 => Ok(()),
                    more => write!(f, "; and {more} more"),
                }
            }
            Self::Op(error) => error.fmt(f),
            Self::Input(name, finding) => write!(f, "input {}: {finding}", quoted(name)),
            Self::Cancelled => f.write_str("cancelled"),
        }
    }
}

impl std::error::Error for Error {}

impl From<Finding> for Error {
    fn from(finding: Finding) -> Self {
        Self::Program(finding)
    }
}

impl From<Located> for Error {
    fn from(located: Located) -> Self {
        Self::Program(located.finding.within(located.place))
    }
}
