//! The one way to publish.
//!
//! 1. Every file is written into a hidden directory, the [staging] directory, under the name that it
//!    will have, with the mode of the file that it will replace, and its owner where that is allowed.
//! 2. Nothing is visible until all of them are written and on disk: an error, a cancel or a drop
//!    removes the staging directory. Of a process that was killed, the next commit does.
//! 3. They are published, so that whoever looks finds all of the old or all of the new:
//!
//! | what | how | where |
//! |---|---|---|
//! | one file | renamed over its target | here |
//! | a new directory | written beside its place, and renamed once | here |
//! | a directory of nothing else | the same, and the two change places | [exchange] |
//! | several files among others | a redo log: renamed one by one, by this process (in the order of writing) or by who comes next; who reads before is told | [pending] |
//!
//! What comes before the rename is synced before it, and the directory after it.
//! A path that the caller gives may be a symbolic link and keeps being one: what it points to is
//! replaced. Links inside a directory that is written to are replaced by files: they could lead
//! anywhere. Other hard links to a replaced file keep the old content.
//!
//! Who publishes into a directory has it locked, so that one does after the other.
//!
//! Nothing is written under the name of a seal, but by [`Commit::write_seal`]; and what a seal is of is written over
//! only by those who have said that they [bring it up to date](Commit::over_seals).

pub(crate) mod attributes;
mod clean;
mod exchange;
pub(crate) mod pending;
mod place;
mod sealed;
mod staging;
mod target;
pub(crate) mod waiting;

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cap_std::fs::{Metadata, OpenOptions};

use crate::checks::SEAL;
use crate::file::{kind_of, most_kept};
use crate::{Error, Output, Progress, Result, StepKind, check_relative};
use place::{Lock, Patience, Place};
use sealed::Sealed;
use staging::{Staging, stem};
use target::{check_free, check_name, check_root, follow, parent_of, target_of};

pub use target::check_unreserved;

pub use clean::{Recovery, recover, remove_dir};
pub use staging::is_hidden;

/// Files being written, not visible before [`Commit::publish`].
#[derive(Debug)]
pub struct Commit {
    staging: Staging,
    root: Root,
    staged: Vec<Staged>,
    /// The targets of what is staged.
    names: HashSet<PathBuf>,
    through_link: bool,
    /// Whether files that seals are of may be written over.
    over_seals: bool,
    /// The directory that is written to, once nobody else publishes there.
    locked: Option<Arc<Place>>,
    progress: Progress,
}

/// What is written to.
#[derive(Debug)]
enum Root {
    /// A directory that exists; if `whole`, it may be replaced as such.
    Existing { path: PathBuf, whole: bool },
    /// A directory that does not, and will be called this.
    New { parent: Arc<Place>, name: OsString },
}

#[derive(Debug)]
struct Staged {
    target: PathBuf,
    /// Until it is synced.
    file: Option<File>,
}

/// Files that are kept open until they are synced together; the system writes them meanwhile. Where
/// this process may open few, they are fewer.
const KEPT: usize = 64;

/// Mode of a directory that nobody else may look into yet.
const PRIVATE: u32 = 0o700;

impl Commit {
    /// Publishes into the directory `root`, which may not exist yet. One that exists and holds
    /// nothing else than what is written is replaced at once.
    ///
    /// # Errors
    /// If neither it nor its parent can be opened, or written to.
    pub fn directory(root: &Path, progress: Progress) -> Result<Self> {
        let root = follow(root);
        check_root(&root)?;
        let siblings = |path: &Path| {
            let parent = Arc::new(Place::open(parent_of(path))?);
            let stem = stem(&path.file_name().unwrap_or_default().to_string_lossy());
            clean::clean(&parent, Some(&stem), &progress);
            Ok::<_, Error>((parent, stem))
        };
        if let Ok(existing) = root.canonicalize() {
            // Who may not look into the parent has left nothing there.
            let _ = siblings(&existing);
            return Self::begin(&existing, true, progress);
        }
        let parent = parent_of(&root).canonicalize();
        let parent = parent.map_err(Error::io("open", parent_of(&root)))?;
        let Some(name) = root.file_name().map(OsString::from) else {
            return Err(Error::NotAFile { path: root, found: "no name for a directory" });
        };
        let (parent, stem) = siblings(&parent.join(&name))?;
        let staging = Staging::new(&parent, &stem, 0o777, &progress)?;
        Ok(Self::of(staging, Root::New { parent, name }, progress))
    }

    /// Publishes into the directory `root`, which has to exist.
    ///
    /// # Errors
    /// If it cannot be opened, or written to.
    pub fn existing(root: &Path, progress: Progress) -> Result<Self> {
        check_root(root)?;
        let root = root.canonicalize().map_err(Error::io("open the directory", root))?;
        Self::begin(&root, false, progress)
    }

    /// Publishes one file; gives the commit and the name to [`write`](Self::write) it under.
    ///
    /// # Errors
    /// If its directory cannot be opened or written to, or the path names no file.
    pub fn file(path: &Path, progress: Progress) -> Result<(Self, String)> {
        let (given, path) = (path, follow(path));
        let refuse = |found| Error::NotAFile { path: path.clone(), found };
        if let Ok(there) = std::fs::symlink_metadata(&path)
            && !there.is_file()
        {
            return Err(refuse(kind_of(&there)));
        }
        let name = path.file_name().ok_or_else(|| refuse("a directory"))?.to_str();
        let name = name.ok_or_else(|| refuse("a name that is not UTF-8"))?;
        let parent = parent_of(&path);
        check_root(parent)?;
        let root = parent.canonicalize().map_err(Error::io("open the directory", parent))?;
        let commit = Self::begin(&root, false, progress)?;
        Ok((Self { through_link: path != given, ..commit }, name.to_owned()))
    }

    fn begin(root: &Path, whole: bool, progress: Progress) -> Result<Self> {
        loop {
            let place = Arc::new(Place::open(root)?);
            pending::finish(&place, false, &progress)?;
            clean::clean(&place, None, &progress);
            match Staging::new(&place, "", PRIVATE, &progress) {
                // Another commit has just put another directory in its place.
                Err(_) if Place::open(root).is_ok_and(|now| !now.is(&place)) => {}
                staging => {
                    let root = Root::Existing { path: root.to_path_buf(), whole };
                    return Ok(Self::of(staging?, root, progress));
                }
            }
        }
    }

    fn of(staging: Staging, root: Root, progress: Progress) -> Self {
        let (staged, names, through_link, over_seals, locked) = Default::default();
        Self { staging, root, staged, names, through_link, over_seals, locked, progress }
    }

    /// The same, to write over files that seals are of: whoever does that brings the seals up to date.
    #[must_use]
    pub fn over_seals(mut self) -> Self {
        self.over_seals = true;
        self
    }

    /// Writes the file `name` (relative; subdirectories are made) with `fill`. It is on disk when it
    /// is published, and the system begins to write it there now.
    ///
    /// # Errors
    /// If the name leads out of the directory or is [reserved](Error::Reserved), the system fails, or `fill`
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
    /// If the system or `fill` fails.
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
        let path = self.final_path(&target);
        if !self.names.insert(target.clone()) {
            return Err(Error::Twice { path }.into());
        }
        let written = self.stage(&target, &path, name, fill);
        if written.is_err() {
            self.names.remove(&target);
        }
        self.staged.push(Staged { target, file: written? });
        Ok(())
    }

    /// Where the file `name` is until it is published, if it was written: to be opened, and compared
    /// with what it should be. Its neighbours have their names there too; the empty name is that of
    /// the directory that they are in.
    pub fn staged(&self, name: &str) -> Option<PathBuf> {
        let target = target_of(name);
        let written = self.staged.iter().any(|staged| staged.target == target);
        (written || name.is_empty()).then(|| self.staging.path(&target))
    }

    /// The names of what was written, in that order, without `.` and doubled slashes.
    pub fn names(&self) -> Vec<String> {
        let names = self.staged.iter().map(|staged| staged.target.to_string_lossy().into_owned());
        names.collect()
    }

    /// The directory that is written to, if it exists.
    pub fn root(&self) -> Option<&Path> {
        match &self.root {
            Root::Existing { path, .. } => Some(path),
            Root::New { .. } => None,
        }
    }

    /// Whether the path of [`file`](Self::file) is a symbolic link: what it leads to has another
    /// name, and may be in another directory.
    pub fn is_through_link(&self) -> bool {
        self.through_link
    }

    /// Makes everything that was written visible.
    ///
    /// # Errors
    /// If the work was cancelled, or the disk does not take what was written: nothing has changed
    /// then. If the last thing, waiting for a directory, fails, the new content is visible and may
    /// not be on disk. [`Error::Sealed`] if a seal is of what would be written over, unless that is
    /// [allowed](Self::over_seals). [`Error::Unfinished`] if something is in the way of one of several files
    /// that could not be foreseen: what is missing is done by [`recover`] and by the next commit.
    pub fn publish(mut self) -> Result<()> {
        self.sync()?;
        for Staged { target, .. } in &self.staged {
            let there = self.staging.place.dir.symlink_metadata(target);
            // Nobody else has any business there.
            there.map_err(Error::io("publish", self.final_path(target)))?;
        }
        match &self.root {
            Root::New { .. } => {
                self.check_seals()?;
                self.appear()
            }
            Root::Existing { .. } if self.staged.is_empty() => Ok(()),
            Root::Existing { path, whole } => {
                let (path, whole) = (path.clone(), *whole);
                let root = self.lock(&path)?;
                self.check_seals()?;
                self.publish_in(&root, whole)
            }
        }
    }

    /// Fails if a seal is of what would be written over.
    fn check_seals(&self) -> Result<()> {
        let mut sealed = Sealed::default();
        match self.over_seals {
            true => Ok(()),
            false => self
                .staged
                .iter()
                .try_for_each(|Staged { target, .. }| sealed.check(&self.final_path(target))),
        }
    }

    /// Waits until the disk has what was written so far.
    ///
    /// # Errors
    /// If it does not take it, or the work was cancelled.
    pub fn sync(&mut self) -> Result<()> {
        self.progress.advance(0)?;
        for number in 0..self.staged.len() {
            let Some(Staged { target, file }) = self.staged.get_mut(number) else { break };
            if let Some(file) = file.take() {
                let target = target.clone();
                let path = self.final_path(&target);
                let synced =
                    self.progress.advance(0).and_then(|()| sync(&file, &path, &self.progress));
                if synced.is_err() {
                    // Asked again, the system may say that all is well: it is missed when published.
                    let _ = self.staging.place.dir.remove_file(&target);
                }
                synced?;
            }
        }
        Ok(())
    }

    /// Waits until no other commit publishes into the directory, if it exists, and keeps others
    /// from it until this one has published or is dropped: what is read there meanwhile stays as it
    /// is, as far as commits go. Where the file system has no locks, nothing is waited for.
    ///
    /// # Errors
    /// If the directory is not what it was, the work was cancelled, or [`Error::Busy`].
    pub fn alone(&mut self) -> Result<()> {
        match &self.root {
            Root::Existing { path, .. } => self.lock(&path.clone()).map(drop),
            Root::New { .. } => Ok(()),
        }
    }

    /// The directory at `path`, which is written to, locked.
    fn lock(&mut self, path: &Path) -> Result<Arc<Place>> {
        if let Some(root) = &self.locked {
            return Ok(Arc::clone(root));
        }
        let mut patience = Patience::default();
        loop {
            let root = self.staging.found_again(path)?;
            match root.lock() {
                Lock::Busy => patience.pause(path, &self.progress)?,
                // Another directory may have been put in its place meanwhile.
                _ if Place::open(path)?.is(&root) => {
                    self.locked = Some(Arc::clone(&root));
                    return Ok(root);
                }
                _ => {}
            }
        }
    }

    /// Publishes a directory that was not there.
    fn appear(&mut self) -> Result<()> {
        let Root::New { parent, name } = &self.root else { return Ok(()) };
        let path = parent.path.join(name);
        self.staging.sync()?;
        self.progress.step(StepKind::Appear, &path)?;
        let renamed = parent.dir.rename(&self.staging.name, &parent.dir, name);
        renamed.map_err(Error::io("publish", &path))?;
        self.staging.published = true;
        parent.sync(&self.progress)
    }

    /// Publishes in a directory that exists.
    fn publish_in(&mut self, root: &Arc<Place>, whole: bool) -> Result<()> {
        let targets: Vec<_> = self.staged.iter().map(|staged| staged.target.as_path()).collect();
        // What is in the way by now would stop it half way.
        targets.iter().try_for_each(|target| check_free(root, target))?;
        let (staging, progress) = (&mut self.staging, &self.progress);
        match targets.as_slice() {
            [target] if root.dir.is_dir(parent_of(target)) => {
                pending::finish(root, true, progress)?;
                replace(staging, root, target, progress)
            }
            _ if whole && exchange::publish(staging, root, &self.names, progress)? => Ok(()),
            targets => pending::publish(staging, root, targets, progress),
        }
    }

    /// Writes one file where it is staged; gives it if it is still to be synced.
    fn stage<E: From<Error>>(
        &mut self,
        target: &Path,
        path: &Path,
        name: &str,
        fill: impl FnOnce(&mut Output) -> Result<(), E>,
    ) -> Result<Option<File>, E> {
        check_name(name, target, path)?;
        let mut old = None;
        if let Root::Existing { path, .. } = &self.root {
            let root = self.staging.found_again(path)?;
            check_free(&root, target)?;
            old = root.dir.metadata(target).ok();
        }
        let failed = Error::io("create", path);
        let staging = &self.staging.place;
        staging.make(target.parent().unwrap_or(Path::new("")), &self.progress)?;
        self.progress.step(StepKind::Create, path)?;
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        // Before it has the owner of the file that it will replace.
        let mode = if old.is_some() { 0o600 } else { 0o666 };
        cap_std::fs::OpenOptionsExt::mode(&mut options, mode);
        let file = staging.dir.open_with(target, &options).map_err(failed)?.into_std();
        let written = self.fill(file, old, path, fill);
        if written.is_err() {
            let _ = staging.dir.remove_file(target);
        }
        written
    }

    /// Fills a file that was created; gives it if it is still to be synced.
    fn fill<E: From<Error>>(
        &self,
        file: File,
        old: Option<Metadata>,
        path: &Path,
        fill: impl FnOnce(&mut Output) -> Result<(), E>,
    ) -> Result<Option<File>, E> {
        if let Some(old) = old {
            attributes::keep(&file, &old).map_err(Error::io("set the mode of", path))?;
        }
        let mut output = Output::new(file, path.to_path_buf(), self.progress.clone());
        fill(&mut output)?;
        let file = output.finish()?;
        let most = KEPT.min(most_kept());
        if self.staged.iter().filter(|staged| staged.file.is_some()).take(most).count() < most {
            return Ok(Some(file));
        }
        sync(&file, path, &self.progress)?;
        Ok(None)
    }

    /// Where a file will be.
    fn final_path(&self, target: &Path) -> PathBuf {
        match &self.root {
            Root::Existing { path, .. } => path.join(target),
            Root::New { parent, name } => parent.path.join(name).join(target),
        }
    }
}

/// Publishes one file.
fn replace(staging: &mut Staging, root: &Place, target: &Path, progress: &Progress) -> Result<()> {
    let path = root.path.join(target);
    progress.step(StepKind::Replace, &path)?;
    let renamed = staging.place.dir.rename(target, &root.dir, target);
    renamed.map_err(Error::io("publish", &path))?;
    staging.remove();
    let parent = root.below(target.parent().unwrap_or(Path::new("")));
    parent.map_err(Error::io("sync the directory of", path))?.sync(progress)
}

fn sync(file: &File, path: &Path, progress: &Progress) -> Result<()> {
    progress.step(StepKind::Sync, path)?;
    file.sync_all().map_err(Error::io("sync", path))
}
