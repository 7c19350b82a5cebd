//! The local file system.

mod attributes;
mod cache;
mod clean;
mod exchange;
mod file;
mod folder;
mod joined;
mod lock;
mod pending;
mod publisher;
mod sink;
mod staging;
mod target;
mod waiting;
mod write_dir;

use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

pub use file::LocalFile;

use rustix::io::Errno;
use write_dir::if_there;

use crate::store::{Atomicity, Folder, Held, Publisher};
use crate::{Entry, Error, Links, Progress, Recovery, Result, Source, Stamp, StepKind, Store};

/// The local file system. Paths are those of the operating system; relative ones are relative to the working
/// directory.
#[derive(Debug)]
pub struct LocalStore(());

/// Returns the shared instance of the local file system.
pub(crate) fn store() -> Arc<dyn Store> {
    static STORE: LazyLock<Arc<dyn Store>> = LazyLock::new(|| Arc::new(LocalStore(())));
    Arc::clone(&STORE)
}

/// Returns the metadata of what is at a path, following links.
fn inspect(path: &Path) -> Result<Option<std::fs::Metadata>> {
    if_there(std::fs::metadata(path)).map_err(Error::io("inspect", path))
}

/// Returns whether the link at `path` leads to a directory; one that this user cannot follow does not.
fn leads_to_dir(path: &Path) -> Result<bool> {
    match inspect(path) {
        Err(Error::Io { source, .. })
            if matches!(Errno::from_io_error(&source), Some(Errno::ACCESS | Errno::LOOP)) =>
        {
            Ok(false)
        }
        found => Ok(found?.is_some_and(|found| found.is_dir())),
    }
}

impl Store for LocalStore {
    fn atomicity(&self) -> Atomicity {
        Atomicity::AtomicSet
    }

    fn open(&self, path: &Path, mmap: bool) -> Result<Box<dyn Source>> {
        Ok(Box::new(LocalFile::open(path, mmap)?))
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        Ok(inspect(path)?.is_some() || waiting::is_expected(path)?)
    }

    fn is_there(&self, path: &Path) -> Result<bool> {
        let there = if_there(std::fs::symlink_metadata(path));
        match there.map_err(Error::io("look for", path))? {
            Some(_) => Ok(true),
            None => waiting::is_expected_beside(path),
        }
    }

    fn is_dir(&self, path: &Path) -> Result<bool> {
        Ok(inspect(path)?.is_some_and(|found| found.is_dir()))
    }

    fn list(&self, path: &Path) -> Result<Vec<Entry>> {
        let mut entries = Vec::new();
        for entry in std::fs::read_dir(path).map_err(Error::io("list", path))? {
            let entry = entry.map_err(Error::io("list", path))?;
            let kind = entry.file_type().map_err(Error::io("inspect", entry.path()))?;
            let is_dir = kind.is_dir() || (kind.is_symlink() && leads_to_dir(&entry.path())?);
            if let Ok(name) = entry.file_name().into_string() {
                entries.push(Entry { name, is_dir });
            }
        }
        entries.extend(waiting::waiting_entries(path)?);
        Ok(entries)
    }

    fn stamp(&self, path: &Path) -> Result<Stamp> {
        let metadata = std::fs::metadata(path).map_err(Error::io("inspect", path))?;
        Ok(file::stamp_of(&metadata))
    }

    fn link_target(&self, path: &Path) -> Option<PathBuf> {
        std::fs::read_link(path).ok().and_then(|_| path.canonicalize().ok())
    }

    fn seal_directories(&self, path: &Path) -> Vec<(PathBuf, PathBuf)> {
        file::seal_directories(path)
    }

    fn folder(&self, path: &Path, links: Links, mmap: bool) -> Result<Box<dyn Folder>> {
        Ok(Box::new(folder::LocalFolder::open(path, links, mmap)?))
    }

    fn stage_file(
        &self,
        path: &Path,
        progress: &Progress,
    ) -> Result<(Box<dyn Publisher>, PathBuf)> {
        let (publisher, name) = publisher::LocalPublisher::file(path, progress)?;
        Ok((Box::new(publisher), name))
    }

    fn stage_directory(&self, path: &Path, progress: &Progress) -> Result<Box<dyn Publisher>> {
        Ok(Box::new(publisher::LocalPublisher::directory(path, progress)?))
    }

    fn stage_into(&self, path: &Path, progress: &Progress) -> Result<Box<dyn Publisher>> {
        Ok(Box::new(publisher::LocalPublisher::existing(path, progress)?))
    }

    fn join(&self, staged: &Path, progress: &Progress) -> Result<Box<dyn Publisher>> {
        Ok(Box::new(joined::Joined::open(staged, progress)?))
    }

    fn lock(&self, directory: &Path) -> Result<Box<dyn Held>> {
        Ok(Box::new(lock::LocalLock::take(directory)?))
    }

    fn remove_dir(&self, path: &Path, progress: &Progress) -> Result<()> {
        clean::remove_dir(path, progress)
    }

    fn remove_file(&self, path: &Path, progress: &Progress) -> Result<()> {
        progress.step(StepKind::Remove, path)?;
        std::fs::remove_file(path).map_err(Error::io("remove", path))
    }

    fn recover(&self, path: &Path) -> Result<Recovery> {
        clean::recover(path)
    }
}
