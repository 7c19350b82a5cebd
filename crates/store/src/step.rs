//! What a write does, told before it is done.

use std::path::Path;

/// One thing that a [`Commit`](crate::Commit) is about to do.
///
/// A watcher ([`Progress::watched`](crate::Progress::watched)) hears of each. If it fails, so does the
/// step; if the process ends in it, that is a crash at this step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Step<'a> {
    /// What is done.
    pub kind: StepKind,
    /// What it is done to.
    pub path: &'a Path,
}

/// What a [`Step`] does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StepKind {
    /// Make a hidden directory for what is written.
    Stage,
    /// Create a file there, which will be at this path.
    Create,
    /// Write to it.
    Write,
    /// Wait until the disk has it.
    Sync,
    /// Wait until the disk has the names in a directory.
    SyncDirectory,
    /// Make a directory that a file will be in, or one that marks another.
    MakeDirectory,
    /// Put a file in its place, over what is there.
    Replace,
    /// Put a new directory in its place.
    Appear,
    /// Declare what is written to be published, though no file of it is in its place yet.
    Pend,
    /// Take that back.
    Retract,
    /// Move what is written beside the directory that it will replace, or back.
    Move,
    /// Put a directory in the place of one that exists.
    Exchange,
    /// Save what somebody else has put into a directory that was replaced.
    Rescue,
    /// Take a directory out of its place, to be removed.
    Retire,
    /// Remove a file or directory that was replaced or retired, or was left behind.
    Remove,
}
