//! What goes wrong with checkpoints.

use std::path::PathBuf;

use crate::fit::Mismatch;

/// The result of an operation of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a checkpoint was not made or not restored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Files that cannot be written or read, or are not what their checksums say.
    #[error(transparent)]
    Store(#[from] lodstone_store::Error),
    /// Files that are not what their format says.
    #[error(transparent)]
    Format(#[from] lodstone_formats::Error),
    /// A program that cannot be made.
    #[error(transparent)]
    Program(#[from] lodstone_paddle::program::Error),
    /// A loader that cannot be run.
    #[error(transparent)]
    Run(#[from] lodstone_paddle::executor::Error),
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
    /// A variable that cannot be saved.
    #[error("the variable `{name}`: {what}")]
    Variable {
        /// Its name.
        name: String,
        /// What is wrong with it.
        what: &'static str,
    },
    /// A manifest that says nothing that could be relied on.
    #[error("the manifest `{}` cannot be used: {what}", path.display())]
    Manifest {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// A checkpoint that is not there.
    #[error("no checkpoint at `{}`: {what}", path.display())]
    Absent {
        /// Where it was looked for.
        path: PathBuf,
        /// What is there.
        what: String,
    },
    /// A program without blocks, which has no place for operators and variables.
    #[error("the program has no blocks")]
    NoBlocks,
    /// A state that cannot occur unless this program has a defect.
    #[error("internal error: {0}")]
    Internal(&'static str),
    /// A save in the background that ended without a result.
    #[error("the save of step {step} ended without a result, which is a defect of this program")]
    Lost {
        /// Its step.
        step: u64,
    },
}

/// A state that cannot occur unless this program has a defect.
#[track_caller]
pub(crate) fn internal(what: &'static str) -> Error {
    debug_assert!(false, "{what}");
    Error::Internal(what)
}

/// Names as messages have them: all of them, because each has to be looked at.
pub(crate) fn listed(names: &[String]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    quoted.join(", ")
}
