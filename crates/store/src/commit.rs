//! Publication of files.
//!
//! Every file is first written to an invisible location; an error, cancellation or drop removes it. When all of
//! them are durable they are published, so that readers find either all old or all new files. The mechanism is
//! specific to the store ([`Publisher`]); this module holds what is common to all: names, seals, and the
//! order.
//!
//! Only [`Commit::write_seal`] writes under the name of a seal. A file that a seal lists is replaced only by a
//! writer that [updates the seal](Commit::over_seals).

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::checks::SEAL;
use crate::chunked::{self, ChunkSink, Chunker};
use crate::contents::Contents;
use crate::names::{check_name, check_root, check_unreserved, target_of};
use crate::sealed::Sealed;
use crate::{
    Atomicity, Dir, Error, Links, Location, Output, Progress, Publisher, Result, Store,
    check_relative, internal,
};

/// Files being written, invisible until [`Commit::publish`].
#[derive(Debug)]
pub struct Commit {
    store: Arc<dyn Store>,
    publisher: Box<dyn Publisher>,
    /// The names of the written files, in that order.
    names: Names,
    /// The file that refers to the others.
    main: Option<PathBuf>,
    over_seals: bool,
    only_new: bool,
    progress: Progress,
}

/// Unique names in insertion order.
#[derive(Debug, Default)]
struct Names {
    known: std::collections::HashSet<PathBuf>,
    written: Vec<PathBuf>,
}

impl Names {
    fn add(&mut self, name: PathBuf) {
        self.known.insert(name.clone());
        self.written.push(name);
    }
}

impl Commit {
    /// Publishes into a directory, which may not exist yet. A directory that contains only files of the same names is
    /// replaced atomically, where the store supports it.
    ///
    /// # Errors
    /// Fails if neither the directory nor its parent can be opened or written to.
    pub fn directory(root: impl Into<Location>, progress: Progress) -> Result<Self> {
        let root = root.into().or_here();
        let publisher = root.store().stage_directory(root.path(), &progress)?;
        Ok(Self::of(&root, publisher, progress))
    }

    /// Publishes into an existing directory.
    ///
    /// # Errors
    /// Fails if the directory cannot be opened or written to.
    pub fn existing(root: impl Into<Location>, progress: Progress) -> Result<Self> {
        let root = root.into().or_here();
        check_root(root.path())?;
        let publisher = root.store().stage_into(root.path(), &progress)?;
        Ok(Self::of(&root, publisher, progress))
    }

    /// Publishes into a directory without replacing it as a whole, and creates it if it does not exist.
    ///
    /// # Errors
    /// The errors of [`existing`](Self::existing) and [`directory`](Self::directory).
    pub fn within(root: impl Into<Location>, progress: Progress) -> Result<Self> {
        let root = root.into();
        match root.is_dir()? {
            true => Self::existing(root, progress),
            false => Self::directory(root, progress),
        }
    }

    /// Publishes a single file; returns the commit and the name to pass to [`write`](Self::write).
    ///
    /// # Errors
    /// Fails if the parent directory cannot be opened or written to, or the path does not name a file.
    pub fn file(path: impl Into<Location>, progress: Progress) -> Result<(Self, String)> {
        let path = path.into();
        let (publisher, name) = path.store().stage_file(path.path(), &progress)?;
        let Some(name) = name.to_str().map(str::to_owned) else {
            return Err(Error::NotAFile {
                path: path.to_path_buf(),
                found: "a name that is not UTF-8",
            });
        };
        Ok((Self::of(&path, publisher, progress), name))
    }

    /// Adds files to the commit of another process: `staged` is the directory of its staged files, the empty name
    /// of [`staged`](Self::staged). [`publish`](Self::publish) makes the files durable; they become visible with those of
    /// the other process, after it has [adopted](Self::adopt) them.
    ///
    /// # Errors
    /// Fails if `staged` is not such a directory, cannot be written to, or is in a store that supports only one process.
    pub fn join(staged: impl Into<Location>, progress: Progress) -> Result<Self> {
        let staged = staged.into();
        let publisher = staged.store().join(staged.path(), &progress)?;
        Ok(Self::of(&staged, publisher, progress))
    }

    fn of(location: &Location, publisher: Box<dyn Publisher>, progress: Progress) -> Self {
        let store = Arc::clone(location.store());
        let names = Names::default();
        Self { store, publisher, names, main: None, over_seals: false, only_new: false, progress }
    }

    /// Returns the commit, which never replaces existing files: writing or publishing one of their names fails with
    /// [`Error::Exists`]. The seal of the directory is still updated.
    #[must_use]
    pub fn only_new(mut self, only_new: bool) -> Self {
        self.only_new = only_new;
        self
    }

    /// Returns the commit, which may replace files that seals list: its caller updates the seals.
    #[must_use]
    pub fn over_seals(mut self) -> Self {
        self.over_seals = true;
        self
    }

    /// Declares that the file `name` refers to the others. A store that cannot publish all files at once publishes it
    /// last. The default is the file that was written last, except for seals.
    pub fn refers(&mut self, name: &str) {
        self.main = Some(target_of(name));
    }

    /// Writes the file `name` (a relative path; subdirectories are created) with `fill`. The file is durable when it
    /// is published, but the system begins to write it to disk now.
    ///
    /// # Errors
    /// Fails if the name leads out of the directory or is [reserved](Error::Reserved), the store fails, or `fill`
    /// fails; the file is not published then.
    pub fn write<E: From<Error>>(
        &mut self,
        name: &str,
        fill: impl FnOnce(&mut Output) -> Result<(), E>,
    ) -> Result<(), E> {
        check_unreserved(name)?;
        self.write_any(name, fill)
    }

    /// Writes the seal of the directory with `fill`, as [`write`](Self::write) writes other files.
    ///
    /// # Errors
    /// Fails if the store or `fill` fails.
    pub fn write_seal<E: From<Error>>(
        &mut self,
        fill: impl FnOnce(&mut Output) -> Result<(), E>,
    ) -> Result<(), E> {
        self.write_any(SEAL, fill)
    }

    /// Writes the file `name` in chunks. Chunks that are new are published when the file is complete, in the
    /// [directory](crate::chunks_beside) beside that of the file. Readers open the file by its name.
    ///
    /// # Errors
    /// The errors of [`write`](Self::write); fails if the directory of chunks does not exist.
    pub fn write_chunked<E: From<Error>>(
        &mut self,
        name: &str,
        fill: impl FnOnce(&mut Output) -> Result<(), E>,
    ) -> Result<(), E> {
        check_unreserved(name)?;
        let target = self.check_free(name)?;
        let path = self.publisher.target(&target);
        // As readers find them.
        let directory = Location::new(Arc::clone(&self.store), path.clone()).directory();
        let chunker = Arc::new(Mutex::new(Chunker::new(chunked::chunks_beside(&directory))?));
        let sink = Box::new(ChunkSink(Arc::clone(&chunker)));
        let mut output = Output::new(sink, path, self.progress.clone(), None);
        fill(&mut output)?;
        output.close()?;
        let chunker = Arc::into_inner(chunker).map(Mutex::into_inner);
        let chunker = chunker.ok_or_else(|| internal("a sink outlives its file"))?;
        Ok(chunker.unwrap_or_else(PoisonError::into_inner).finish(name, self)?)
    }

    fn write_any<E: From<Error>>(
        &mut self,
        name: &str,
        fill: impl FnOnce(&mut Output) -> Result<(), E>,
    ) -> Result<(), E> {
        let target = self.check_free(name)?;
        let path = self.publisher.target(&target);
        let sink = self.publisher.create(&target)?;
        let contents = self.publisher.needs_contents().then(Contents::default);
        let mut file =
            Unfinished { publisher: &mut *self.publisher, target: &target, is_done: false };
        let mut output = Output::new(sink, path, self.progress.clone(), contents);
        fill(&mut output)?;
        let contents = output.close()?;
        file.publisher.keep(&target, contents);
        file.publisher.finish(&target)?;
        file.is_done = true;
        drop(file);
        self.names.add(target);
        Ok(())
    }

    /// Returns the path of a file of this name, which is not written yet.
    fn check_free(&self, name: &str) -> Result<PathBuf> {
        check_relative(name)?;
        let target = target_of(name);
        let path = self.publisher.target(&target);
        if self.names.known.contains(&target) {
            return Err(Error::Twice { path });
        }
        check_name(name, &target, &path)?;
        self.check_new(&target)?;
        Ok(target)
    }

    /// Adds the file `name`, which another process [wrote](Self::join) into the directory of staged files, and returns its
    /// size in bytes.
    ///
    /// # Errors
    /// Fails if the name is invalid or there is no such file.
    pub fn adopt(&mut self, name: &str) -> Result<u64> {
        check_unreserved(name)?;
        let target = self.check_free(name)?;
        let staged = Location::new(Arc::clone(&self.store), self.publisher.staged());
        let file = Dir::open(&staged, Links::Confined, false)?.open_source(name)?;
        let file = file.ok_or_else(|| {
            let missing = std::io::ErrorKind::NotFound.into();
            Error::io("open", self.publisher.target(&target))(missing)
        })?;
        // A file in chunks has a table instead.
        if staged.join(&target).is_there()? {
            self.names.add(target);
        } else {
            chunked::check(&staged.join(&target))?;
            let table = format!("{name}{}", chunked::SUFFIX);
            self.names.add(self.check_free(&table)?);
        }
        Ok(file.len())
    }

    /// Returns the location of the written file `name` until it is published, so that it can be opened and verified.
    /// Other written files are beside it under their names; the empty name is the location of their directory.
    pub fn staged(&self, name: &str) -> Option<Location> {
        let target = target_of(name);
        let written = self.names.known.contains(&target) || name.is_empty();
        let root = Location::new(Arc::clone(&self.store), self.publisher.staged());
        written.then(|| root.join(target))
    }

    /// Returns the names of the written files in that order, without `.` and doubled slashes.
    pub fn names(&self) -> Vec<String> {
        self.names.written.iter().map(|name| name.to_string_lossy().into_owned()).collect()
    }

    /// Returns the target directory, if it exists.
    pub fn root(&self) -> Option<Location> {
        let root = self.publisher.root()?;
        Some(Location::new(Arc::clone(&self.store), root))
    }

    /// Returns whether the path passed to [`file`](Self::file) is a symlink: its target has another name, and may be
    /// in another directory.
    pub fn is_through_link(&self) -> bool {
        self.publisher.is_through_link()
    }

    /// Makes all written files visible.
    ///
    /// # Errors
    /// Fails without any change if the work is cancelled or the store rejects the files. If the final sync of a
    /// directory fails, the new contents are visible but may not be durable. [`Error::Sealed`] if a seal lists a file
    /// that would be replaced, unless that is [allowed](Self::over_seals). [`Error::Replaces`] if there are several
    /// files and the store replaces only single files. [`Error::Unfinished`] if an unforeseen obstacle blocks one of
    /// several files: [`Location::recover`] and the next commit finish the rest.
    pub fn publish(mut self) -> Result<()> {
        self.sync()?;
        if self.names.written.is_empty() && self.publisher.root().is_some() {
            return Ok(());
        }
        self.publisher.lock()?;
        if self.only_new {
            self.publisher.require_new();
        }
        self.names.written.iter().try_for_each(|name| self.check_new(name))?;
        let mut sealed = Sealed::new(&self.store);
        let replaced: &[PathBuf] = if self.over_seals { &[] } else { &self.names.written };
        replaced.iter().try_for_each(|name| sealed.check(&self.publisher.target(name)))?;
        if self.store.atomicity() == Atomicity::AtomicObject {
            self.check_created()?;
            let mut parts = self.names.written.iter().filter(|name| *name != Path::new(SEAL));
            if let Some(main) = self.main.clone().or_else(|| parts.next_back().cloned()) {
                self.names.written.sort_by_key(|name| *name == main);
            }
        }
        self.publisher.publish(&self.names.written)
    }

    /// Fails if the file `name` exists and the commit must not replace files.
    fn check_new(&self, name: &Path) -> Result<()> {
        if !self.only_new || name == Path::new(SEAL) {
            return Ok(());
        }
        let path = self.publisher.target(name);
        if self.store.is_there(&path)? { Err(Error::Exists { path }) } else { Ok(()) }
    }

    /// Fails if one of several files would replace an existing one.
    fn check_created(&self) -> Result<()> {
        for name in self.names.written.iter().filter(|_| self.names.written.len() > 1) {
            let path = self.publisher.target(name);
            if self.store.is_there(&path)? {
                return Err(Error::Replaces { path });
            }
        }
        Ok(())
    }

    /// Waits until the written files are durable.
    ///
    /// # Errors
    /// Fails if the store fails or the work is cancelled.
    pub fn sync(&mut self) -> Result<()> {
        self.progress.advance(0)?;
        self.publisher.sync()
    }

    /// Locks the target directory, if it exists, against other commits until this one is published or dropped;
    /// waits for a commit that holds the lock. Meanwhile no other commit changes the directory. On file systems
    /// without locks, it has no effect.
    ///
    /// # Errors
    /// Fails if the directory was replaced or the work is cancelled, or with [`Error::Busy`].
    pub fn alone(&mut self) -> Result<()> {
        self.publisher.lock()
    }
}

/// A created file, which is discarded unless it was written completely.
struct Unfinished<'a> {
    publisher: &'a mut dyn Publisher,
    target: &'a Path,
    is_done: bool,
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        if !self.is_done {
            self.publisher.discard(self.target);
        }
    }
}

/// An exclusive advisory lock on a directory for a long-lived writer. On the local file system it is released when its
/// process ends, for whatever reason.
///
/// It does not block a [`Commit`] into the directory: only writers that take the lock exclude each other.
#[derive(Debug)]
pub struct WriterLock(Box<dyn crate::store::Held>);

impl WriterLock {
    /// Takes the lock of an existing directory without waiting. On file systems without locks, it always
    /// succeeds.
    ///
    /// # Errors
    /// [`Error::Locked`] if another writer holds it, in this process or elsewhere; other errors if the directory
    /// cannot be written to.
    pub fn take(directory: impl Into<Location>) -> Result<Self> {
        let directory = directory.into();
        directory.store().lock(directory.path()).map(Self)
    }

    /// Fails if the directory of the lock was removed or replaced, so that another writer may hold the lock of the
    /// new one.
    ///
    /// # Errors
    /// [`Error::Changed`], or an error of the file system.
    pub fn check(&self) -> Result<()> {
        self.0.check()
    }
}
