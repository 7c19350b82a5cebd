//! The kinds of errors, and the file that an error is about.

use std::path::Path;

use lodstone_checkpoint::Error as CheckpointError;
use lodstone_formats::Error as FormatError;
use lodstone_store::Error as StoreError;

use super::Error;
#[cfg(feature = "runtime")]
use crate::dialects::runtime;

/// The kind of an error: what a caller handles alike. Commands name it in JSON, and Python has an exception for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// There is no model at a path, or no checkpoint.
    NoModel,
    /// The format of a file is not known, or a file in place of another one.
    UnknownFormat,
    /// Files are damaged, contradict each other or their seal, or lack bytes.
    Damaged,
    /// There is no tensor with a name or index, or there are several.
    NoTensor,
    /// An input does not exist, lacks a value, or its value does not fit.
    Input,
    /// A computed value does not exist, or cannot be returned.
    Output,
    /// An option is invalid, or does not fit the model or the others.
    Option,
    /// A program cannot be built or restored.
    Program,
    /// A run failed.
    Run,
    /// A conversion would lose something that is not allowed.
    Lossy,
    /// The model or the format does not permit the operation.
    Unsupported,
    /// The system reported an error, such as a missing permission.
    System,
    /// Files cannot be published or changed as asked: one exists already, or changed meanwhile.
    Storage,
    /// A bug in this library.
    Internal,
}

impl ErrorKind {
    /// Returns the kind of an error of this crate, or of one of its modules; `None` for others.
    pub fn of(error: &(dyn std::error::Error + 'static)) -> Option<Self> {
        None.or_else(|| error.downcast_ref().map(Error::kind))
            .or_else(|| error.downcast_ref().map(of_format))
            .or_else(|| error.downcast_ref().map(of_store))
            .or_else(|| error.downcast_ref().map(of_checkpoint))
    }

    /// Returns the name in JSON: `no-model`.
    pub fn name(self) -> &'static str {
        match self {
            Self::NoModel => "no-model",
            Self::UnknownFormat => "unknown-format",
            Self::Damaged => "damaged",
            Self::NoTensor => "no-tensor",
            Self::Input => "input",
            Self::Output => "output",
            Self::Option => "option",
            Self::Program => "program",
            Self::Run => "run",
            Self::Lossy => "lossy",
            Self::Unsupported => "unsupported",
            Self::System => "system",
            Self::Storage => "storage",
            Self::Internal => "internal",
        }
    }
}

impl Error {
    /// Returns the kind of the error.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::ChangedMeanwhile(_) => ErrorKind::Storage,
            Self::Format(error) => of_format(error),
            Self::Checkpoint(error) => of_checkpoint(error),
            Self::Lossy(_) => ErrorKind::Lossy,
            Self::Output(_) => ErrorKind::System,
            #[cfg(feature = "runtime")]
            Self::Run(_) | Self::Restore(runtime::checkpoint::Error::Run(_)) => ErrorKind::Run,
            #[cfg(feature = "runtime")]
            Self::Build(error) => of_program(error),
            #[cfg(feature = "runtime")]
            Self::Restore(runtime::checkpoint::Error::Program(error)) => of_program(error),
            #[cfg(feature = "runtime")]
            Self::Restore(runtime::checkpoint::Error::Incomplete { .. }) => ErrorKind::Program,
            #[cfg(feature = "runtime")]
            Self::Restore(_) => ErrorKind::Damaged,
            #[cfg(feature = "runtime")]
            Self::OnnxRuntime(_) | Self::Engine(_) => ErrorKind::Unsupported,
            #[cfg(feature = "runtime")]
            Self::Recipe { .. } => ErrorKind::Unsupported,
            Self::NoElements => ErrorKind::Damaged,
            Self::Internal(_) => ErrorKind::Internal,
            Self::NoSuchTensor { .. } | Self::NoSuchIndex { .. } | Self::AmbiguousTensor { .. } => {
                ErrorKind::NoTensor
            }
            Self::NoSuchInput { .. }
            | Self::MissingInput(_)
            | Self::UnknownShape(_)
            | Self::InvalidInput { .. }
            | Self::TooManyInputs { .. }
            | Self::UnpairedInputs { .. } => ErrorKind::Input,
            Self::NoSuchOutput { .. } | Self::InvalidOutput { .. } => ErrorKind::Output,
            Self::NoMatch { .. } | Self::InvalidOption { .. } => ErrorKind::Option,
            Self::TooLarge { .. }
            | Self::Unmapped(_)
            | Self::UnknownFormat(_)
            | Self::UnclearTarget(_)
            | Self::NotACallable { .. }
            | Self::Pattern { .. }
            | Self::Renames { .. }
            | Self::Cast { .. }
            | Self::NoLowering { .. }
            | Self::Shards { .. }
            | Self::CastProgram
            | Self::InvalidCast { .. }
            | Self::Upgrade(_)
            | Self::Downgrade(_)
            | Self::Lower(_)
            | Self::NoProgram { .. }
            | Self::InvalidProgram { .. }
            | Self::NotSupported { .. }
            | Self::SeveralTensors { .. }
            | Self::NoTensors
            | Self::DuplicateName { .. }
            | Self::UnmappedTensor { .. }
            | Self::NoValues(_) => ErrorKind::Unsupported,
        }
    }

    /// Returns the file or directory that the error is about.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::ChangedMeanwhile(path) | Self::Unmapped(path) => Some(path),
            Self::Format(error) => path_of_format(error),
            Self::Checkpoint(error) => match error {
                CheckpointError::Store(error) => path_of_store(error),
                CheckpointError::Format(error) => path_of_format(error),
                CheckpointError::Absent { path, .. }
                | CheckpointError::Unsealed(path)
                | CheckpointError::Unfinished(path) => Some(path),
                _ => None,
            },
            #[cfg(feature = "runtime")]
            Self::Build(runtime::program::Error::Format(error)) => path_of_format(error),
            _ => None,
        }
    }
}

fn of_format(error: &FormatError) -> ErrorKind {
    match error.cause() {
        FormatError::Store(error) => of_store(error),
        FormatError::NoModel { .. } => ErrorKind::NoModel,
        FormatError::Unrecognized { .. } | FormatError::Unsupported { .. } => {
            ErrorKind::UnknownFormat
        }
        FormatError::Mismatch { .. } | FormatError::Unsealed { .. } | FormatError::Json { .. } => {
            ErrorKind::Damaged
        }
        _ => ErrorKind::Unsupported,
    }
}

fn path_of_format(error: &FormatError) -> Option<&Path> {
    match error.cause() {
        FormatError::Store(error) => path_of_store(error),
        FormatError::NoModel { path, .. }
        | FormatError::Unrecognized { path, .. }
        | FormatError::Unsupported { path, .. }
        | FormatError::Mismatch { path, .. }
        | FormatError::Unsealed { path }
        | FormatError::Json { path, .. } => Some(path),
        _ => None,
    }
}

fn of_store(error: &StoreError) -> ErrorKind {
    match error {
        StoreError::Io { .. } | StoreError::Memory { .. } => ErrorKind::System,
        StoreError::NotAFile { .. } => ErrorKind::UnknownFormat,
        StoreError::Malformed { .. }
        | StoreError::OutOfRange { .. }
        | StoreError::Damaged { .. }
        | StoreError::Resized { .. }
        | StoreError::Unusable { .. }
        | StoreError::Escapes { .. } => ErrorKind::Damaged,
        StoreError::Limit { .. } => ErrorKind::Unsupported,
        _ => ErrorKind::Storage,
    }
}

fn path_of_store(error: &StoreError) -> Option<&Path> {
    match error {
        StoreError::NotAFile { path, .. }
        | StoreError::Damaged { path, .. }
        | StoreError::Resized { path, .. }
        | StoreError::Unusable { path, .. } => Some(path),
        StoreError::Malformed { origin, .. }
        | StoreError::OutOfRange { origin, .. }
        | StoreError::Limit { origin, .. } => Some(Path::new(origin)),
        StoreError::Escapes { path, .. } => Some(Path::new(path)),
        _ => None,
    }
}

fn of_checkpoint(error: &CheckpointError) -> ErrorKind {
    match error {
        CheckpointError::Store(error) => of_store(error),
        CheckpointError::Format(error) => of_format(error),
        CheckpointError::Absent { .. } => ErrorKind::NoModel,
        CheckpointError::Unsealed(_) => ErrorKind::Damaged,
        CheckpointError::Internal(_) | CheckpointError::Lost { .. } => ErrorKind::Internal,
        _ => ErrorKind::Unsupported,
    }
}

#[cfg(feature = "runtime")]
fn of_program(error: &runtime::program::Error) -> ErrorKind {
    match error {
        runtime::program::Error::Format(error) => of_format(error),
        runtime::program::Error::Internal(_) => ErrorKind::Internal,
        _ => ErrorKind::Program,
    }
}
