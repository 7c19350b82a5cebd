//! Errors of checkpoints.

use std::path::PathBuf;

use crate::snapshot::BoxError;

/// The result of an operation of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a checkpoint was not saved or not read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Files cannot be written or read, a manifest cannot be used, or bytes do not match their checksums.
    #[error(transparent)]
    Store(#[from] lodstone_store::Error),
    /// Files do not have the layout of their format.
    #[error(transparent)]
    Format(#[from] lodstone_formats::Error),
    /// The loader of a snapshot's program could not be built.
    #[error(transparent)]
    Loader(BoxError),
    /// A tensor could not be loaded from its owner.
    #[error(transparent)]
    Load(BoxError),
    /// A variable cannot be saved.
    #[error("variable `{name}`: {what}")]
    Variable {
        /// The name of the variable.
        name: String,
        /// The problem.
        what: &'static str,
    },
    /// A checkpoint, or one of its files, does not exist.
    #[error("no checkpoint at `{}`: {what}", path.display())]
    Absent {
        /// The path.
        path: PathBuf,
        /// The alternatives that exist.
        what: String,
    },
    /// Checksums are required, but the checkpoint has none.
    #[error("`{}` has no seal with checksums, which are required", .0.display())]
    Unsealed(PathBuf),
    /// A directory holds unfinished work: it cannot be read, and work on another model or with other options cannot continue it.
    #[error(
        "`{}` holds an unfinished resharding: repeat the command that was interrupted, or remove the directory",
        .0.display()
    )]
    Unfinished(PathBuf),
    /// A state that cannot occur unless this program has a defect.
    #[error("internal error: {0}")]
    Internal(&'static str),
    /// A save in the background ended without a result.
    #[error("internal error: the save of step {step} ended without a result")]
    Lost {
        /// The step of the save.
        step: u64,
    },
}

impl Error {
    /// Returns whether the system reported an error other than that a file does not exist: the contents are unknown.
    pub(crate) fn is_unreadable(&self) -> bool {
        let error = match self {
            Self::Store(error) => error,
            Self::Format(error) => match error.cause() {
                lodstone_formats::Error::Store(error) => error,
                _ => return false,
            },
            _ => return false,
        };
        let by_system = matches!(
            error,
            lodstone_store::Error::Io { .. } | lodstone_store::Error::Memory { .. }
        );
        by_system && !error.is_not_found()
    }
}

/// A state that cannot occur unless this program has a defect.
#[track_caller]
pub(crate) fn internal(what: &'static str) -> Error {
    debug_assert!(false, "{what}");
    Error::Internal(what)
}
