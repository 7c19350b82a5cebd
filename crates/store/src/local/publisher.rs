//! How the local file system publishes.
//!
//! 1. Every file is written into a hidden directory, the [staging](super::staging) directory, under the name
//!    that it will have, with the mode of the file that it will replace, and its owner where that is allowed.
//! 2. Nothing is visible until all of them are written and on disk: an error, a cancel or a drop
//!    removes the staging directory. Of a process that was killed, the next commit does.
//! 3. They are published, so that readers find all of the old or all of the new:
//!
//! | what | how | where |
//! |---|---|---|
//! | one file | renamed over its target | here |
//! | a new directory | written beside its place, and renamed once | here |
//! | a directory of nothing else | the same, and the two change places | [exchange] |
//! | several files among others | a redo log: renamed one by one, by this process (in the order of writing) or by the next one; readers before that get an error | [pending] |
//!
//! What comes before the rename is synced before it, and the directory after it.
//! A path that the caller gives may be a symbolic link and keeps being one: what it points to is
//! replaced. Links inside a directory that is written to are replaced by files: they could lead
//! anywhere. Other hard links to a replaced file keep the old content.
//!
//! A process that publishes into a directory has it locked, so that one does after the other.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cap_std::fs::OpenOptions;

use super::file::{kind_of, most_kept};
use super::place::{Lock, Patience, Place};
use super::sink::LocalSink;
use super::staging::{Staging, stem};
use super::target::{check_free, follow};
use super::{attributes, clean, exchange, pending};
use crate::names::{check_root, parent_of};
use crate::store::{Publisher, Sink};
use crate::{Error, Progress, Result, StepKind};

/// Files in a staging directory.
#[derive(Debug)]
pub(super) struct LocalPublisher {
    staging: Staging,
    root: Root,
    /// What is still to be synced, in the order of writing.
    written: Vec<(PathBuf, Arc<File>)>,
    through_link: bool,
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

/// Files that are kept open until they are synced together; the system writes them meanwhile. Where
/// this process may open few, they are fewer.
const KEPT: usize = 64;

/// Mode of a directory that nobody else may look into yet.
const PRIVATE: u32 = 0o700;

impl LocalPublisher {
    /// Into the directory `root`, which may not exist yet.
    pub(super) fn directory(root: &Path, progress: &Progress) -> Result<Self> {
        let root = follow(root);
        check_root(&root)?;
        let siblings = |path: &Path| {
            let parent = Arc::new(Place::open(parent_of(path))?);
            let stem = stem(&path.file_name().unwrap_or_default().to_string_lossy());
            clean::clean(&parent, Some(&stem), progress);
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
        let staging = Staging::new(&parent, &stem, 0o777, progress)?;
        Ok(Self::of(staging, Root::New { parent, name }, progress))
    }

    /// Into the directory `root`, which has to exist.
    pub(super) fn existing(root: &Path, progress: &Progress) -> Result<Self> {
        let root = root.canonicalize().map_err(Error::io("open the directory", root))?;
        Self::begin(&root, false, progress)
    }

    /// One file, and the name that it is created under.
    pub(super) fn file(path: &Path, progress: &Progress) -> Result<(Self, PathBuf)> {
        let (given, path) = (path, follow(path));
        let refuse = |found| Error::NotAFile { path: path.clone(), found };
        if let Ok(there) = std::fs::symlink_metadata(&path)
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
        loop {
            let place = Arc::new(Place::open(root)?);
            pending::finish(&place, false, progress)?;
            clean::clean(&place, None, progress);
            match Staging::new(&place, "", PRIVATE, progress) {
                // Another commit has just put another directory in its place.
                Err(_) if Place::open(root).is_ok_and(|now| !now.is(&place)) => {}
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

    /// The directory at `path`, which is written to, locked.
    fn locked(&mut self, path: &Path) -> Result<Arc<Place>> {
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
    fn appear(&mut self, parent: &Place, name: &OsStr) -> Result<()> {
        let path = parent.path.join(name);
        self.staging.sync()?;
        self.progress.step(StepKind::Appear, &path)?;
        let renamed = parent.dir.rename(&self.staging.name, &parent.dir, name);
        renamed.map_err(Error::io("publish", &path))?;
        self.staging.published = true;
        parent.sync(&self.progress)
    }

    /// Publishes in a directory that exists.
    fn publish_in(&mut self, root: &Arc<Place>, whole: bool, names: &[PathBuf]) -> Result<()> {
        // What is in the way by now would stop it half way.
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
            let root = self.staging.found_again(path)?;
            check_free(&root, target)?;
            old = root.dir.metadata(target).ok();
        }
        let staging = &self.staging.place;
        staging.make(target.parent().unwrap_or(Path::new("")), &self.progress)?;
        self.progress.step(StepKind::Create, &path)?;
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        // Before it has the owner of the file that it will replace.
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
        if self.written.len() <= KEPT.min(most_kept()) {
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
                // Asked again, the system may report success: it is missed when published.
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
            // Nobody else has any business there.
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
