//! Side effects of operators, which a user should know before running a model.
//!
//! The conventions of each framework list the operators concerned.

/// A side effect of an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Risk {
    /// It reads files.
    Reads,
    /// It writes files.
    Writes,
    /// It runs code from outside the framework.
    Runs,
    /// It connects to other machines.
    Connects,
}

impl Risk {
    /// Parses the risk column of an operator table.
    pub(crate) fn parse(word: &str) -> Option<Self> {
        Some(match word {
            "reads" => Self::Reads,
            "writes" => Self::Writes,
            "runs" => Self::Runs,
            "connects" => Self::Connects,
            _ => return None,
        })
    }

    /// Describes the risk in a message.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Reads => "reads files",
            Self::Writes => "writes files",
            Self::Runs => "runs code from outside the framework",
            Self::Connects => "connects to other machines",
        }
    }
}
