//! Rejection of reads of files that wait in a [redo log](super::pending) of an interrupted write.

use std::io;
use std::path::{Path, PathBuf};
use std::thread::sleep;

use cap_std::fs::Dir as CapDir;
use rustix::io::Errno;

use super::pending::{PENDING, is_foreign};
use super::target::follow;
use super::write_dir::{Below, Lock, PAUSE, WriteDir};
use crate::names::parent_of;
use crate::{Entry, Error, Result};

/// A redo log in a directory or above it.
#[derive(Debug)]
pub(super) struct Log {
    /// The directory that contains the log.
    root: PathBuf,
    dir: CapDir,
    /// The relative path from `root` to the directory.
    below: PathBuf,
}

impl Log {
    /// Returns the logs in the directory at `path` and in its parents.
    pub(super) fn around(path: &Path) -> Vec<Self> {
        let Ok(directory) = path.canonicalize() else { return Vec::new() };
        let log = |root: &Path| {
            std::fs::symlink_metadata(root.join(PENDING)).ok()?;
            let dir = CapDir::open_ambient_dir(root, cap_std::ambient_authority()).ok()?;
            let below = directory.strip_prefix(root).ok()?.to_path_buf();
            Some(Self { root: root.to_path_buf(), dir, below })
        };
        directory.ancestors().filter_map(log).collect()
    }

    /// Returns the logs in the parents of `path`.
    pub(super) fn above(path: &Path) -> Vec<Self> {
        let mut logs = Self::around(path);
        logs.retain(|log| log.below != Path::new(""));
        logs
    }

    /// Fails if the file `name` in the directory waits; `path` is its path in messages.
    pub(super) fn check(&self, name: &Path, path: &Path) -> Result<()> {
        let root = if self.below == Path::new("") { parent_of(path) } else { &self.root };
        check(&self.dir, &self.below.join(name), || (path.to_path_buf(), root.to_path_buf()))
    }

    /// Returns the waiting files in the directory, by their names there.
    pub(super) fn waiting(&self) -> Vec<String> {
        let mut files = log_in(&self.dir).and_then(|log| Below::of(&log)).unwrap_or_default().files;
        files.retain(|name| is_waiting(&self.dir, name));
        let names = files.iter().filter_map(|name| name.strip_prefix(&self.below).ok()?.to_str());
        names.map(str::to_owned).collect()
    }
}

/// Fails if the file at `path`, or the target of a link there, waits for an interrupted write.
pub(super) fn check_path(path: &Path) -> Result<()> {
    let path = follow(path);
    let Some(name) = path.file_name() else { return Ok(()) };
    let logs = Log::around(parent_of(&path));
    logs.iter().try_for_each(|log| log.check(Path::new(name), &path))
}

/// Returns whether a file will exist at `path` when an interrupted write is finished.
pub(super) fn is_expected(path: &Path) -> bool {
    let path = follow(path);
    let Some(name) = path.file_name() else { return false };
    let logs = Log::around(parent_of(&path));
    logs.iter().any(|log| is_waiting(&log.dir, &log.below.join(name)))
}

/// Returns the same for interrupted writes into the directory of the file.
pub(super) fn is_expected_beside(path: &Path) -> bool {
    std::fs::symlink_metadata(parent_of(path).join(PENDING)).is_ok() && is_expected(path)
}

/// Fails if the file `name` in a directory waits for an interrupted write into it, or into a directory between it
/// and the file.
pub(super) fn check_below(dir: &CapDir, path: &Path, name: &Path) -> Result<()> {
    check(dir, name, || (path.join(name), path.to_path_buf()))?;
    for root in name.ancestors().skip(1).filter(|root| !root.as_os_str().is_empty()) {
        if let Ok(rest) = name.strip_prefix(root)
            && dir.symlink_metadata(root.join(PENDING)).is_ok()
            && let Ok(dir) = dir.open_dir(root)
        {
            check(&dir, rest, || (path.join(name), path.join(root)))?;
        }
    }
    Ok(())
}

/// Returns the target path of a file that is in a redo log and waits there, if the path of the file in a directory
/// is in such a log.
pub(super) fn target_of(dir: &CapDir, name: &str) -> Option<String> {
    let parts: Vec<_> = name.split('/').collect();
    let log = parts.iter().position(|part| *part == PENDING)?;
    let (root, rest) = (parts.get(..log)?.join("/"), parts.get(log + 1..)?.join("/"));
    let root = if root.is_empty() { ".".to_owned() } else { root };
    let waits = is_waiting(&dir.open_dir(&root).ok()?, Path::new(&rest));
    waits.then(|| crate::plain(&format!("{root}/{rest}")))
}

/// Fails if the file `name` in the directory of a redo log waits; `called` returns the paths of it and of the
/// directory for messages.
fn check(dir: &CapDir, name: &Path, called: impl Fn() -> (PathBuf, PathBuf)) -> Result<()> {
    /// Maximum wait for a live writer: renaming takes little time.
    const MAX_TRIES: usize = 100;
    for _ in 0..MAX_TRIES {
        if !is_waiting(dir, name) {
            return Ok(());
        }
        if !is_alive(dir) {
            break;
        }
        sleep(PAUSE);
    }
    if !is_waiting(dir, name) {
        return Ok(());
    }
    let (path, directory) = called();
    Err(Error::Interrupted { path, directory })
}

fn is_waiting(dir: &CapDir, name: &Path) -> bool {
    let Ok(log) = dir.symlink_metadata(PENDING) else { return false };
    if dir.dir_metadata().is_ok_and(|root| is_foreign(&root, &log)) {
        return false;
    }
    match dir.symlink_metadata(Path::new(PENDING).join(name)) {
        Ok(file) => file.is_file(),
        // If access is denied, the file may be in the log.
        Err(error) => Errno::from_io_error(&error) == Some(Errno::ACCESS),
    }
}

fn is_alive(dir: &CapDir) -> bool {
    log_in(dir).is_ok_and(|log| log.lock_shared() != Lock::Held)
}

fn log_in(dir: &CapDir) -> io::Result<WriteDir> {
    WriteDir::at(dir.try_clone()?, PathBuf::new()).enter(PENDING)
}

/// Returns the entries in the directory at `path` that wait for an interrupted write. Listings of
/// the directory include them, though they may not exist yet; without them, the directory would look complete.
pub(super) fn waiting_entries(path: &Path) -> Vec<Entry> {
    let entry = |name: String| match name.split_once('/') {
        Some((directory, _)) => Entry { name: directory.to_owned(), is_dir: true },
        None => Entry { name, is_dir: false },
    };
    Log::around(path).iter().flat_map(Log::waiting).map(entry).collect()
}
