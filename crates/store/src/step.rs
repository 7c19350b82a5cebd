//! Steps of a write, announced before their execution.
//!
//! Tests kill the process, or make the system fail, at each step: there is no separate build or switch for tests.

use std::path::Path;

/// A step that a [`Commit`](crate::Commit) is about to execute.
///
/// A watcher ([`Progress::watched`](crate::Progress::watched)) receives each step. If it fails, so does the
/// step; if it ends the process, that simulates a crash at this step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Step<'a> {
    /// The kind of step.
    pub kind: StepKind,
    /// The affected path.
    pub path: &'a Path,
}

/// The kind of a [`Step`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StepKind {
    /// Create a staging directory.
    Stage,
    /// Create a staged file, whose final path is given.
    Create,
    /// Write to a staged file.
    Write,
    /// Sync a file to disk.
    Sync,
    /// Sync the entries of a directory to disk.
    SyncDirectory,
    /// Create a parent directory of a file, or a marker directory.
    MakeDirectory,
    /// Rename a file to its final path, replacing any existing one.
    Replace,
    /// Rename a new directory to its final path.
    Appear,
    /// Publish the staged files as a redo log, before any of them is at its final path.
    Pend,
    /// Withdraw the redo log.
    Retract,
    /// Move the staging directory beside the directory that it will replace, or back.
    Move,
    /// Exchange a new directory with an existing one.
    Exchange,
    /// Save a file that another process has put into a replaced directory.
    Rescue,
    /// Rename a directory to a hidden name before its removal.
    Retire,
    /// Remove a replaced, retired or leftover file or directory.
    Remove,
}
