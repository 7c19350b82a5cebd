//! Where something is: a path in a store.

use std::ffi::OsStr;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::checks::SEAL;
use crate::names::is_hidden;
use crate::{Commit, Entry, Progress, Recovery, Result, Stamp, Store};

/// A path in a [`Store`]; cheap to clone.
///
/// A path by itself is a location on the local file system, so that what takes
/// `impl Into<Location>` takes a path. Methods that have the name of one of [`Path`] do the same.
#[derive(Clone)]
pub struct Location {
    store: Arc<dyn Store>,
    path: PathBuf,
}

impl Location {
    /// A path in `store`.
    pub fn new(store: Arc<dyn Store>, path: impl Into<PathBuf>) -> Self {
        Self { store, path: path.into() }
    }

    /// The store.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// The path in it, which also names it in messages.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The path by itself.
    pub fn to_path_buf(&self) -> PathBuf {
        self.path.clone()
    }

    /// Another path in the same store.
    #[must_use]
    pub fn at(&self, path: impl Into<PathBuf>) -> Self {
        Self { store: Arc::clone(&self.store), path: path.into() }
    }

    /// The path below this one.
    #[must_use]
    pub fn join(&self, name: impl AsRef<Path>) -> Self {
        self.at(self.path.join(name))
    }

    /// The directory that it is in; empty for the working directory, `None` for a root.
    pub fn parent(&self) -> Option<Self> {
        self.path.parent().map(|parent| self.at(parent))
    }

    /// The directory that it is in; empty for the working directory, and for a root.
    #[must_use]
    pub fn directory(&self) -> Self {
        self.parent().unwrap_or_else(|| self.at(""))
    }

    /// The same, with a name for the working directory, which some systems do not open by an empty path.
    #[must_use]
    pub fn or_here(self) -> Self {
        if self.path.as_os_str().is_empty() { self.at(".") } else { self }
    }

    /// The last part of the path.
    pub fn file_name(&self) -> Option<&OsStr> {
        self.path.file_name()
    }

    /// The last part of the path, if it is text.
    pub fn name(&self) -> Option<&str> {
        self.path.file_name().and_then(OsStr::to_str)
    }

    /// The path with another last part.
    #[must_use]
    pub fn with_file_name(&self, name: impl AsRef<OsStr>) -> Self {
        self.at(self.path.with_file_name(name))
    }

    /// What the last part ends in, after its last dot.
    pub fn extension(&self) -> Option<&OsStr> {
        self.path.extension()
    }

    /// The last part without what is after its last dot, if it is text.
    pub fn stem(&self) -> Option<&str> {
        self.path.file_stem().and_then(OsStr::to_str)
    }

    /// The path with `ending` added to its last part, as prefixes of models are completed.
    #[must_use]
    pub fn append(&self, ending: &str) -> Self {
        let mut path = self.path.clone().into_os_string();
        path.push(ending);
        self.at(path)
    }

    /// The path for messages.
    pub fn display(&self) -> std::path::Display<'_> {
        self.path.display()
    }

    /// Whether there is something, or will be when an interrupted write is finished; links are followed.
    pub fn exists(&self) -> bool {
        self.store.exists(&self.path)
    }

    /// Whether there is anything, a link that leads nowhere too, or will be when an interrupted write
    /// into its directory is finished.
    ///
    /// # Errors
    /// If that cannot be found out.
    pub fn is_there(&self) -> Result<bool> {
        self.store.is_there(&self.path)
    }

    /// Whether it is a directory; links are followed.
    pub fn is_dir(&self) -> bool {
        self.store.is_dir(&self.path)
    }

    /// Whether it is a directory, or its path ends in a slash and names one that may not exist yet.
    pub fn names_directory(&self) -> bool {
        self.path.as_os_str().as_encoded_bytes().ends_with(b"/") || self.is_dir()
    }

    /// The entries of a directory, sorted by name; without a seal and files that are being written, with
    /// those that an interrupted write has yet to put there.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub fn list(&self) -> Result<Vec<Entry>> {
        let mut entries = self.store.list(self.clone().or_here().path())?;
        entries.retain(|entry| !is_hidden(&entry.name) && entry.name != SEAL);
        entries.sort();
        entries.dedup();
        Ok(entries)
    }

    /// The stamp of what is there; links are followed.
    ///
    /// # Errors
    /// If there is nothing, or it cannot be looked at.
    pub fn stamp(&self) -> Result<Stamp> {
        self.store.stamp(&self.path)
    }

    /// Where it leads to in the end, if it is a symbolic link that leads somewhere.
    pub fn link_target(&self) -> Option<Self> {
        self.store.link_target(&self.path).map(|path| self.at(path))
    }

    /// The directories whose seals may list the files in this one, each with the way from it down to this one;
    /// nearest first, none twice.
    pub fn seal_directories(&self) -> Vec<(Self, PathBuf)> {
        let found = self.store.seal_directories(&self.path);
        found.into_iter().map(|(root, way)| (self.at(root), way)).collect()
    }

    /// Makes the directory, and those above it that are missing.
    ///
    /// # Errors
    /// If one of them cannot be made.
    pub fn create_dir(&self) -> Result<()> {
        let is_missing = |dir: &Self| !dir.path().as_os_str().is_empty() && !dir.is_dir();
        let above = std::iter::successors(Some(self.clone()), Self::parent);
        let missing: Vec<Self> = above.take_while(is_missing).collect();
        let mut outermost_first = missing.into_iter().rev();
        outermost_first.try_for_each(|dir| Commit::directory(dir, Progress::default())?.publish())
    }

    /// Removes the directory with all that is in it: readers find all of it or nothing.
    ///
    /// # Errors
    /// If it is not there, is being written to, or cannot be removed; if the disk does not take that.
    pub fn remove_dir(&self, progress: &Progress) -> Result<()> {
        self.store.remove_dir(&self.path, progress)
    }

    /// Finishes a write into the directory that was interrupted, and removes what killed processes
    /// have left in it and beside it. Writers that live are left alone; one that is just publishing is
    /// waited for.
    ///
    /// # Errors
    /// If the directory cannot be opened, or a file cannot be put in its place.
    pub fn recover(&self) -> Result<Recovery> {
        self.store.recover(&self.path)
    }
}

/// Locations of one store are equal if their paths are.
impl PartialEq for Location {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.store, &other.store) && self.path == other.path
    }
}

impl Eq for Location {}

impl Hash for Location {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.path.hash(state);
    }
}

impl fmt::Debug for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.path, f)
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.path.display(), f)
    }
}

impl From<&Location> for Location {
    fn from(location: &Location) -> Self {
        location.clone()
    }
}

/// A path on the local file system.
#[cfg(unix)]
impl<P: AsRef<Path>> From<P> for Location {
    fn from(path: P) -> Self {
        Self::new(crate::local::store(), path.as_ref())
    }
}
