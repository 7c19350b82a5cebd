//! What a write does, told before it is done.

use std::path::Path;

/// One thing that a [`Commit`](crate::Commit) is about to do, and the path it will do it to.
///
/// A watcher ([`Progress::watched`](crate::Progress::watched)) hears of each. If it fails, so does the
/// step; if the process ends in it, that is a crash at this step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Step<'a> {
    /// Make a hidden directory for what is written.
    Stage(&'a Path),
    /// Create a file there, which will be at this path.
    Create(&'a Path),
    /// Write to it.
    Write(&'a Path),
    /// Wait until the disk has it.
    Sync(&'a Path),
    /// Wait until the disk has the names in a directory.
    SyncDirectory(&'a Path),
    /// Make a directory that a file will be in, or one that marks another.
    MakeDirectory(&'a Path),
    /// Put a file in its place, over what is there.
    Replace(&'a Path),
    /// Put a new directory in its place.
    Appear(&'a Path),
    /// Declare what is written to be published, though no file of it is in its place yet.
    Pend(&'a Path),
    /// Take that back.
    Retract(&'a Path),
    /// Move what is written beside the directory that it will replace, or back.
    Move(&'a Path),
    /// Put a directory in the place of one that exists.
    Exchange(&'a Path),
    /// Save what somebody else has put into a directory that was replaced.
    Rescue(&'a Path),
    /// Remove a file or directory that was replaced, or was left behind.
    Remove(&'a Path),
}

impl Step<'_> {
    /// The name of the step, as of its variant.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Stage(_) => "Stage",
            Self::Create(_) => "Create",
            Self::Write(_) => "Write",
            Self::Sync(_) => "Sync",
            Self::SyncDirectory(_) => "SyncDirectory",
            Self::MakeDirectory(_) => "MakeDirectory",
            Self::Replace(_) => "Replace",
            Self::Appear(_) => "Appear",
            Self::Pend(_) => "Pend",
            Self::Retract(_) => "Retract",
            Self::Move(_) => "Move",
            Self::Exchange(_) => "Exchange",
            Self::Rescue(_) => "Rescue",
            Self::Remove(_) => "Remove",
        }
    }

    /// What it is done to.
    pub fn path(&self) -> &Path {
        match self {
            Self::Stage(path)
            | Self::Create(path)
            | Self::Write(path)
            | Self::Sync(path)
            | Self::SyncDirectory(path)
            | Self::MakeDirectory(path)
            | Self::Replace(path)
            | Self::Appear(path)
            | Self::Pend(path)
            | Self::Retract(path)
            | Self::Move(path)
            | Self::Exchange(path)
            | Self::Rescue(path)
            | Self::Remove(path) => path,
        }
    }
}
