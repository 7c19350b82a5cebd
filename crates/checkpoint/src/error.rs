//! Errors of checkpoints.

use std::path::PathBuf;

use crate::snapshot::BoxError;

/// The result of an operation of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a checkpoint was not saved or not read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Files that cannot be written or read, a manifest that cannot be used, or bytes that do not match their checksums.
    #[error(transparent)]
    Store(#[from] lodstone_store::Error),
    /// Files that do not have the layout of their format.
    #[error(transparent)]
    Format(#[from] lodstone_formats::Error),
    /// The loader of a snapshot's program could not be made.
    #[error(transparent)]
    Loader(BoxError),
    /// A variable that cannot be saved.
    #[error("the variable `{name}`: {what}")]
    Variable {
        /// Its name.
        name: String,
        /// What is wrong with it.
        what: &'static str,
    },
    /// A checkpoint, or one of its files, that does not exist.
    #[error("no checkpoint at `{}`: {what}", path.display())]
    Absent {
        /// The path.
        path: PathBuf,
        /// What exists there.
        what: String,
    },
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
