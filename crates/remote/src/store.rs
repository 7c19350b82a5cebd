//! The store: paths, and what is known about the objects behind them.
//!
//! Opening a model looks at many names: whether a path exists, is a directory, has files beside it. Answers are kept until
//! this store writes, so each costs at most one request. To see what others have changed, open the location anew.

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::fmt;
use std::future::Future;
use std::hash::{Hash, Hasher};
use std::ops::Range;
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lodstone_store::{
    Atomicity, Blob, Entry, Error, FileId, Folder, Held, Links, Progress, Publisher, Recovery,
    Result, Source, Stamp, StepKind, Store, is_hidden,
};

use crate::backend::{Answer, Backend, Version};
use crate::cache::Cache;
use crate::folder::RemoteFolder;
use crate::io::Runtime;
use crate::lock::Lock;
use crate::publisher::RemotePublisher;
use crate::source::{RemoteFile, StagedFile};
use crate::{Fault, Options};

/// The size of the first read of an object: the headers of most models fit.
pub(crate) const HEAD: u64 = 64 << 10;

/// The object that marks an empty directory.
pub(crate) const MARKER: &str = ".directory.lodstone";

/// The object by which a writer holds a directory.
pub(crate) const LOCK: &str = ".lock.lodstone";

/// A remote store. Cheap to clone: clones share connections and what is known.
#[derive(Clone)]
pub(crate) struct RemoteStore(pub(crate) Arc<Shared>);

pub(crate) struct Shared {
    pub(crate) backend: Backend,
    /// The beginning of all paths, such as `s3://bucket`.
    pub(crate) root: String,
    pub(crate) runtime: Runtime,
    pub(crate) options: Options,
    pub(crate) cache: Mutex<Cache>,
    known: Mutex<Known>,
    /// Written files that are not published yet, by key.
    staged: Mutex<HashMap<String, Blob>>,
    /// The number of staging directories so far.
    stages: AtomicU64,
}

#[derive(Debug, Default)]
struct Known {
    /// Objects, and names without one.
    objects: HashMap<String, Option<Object>>,
    directories: HashMap<String, bool>,
    listings: HashMap<String, Option<Vec<Entry>>>,
    /// The number of objects that were opened, not counting those in `objects`.
    opened: u64,
}

/// An object at a moment.
#[derive(Clone, Debug)]
pub(crate) struct Object {
    pub(crate) version: Version,
    pub(crate) id: FileId,
}

/// How much of an object is read when it is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opening {
    /// Its first bytes, which are needed next.
    Head,
    /// One byte, for its size.
    Size,
}

impl fmt::Debug for RemoteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RemoteStore({})", self.0.root)
    }
}

impl RemoteStore {
    /// Creates a store whose paths begin with `root`.
    pub(crate) fn new(backend: Backend, root: String, options: &Options) -> Result<Self, Fault> {
        Ok(Self(Arc::new(Shared {
            backend,
            root,
            runtime: Runtime::get()?,
            options: options.clone(),
            cache: Mutex::new(Cache::new(options.max_cached)),
            known: Mutex::default(),
            staged: Mutex::default(),
            stages: AtomicU64::new(0),
        })))
    }

    /// Runs a request on the I/O thread, and waits for it.
    pub(crate) fn call<T, F>(&self, work: impl FnOnce(Arc<Shared>) -> F) -> Result<T, Fault>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Fault>> + Send + 'static,
    {
        self.0.runtime.call(&self.0.options.interrupt, work(Arc::clone(&self.0)))
    }

    /// Returns the key of a path: without the root, normalized; `..` at the root has no effect.
    pub(crate) fn key(&self, path: &Path) -> String {
        let mut key: Vec<&str> = Vec::new();
        for part in path.strip_prefix(&self.0.root).unwrap_or(path).components() {
            match part {
                Component::Normal(part) => key.extend(part.to_str()),
                Component::ParentDir => {
                    key.pop();
                }
                Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
            }
        }
        key.join("/")
    }

    /// Returns the path of a key.
    pub(crate) fn path(&self, key: &str) -> PathBuf {
        match key.is_empty() {
            true => PathBuf::from(&self.0.root),
            false => PathBuf::from(format!("{}/{key}", self.0.root)),
        }
    }

    /// Forgets everything that a write, also by others, may have changed.
    pub(crate) fn forget(&self) {
        let mut known = self.known();
        let opened = known.opened + known.objects.len() as u64;
        *known = Known { opened, ..Known::default() };
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        // No change of it panics half way.
        self.0.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn staged(&self) -> MutexGuard<'_, HashMap<String, Blob>> {
        self.0.staged.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn cache(&self) -> MutexGuard<'_, Cache> {
        self.0.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the object of a key; `None` if there is none.
    pub(crate) fn object(&self, key: &str, opening: Opening) -> Result<Option<Object>, Fault> {
        if key.is_empty() {
            return Ok(None);
        }
        {
            let known = self.known();
            if let Some(object) = known.objects.get(key) {
                return Ok(object.clone());
            }
            // Nothing is below a directory that does not exist.
            let mut above = parents(key);
            if above.any(|parent| known.directories.get(parent) == Some(&false)) {
                return Ok(None);
            }
            let max = self.0.options.max_objects;
            if known.objects.len() as u64 + known.opened >= max {
                return Err(Fault::Limit(format!("at most {max} objects that are opened")));
            }
        }
        let range = 0..if opening == Opening::Head { HEAD } else { 1 };
        let found = match self.fetch(key, range, None) {
            Ok(Answer { start, bytes, version }) => {
                let id = self.identity(key, &version);
                self.cache().insert(id, start, bytes);
                Some(Object { version, id })
            }
            Err(Fault::Missing) => None,
            Err(fault) => return Err(fault),
        };
        let mut known = self.known();
        if found.is_some() {
            known.directories.extend(parents(key).map(|parent| (parent.to_owned(), true)));
        }
        known.objects.insert(key.to_owned(), found.clone());
        Ok(found)
    }

    /// Reads a range of an object.
    pub(crate) fn fetch(
        &self,
        key: &str,
        range: Range<u64>,
        known: Option<Version>,
    ) -> Result<Answer, Fault> {
        let key = key.to_owned();
        self.call(|shared| async move { shared.backend.get(&key, range, known.as_ref()).await })
    }

    /// Returns the identity of the content of an object.
    fn identity(&self, key: &str, version: &Version) -> FileId {
        let half = |salt: u8| {
            let mut hasher = DefaultHasher::new();
            (salt, &self.0.root, key, version.size).hash(&mut hasher);
            match &version.tag {
                Some(tag) => tag.hash(&mut hasher),
                None => version.modified.hash(&mut hasher),
            }
            hasher.finish()
        };
        FileId(half(0), half(1))
    }

    /// Returns whether the server has directories: web servers only have files.
    fn has_directories(&self) -> bool {
        !matches!(&self.0.backend, Backend::Web(web) if !web.lists())
    }

    /// Returns whether a key is a directory.
    pub(crate) fn has_dir(&self, key: &str) -> Result<bool, Fault> {
        if is_staged(key) {
            return Ok(!self.staged_entries(key).is_empty());
        }
        if !self.has_directories() {
            return Ok(false);
        }
        if key.is_empty() {
            return Ok(true);
        }
        {
            let known = self.known();
            if let Some(is_dir) = known.directories.get(key) {
                return Ok(*is_dir);
            }
            if matches!(known.objects.get(key), Some(Some(_))) {
                return Ok(false);
            }
            if parents(key).any(|parent| known.directories.get(parent) == Some(&false)) {
                return Ok(false);
            }
        }
        let name = key.to_owned();
        let is_dir = self.call(|shared| async move { shared.backend.is_dir(&name).await })?;
        let mut known = self.known();
        known.directories.insert(key.to_owned(), is_dir);
        if is_dir {
            known.directories.extend(parents(key).map(|parent| (parent.to_owned(), true)));
        }
        Ok(is_dir)
    }

    /// Returns the entries of a directory; `None` if there is none.
    fn entries(&self, key: &str) -> Result<Option<Vec<Entry>>, Fault> {
        if let Some(entries) = self.known().listings.get(key) {
            return Ok(entries.clone());
        }
        let name = key.to_owned();
        let found = self.call(|shared| async move { shared.backend.list(&name).await })?;
        let mut known = self.known();
        known.directories.insert(key.to_owned(), found.is_some());
        for entry in found.iter().flatten() {
            let name =
                if key.is_empty() { entry.name.clone() } else { format!("{key}/{}", entry.name) };
            known.directories.entry(name).or_insert(entry.is_dir);
        }
        known.listings.insert(key.to_owned(), found.clone());
        Ok(found)
    }

    /// Fails if a file cannot be at `key`, because a directory is there, or a file in the place of its directory.
    pub(crate) fn check_free(&self, key: &str) -> Result<()> {
        let path = self.path(key);
        let not_a_file = |found| Error::NotAFile { path: self.path(key), found };
        if self.has_dir(key).map_err(|fault| fault.at("inspect", &path))? {
            return Err(not_a_file("a directory"));
        }
        self.check_above(key)
    }

    /// Fails if a file is in the place of a directory above `key`.
    fn check_above(&self, key: &str) -> Result<()> {
        for parent in parents(key) {
            let path = self.path(parent);
            let at = |fault: Fault| fault.at("inspect", &path);
            if !self.has_dir(parent).map_err(at)?
                && self.object(parent, Opening::Size).map_err(at)?.is_some()
            {
                let found = "a file in the place of its directory";
                return Err(Error::NotAFile { path: self.path(key), found });
            }
        }
        Ok(())
    }

    /// Makes a staged file available under its key.
    pub(crate) fn stage(&self, key: String, contents: Blob) {
        self.staged().insert(key, contents);
    }

    /// Removes staged files at and below a key.
    pub(crate) fn unstage(&self, key: &str) {
        self.staged().retain(|staged, _| !is_at_or_below(staged, key));
    }

    /// Returns the entries of a staged directory.
    fn staged_entries(&self, key: &str) -> Vec<Entry> {
        let staged = self.staged();
        let mut entries: Vec<Entry> = staged
            .keys()
            .filter_map(|name| name.strip_prefix(key)?.strip_prefix('/'))
            .map(|rest| match rest.split_once('/') {
                Some((name, _)) => Entry { name: name.to_owned(), is_dir: true },
                None => Entry { name: rest.to_owned(), is_dir: false },
            })
            .collect();
        entries.sort();
        entries.dedup();
        entries
    }

    /// Opens a file.
    pub(crate) fn open_key(
        &self,
        key: &str,
        path: &Path,
        opening: Opening,
    ) -> Result<Option<Box<dyn Source>>> {
        if is_staged(key) {
            let blob = self.staged().get(key).cloned();
            return Ok(blob.map(|blob| Box::new(StagedFile::new(path, blob)) as _));
        }
        let at = |fault: Fault| fault.at("open", path);
        let found = self.object(key, opening).map_err(at)?;
        let file = |object| {
            let (store, key, path) = (self.clone(), key.to_owned(), path.to_path_buf());
            Box::new(RemoteFile::new(store, key, path, object)) as _
        };
        Ok(found.map(file))
    }

    fn publisher(&self, root: &Path, progress: &Progress) -> Result<RemotePublisher> {
        self.0.backend.bucket().map_err(|fault| fault.at("write to", root))?;
        if root.iter().any(|part| part.to_str().is_some_and(is_hidden)) {
            let found = "a name that is reserved for files in progress";
            return Err(Error::NotAFile { path: root.to_path_buf(), found });
        }
        let number = self.0.stages.fetch_add(1, Ordering::Relaxed);
        let staging = format!("{STAGED}{number}.lodstone");
        progress.step(StepKind::Stage, &self.path(&staging))?;
        let is_there = self.has_dir(&self.key(root)).map_err(|fault| fault.at("inspect", root))?;
        Ok(RemotePublisher::new(self.clone(), root.to_path_buf(), is_there, staging, progress))
    }
}

/// The beginning of the keys of staging directories, which exist only in this process.
const STAGED: &str = ".staged.";

fn is_staged(key: &str) -> bool {
    key.starts_with(STAGED)
}

/// Returns the directories above a key, innermost first, without the root.
fn parents(key: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(key.rsplit_once('/'), |(parent, _)| parent.rsplit_once('/'))
        .map(|(parent, _)| parent)
}

fn is_at_or_below(key: &str, directory: &str) -> bool {
    key.strip_prefix(directory).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn missing(action: &'static str, path: &Path) -> Error {
    Error::io(action, path)(std::io::ErrorKind::NotFound.into())
}

impl Store for RemoteStore {
    fn atomicity(&self) -> Atomicity {
        Atomicity::AtomicObject
    }

    fn implies_parents(&self) -> bool {
        true
    }

    fn open(&self, path: &Path, _mmap: bool) -> Result<Box<dyn Source>> {
        let key = self.key(path);
        if let Some(source) = self.open_key(&key, path, Opening::Head)? {
            return Ok(source);
        }
        match self.has_dir(&key) {
            Ok(true) => Err(Error::NotAFile { path: path.to_path_buf(), found: "a directory" }),
            _ => Err(Fault::Missing.at("open", path)),
        }
    }

    /// If that is unknown, opening the path reports why, or works: some servers answer only requests for the contents.
    fn exists(&self, path: &Path) -> Result<bool> {
        Ok(self.is_there(path).unwrap_or(true))
    }

    fn is_there(&self, path: &Path) -> Result<bool> {
        let key = self.key(path);
        if is_staged(&key) {
            return Ok(self.staged().keys().any(|staged| is_at_or_below(staged, &key)));
        }
        let at = |fault: Fault| fault.at("inspect", path);
        // A directory that is known costs no request.
        if self.known().directories.get(&key) == Some(&true) {
            return Ok(true);
        }
        Ok(self.object(&key, Opening::Head).map_err(at)?.is_some()
            || self.has_dir(&key).map_err(at)?)
    }

    fn is_dir(&self, path: &Path) -> Result<bool> {
        match self.has_dir(&self.key(path)) {
            // Those who may not list directories can still open files.
            Err(Fault::Denied { .. }) => Ok(false),
            found => found.map_err(|fault| fault.at("inspect", path)),
        }
    }

    fn list(&self, path: &Path) -> Result<Vec<Entry>> {
        let key = self.key(path);
        if is_staged(&key) {
            return Ok(self.staged_entries(&key));
        }
        let entries = self.entries(&key).map_err(|fault| fault.at("list", path))?;
        entries.ok_or_else(|| missing("list", path))
    }

    fn stamp(&self, path: &Path) -> Result<Stamp> {
        let key = self.key(path);
        let at = |fault: Fault| fault.at("inspect", path);
        if let Some(Object { version, id }) = self.object(&key, Opening::Size).map_err(at)? {
            return Ok(Stamp { len: version.size, modified: (version.seconds, 0), id });
        }
        match self.has_dir(&key).map_err(at)? {
            true => Ok(Stamp { len: 0, modified: (0, 0), id: FileId(0, 0) }),
            false => Err(missing("inspect", path)),
        }
    }

    fn seal_directories(&self, path: &Path) -> Vec<(PathBuf, PathBuf)> {
        let key = self.key(path);
        if is_staged(&key) {
            return Vec::new();
        }
        let parts: Vec<&str> = key.split('/').filter(|part| !part.is_empty()).collect();
        let split = |at: usize| {
            let (above, below) = parts.split_at(at);
            (self.path(&above.join("/")), PathBuf::from(below.join("/")))
        };
        (0..=parts.len()).rev().map(split).collect()
    }

    fn folder(&self, path: &Path, _links: Links, _mmap: bool) -> Result<Box<dyn Folder>> {
        let key = self.key(path);
        if self.has_directories() && !self.is_dir(path)? {
            return Err(missing("open the directory", path));
        }
        Ok(Box::new(RemoteFolder { store: self.clone(), key, path: path.to_path_buf() }))
    }

    fn stage_file(
        &self,
        path: &Path,
        progress: &Progress,
    ) -> Result<(Box<dyn Publisher>, PathBuf)> {
        let key = self.key(path);
        let Some(name) = key.rsplit('/').next().filter(|name| !name.is_empty()) else {
            return Err(Error::NotAFile { path: path.to_path_buf(), found: "a directory" });
        };
        let root = path.parent().unwrap_or(Path::new(""));
        let publisher = self.publisher(root, progress)?;
        self.check_free(&key)?;
        Ok((Box::new(publisher), PathBuf::from(name)))
    }

    fn stage_directory(&self, path: &Path, progress: &Progress) -> Result<Box<dyn Publisher>> {
        let publisher = self.publisher(path, progress)?;
        self.check_above(&format!("{}/file", self.key(path)))?;
        Ok(Box::new(publisher))
    }

    fn stage_into(&self, path: &Path, progress: &Progress) -> Result<Box<dyn Publisher>> {
        let publisher = self.publisher(path, progress)?;
        match self.is_dir(path)? {
            true => Ok(Box::new(publisher)),
            false => Err(missing("open the directory", path)),
        }
    }

    fn lock(&self, directory: &Path) -> Result<Box<dyn Held>> {
        self.forget();
        if !self.is_dir(directory)? {
            return Err(missing("lock", directory));
        }
        Ok(Box::new(Lock::take(self, directory)?))
    }

    fn remove_dir(&self, path: &Path, progress: &Progress) -> Result<()> {
        self.forget();
        let at = |fault: Fault| fault.at("remove", path);
        let key = self.key(path);
        if key.is_empty() || !self.has_dir(&key).map_err(at)? {
            return Err(missing("remove", path));
        }
        progress.step(StepKind::Retire, path)?;
        let removed = self.call(|shared| async move {
            let bucket = shared.backend.bucket()?;
            let all = bucket.everything(&key, usize::MAX - 1).await?;
            // What refers to other files is not below them: manifests and indices are removed first.
            let (first, rest): (Vec<_>, Vec<_>) = all
                .into_iter()
                .partition(|found| !found.get(key.len() + 1..).unwrap_or("").contains('/'));
            bucket.delete(first).await?;
            bucket.delete(rest).await
        });
        self.forget();
        removed.map_err(at)
    }

    fn remove_file(&self, path: &Path, progress: &Progress) -> Result<()> {
        self.stamp(path)?;
        progress.step(StepKind::Remove, path)?;
        let key = self.key(path);
        let removed =
            self.call(|shared| async move { shared.backend.bucket()?.delete(vec![key]).await });
        self.forget();
        removed.map_err(|fault: Fault| fault.at("remove", path))
    }

    fn recover(&self, path: &Path) -> Result<Recovery> {
        // Unfinished uploads are invisible, and the server removes them (docs/remote.md).
        self.forget();
        match self.is_dir(path)? {
            true => Ok(Recovery::default()),
            false => Err(missing("open the directory", path)),
        }
    }
}
