//! The store interface: a namespace of files that can be read and published.
//!
//! | trait | purpose |
//! |---|---|
//! | [`Store`] | opens, lists and stages by path |
//! | [`Source`] | one open file |
//! | [`Folder`] | one directory, which names from a model cannot leave |
//! | [`Publisher`] and [`Sink`] | files being written, and one of them |
//!
//! Readers and writers use [`Location`](crate::Location), [`Dir`](crate::Dir) and
//! [`Commit`](crate::Commit), which implement what is common to all stores: reserved names,
//! seals, the order of publication. `lodstone-conformance` has the tests that every store must pass.
//!
//! Calls block; a store may own threads. In a store that publishes one file at a time
//! ([`AtomicObject`](Atomicity::AtomicObject)), a commit creates sets of files but replaces none, and publishes the file that
//! refers to the others last.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::{Blob, Error, Progress, Result, Source, SourceFile, Stamp};

/// What a store can publish atomically.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Atomicity {
    /// Any number of files: readers see either all old or all new ones.
    AtomicSet,
    /// A single file. Sets of files can be created but not replaced; the file that refers to the others is
    /// published last.
    AtomicObject,
}

/// A namespace of files.
///
/// Paths come from the user: a store defines where relative paths begin and how its name appears in
/// paths, provided that `join`, `parent` and `file_name` of [`Path`] keep their meaning.
pub trait Store: fmt::Debug + Send + Sync {
    /// Returns what the store can publish atomically.
    fn atomicity(&self) -> Atomicity;

    /// Returns whether a directory exists as soon as a file below it does, so that missing parents of a new file or
    /// directory are no error.
    fn implies_parents(&self) -> bool {
        false
    }

    /// Opens a regular file; `mmap` allows its bytes to be memory-mapped.
    ///
    /// # Errors
    /// The errors of [`SourceFile::open`](crate::SourceFile::open).
    fn open(&self, path: &Path, mmap: bool) -> Result<Box<dyn Source>>;

    /// Returns whether `path` exists, following links, or will exist when an interrupted write is
    /// finished.
    ///
    /// # Errors
    /// Fails if the store reports an error.
    fn exists(&self, path: &Path) -> Result<bool>;

    /// Returns whether `path` exists, even as a dangling link, or will exist when an
    /// interrupted write into its directory is finished.
    ///
    /// # Errors
    /// Fails if the store reports an error.
    fn is_there(&self, path: &Path) -> Result<bool>;

    /// Returns whether `path` is a directory, following links.
    ///
    /// # Errors
    /// Fails if the store reports an error.
    fn is_dir(&self, path: &Path) -> Result<bool>;

    /// Returns the entries of a directory, in any order, including reserved names and files that an
    /// interrupted write has yet to publish.
    ///
    /// # Errors
    /// Fails if the directory cannot be read.
    fn list(&self, path: &Path) -> Result<Vec<Entry>>;

    /// Returns the stamp of `path`, following links.
    ///
    /// # Errors
    /// Fails if `path` does not exist.
    fn stamp(&self, path: &Path) -> Result<Stamp>;

    /// Returns the final target of the symlink at `path`, if it is one and not dangling.
    fn link_target(&self, path: &Path) -> Option<PathBuf> {
        let _ = path;
        None
    }

    /// Returns the directories whose seals may list files of the directory at `path`, each with the relative
    /// path from it to the directory; nearest first.
    fn seal_directories(&self, path: &Path) -> Vec<(PathBuf, PathBuf)> {
        let way = |from: &Path| path.strip_prefix(from).unwrap_or(path).to_path_buf();
        path.ancestors().map(|from| (from.to_path_buf(), way(from))).collect()
    }

    /// Opens a directory as a capability.
    ///
    /// # Errors
    /// Fails if the directory cannot be opened.
    fn folder(&self, path: &Path, links: Links, mmap: bool) -> Result<Box<dyn Folder>>;

    /// Stages a single file; also returns the name to create it under.
    ///
    /// # Errors
    /// The errors of [`Commit::file`](crate::Commit::file).
    fn stage_file(&self, path: &Path, progress: &Progress)
    -> Result<(Box<dyn Publisher>, PathBuf)>;

    /// Stages the files of a directory, which may not exist yet.
    ///
    /// # Errors
    /// The errors of [`Commit::directory`](crate::Commit::directory).
    fn stage_directory(&self, path: &Path, progress: &Progress) -> Result<Box<dyn Publisher>>;

    /// Stages files for an existing directory.
    ///
    /// # Errors
    /// The errors of [`Commit::existing`](crate::Commit::existing).
    fn stage_into(&self, path: &Path, progress: &Progress) -> Result<Box<dyn Publisher>>;

    /// Stages files beside those of a publisher of another process, which publishes all of them; `staged` is the
    /// directory that it returned.
    ///
    /// # Errors
    /// The errors of [`Commit::join`](crate::Commit::join).
    fn join(&self, staged: &Path, progress: &Progress) -> Result<Box<dyn Publisher>> {
        let _ = progress;
        let found = "a directory of a store that other processes cannot write to";
        Err(Error::NotAFile { path: staged.to_path_buf(), found })
    }

    /// Takes the lock of a directory for a long-lived writer, without waiting.
    ///
    /// # Errors
    /// The errors of [`WriterLock::take`](crate::WriterLock::take).
    fn lock(&self, directory: &Path) -> Result<Box<dyn Held>>;

    /// Removes a directory and its contents: readers find either all or none of it.
    ///
    /// # Errors
    /// Fails if the directory does not exist, is being written to, or cannot be removed.
    fn remove_dir(&self, path: &Path, progress: &Progress) -> Result<()>;

    /// Removes a file.
    ///
    /// # Errors
    /// Fails if there is no file at `path`, or it cannot be removed.
    fn remove_file(&self, path: &Path, progress: &Progress) -> Result<()>;

    /// Finishes an interrupted write into the directory at `path`, and removes leftovers of killed writers
    /// in it and beside it.
    ///
    /// # Errors
    /// Fails if the directory cannot be opened, or a file cannot be published.
    fn recover(&self, path: &Path) -> Result<Recovery>;
}

/// A directory and everything below it, which names cannot leave.
pub trait Folder: fmt::Debug + Send + Sync {
    /// Opens the regular file `name`, a relative path without `..`; `None` if it does not exist.
    ///
    /// # Errors
    /// The errors of [`Dir::open_source`](crate::Dir::open_source).
    fn open(&self, name: &str) -> Result<Option<Box<dyn Source>>>;

    /// Lists everything below the directory; at most `max` entries are visited.
    ///
    /// # Errors
    /// Fails if a directory cannot be read, or there are more entries.
    fn everything(&self, max: usize) -> Result<Listing>;

    /// Lists the regular files below the directory, including reserved names and those that an interrupted write has
    /// yet to publish.
    ///
    /// # Errors
    /// The errors of [`everything`](Self::everything).
    fn files(&self, max: usize) -> Result<Vec<String>> {
        Ok(self.everything(max)?.files)
    }
}

/// Files being written, invisible until they are published; dropping it before removes them.
///
/// [`Commit`](crate::Commit) has checked all names: they are relative, normalized, not reserved, and each
/// is created once.
pub trait Publisher: fmt::Debug + Send {
    /// Returns the target directory, if it exists.
    fn root(&self) -> Option<&Path>;

    /// Returns the final path of a file.
    fn target(&self, name: &Path) -> PathBuf;

    /// Returns the directory in which files can be opened under their names before they are published.
    fn staged(&self) -> PathBuf;

    /// Returns whether the path from the caller is a symlink to the target.
    fn is_through_link(&self) -> bool {
        false
    }

    /// Creates a file.
    ///
    /// # Errors
    /// Fails if the store fails, or the final path is not a regular file.
    fn create(&mut self, name: &Path) -> Result<Box<dyn Sink>>;

    /// Returns whether a written file cannot be read from the store before it is published, so that its contents are
    /// passed to [`keep`](Self::keep).
    fn needs_contents(&self) -> bool {
        false
    }

    /// Keeps the contents of a written file, by which it can be opened before it is published; `None` if they would take
    /// too much memory.
    fn keep(&mut self, name: &Path, contents: Option<Blob>) {
        let _ = (name, contents);
    }

    /// Makes [`publish`](Self::publish) fail with [`Error::Exists`](crate::Error::Exists) if a file other than a seal
    /// exists, even if another writer creates it at the same time. A store without this guarantee ignores the call: the
    /// commit has checked that the files do not exist.
    fn require_new(&mut self) {}

    /// Called after the sink of a file was closed.
    ///
    /// # Errors
    /// Fails if the store fails.
    fn finish(&mut self, name: &Path) -> Result<()>;

    /// Discards a file that could not be written.
    fn discard(&mut self, name: &Path);

    /// Waits until the written files are durable.
    ///
    /// # Errors
    /// Fails if the store fails or the work is cancelled.
    fn sync(&mut self) -> Result<()>;

    /// Locks the target directory against other publishers; waits for one that holds the lock.
    ///
    /// # Errors
    /// The errors of [`Commit::alone`](crate::Commit::alone).
    fn lock(&mut self) -> Result<()>;

    /// Makes the files visible, in this order if the order matters. A store of
    /// [`Atomicity::AtomicObject`] replaces no files if there are several.
    ///
    /// # Errors
    /// The errors of [`Commit::publish`](crate::Commit::publish).
    fn publish(&mut self, names: &[PathBuf]) -> Result<()>;
}

/// A file being written.
pub trait Sink: fmt::Debug + Send {
    /// Appends all of `bytes`.
    ///
    /// # Errors
    /// Fails if the store fails.
    fn write(&mut self, bytes: &[u8]) -> Result<()>;

    /// Overwrites bytes that were written before.
    ///
    /// # Errors
    /// Fails if the store fails, or if the bytes were sent away and the sink [only appends](Self::only_appends).
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> Result<()>;

    /// Returns whether bytes that were written long before cannot be overwritten, because they have left this process.
    fn only_appends(&self) -> bool {
        false
    }

    /// Appends a range of a file without copying it through this process; returns the number of bytes that were
    /// appended, from the start of the range.
    ///
    /// # Errors
    /// Fails if the store fails.
    fn copy(&mut self, from: &SourceFile, offset: u64, len: u64) -> Result<u64> {
        let _ = (from, offset, len);
        Ok(0)
    }

    /// Appends a piece of at most [`PIECE`](crate::PIECE) bytes that other files may have, too, if the store keeps such
    /// pieces once. Calls `seen` with its bytes, in order. `false` means that nothing was done.
    ///
    /// # Errors
    /// Fails if reading fails or the store fails.
    fn share(&mut self, piece: &Blob, seen: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let _ = (piece, seen);
        Ok(false)
    }

    /// Hints that a range can be made durable now.
    fn write_back(&mut self, offset: u64, len: u64) {
        let _ = (offset, len);
    }

    /// Closes the file after all of it has been written.
    ///
    /// # Errors
    /// Fails if the store fails.
    fn close(self: Box<Self>) -> Result<()>;
}

/// A held lock, which is released on drop.
pub trait Held: fmt::Debug + Send + Sync {
    /// Fails if this is no longer the lock of the directory.
    ///
    /// # Errors
    /// [`Error::Changed`](crate::Error::Changed), or an error of the store.
    fn check(&self) -> Result<()>;
}

/// One entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// The name; entries whose names are not UTF-8 are not listed.
    pub name: String,
    /// Whether the entry is a directory.
    pub is_dir: bool,
}

/// The contents of a directory tree.
#[derive(Clone, Debug, Default)]
pub struct Listing {
    /// The sorted relative paths of regular files and of links to such.
    pub files: Vec<String>,
    /// Entries that are neither files nor directories, or whose names are not UTF-8, each with the reason why it is
    /// not in `files`.
    pub others: Vec<(String, &'static str)>,
}

/// The handling of symlinks that lead out of a directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Links {
    /// Reject them.
    #[default]
    Confined,
    /// Follow them: download caches keep models as links to files elsewhere.
    Follow,
}

/// The result of a recovery.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Recovery {
    /// The number of files of interrupted writes that were published.
    pub files: usize,
    /// The number of hidden directories of killed processes that were removed.
    pub left_over: usize,
}
