//! Errors of checkpoints of programs.

use crate::checkpoint::fit::Mismatch;

/// The result of an operation of this module.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a checkpoint of a program was not made or not restored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A serial that cannot be saved or read, or is damaged.
    #[error(transparent)]
    Serial(#[from] lodstone_checkpoint::Error),
    /// A program that cannot be built.
    #[error(transparent)]
    Program(#[from] crate::program::Error),
    /// A loader that cannot be run.
    #[error(transparent)]
    Run(#[from] crate::executor::Error),
    /// A loader that leaves variables of the program without values.
    #[error("the loader neither loads nor initialises {}", listed(names))]
    Incomplete {
        /// The variables, sorted.
        names: Vec<String>,
    },
    /// A loader that may never end.
    #[error("its loader has a loop, which may not end: a serial is restored without any")]
    Loop,
    /// Variables of a checkpoint that are not those of the program.
    #[error("the checkpoint does not fit the program: {0}")]
    Mismatch(Mismatch),
    /// A variable that cannot be saved or restored.
    #[error("the variable `{name}`: {what}")]
    Variable {
        /// Its name.
        name: String,
        /// What is wrong with it.
        what: &'static str,
    },
    /// A loader that contradicts the manifest of its serial.
    #[error("the loader of `{}` contradicts the manifest: {what}", path.display())]
    Misloaded {
        /// The directory of the serial.
        path: std::path::PathBuf,
        /// The first contradiction.
        what: String,
    },
    /// A program without blocks, which has no place for operators and variables.
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

/// Names as messages have them: all of them, because each has to be looked at.
pub(super) fn listed(names: &[String]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    quoted.join(", ")
}
