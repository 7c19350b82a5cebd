//! Locations: paths in stores.

use std::ffi::OsStr;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::checks::SEAL;
use crate::names::is_hidden;
use crate::{Commit, Entry, Error, Progress, Recovery, Result, Stamp, Store};

/// A path in a [`Store`]; cheap to clone.
///
/// A path converts to a location on the local file system, so functions that take
/// `impl Into<Location>` accept paths. Methods with the names of methods of [`Path`] have the same meaning.
#[derive(Clone)]
pub struct Location {
    store: Arc<dyn Store>,
    path: PathBuf,
}

impl Location {
    /// Creates the location of a path in `store`.
    pub fn new(store: Arc<dyn Store>, path: impl Into<PathBuf>) -> Self {
        Self { store, path: path.into() }
    }

    /// Returns the store.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Returns the path in the store, which also names the location in messages.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path as a `PathBuf`.
    pub fn to_path_buf(&self) -> PathBuf {
        self.path.clone()
    }

    /// Returns the location of another path in the same store.
    #[must_use]
    pub fn at(&self, path: impl Into<PathBuf>) -> Self {
        Self { store: Arc::clone(&self.store), path: path.into() }
    }

    /// Returns the location of `path` below this one.
    #[must_use]
    pub fn join(&self, name: impl AsRef<Path>) -> Self {
        self.at(self.path.join(name))
    }

    /// Returns the parent directory; empty for the working directory, `None` for a root.
    pub fn parent(&self) -> Option<Self> {
        self.path.parent().map(|parent| self.at(parent))
    }

    /// Returns the parent directory; empty for the working directory and for a root.
    #[must_use]
    pub fn directory(&self) -> Self {
        self.parent().unwrap_or_else(|| self.at(""))
    }

    /// Returns the location, with `.` for an empty path, which some systems do not open.
    #[must_use]
    pub fn or_here(self) -> Self {
        if self.path.as_os_str().is_empty() { self.at(".") } else { self }
    }

    /// Returns the last component of the path.
    pub fn file_name(&self) -> Option<&OsStr> {
        self.path.file_name()
    }

    /// Returns the last component of the path, if it is UTF-8.
    pub fn name(&self) -> Option<&str> {
        self.path.file_name().and_then(OsStr::to_str)
    }

    /// Returns the location with another last component.
    #[must_use]
    pub fn with_file_name(&self, name: impl AsRef<OsStr>) -> Self {
        self.at(self.path.with_file_name(name))
    }

    /// Returns the part of the last component after its last dot.
    pub fn extension(&self) -> Option<&OsStr> {
        self.path.extension()
    }

    /// Returns the last component without its extension, if it is UTF-8.
    pub fn stem(&self) -> Option<&str> {
        self.path.file_stem().and_then(OsStr::to_str)
    }

    /// Returns the location with `ending` appended to its last component, to complete a model prefix.
    #[must_use]
    pub fn append(&self, ending: &str) -> Self {
        let mut path = self.path.clone().into_os_string();
        path.push(ending);
        self.at(path)
    }

    /// Returns the path for messages.
    pub fn display(&self) -> std::path::Display<'_> {
        self.path.display()
    }

    /// Returns whether the location exists, or will exist when an interrupted write is finished; links are followed.
    ///
    /// # Errors
    /// Fails if the store reports an error.
    pub fn exists(&self) -> Result<bool> {
        self.store.exists(&self.path)
    }

    /// Returns those of the locations that exist.
    pub fn existing(
        locations: impl IntoIterator<Item = Self>,
    ) -> impl Iterator<Item = Result<Self>> {
        let exists = |location: Self| location.exists().map(|exists| exists.then_some(location));
        locations.into_iter().filter_map(move |location| exists(location).transpose())
    }

    /// Returns whether the location exists, even as a dangling link, or will exist when an interrupted write
    /// into its directory is finished.
    ///
    /// # Errors
    /// Fails if the store reports an error.
    pub fn is_there(&self) -> Result<bool> {
        self.store.is_there(&self.path)
    }

    /// Returns whether the location is a directory; links are followed.
    ///
    /// # Errors
    /// Fails if the store reports an error.
    pub fn is_dir(&self) -> Result<bool> {
        self.store.is_dir(&self.path)
    }

    /// Returns whether the location is a directory, or its path ends in a slash, so that it names a future directory.
    ///
    /// # Errors
    /// Fails if the store reports an error.
    pub fn names_directory(&self) -> Result<bool> {
        Ok(self.path.as_os_str().as_encoded_bytes().ends_with(b"/") || self.is_dir()?)
    }

    /// Returns the entries of a directory, sorted by name, without seals and files in progress, and with
    /// files that an interrupted write has yet to publish.
    ///
    /// # Errors
    /// Fails if the directory cannot be read.
    pub fn list(&self) -> Result<Vec<Entry>> {
        let mut entries = self.store.list(self.clone().or_here().path())?;
        entries.retain(|entry| !is_hidden(&entry.name) && entry.name != SEAL);
        entries.sort();
        entries.dedup();
        Ok(entries)
    }

    /// Returns the entries like [`list`](Self::list), and none if there is no such directory, this user may not read
    /// it, or the store has no listings.
    ///
    /// # Errors
    /// Fails if the directory cannot be read for another reason.
    pub fn list_if_possible(&self) -> Result<Vec<Entry>> {
        use std::io::ErrorKind::{NotADirectory, NotFound, PermissionDenied, Unsupported};
        match self.list() {
            Err(Error::Io { source, .. })
                if [NotADirectory, NotFound, PermissionDenied, Unsupported]
                    .contains(&source.kind()) =>
            {
                Ok(Vec::new())
            }
            listed => listed,
        }
    }

    /// Returns the stamp of the location; links are followed.
    ///
    /// # Errors
    /// Fails if the location does not exist or cannot be inspected.
    pub fn stamp(&self) -> Result<Stamp> {
        self.store.stamp(&self.path)
    }

    /// Returns the final target of a symlink that is not dangling.
    pub fn link_target(&self) -> Option<Self> {
        self.store.link_target(&self.path).map(|path| self.at(path))
    }

    /// Returns the directories whose seals may list files of this directory, each with the relative path from it to
    /// this one; nearest first, without duplicates.
    pub fn seal_directories(&self) -> Vec<(Self, PathBuf)> {
        let found = self.store.seal_directories(&self.path);
        found.into_iter().map(|(root, way)| (self.at(root), way)).collect()
    }

    /// Creates the directory and its missing parents.
    ///
    /// # Errors
    /// Fails if one of them cannot be created.
    pub fn create_dir(&self) -> Result<()> {
        let above = std::iter::successors(Some(self.clone()), Self::parent);
        let most = if self.store.implies_parents() { 1 } else { usize::MAX };
        let mut missing = Vec::new();
        for dir in above.take(most) {
            if dir.path().as_os_str().is_empty() || dir.is_dir()? {
                break;
            }
            missing.push(dir);
        }
        let mut outermost_first = missing.into_iter().rev();
        outermost_first.try_for_each(|dir| Commit::directory(dir, Progress::default())?.publish())
    }

    /// Removes the directory and its contents: readers find either all or none of it.
    ///
    /// # Errors
    /// Fails if the directory does not exist, is being written to, or cannot be removed, or if the sync fails.
    pub fn remove_dir(&self, progress: &Progress) -> Result<()> {
        self.store.remove_dir(&self.path, progress)
    }

    /// Removes the file.
    ///
    /// # Errors
    /// Fails if there is no file, or it cannot be removed.
    pub fn remove_file(&self, progress: &Progress) -> Result<()> {
        self.store.remove_file(&self.path, progress)
    }

    /// Finishes an interrupted write into the directory, and removes leftovers of killed processes
    /// in it and beside it. Live writers are not disturbed; one that is publishing is waited for.
    ///
    /// # Errors
    /// Fails if the directory cannot be opened, or a file cannot be published.
    /// If the directory cannot be opened, or a file cannot be put in its place.
    pub fn recover(&self) -> Result<Recovery> {
        self.store.recover(&self.path)
    }
}

/// Locations of the same store are equal if their paths are.
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

/// Creates the location of a path on the local file system.
#[cfg(unix)]
impl<P: AsRef<Path>> From<P> for Location {
    fn from(path: P) -> Self {
        Self::new(crate::local::store(), path.as_ref())
    }
}

/// Creates the location of a path. There are no local files, so that nothing is there.
#[cfg(target_family = "wasm")]
impl<P: AsRef<Path>> From<P> for Location {
    fn from(path: P) -> Self {
        Self::new(std::sync::Arc::new(crate::MemoryStore::default()), path.as_ref())
    }
}

/// Returns the scheme of an address, and what follows `://`; `None` for a local path, such as `a/b://c`.
pub fn scheme_of(path: &Path) -> Option<(&str, &str)> {
    let (scheme, rest) = path.to_str()?.split_once("://")?;
    let is_scheme = !scheme.is_empty() && scheme.bytes().all(|it| it.is_ascii_alphanumeric());
    is_scheme.then_some((scheme, rest))
}
