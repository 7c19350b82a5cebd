//! Rejection of reads of files that wait in a [redo log](super::pending) of an interrupted write.

use std::io;
use std::path::{Path, PathBuf};
use std::thread::sleep;

use cap_std::fs::Dir as CapDir;
use rustix::io::Errno;

use super::pending::{PENDING, is_foreign};
use super::target::follow;
use super::write_dir::{Below, Lock, PAUSE, WriteDir, if_there, is_no_directory};
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
    pub(super) fn around(path: &Path) -> Result<Vec<Self>> {
        let directory = if_there(path.canonicalize()).map_err(Error::io("open", path))?;
        let Some(directory) = directory else { return Ok(Vec::new()) };
        let mut logs = Vec::new();
        for root in directory.ancestors() {
            let (log, failed) = (root.join(PENDING), Error::io("open", root));
            let there = if_there(std::fs::symlink_metadata(&log));
            if there.map_err(Error::io("inspect", &log))?.is_some() {
                let dir = CapDir::open_ambient_dir(root, cap_std::ambient_authority());
                let below = directory.strip_prefix(root).unwrap_or(Path::new("")).to_path_buf();
                logs.push(Self { root: root.to_path_buf(), dir: dir.map_err(failed)?, below });
            }
        }
        Ok(logs)
    }

    /// Returns the logs in the parents of `path`.
    pub(super) fn above(path: &Path) -> Result<Vec<Self>> {
        let mut logs = Self::around(path)?;
        logs.retain(|log| log.below != Path::new(""));
        Ok(logs)
    }

    /// Fails if the file `name` in the directory waits; `path` is its path in messages.
    pub(super) fn check(&self, name: &Path, path: &Path) -> Result<()> {
        let root = if self.below == Path::new("") { parent_of(path) } else { &self.root };
        check(&self.dir, &self.below.join(name), || (path.to_path_buf(), root.to_path_buf()))
    }

    /// Returns the waiting files in the directory, by their names there.
    pub(super) fn waiting(&self) -> Result<Vec<String>> {
        let mut waiting = Vec::new();
        for name in self.files()? {
            if let Ok(below) = name.strip_prefix(&self.below)
                && let Some(below) = below.to_str()
                && self.has(&name)?
            {
                waiting.push(below.to_owned());
            }
        }
        Ok(waiting)
    }

    /// Returns whether the file `name`, relative to the directory of the log, waits.
    fn has(&self, name: &Path) -> Result<bool> {
        is_waiting(&self.dir, name).map_err(Error::io("inspect", self.root.join(PENDING)))
    }

    /// Returns the files in the log, relative to its directory; none if access to it is denied.
    fn files(&self) -> Result<Vec<PathBuf>> {
        /// Maximum number of attempts: a live writer may remove a directory of the log meanwhile.
        const MAX_TRIES: usize = 10;
        let mut files = Ok(Vec::new());
        for _ in 0..MAX_TRIES {
            files = match log_in(&self.dir).map(|log| Below::of(&log).map(|below| below.files)) {
                Err(error) if is_no_directory(&error) => return Ok(Vec::new()),
                Err(error) => Err(error),
                Ok(files) => files,
            };
            match &files {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                    return Ok(Vec::new());
                }
                _ => break,
            }
        }
        files.map_err(Error::io("list", self.root.join(PENDING)))
    }
}

/// Fails if the file at `path`, or the target of a link there, waits for an interrupted write.
pub(super) fn check_path(path: &Path) -> Result<()> {
    let path = follow(path)?;
    let Some(name) = path.file_name() else { return Ok(()) };
    let logs = Log::around(parent_of(&path))?;
    logs.iter().try_for_each(|log| log.check(Path::new(name), &path))
}

/// Returns whether a file will exist at `path` when an interrupted write is finished.
pub(super) fn is_expected(path: &Path) -> Result<bool> {
    let path = follow(path)?;
    let Some(name) = path.file_name() else { return Ok(false) };
    for log in Log::around(parent_of(&path))? {
        if log.has(&log.below.join(name))? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns the same for interrupted writes into the directory of the file.
pub(super) fn is_expected_beside(path: &Path) -> Result<bool> {
    let log = parent_of(path).join(PENDING);
    let there = if_there(std::fs::symlink_metadata(&log)).map_err(Error::io("inspect", &log))?;
    if there.is_some() { is_expected(path) } else { Ok(false) }
}

/// Fails if the file `name` in a directory waits for an interrupted write into it, or into a directory between it
/// and the file.
pub(super) fn check_below(dir: &CapDir, path: &Path, name: &Path) -> Result<()> {
    check(dir, name, || (path.join(name), path.to_path_buf()))?;
    for root in name.ancestors().skip(1).filter(|root| !root.as_os_str().is_empty()) {
        let failed = |error| Error::io("open", path.join(root))(error);
        // A path that leads out has no errno; opening the file explains it.
        let log = match dir.symlink_metadata(root.join(PENDING)) {
            Err(error) if error.raw_os_error().is_none() => None,
            log => if_there(log).map_err(failed)?,
        };
        if let Ok(rest) = name.strip_prefix(root)
            && log.is_some()
        {
            let dir = dir.open_dir(root).map_err(failed)?;
            check(&dir, rest, || (path.join(name), path.join(root)))?;
        }
    }
    Ok(())
}

/// Returns the target path of a file that is in a redo log and waits there, if the path of the file in a directory
/// is in such a log.
pub(super) fn target_of(dir: &CapDir, name: &str) -> io::Result<Option<String>> {
    let parts: Vec<_> = name.split('/').collect();
    let mut around = parts.splitn(2, |part| **part == *PENDING);
    let (Some(root), Some(rest)) = (around.next(), around.next()) else { return Ok(None) };
    let (root, rest) = (root.join("/"), rest.join("/"));
    let root = if root.is_empty() { ".".to_owned() } else { root };
    let waits = is_waiting(&dir.open_dir(&root)?, Path::new(&rest))?;
    Ok(waits.then(|| crate::plain(&format!("{root}/{rest}"))))
}

/// Fails if the file `name` in the directory of a redo log waits; `called` returns the paths of it and of the
/// directory for messages.
fn check(dir: &CapDir, name: &Path, called: impl Fn() -> (PathBuf, PathBuf)) -> Result<()> {
    /// Maximum wait for a live writer: renaming takes little time.
    const MAX_TRIES: usize = 100;
    let is_waiting = || {
        let waits = is_waiting(dir, name);
        waits.map_err(|error| Error::io("look for an interrupted write of", called().0)(error))
    };
    for _ in 0..MAX_TRIES {
        if !is_waiting()? {
            return Ok(());
        }
        let alive = is_alive(dir);
        if !alive.map_err(|error| Error::io("open the interrupted write of", called().0)(error))? {
            break;
        }
        sleep(PAUSE);
    }
    if !is_waiting()? {
        return Ok(());
    }
    let (path, directory) = called();
    Err(Error::Interrupted { path, directory })
}

fn is_waiting(dir: &CapDir, name: &Path) -> io::Result<bool> {
    let Some(log) = if_there(dir.symlink_metadata(PENDING))? else { return Ok(false) };
    if is_foreign(&dir.dir_metadata()?, &log) {
        return Ok(false);
    }
    match dir.symlink_metadata(Path::new(PENDING).join(name)) {
        // If access is denied, the file may be in the log.
        Err(error) if Errno::from_io_error(&error) == Some(Errno::ACCESS) => Ok(true),
        // A name that leads out, which has no errno, is not there; nor is one in a log that is a link to itself.
        Err(error) if error.raw_os_error().is_none() || is_no_directory(&error) => Ok(false),
        file => Ok(if_there(file)?.is_some_and(|file| file.is_file())),
    }
}

fn is_alive(dir: &CapDir) -> io::Result<bool> {
    match log_in(dir) {
        // Finished meanwhile, or the log of another user.
        Err(error) if is_no_directory(&error) => Ok(false),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(false),
        log => Ok(log?.lock_shared()? != Lock::Held),
    }
}

fn log_in(dir: &CapDir) -> io::Result<WriteDir> {
    WriteDir::at(dir.try_clone()?, PathBuf::new()).enter(PENDING)
}

/// Returns the entries in the directory at `path` that wait for an interrupted write. Listings of
/// the directory include them, though they may not exist yet; without them, the directory would look complete.
pub(super) fn waiting_entries(path: &Path) -> Result<Vec<Entry>> {
    let entry = |name: String| match name.split_once('/') {
        Some((directory, _)) => Entry { name: directory.to_owned(), is_dir: true },
        None => Entry { name, is_dir: false },
    };
    let mut entries = Vec::new();
    for log in Log::around(path)? {
        entries.extend(log.waiting()?.into_iter().map(entry));
    }
    Ok(entries)
}
