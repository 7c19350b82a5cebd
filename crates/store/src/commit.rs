//! The one way to publish.
//!
//! Every file is written where nobody sees it; an error, a cancel or a drop removes it. When all of
//! them are durable they are published, so that readers find all of the old or all of the new. How is
//! the store's own matter ([`Publisher`]); here is what holds for each: names, seals, and the
//! order.
//!
//! Nothing is written under the name of a seal but by [`Commit::write_seal`]; and a file that a seal
//! lists is replaced only by a writer that [brings the seal up to date](Commit::over_seals).

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::checks::SEAL;
use crate::names::{check_name, check_root, check_unreserved, target_of};
use crate::sealed::Sealed;
use crate::{
    Atomicity, Error, Location, Output, Progress, Publisher, Result, Store, check_relative,
};

/// Files being written, not visible before [`Commit::publish`].
#[derive(Debug)]
pub struct Commit {
    store: Arc<dyn Store>,
    publisher: Box<dyn Publisher>,
    /// What was written, in that order.
    names: Names,
    /// The file that refers to the others.
    main: Option<PathBuf>,
    over_seals: bool,
    only_new: bool,
    progress: Progress,
}

/// Names in order, none twice.
#[derive(Debug, Default)]
struct Names {
    known: std::collections::HashSet<PathBuf>,
    written: Vec<PathBuf>,
}

impl Commit {
    /// Publishes into a directory, which may not exist yet. One that exists and holds nothing else than
    /// what is written is replaced at once, where the store can.
    ///
    /// # Errors
    /// If neither it nor its parent can be opened, or written to.
    pub fn directory(root: impl Into<Location>, progress: Progress) -> Result<Self> {
        let root = root.into().or_here();
        let publisher = root.store().stage_directory(root.path(), &progress)?;
        Ok(Self::of(&root, publisher, progress))
    }

    /// Publishes into a directory that has to exist.
    ///
    /// # Errors
    /// If it cannot be opened, or written to.
    pub fn existing(root: impl Into<Location>, progress: Progress) -> Result<Self> {
        let root = root.into().or_here();
        check_root(root.path())?;
        let publisher = root.store().stage_into(root.path(), &progress)?;
        Ok(Self::of(&root, publisher, progress))
    }

    /// Publishes into a directory beside what it holds, and makes it if it does not exist.
    ///
    /// # Errors
    /// As [`existing`](Self::existing) and [`directory`](Self::directory).
    pub fn within(root: impl Into<Location>, progress: Progress) -> Result<Self> {
        let root = root.into();
        match root.is_dir() {
            true => Self::existing(root, progress),
            false => Self::directory(root, progress),
        }
    }

    /// Publishes one file; returns the commit and the name to [`write`](Self::write) it under.
    ///
    /// # Errors
    /// If its directory cannot be opened or written to, or the path names no file.
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

    fn of(location: &Location, publisher: Box<dyn Publisher>, progress: Progress) -> Self {
        let store = Arc::clone(location.store());
        let names = Names::default();
        Self { store, publisher, names, main: None, over_seals: false, only_new: false, progress }
    }

    /// The same, but existing files are never replaced: writing or publishing one of their names fails with
    /// [`Error::Exists`]. The seal of the directory is still brought up to date.
    #[must_use]
    pub fn only_new(mut self, only_new: bool) -> Self {
        self.only_new = only_new;
        self
    }

    /// The same, to replace files that seals list: its caller brings the seals up to date.
    #[must_use]
    pub fn over_seals(mut self) -> Self {
        self.over_seals = true;
        self
    }

    /// Declares that the file `name` refers to the others: where a store cannot publish all at once, it is
    /// the last. By default that is the one written last, seals aside.
    pub fn refers(&mut self, name: &str) {
        self.main = Some(target_of(name));
    }

    /// Writes the file `name` (relative; subdirectories are made) with `fill`. It is durable when it
    /// is published, and the system begins to write it to the disk now.
    ///
    /// # Errors
    /// If the name leads out of the directory or is [reserved](Error::Reserved), the store fails, or `fill`
    /// fails: then the file is not among those that are published.
    pub fn write<E: From<Error>>(
        &mut self,
        name: &str,
        fill: impl FnOnce(&mut Output) -> Result<(), E>,
    ) -> Result<(), E> {
        check_unreserved(name)?;
        self.write_any(name, fill)
    }

    /// Writes the seal of the directory with `fill`, as [`write`](Self::write) does other files.
    ///
    /// # Errors
    /// If the store or `fill` fails.
    pub fn write_seal<E: From<Error>>(
        &mut self,
        fill: impl FnOnce(&mut Output) -> Result<(), E>,
    ) -> Result<(), E> {
        self.write_any(SEAL, fill)
    }

    fn write_any<E: From<Error>>(
        &mut self,
        name: &str,
        fill: impl FnOnce(&mut Output) -> Result<(), E>,
    ) -> Result<(), E> {
        check_relative(name)?;
        let target = target_of(name);
        let path = self.publisher.target(&target);
        if self.names.known.contains(&target) {
            return Err(Error::Twice { path }.into());
        }
        check_name(name, &target, &path)?;
        self.check_new(&target)?;
        let sink = self.publisher.create(&target)?;
        let mut file =
            Unfinished { publisher: &mut *self.publisher, target: &target, is_done: false };
        let mut output = Output::new(sink, path, self.progress.clone());
        fill(&mut output)?;
        output.close()?;
        file.publisher.finish(&target)?;
        file.is_done = true;
        drop(file);
        self.names.known.insert(target.clone());
        self.names.written.push(target);
        Ok(())
    }

    /// Where the file `name` is until it is published, if it was written: to be opened, and compared
    /// with what it should be. Its neighbours have their names there too; the empty name is that of
    /// the directory that they are in.
    pub fn staged(&self, name: &str) -> Option<Location> {
        let target = target_of(name);
        let written = self.names.known.contains(&target) || name.is_empty();
        let root = Location::new(Arc::clone(&self.store), self.publisher.staged());
        written.then(|| root.join(target))
    }

    /// The names of what was written, in that order, without `.` and doubled slashes.
    pub fn names(&self) -> Vec<String> {
        self.names.written.iter().map(|name| name.to_string_lossy().into_owned()).collect()
    }

    /// The directory that is written to, if it exists.
    pub fn root(&self) -> Option<Location> {
        let root = self.publisher.root()?;
        Some(Location::new(Arc::clone(&self.store), root))
    }

    /// Whether the path of [`file`](Self::file) is a symbolic link: what it leads to has another
    /// name, and may be in another directory.
    pub fn is_through_link(&self) -> bool {
        self.publisher.is_through_link()
    }

    /// Makes everything that was written visible.
    ///
    /// # Errors
    /// If the work was cancelled, or the store does not take what was written: nothing has changed
    /// then. If the last thing, waiting for a directory, fails, the new content is visible and may
    /// not be durable. [`Error::Sealed`] if a seal lists what would be replaced, unless that is
    /// [allowed](Self::over_seals). [`Error::Replaces`] if the store replaces single files only and there are
    /// several. [`Error::Unfinished`] if something is in the way of one of several files that could not be
    /// foreseen: what is missing is done by [`Location::recover`] and by the next commit.
    pub fn publish(mut self) -> Result<()> {
        self.sync()?;
        if self.names.written.is_empty() && self.publisher.root().is_some() {
            return Ok(());
        }
        self.publisher.lock()?;
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

    /// Fails if the file `name` exists and no file may be replaced.
    fn check_new(&self, name: &Path) -> Result<()> {
        if !self.only_new || name == Path::new(SEAL) {
            return Ok(());
        }
        let path = self.publisher.target(name);
        if self.store.is_there(&path)? { Err(Error::Exists { path }) } else { Ok(()) }
    }

    /// Fails if one of several files would replace another one.
    fn check_created(&self) -> Result<()> {
        for name in self.names.written.iter().filter(|_| self.names.written.len() > 1) {
            let path = self.publisher.target(name);
            if self.store.is_there(&path)? {
                return Err(Error::Replaces { path });
            }
        }
        Ok(())
    }

    /// Waits until the disk has what was written so far.
    ///
    /// # Errors
    /// If it does not take it, or the work was cancelled.
    pub fn sync(&mut self) -> Result<()> {
        self.progress.advance(0)?;
        self.publisher.sync()
    }

    /// Waits until no other commit publishes into the directory, if it exists, and keeps others
    /// from it until this one has published or is dropped: what is read there meanwhile stays as it
    /// is, as far as commits go. Where a file system has no locks, nothing is waited for.
    ///
    /// # Errors
    /// If the directory is not what it was, the work was cancelled, or [`Error::Busy`].
    pub fn alone(&mut self) -> Result<()> {
        self.publisher.lock()
    }
}

/// A file that was created, and is forgotten unless all of it was written.
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

/// A directory that one writer has for itself, for as long as this lives; on the local file system it is given
/// back when its process ends, however it does.
///
/// A [`Commit`] publishes there all the same: it is a rule among those that take the lock.
#[derive(Debug)]
pub struct WriterLock(Box<dyn crate::store::Held>);

impl WriterLock {
    /// Takes the lock of a directory, which has to exist, without waiting. File systems without locks refuse
    /// nobody.
    ///
    /// # Errors
    /// [`Error::Locked`] if another writer has it, in this process or elsewhere; if the directory cannot be
    /// written to.
    pub fn take(directory: impl Into<Location>) -> Result<Self> {
        let directory = directory.into();
        directory.store().lock(directory.path()).map(Self)
    }

    /// Fails if it is no longer the lock of what has the name of the directory: that was removed or replaced, so
    /// that another writer may have taken its own.
    ///
    /// # Errors
    /// [`Error::Changed`], or what looking gives.
    pub fn check(&self) -> Result<()> {
        self.0.check()
    }
}
