//! Publication on the local file system.
//!
//! 1. Every file is written into a hidden directory, the [staging](super::staging) directory, under its final
//!    name, with the mode of the file that it will replace, and its owner if permitted.
//! 2. Nothing is visible until all files are written and on disk: an error, cancellation or drop
//!    removes the staging directory. After a killed process, the next commit removes it.
//! 3. The files are published, so that readers find either all old or all new ones:
//!
//! | target | method | module |
//! |---|---|---|
//! | one file | renamed over its target | this one |
//! | a new directory | written beside its final path, and renamed once | this one |
//! | a directory without other contents | written likewise, then exchanged with the old one | [exchange] |
//! | several files in a directory with other contents | a redo log: renamed one by one, by this process (in the order of writing) or by the next one; readers before that get an error | [pending] |
//!
//! Everything before the rename is synced before it, and the directory after it.
//! A path from the caller may be a symlink, which is kept: its target is
//! replaced. Symlinks inside the target directory are replaced by files: they could lead
//! anywhere. Other hard links to a replaced file keep the old content.
//!
//! A process holds a lock on the directory while it publishes, so that commits are serialized.
//!
//! The lock is taken before the seal of the directory is read, and held until all files are in place. Locks count only
//! on local file systems: on network file systems, the kernel grants them without informing other machines.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cap_std::fs::{Metadata, OpenOptions};
use rustix::io::Errno;

use super::file::{kind_of, max_kept};
use super::sink::LocalSink;
use super::staging::{Staging, stem};
use super::target::{check_free, follow};
use super::write_dir::{Lock, Patience, WriteDir, if_there};
use super::{attributes, clean, exchange, pending};
use crate::names::{check_root, parent_of};
use crate::store::{Publisher, Sink};
use crate::{Error, Progress, Result, StepKind};

/// The files of a staging directory.
#[derive(Debug)]
pub(super) struct LocalPublisher {
    /// Files to be synced, in the order of writing. They are closed before the staging directory is removed, which
    /// needs descriptors.
    written: Vec<(PathBuf, Arc<File>)>,
    staging: Staging,
    root: Root,
    through_link: bool,
    /// The target directory, once it is locked.
    locked: Option<Arc<WriteDir>>,
    progress: Progress,
}

/// The target of a commit.
#[derive(Debug)]
enum Root {
    /// An existing directory; if `whole`, it may be replaced by exchange.
    Existing { path: PathBuf, whole: bool },
    /// A directory to be created.
    New { parent: Arc<WriteDir>, name: OsString },
}

/// Maximum number of files that are kept open until they are synced together; the system writes them meanwhile. A low
/// descriptor limit of this process reduces it.
const KEPT: usize = 64;

/// The mode of a directory that other users must not access yet.
const PRIVATE: u32 = 0o700;

impl LocalPublisher {
    /// Stages files for the directory `root`, which may not exist yet.
    pub(super) fn directory(root: &Path, progress: &Progress) -> Result<Self> {
        let root = follow(root)?;
        check_root(&root)?;
        let siblings = |path: &Path| {
            let parent = Arc::new(WriteDir::open(parent_of(path))?);
            let stem = stem(&path.file_name().unwrap_or_default().to_string_lossy());
            clean::clean(&parent, Some(&stem), progress);
            Ok::<_, Error>((parent, stem))
        };
        let existing = if_there(root.canonicalize()).map_err(Error::io("open", &root))?;
        if let Some(existing) = existing {
            // Without access to the parent, there are no leftovers in it.
            let _ = siblings(&existing);
            return Self::begin(&existing, true, progress);
        }
        let parent = parent_of(&root).canonicalize();
        let parent = parent.map_err(Error::io("open", parent_of(&root)))?;
        let Some(name) = root.file_name().map(OsString::from) else {
            return Err(Error::NotAFile { path: root, found: "no name for a directory" });
        };
        let (parent, stem) = siblings(&parent.join(&name))?;
        let staging = Staging::new(&parent, &stem, 0o777, progress)?;
        Ok(Self::of(staging, Root::New { parent, name }, progress))
    }

    /// Stages files for the existing directory `root`.
    pub(super) fn existing(root: &Path, progress: &Progress) -> Result<Self> {
        let root = root.canonicalize().map_err(Error::io("open the directory", root))?;
        Self::begin(&root, false, progress)
    }

    /// Stages one file; also returns the name to create it under.
    pub(super) fn file(path: &Path, progress: &Progress) -> Result<(Self, PathBuf)> {
        let (given, path) = (path, follow(path)?);
        let refuse = |found| Error::NotAFile { path: path.clone(), found };
        let there = if_there(std::fs::symlink_metadata(&path));
        if let Some(there) = there.map_err(Error::io("inspect", &path))?
            && !there.is_file()
        {
            return Err(refuse(kind_of(&there)));
        }
        let name = path.file_name().ok_or_else(|| refuse("a directory"))?;
        let parent = parent_of(&path);
        check_root(parent)?;
        let root = parent.canonicalize().map_err(Error::io("open the directory", parent))?;
        let publisher = Self::begin(&root, false, progress)?;
        Ok((Self { through_link: path != given, ..publisher }, PathBuf::from(name)))
    }

    fn begin(root: &Path, whole: bool, progress: &Progress) -> Result<Self> {
        let mut patience = Patience::default();
        loop {
            let place = Arc::new(WriteDir::open(root)?);
            pending::finish(&place, false, progress)?;
            clean::clean(&place, None, progress);
            match Staging::new(&place, "", PRIVATE, progress) {
                // Another commit has just replaced the directory.
                Err(Error::Io { source, .. })
                    if source.kind() == ErrorKind::NotFound && !is_still_at(&place, root)? =>
                {
                    patience.pause(root, progress)?;
                }
                staging => {
                    let root = Root::Existing { path: root.to_path_buf(), whole };
                    return Ok(Self::of(staging?, root, progress));
                }
            }
        }
    }

    fn of(staging: Staging, root: Root, progress: &Progress) -> Self {
        let (written, through_link, locked) = Default::default();
        let progress = progress.clone();
        Self { staging, root, written, through_link, locked, progress }
    }

    /// Locks and returns the target directory at `path`.
    fn locked(&mut self, path: &Path) -> Result<Arc<WriteDir>> {
        if let Some(root) = &self.locked {
            return Ok(Arc::clone(root));
        }
        let mut patience = Patience::default();
        loop {
            let root = self.staging.relocate(path)?;
            let lock = root.lock().map_err(Error::io("lock", path))?;
            // The directory may have been replaced meanwhile.
            if lock != Lock::Busy && is_still_at(&root, path)? {
                self.locked = Some(Arc::clone(&root));
                return Ok(root);
            }
            patience.pause(path, &self.progress)?;
        }
    }

    /// Publishes a new directory.
    fn appear(&mut self, parent: &WriteDir, name: &OsStr) -> Result<()> {
        let path = parent.path.join(name);
        self.staging.sync()?;
        self.progress.step(StepKind::Appear, &path)?;
        let renamed = parent.dir.rename(&self.staging.name, &parent.dir, name);
        renamed.map_err(Error::io("publish", &path))?;
        self.staging.published = true;
        parent.sync(&self.progress)
    }

    /// Publishes into an existing directory.
    fn publish_in(&mut self, root: &Arc<WriteDir>, whole: bool, names: &[PathBuf]) -> Result<()> {
        // Check again: an obstacle that appeared meanwhile would stop the publication half way.
        names.iter().try_for_each(|target| check_free(root, target))?;
        let (staging, progress) = (&mut self.staging, &self.progress);
        match names {
            [target] if root.dir.is_dir(parent_of(target)) => {
                pending::finish(root, true, progress)?;
                replace(staging, root, target, progress)
            }
            _ if whole && exchange::publish(staging, root, &set(names), progress)? => Ok(()),
            names => pending::publish(staging, root, names, progress),
        }
    }
}

/// Returns whether a directory is still the one at `path`.
fn is_still_at(place: &WriteDir, path: &Path) -> Result<bool> {
    let now = WriteDir::open(path)?;
    place.is(&now).map_err(Error::io("inspect", path))
}

/// Returns the metadata of the file that will be replaced; of a symlink, those of its target, if that is inside the
/// directory.
fn replaced(root: &WriteDir, target: &Path) -> Result<Option<Metadata>> {
    let failed = |error| Error::io("inspect", root.path.join(target))(error);
    let there = if_there(root.dir.symlink_metadata(target)).map_err(failed)?;
    if there.as_ref().is_none_or(|there| !there.is_symlink()) {
        return Ok(there);
    }
    match root.dir.metadata(target) {
        // A path that leads out has no errno.
        Err(error) if error.raw_os_error().is_none() => Ok(None),
        Err(error) if Errno::from_io_error(&error) == Some(Errno::LOOP) => Ok(None),
        target => if_there(target).map_err(failed),
    }
}

fn set(names: &[PathBuf]) -> HashSet<&Path> {
    names.iter().map(PathBuf::as_path).collect()
}

impl Publisher for LocalPublisher {
    fn root(&self) -> Option<&Path> {
        match &self.root {
            Root::Existing { path, .. } => Some(path),
            Root::New { .. } => None,
        }
    }

    fn target(&self, name: &Path) -> PathBuf {
        match &self.root {
            Root::Existing { path, .. } => path.join(name),
            Root::New { parent, name: root } => parent.path.join(root).join(name),
        }
    }

    fn staged(&self) -> PathBuf {
        self.staging.path(Path::new(""))
    }

    fn is_through_link(&self) -> bool {
        self.through_link
    }

    fn create(&mut self, target: &Path) -> Result<Box<dyn Sink>> {
        let path = self.target(target);
        let mut old = None;
        if let Root::Existing { path, .. } = &self.root {
            let root = self.staging.relocate(path)?;
            check_free(&root, target)?;
            old = replaced(&root, target)?;
        }
        let staging = &self.staging.place;
        staging.make(target.parent().unwrap_or(Path::new("")), &self.progress)?;
        self.progress.step(StepKind::Create, &path)?;
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        // Private until it has the owner of the file that it will replace.
        let mode = if old.is_some() { 0o600 } else { 0o666 };
        cap_std::fs::OpenOptionsExt::mode(&mut options, mode);
        let file = staging.dir.open_with(target, &options).map_err(Error::io("create", &path))?;
        let file = Arc::new(file.into_std());
        if let Some(old) = old
            && let Err(error) = attributes::keep(&*file, &old)
        {
            self.discard(target);
            return Err(Error::io("set the mode of", path)(error));
        }
        self.written.push((target.to_path_buf(), Arc::clone(&file)));
        Ok(Box::new(LocalSink { file, path }))
    }

    fn finish(&mut self, name: &Path) -> Result<()> {
        if self.written.len() <= KEPT.min(max_kept()) {
            return Ok(());
        }
        let number = self.written.iter().position(|(written, _)| written == name);
        let Some((name, file)) = number.map(|number| self.written.remove(number)) else {
            return Ok(());
        };
        sync(&file, &self.target(&name), &self.progress)
    }

    fn discard(&mut self, name: &Path) {
        self.written.retain(|(written, _)| written != name);
        let _ = self.staging.place.dir.remove_file(name);
    }

    fn sync(&mut self) -> Result<()> {
        for (name, file) in std::mem::take(&mut self.written) {
            let path = self.target(&name);
            let synced = self.progress.advance(0).and_then(|()| sync(&file, &path, &self.progress));
            if synced.is_err() {
                // A second sync may report success, so the file is discarded: publication will find it missing.
                self.discard(&name);
            }
            synced?;
        }
        Ok(())
    }

    fn lock(&mut self) -> Result<()> {
        match &self.root {
            Root::Existing { path, .. } => self.locked(&path.clone()).map(drop),
            Root::New { .. } => Ok(()),
        }
    }

    fn publish(&mut self, names: &[PathBuf]) -> Result<()> {
        for name in names {
            let there = self.staging.place.dir.symlink_metadata(name);
            // No other process should have touched the staging directory.
            there.map_err(Error::io("publish", self.target(name)))?;
        }
        match &self.root {
            Root::New { parent, name } => {
                let (parent, name) = (Arc::clone(parent), name.clone());
                self.appear(&parent, &name)
            }
            Root::Existing { path, whole } => {
                let (path, whole) = (path.clone(), *whole);
                let root = self.locked(&path)?;
                self.publish_in(&root, whole, names)
            }
        }
    }
}

/// Publishes a single file by rename.
fn replace(
    staging: &mut Staging,
    root: &WriteDir,
    target: &Path,
    progress: &Progress,
) -> Result<()> {
    let path = root.path.join(target);
    let parent = root.below(target.parent().unwrap_or(Path::new("")));
    let parent = parent.map_err(Error::io("open the directory of", &path))?;
    progress.step(StepKind::Replace, &path)?;
    let renamed = staging.place.dir.rename(target, &root.dir, target);
    renamed.map_err(Error::io("publish", &path))?;
    staging.remove();
    parent.sync(progress)
}

fn sync(file: &File, path: &Path, progress: &Progress) -> Result<()> {
    progress.step(StepKind::Sync, path)?;
    file.sync_all().map_err(Error::io("sync", path))
}
