//! Publication of several files into a directory with other contents, through a redo log.
//!
//! When all files are on disk, the staging directory is renamed to [`PENDING`], which publishes them: each is then
//! renamed to its target, by this process or by a later one. Until all of them are, a file that is still in the log
//! must not be read at its target: that is the old file, while others are new already
//! ([`waiting`](super::waiting)).
//!
//! A later process relies only on what is known about the leftovers themselves: their names are single names in the
//! directory that contains them, they are on disk before they are acted on, and a target that changed after them is
//! somebody's work and is kept. A file that is missing from a redo log must be in its place, with the same inode.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cap_std::fs::{Dir as CapDir, Metadata, MetadataExt};
use rustix::io::Errno;

use super::attributes;
use super::clean;
use super::staging::Staging;
use super::write_dir::{
    Below, Lock, Patience, WriteDir, identity, if_there, is_no_directory, rename_new,
};
use crate::{Error, Progress, Result, StepKind};

/// The name of a redo log.
pub(crate) const PENDING: &str = ".pending.lodstone";

/// A file in a redo log.
struct Logged<'a> {
    name: &'a Path,
    /// Device and inode, if this process wrote the file.
    identity: Option<(u64, u64)>,
}

/// Publishes the staged files; `names` are in the order in which they were written.
pub(super) fn publish(
    staging: &mut Staging,
    root: &Arc<WriteDir>,
    names: &[PathBuf],
    progress: &Progress,
) -> Result<()> {
    /// Without locks, other writers may interfere; a log that cannot be removed remains.
    const MAX_TRIES: usize = 100;
    let path = root.path.join(PENDING);
    let failed = |error| Error::io("publish", &path)(error);
    // Users who may write to the directory may finish the log, and users who may read it may see its contents.
    let old = root.dir.dir_metadata().map_err(failed)?;
    attributes::keep(&staging.place.dir, &old).map_err(failed)?;
    if attributes::is_shared(old.mode()) {
        attributes::close(&staging.place).map_err(failed)?;
    }
    let logged = |name| Logged { name, identity: identity(&staging.place.dir, name) };
    let logged: Vec<_> = names.iter().map(PathBuf::as_path).map(logged).collect();
    staging.sync()?;
    let mut tries = 0;
    loop {
        finish(root, true, progress)?;
        progress.step(StepKind::Pend, &path)?;
        match rename_new((root, &staging.name), (root, PENDING)) {
            Ok(()) => break,
            Err(error) if is_occupied(&error) && tries < MAX_TRIES => {
                if has_foreign_log(root).map_err(failed)? {
                    return Err(failed(error));
                }
                tries += 1;
            }
            Err(error) => return Err(failed(error)),
        }
    }
    if let Err(error) = root.sync(progress) {
        // Whether the rename is durable is unknown. No file is at its target yet, so the log can be
        // withdrawn; if that fails, or the log is durable after all, it is finished later.
        let retracted = progress.step(StepKind::Retract, &path).is_ok()
            && rename_new((root, PENDING), (root, &staging.name)).is_ok();
        staging.published = !retracted;
        return Err(error);
    }
    staging.published = true;
    roll_forward(root, &staging.place, &logged, progress)
}

fn is_occupied(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::EXIST | Errno::NOTEMPTY | Errno::NOTDIR))
}

/// Finishes the redo log of a dead writer in `root`, in the order of names; returns the number of
/// files. For a live writer, it waits or does nothing.
pub(super) fn finish(root: &WriteDir, wait: bool, progress: &Progress) -> Result<usize> {
    let path = root.path.join(PENDING);
    let mut patience = Patience::default();
    loop {
        let place = match root.enter(PENDING) {
            Ok(place) => place,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
            // A link or a file of that name was not written by a commit.
            Err(error) if is_no_directory(&error) => {
                root.dir.remove_file(PENDING).map_err(Error::io("remove", &path))?;
                return Ok(0);
            }
            Err(error) => return Err(Error::io("open the directory", path)(error)),
        };
        let failed = |error| Error::io("open the directory", &path)(error);
        if is_foreign_log(root, &place).map_err(failed)? {
            return Ok(0);
        }
        if place.lock().map_err(failed)? == Lock::Busy {
            if !wait {
                return Ok(0);
            }
            patience.pause(&root.path, progress)?;
            continue;
        }
        // The writer has finished, and another may have started.
        if !place.is_at(root, PENDING).map_err(failed)? {
            patience.pause(&root.path, progress)?;
            continue;
        }
        let names = files(&place).map_err(Error::io("list", &path))?;
        names.iter().try_for_each(|name| check_target(root, &place, name))?;
        // The log must be durable before any of its files is at its target.
        root.sync(progress)?;
        let logged: Vec<_> = names.iter().map(|name| Logged { name, identity: None }).collect();
        roll_forward(root, &place, &logged, progress)?;
        return Ok(names.len());
    }
}

/// Fails if a redo log remains that could not be removed.
pub(super) fn check_finished(root: &WriteDir) -> Result<()> {
    let failed = |error| Error::io("open the directory", root.path.join(PENDING))(error);
    let Some(log) = if_there(root.enter(PENDING)).map_err(failed)? else { return Ok(()) };
    // A live writer may have started.
    if is_foreign_log(root, &log).map_err(failed)?
        || log.lock().map_err(failed)? == Lock::Busy
        || !log.is_at(root, PENDING).map_err(failed)?
    {
        return Ok(());
    }
    let left = Below::of(&log).unwrap_or_default();
    let name = left.files.first().or(left.directories.last()).cloned().unwrap_or_default();
    Err(Error::io("remove", log.path.join(name))(io::ErrorKind::DirectoryNotEmpty.into()))
}

/// Returns the regular files of a redo log; other entries, which another user may have added, are ignored.
fn files(log: &WriteDir) -> io::Result<Vec<PathBuf>> {
    let mut names = Vec::new();
    for name in Below::of(log)?.files {
        // Without locks, another process may have published it meanwhile.
        if if_there(log.dir.symlink_metadata(&name))?.is_some_and(|file| file.is_file()) {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

/// Fails if the target file was changed after the redo log. Only the writer of the log, and
/// processes that finish it, change the log.
fn check_target(root: &WriteDir, log: &WriteDir, name: &Path) -> Result<()> {
    let changed = |metadata: &Metadata| (metadata.ctime(), metadata.ctime_nsec());
    let died = log.dir.dir_metadata().map_err(Error::io("inspect", &log.path))?;
    match root.dir.symlink_metadata(name) {
        Ok(target) if target.is_file() && changed(&target) > changed(&died) => {
            Err(Error::Overtaken { path: root.path.join(name), log: log.path.join(name) })
        }
        _ => Ok(()),
    }
}

/// Returns whether a redo log must be ignored: in a directory with the sticky bit,
/// a log must belong to this user or to the owner of the directory,
/// and no other user may have write permission.
pub(super) fn is_foreign(root: &Metadata, log: &Metadata) -> bool {
    let user = rustix::process::geteuid().as_raw();
    let ours = [user, root.uid()].contains(&log.uid());
    attributes::is_shared(root.mode()) && !(ours && log.mode() & attributes::WRITE_OF_OTHERS == 0)
}

fn is_foreign_log(root: &WriteDir, log: &WriteDir) -> io::Result<bool> {
    Ok(is_foreign(&root.dir.dir_metadata()?, &log.dir.dir_metadata()?))
}

/// Returns whether there is a redo log that must be ignored.
fn has_foreign_log(root: &WriteDir) -> io::Result<bool> {
    let log = if_there(root.enter(PENDING))?;
    log.map_or(Ok(false), |log| is_foreign_log(root, &log))
}

/// Renames every file to its target.
fn roll_forward(
    root: &WriteDir,
    log: &WriteDir,
    files: &[Logged<'_>],
    progress: &Progress,
) -> Result<()> {
    rename_all(root, log, files, progress).map_err(|source| Error::Unfinished {
        path: root.path.clone(),
        source: Box::new(source),
    })?;
    clean::remove(root, PENDING, log, progress);
    Ok(())
}

fn rename_all(
    root: &WriteDir,
    log: &WriteDir,
    files: &[Logged<'_>],
    progress: &Progress,
) -> Result<()> {
    let mut changed = BTreeSet::from([PathBuf::new()]);
    for file in files {
        let (name, path) = (file.name, root.path.join(file.name));
        let parent = name.parent().unwrap_or(Path::new(""));
        root.make(parent, progress)?;
        changed.extend(parent.ancestors().map(Path::to_path_buf));
        progress.step(StepKind::Replace, &path)?;
        match log.dir.rename(name, &root.dir, name) {
            // Another process has renamed it, and finishes the log too.
            Err(_) if is_gone(&log.dir, name) && is_at_target(root, file) => {}
            renamed => renamed.map_err(Error::io("publish", path))?,
        }
    }
    for directory in changed.iter().rev() {
        let place = root.below(directory);
        place.map_err(Error::io("sync", root.path.join(directory)))?.sync(progress)?;
    }
    Ok(())
}

fn is_gone(dir: &CapDir, name: &Path) -> bool {
    dir.symlink_metadata(name).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

/// Returns whether a file is at its target, as far as is known.
fn is_at_target(root: &WriteDir, file: &Logged<'_>) -> bool {
    file.identity.is_none() || identity(&root.dir, file.name) == file.identity
}
