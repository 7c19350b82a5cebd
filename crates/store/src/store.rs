//! What a store is: a name space of files that can be read and published.
//!
//! | trait | what it is |
//! |---|---|
//! | [`Store`] | opens, lists and stages by path |
//! | [`Source`] | one open file |
//! | [`Folder`] | one directory, which names out of a model cannot leave |
//! | [`Publisher`] and [`Sink`] | files being written, and one of them |
//!
//! Readers and writers use [`Location`](crate::Location), [`Dir`](crate::Dir) and
//! [`Commit`](crate::Commit), which hold for every store what does not depend on it: reserved names,
//! seals, the order of what is published. `lodstone-conformance` has the tests that a store has to pass.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::{Progress, Result, Source, SourceFile, Stamp};

/// What a store publishes at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Atomicity {
    /// Any number of files: readers see all of the old ones or all of the new ones.
    AtomicSet,
    /// One file. Sets of files are only created, never replaced; the file that refers to the others is
    /// published last.
    AtomicObject,
}

/// A name space of files.
///
/// Paths are those of the user: a store decides where relative ones begin and how it names itself in
/// them, as long as `join`, `parent` and `file_name` of [`Path`] mean what they say.
pub trait Store: fmt::Debug + Send + Sync {
    /// What it publishes at once.
    fn atomicity(&self) -> Atomicity;

    /// Opens a regular file; `mmap` says whether its bytes may come from a memory map.
    ///
    /// # Errors
    /// As [`SourceFile::open`](crate::SourceFile::open).
    fn open(&self, path: &Path, mmap: bool) -> Result<Box<dyn Source>>;

    /// Whether there is something at `path`, links followed, or will be when an interrupted write is
    /// finished.
    fn exists(&self, path: &Path) -> bool;

    /// Whether there is anything at `path`, a link that leads nowhere too, or will be when an
    /// interrupted write into its directory is finished.
    ///
    /// # Errors
    /// If that cannot be found out.
    fn is_there(&self, path: &Path) -> Result<bool>;

    /// Whether there is a directory at `path`, links followed.
    fn is_dir(&self, path: &Path) -> bool;

    /// What is in a directory, in any order, reserved names included; with the files that an
    /// interrupted write has yet to put there.
    ///
    /// # Errors
    /// If the directory cannot be read.
    fn list(&self, path: &Path) -> Result<Vec<Entry>>;

    /// The stamp of what is at `path`, links followed.
    ///
    /// # Errors
    /// If there is nothing.
    fn stamp(&self, path: &Path) -> Result<Stamp>;

    /// Where the symbolic link at `path` leads to in the end, if there is one that leads somewhere.
    fn link_target(&self, path: &Path) -> Option<PathBuf> {
        let _ = path;
        None
    }

    /// The directories whose seals may list the files in the directory at `path`, each with the way
    /// from it down to the directory; nearest first.
    fn seal_directories(&self, path: &Path) -> Vec<(PathBuf, PathBuf)> {
        let way = |from: &Path| path.strip_prefix(from).unwrap_or(path).to_path_buf();
        path.ancestors().map(|from| (from.to_path_buf(), way(from))).collect()
    }

    /// Opens a directory as a capability.
    ///
    /// # Errors
    /// If it cannot be opened.
    fn folder(&self, path: &Path, links: Links, mmap: bool) -> Result<Box<dyn Folder>>;

    /// Begins to write one file; returns the name to create it under, too.
    ///
    /// # Errors
    /// As [`Commit::file`](crate::Commit::file).
    fn stage_file(&self, path: &Path, progress: &Progress)
    -> Result<(Box<dyn Publisher>, PathBuf)>;

    /// Begins to write the files of a directory, which may not exist yet.
    ///
    /// # Errors
    /// As [`Commit::directory`](crate::Commit::directory).
    fn stage_directory(&self, path: &Path, progress: &Progress) -> Result<Box<dyn Publisher>>;

    /// Begins to write files into a directory that exists.
    ///
    /// # Errors
    /// As [`Commit::existing`](crate::Commit::existing).
    fn stage_into(&self, path: &Path, progress: &Progress) -> Result<Box<dyn Publisher>>;

    /// Takes the lock of a directory for a writer that comes again and again, without waiting.
    ///
    /// # Errors
    /// As [`WriterLock::take`](crate::WriterLock::take).
    fn lock(&self, directory: &Path) -> Result<Box<dyn Held>>;

    /// Removes a directory with all that is in it: readers find all of it or nothing.
    ///
    /// # Errors
    /// If it is not there, is being written to, or cannot be removed.
    fn remove_dir(&self, path: &Path, progress: &Progress) -> Result<()>;

    /// Finishes an interrupted write into the directory at `path`, and removes what killed writers
    /// left in it and beside it.
    ///
    /// # Errors
    /// If the directory cannot be opened, or a file cannot be put in its place.
    fn recover(&self, path: &Path) -> Result<Recovery>;
}

/// One directory and everything below it, which names cannot leave.
pub trait Folder: fmt::Debug + Send + Sync {
    /// Opens the regular file `name`, a relative path that does not climb; `None` if there is none.
    ///
    /// # Errors
    /// As [`Dir::open_source`](crate::Dir::open_source).
    fn open(&self, name: &str) -> Result<Option<Box<dyn Source>>>;

    /// Everything below; at most `most` entries are looked at.
    ///
    /// # Errors
    /// If a directory cannot be read, or there are more entries.
    fn everything(&self, most: usize) -> Result<Listing>;

    /// The regular files below, reserved names included; with those that an interrupted write has
    /// yet to put there.
    ///
    /// # Errors
    /// As [`everything`](Self::everything).
    fn files(&self, most: usize) -> Result<Vec<String>> {
        Ok(self.everything(most)?.files)
    }
}

/// Files being written, not visible before they are published; removed when it is dropped before.
///
/// [`Commit`](crate::Commit) has compared all names: they are relative, plain, not reserved, and each
/// is created once.
pub trait Publisher: fmt::Debug + Send {
    /// The directory that is written to, if it exists.
    fn root(&self) -> Option<&Path>;

    /// Where a file will be.
    fn target(&self, name: &Path) -> PathBuf;

    /// The directory in which files can be opened under their names before they are published.
    fn staged(&self) -> PathBuf;

    /// Whether the path that the caller gave is a symbolic link to what is written.
    fn is_through_link(&self) -> bool {
        false
    }

    /// Creates a file.
    ///
    /// # Errors
    /// If the store refuses, or something that is not a file is in its place.
    fn create(&mut self, name: &Path) -> Result<Box<dyn Sink>>;

    /// Called when the sink of a file was closed.
    ///
    /// # Errors
    /// If the store does not take it.
    fn finish(&mut self, name: &Path) -> Result<()>;

    /// Forgets a file that could not be written.
    fn discard(&mut self, name: &Path);

    /// Waits until the store has what was written so far.
    ///
    /// # Errors
    /// If it does not take it, or the work was cancelled.
    fn sync(&mut self) -> Result<()>;

    /// Waits until nobody else publishes into the directory, and keeps others from it.
    ///
    /// # Errors
    /// As [`Commit::alone`](crate::Commit::alone).
    fn lock(&mut self) -> Result<()>;

    /// Makes the files visible, in this order where it matters. A store of
    /// [`Atomicity::AtomicObject`] replaces nothing if there are several.
    ///
    /// # Errors
    /// As [`Commit::publish`](crate::Commit::publish).
    fn publish(&mut self, names: &[PathBuf]) -> Result<()>;
}

/// A file being written.
pub trait Sink: fmt::Debug + Send {
    /// Appends all of `bytes`.
    ///
    /// # Errors
    /// If the store fails.
    fn write(&mut self, bytes: &[u8]) -> Result<()>;

    /// Replaces bytes that were written before.
    ///
    /// # Errors
    /// If the store fails.
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> Result<()>;

    /// Appends a range of a file without moving it through this process; returns how many bytes of it were
    /// appended, from its beginning.
    ///
    /// # Errors
    /// If the store fails.
    fn copy(&mut self, from: &SourceFile, offset: u64, len: u64) -> Result<u64> {
        let _ = (from, offset, len);
        Ok(0)
    }

    /// Announces that a stretch can be made durable now. Nothing relies on it.
    fn write_back(&mut self, offset: u64, len: u64) {
        let _ = (offset, len);
    }

    /// Ends the file: all of it has been written.
    ///
    /// # Errors
    /// If the store does not take it.
    fn close(self: Box<Self>) -> Result<()>;
}

/// A lock that is held; dropping it gives it back.
pub trait Held: fmt::Debug + Send + Sync {
    /// Fails if it is not the lock of the directory any more.
    ///
    /// # Errors
    /// [`Error::Changed`](crate::Error::Changed), or what looking gives.
    fn check(&self) -> Result<()>;
}

/// One entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// Its name, if it is UTF-8; entries with other names are not listed.
    pub name: String,
    /// Whether it is a directory.
    pub is_dir: bool,
}

/// What is below a directory.
#[derive(Clone, Debug, Default)]
pub struct Listing {
    /// Regular files and links to such, by relative path, sorted.
    pub files: Vec<String>,
    /// What is neither a file nor a directory, or has a name that is not UTF-8, and why it is not
    /// among the files.
    pub others: Vec<(String, &'static str)>,
}

/// What to do with symbolic links inside the directory that lead out of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Links {
    /// Refuse them.
    #[default]
    Confined,
    /// Follow them: download caches keep a model as links to a store elsewhere.
    Follow,
}

/// What recovery did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Recovery {
    /// Files of interrupted writes that were put in their places.
    pub files: usize,
    /// Hidden directories of killed processes that were removed.
    pub left_over: usize,
}
