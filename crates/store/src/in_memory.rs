//! A store in the memory of this process: for models that are received or sent as bytes, for browsers, and to test
//! the contract of stores.

use std::collections::{BTreeMap, HashSet};
use std::ops::Bound;
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use crate::blob::to_usize;
use crate::checks::SEAL;
use crate::memory::reserve;
use crate::names::{SUFFIX, check_root};
use crate::store::{Atomicity, Folder, Held, Publisher, Sink};
use crate::{
    Entry, Error, FileId, Links, Listing, Location, Progress, ReadRange, Recovery, Result, Source,
    Stamp, StepKind, Store,
};

/// Files in memory, by relative path. Cheap to clone: clones share the files.
///
/// A directory exists while it has entries, or once it was published empty. Links are not
/// supported.
#[derive(Clone, Debug)]
pub struct MemoryStore(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// Distinguishes the files of this store from those of others.
    number: u64,
    atomicity: Atomicity,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    entries: BTreeMap<PathBuf, Node>,
    /// The number of files created so far.
    files: u64,
    /// Directories whose writer lock is held.
    locked: HashSet<PathBuf>,
    /// The number of staging directories created so far.
    staged: u64,
}

#[derive(Clone, Debug)]
enum Node {
    Directory,
    /// A file; each content has its own identity.
    File {
        bytes: Bytes,
        number: u64,
    },
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new(Atomicity::AtomicSet)
    }
}

impl MemoryStore {
    /// Creates an empty store with the given atomicity.
    pub fn new(atomicity: Atomicity) -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        Self(Arc::new(Shared { number, atomicity, state: Mutex::default() }))
    }

    /// Returns the location of a path in the store.
    pub fn location(&self, path: impl Into<PathBuf>) -> Location {
        Location::new(Arc::new(self.clone()), path)
    }

    /// Inserts or replaces a file.
    ///
    /// # Errors
    /// Fails if `path` is a directory, or a parent of `path` is a file.
    pub fn insert(&self, path: impl AsRef<Path>, bytes: impl Into<Bytes>) -> Result<()> {
        let (path, mut state) = (key(path.as_ref()), self.state());
        state.check_free(&path, path.as_path())?;
        state.put(path, bytes.into());
        Ok(())
    }

    /// Returns the content of a file.
    pub fn get(&self, path: impl AsRef<Path>) -> Option<Bytes> {
        match self.state().entries.get(&key(path.as_ref())) {
            Some(Node::File { bytes, .. }) => Some(bytes.clone()),
            _ => None,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No change of the state panics half way, so a poisoned lock is usable.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stage(&self, root: &Path, progress: &Progress) -> Result<MemoryPublisher> {
        let root = key(root);
        let staging = {
            let mut state = self.state();
            state.staged += 1;
            root.parent().unwrap_or(Path::new("")).join(format!(".memory.{}{SUFFIX}", state.staged))
        };
        progress.step(StepKind::Stage, &staging)?;
        let existing = self.state().is_dir(&root);
        Ok(MemoryPublisher {
            store: self.clone(),
            root,
            existing,
            staging,
            only_new: false,
            progress: progress.clone(),
        })
    }
}

/// Normalizes a path; `..` at the root has no effect.
fn key(path: &Path) -> PathBuf {
    let mut key = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(part) => key.push(part),
            Component::ParentDir => {
                key.pop();
            }
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    key
}

impl State {
    fn put(&mut self, path: PathBuf, bytes: Bytes) {
        self.files += 1;
        self.entries.insert(path, Node::File { bytes, number: self.files });
    }

    /// Returns all nodes at and below a path.
    fn below<'a>(&'a self, root: &'a Path) -> impl Iterator<Item = (&'a PathBuf, &'a Node)> {
        let from = (Bound::Included(root), Bound::Unbounded);
        self.entries.range::<Path, _>(from).take_while(move |(path, _)| path.starts_with(root))
    }

    fn is_dir(&self, path: &Path) -> bool {
        let is_file = matches!(self.entries.get(path), Some(Node::File { .. }));
        path.as_os_str().is_empty() || (!is_file && self.below(path).next().is_some())
    }

    fn file(&self, path: &Path) -> Option<(&Bytes, u64)> {
        match self.entries.get(path)? {
            Node::File { bytes, number } => Some((bytes, *number)),
            Node::Directory => None,
        }
    }

    /// Fails if `path` is a directory, or one of its parents is a file.
    fn check_free(&self, path: &Path, called: &Path) -> Result<()> {
        let not_a_file = |found| Error::NotAFile { path: called.to_path_buf(), found };
        if self.is_dir(path) {
            return Err(not_a_file("a directory"));
        }
        match path.ancestors().skip(1).any(|parent| self.file(parent).is_some()) {
            true => Err(not_a_file("a file in the place of its directory")),
            false => Ok(()),
        }
    }

    fn remove(&mut self, root: &Path) {
        self.entries.retain(|path, _| !path.starts_with(root));
    }
}

fn missing(action: &'static str, path: &Path) -> Error {
    Error::io(action, path)(std::io::ErrorKind::NotFound.into())
}

impl Store for MemoryStore {
    fn atomicity(&self) -> Atomicity {
        self.0.atomicity
    }

    fn open(&self, path: &Path, _mmap: bool) -> Result<Box<dyn Source>> {
        let (key, state) = (key(path), self.state());
        match state.file(&key) {
            Some((bytes, number)) => Ok(Box::new(MemoryFile {
                store: self.clone(),
                path: path.to_path_buf(),
                bytes: bytes.clone(),
                number,
            })),
            None if state.is_dir(&key) => {
                Err(Error::NotAFile { path: path.to_path_buf(), found: "a directory" })
            }
            None => Err(missing("open", path)),
        }
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        let (path, state) = (key(path), self.state());
        Ok(state.file(&path).is_some() || state.is_dir(&path))
    }

    fn is_there(&self, path: &Path) -> Result<bool> {
        self.exists(path)
    }

    fn is_dir(&self, path: &Path) -> Result<bool> {
        Ok(self.state().is_dir(&key(path)))
    }

    fn list(&self, path: &Path) -> Result<Vec<Entry>> {
        let (root, state) = (key(path), self.state());
        if !state.is_dir(&root) {
            return Err(missing("list", path));
        }
        let mut entries: Vec<Entry> = Vec::new();
        for (below, node) in state.below(&root) {
            let Ok(rest) = below.strip_prefix(&root) else { continue };
            let mut parts = rest.iter();
            let Some(name) = parts.next().and_then(|name| name.to_str()) else { continue };
            let is_dir = parts.next().is_some() || matches!(node, Node::Directory);
            let entry = Entry { name: name.to_owned(), is_dir };
            if entries.last() != Some(&entry) {
                entries.push(entry);
            }
        }
        Ok(entries)
    }

    fn stamp(&self, path: &Path) -> Result<Stamp> {
        let (key, state) = (key(path), self.state());
        let (len, number) = match state.file(&key) {
            Some((bytes, number)) => (bytes.len() as u64, number),
            None if state.is_dir(&key) => (0, 0),
            None => return Err(missing("inspect", path)),
        };
        Ok(Stamp { len, modified: (0, 0), id: FileId(self.0.number, number) })
    }

    fn folder(&self, path: &Path, _links: Links, _mmap: bool) -> Result<Box<dyn Folder>> {
        if !self.is_dir(path)? {
            return Err(missing("open the directory", path));
        }
        Ok(Box::new(MemoryFolder { store: self.clone(), path: path.to_path_buf() }))
    }

    fn stage_file(
        &self,
        path: &Path,
        progress: &Progress,
    ) -> Result<(Box<dyn Publisher>, PathBuf)> {
        let key = key(path);
        let (Some(root), Some(name)) = (key.parent(), key.file_name()) else {
            return Err(Error::NotAFile { path: path.to_path_buf(), found: "a directory" });
        };
        check_root(root)?;
        self.state().check_free(&key, path)?;
        if !self.is_dir(root)? {
            return Err(missing("open the directory", root));
        }
        Ok((Box::new(self.stage(root, progress)?), PathBuf::from(name)))
    }

    fn stage_directory(&self, path: &Path, progress: &Progress) -> Result<Box<dyn Publisher>> {
        check_root(path)?;
        let key = key(path);
        self.state().check_free(&key.join("file"), path)?;
        match key.parent() {
            Some(parent) if !self.is_dir(parent)? => Err(missing("open", parent)),
            _ => Ok(Box::new(self.stage(&key, progress)?)),
        }
    }

    fn stage_into(&self, path: &Path, progress: &Progress) -> Result<Box<dyn Publisher>> {
        match self.is_dir(path)? {
            true => Ok(Box::new(self.stage(path, progress)?)),
            false => Err(missing("open the directory", path)),
        }
    }

    fn lock(&self, directory: &Path) -> Result<Box<dyn Held>> {
        let (path, mut state) = (key(directory), self.state());
        if !state.is_dir(&path) {
            return Err(missing("lock", directory));
        }
        match state.locked.insert(path.clone()) {
            true => Ok(Box::new(MemoryLock { store: self.clone(), path })),
            false => Err(Error::Locked { path: directory.to_path_buf() }),
        }
    }

    fn remove_dir(&self, path: &Path, progress: &Progress) -> Result<()> {
        if !self.is_dir(path)? {
            return Err(missing("remove", path));
        }
        progress.step(StepKind::Retire, path)?;
        self.state().remove(&key(path));
        Ok(())
    }

    fn remove_file(&self, path: &Path, progress: &Progress) -> Result<()> {
        progress.step(StepKind::Remove, path)?;
        if self.get(path).is_none() {
            return Err(missing("remove", path));
        }
        self.state().remove(&key(path));
        Ok(())
    }

    fn recover(&self, path: &Path) -> Result<Recovery> {
        // Writers end with this process, so nothing is left over.
        match self.is_dir(path)? {
            true => Ok(Recovery::default()),
            false => Err(missing("open the directory", path)),
        }
    }
}

/// A file as it was when it was opened.
#[derive(Debug)]
struct MemoryFile {
    store: MemoryStore,
    path: PathBuf,
    bytes: Bytes,
    number: u64,
}

impl Source for MemoryFile {
    fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn identity(&self) -> FileId {
        FileId(self.store.0.number, self.number)
    }

    fn read_ranges(&self, ranges: &mut [ReadRange<'_>]) -> Result<()> {
        for ReadRange { offset, buffer } in ranges {
            let (start, len) = (to_usize(*offset), buffer.len());
            let Some(from) = self.bytes.get(start..).and_then(|rest| rest.get(..len)) else {
                let what = format!("it ends before byte {}", offset.saturating_add(len as u64));
                return Err(Error::Changed { path: self.path.clone(), what });
            };
            buffer.copy_from_slice(from);
        }
        Ok(())
    }

    fn shared(&self, offset: u64, len: u64) -> Option<Bytes> {
        let (start, end) = (to_usize(offset), to_usize(offset.checked_add(len)?));
        (start <= end && end <= self.bytes.len()).then(|| self.bytes.slice(start..end))
    }

    fn check_unchanged(&self) -> Result<()> {
        // The source holds its own bytes, which cannot change.
        Ok(())
    }

    fn check_in_place(&self) -> Result<()> {
        match self.store.stamp(&self.path)?.id == self.identity() {
            true => Ok(()),
            false => Err(Error::Changed {
                path: self.path.clone(),
                what: "it was replaced by another file".to_owned(),
            }),
        }
    }
}

#[derive(Debug)]
struct MemoryFolder {
    store: MemoryStore,
    path: PathBuf,
}

impl Folder for MemoryFolder {
    fn open(&self, name: &str) -> Result<Option<Box<dyn Source>>> {
        let path = self.path.join(name);
        if !self.store.exists(&path)? {
            return Ok(None);
        }
        self.store.open(&path, true).map(Some)
    }

    fn everything(&self, max: usize) -> Result<Listing> {
        let (root, state) = (key(&self.path), self.store.state());
        let mut found = Listing::default();
        let files = state.below(&root).filter(|(_, node)| matches!(node, Node::File { .. }));
        for (path, _) in files {
            if found.files.len() + found.others.len() == max {
                let (path, what) = (self.path.clone(), "more entries than a model may have");
                return Err(Error::NotAFile { path, found: what });
            }
            let Ok(name) = path.strip_prefix(&root) else { continue };
            match name.to_str() {
                Some(name) => found.files.push(name.to_owned()),
                None => {
                    let name = name.to_string_lossy().into_owned();
                    found.others.push((name, "its name is not UTF-8"));
                }
            }
        }
        Ok(found)
    }
}

#[derive(Debug)]
struct MemoryPublisher {
    store: MemoryStore,
    root: PathBuf,
    /// Whether the root existed when it was opened.
    existing: bool,
    /// The location of files until they are published.
    staging: PathBuf,
    /// Whether no existing file may be replaced.
    only_new: bool,
    progress: Progress,
}

impl Publisher for MemoryPublisher {
    fn root(&self) -> Option<&Path> {
        self.existing.then_some(&self.root)
    }

    fn target(&self, name: &Path) -> PathBuf {
        self.root.join(name)
    }

    fn staged(&self) -> PathBuf {
        self.staging.clone()
    }

    fn create(&mut self, name: &Path) -> Result<Box<dyn Sink>> {
        let target = self.target(name);
        self.store.state().check_free(&target, &target)?;
        self.progress.step(StepKind::Create, &target)?;
        let staged = self.staging.join(name);
        Ok(Box::new(MemorySink { store: self.store.clone(), staged, bytes: Vec::new() }))
    }

    fn finish(&mut self, _name: &Path) -> Result<()> {
        Ok(())
    }

    fn require_new(&mut self) {
        self.only_new = true;
    }

    fn discard(&mut self, name: &Path) {
        self.store.state().entries.remove(&self.staging.join(name));
    }

    fn sync(&mut self) -> Result<()> {
        Ok(())
    }

    fn lock(&mut self) -> Result<()> {
        // Publishing is a single step, so no lock is needed.
        Ok(())
    }

    fn publish(&mut self, names: &[PathBuf]) -> Result<()> {
        match self.store.0.atomicity {
            Atomicity::AtomicObject if names.len() > 1 => names.iter().try_for_each(|name| {
                self.progress.step(StepKind::Replace, &self.target(name))?;
                self.publish_all(std::slice::from_ref(name), names.len())
            }),
            _ => {
                let kind = if self.existing { StepKind::Replace } else { StepKind::Appear };
                self.progress.step(kind, &self.root)?;
                self.publish_all(names, names.len())
            }
        }
    }
}

impl MemoryPublisher {
    /// Publishes files in one step; `of` is the number of files in the commit.
    fn publish_all(&self, names: &[PathBuf], of: usize) -> Result<()> {
        let mut state = self.store.state();
        // Another writer may have created the directory meanwhile.
        let is_new = !self.existing && self.store.0.atomicity == Atomicity::AtomicSet;
        if is_new && state.is_dir(&self.root) {
            let error = std::io::ErrorKind::AlreadyExists.into();
            return Err(Error::io("publish", &self.root)(error));
        }
        for name in names {
            let target = self.target(name);
            state.check_free(&target, &target)?;
            let created = self.store.0.atomicity == Atomicity::AtomicObject && of > 1;
            if created && state.file(&target).is_some() {
                return Err(Error::Replaces { path: target });
            }
            if self.only_new && name != Path::new(SEAL) && state.file(&target).is_some() {
                return Err(Error::Exists { path: target });
            }
            if state.file(&self.staging.join(name)).is_none() {
                return Err(missing("publish", &target));
            }
        }
        for name in names {
            if let Some(file) = state.entries.remove(&self.staging.join(name)) {
                state.entries.insert(self.target(name), file);
            }
        }
        if names.is_empty() {
            state.entries.insert(self.root.clone(), Node::Directory);
        }
        Ok(())
    }
}

impl Drop for MemoryPublisher {
    fn drop(&mut self) {
        self.store.state().remove(&self.staging);
    }
}

/// A file that is inserted at its staging path when it is closed.
#[derive(Debug)]
struct MemorySink {
    store: MemoryStore,
    staged: PathBuf,
    bytes: Vec<u8>,
}

impl Sink for MemorySink {
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        reserve(&mut self.bytes, bytes.len())?;
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> Result<()> {
        let start = to_usize(offset);
        let there = self.bytes.get_mut(start..).and_then(|rest| rest.get_mut(..bytes.len()));
        let there = there.ok_or_else(|| missing("write", &self.staged))?;
        there.copy_from_slice(bytes);
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.store.state().put(self.staged, self.bytes.into());
        Ok(())
    }
}

#[derive(Debug)]
struct MemoryLock {
    store: MemoryStore,
    path: PathBuf,
}

impl Held for MemoryLock {
    fn check(&self) -> Result<()> {
        match self.store.is_dir(&self.path)? {
            true => Ok(()),
            false => Err(missing("inspect", &self.path)),
        }
    }
}

impl Drop for MemoryLock {
    fn drop(&mut self) {
        self.store.state().locked.remove(&self.path);
    }
}
