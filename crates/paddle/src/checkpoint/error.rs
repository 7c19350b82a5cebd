//! Errors of checkpoints of programs.

use crate::checkpoint::fit::Mismatch;

/// The result of an operation of this module.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a checkpoint of a program was not made or not restored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A serial cannot be saved or read, or is damaged.
    #[error(transparent)]
    Serial(#[from] lodstone_checkpoint::Error),
    /// A program cannot be built.
    #[error(transparent)]
    Program(#[from] crate::program::Error),
    /// A loader cannot be run.
    #[error(transparent)]
    Run(#[from] crate::executor::Error),
    /// A loader leaves variables of the program without values.
    #[error("the loader neither loads nor initialises {}", listed(names))]
    Incomplete {
        /// The variables, sorted.
        names: Vec<String>,
    },
    /// A loader may never end.
    #[error("the loader has a loop, which may not end; loaders with loops are rejected")]
    Loop,
    /// The variables of a checkpoint do not match those of the program.
    #[error("the checkpoint does not match the program: {0}")]
    Mismatch(Mismatch),
    /// A variable cannot be saved or restored.
    #[error("variable `{name}`: {what}")]
    Variable {
        /// The name of the variable.
        name: String,
        /// The problem.
        what: &'static str,
    },
    /// A loader contradicts the manifest of its serial.
    #[error("the loader of `{}` contradicts the manifest: {what}", path.display())]
    Misloaded {
        /// The directory of the serial.
        path: std::path::PathBuf,
        /// The first contradiction.
        what: String,
    },
    /// A program has no blocks for operators and variables.
    #[error("the program has no blocks")]
    NoBlocks,
    /// A state that cannot occur unless this program has a defect.
    #[error("internal error: {0}")]
    Internal(&'static str),
}

impl From<lodstone_formats::Error> for Error {
    fn from(error: lodstone_formats::Error) -> Self {
        Self::Serial(error.into())
    }
}

impl From<lodstone_store::Error> for Error {
    fn from(error: lodstone_store::Error) -> Self {
        Self::Serial(error.into())
    }
}

/// A state that cannot occur unless this program has a defect.
#[track_caller]
pub(super) fn internal(what: &'static str) -> Error {
    debug_assert!(false, "{what}");
    Error::Internal(what)
}

/// Formats names for a message: all of them, since each has to be checked.
pub(super) fn listed(names: &[String]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    quoted.join(", ")
}
