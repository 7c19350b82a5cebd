//! What operators do beyond computing: who runs a model that has them should know.
//!
//! Which operators these are is in the conventions of their framework.

/// What an operator does beyond computing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Risk {
    /// It reads files.
    Reads,
    /// It writes files.
    Writes,
    /// It runs code that is not the framework's.
    Runs,
    /// It talks to other machines.
    Connects,
}

impl Risk {
    /// The risk that a table of operators names.
    pub(crate) fn parse(word: &str) -> Option<Self> {
        Some(match word {
            "reads" => Self::Reads,
            "writes" => Self::Writes,
            "runs" => Self::Runs,
            "connects" => Self::Connects,
            _ => return None,
        })
    }

    /// What it does, for a message.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Reads => "reads files",
            Self::Writes => "writes files",
            Self::Runs => "runs code that is not the framework's",
            Self::Connects => "talks to other machines",
        }
    }
}
