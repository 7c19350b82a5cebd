//! Several files into a directory with other things in it: a redo log.
//!
//! When all files are on disk, the staging directory is renamed to [`PENDING`], and from then on they
//! are published: each is renamed to its target, by this process or by whoever comes later. Until
//! all of them are, a file that is still waiting must not be read under its name: what is there is
//! the old one, and others are new already ([`waiting`](super::waiting)).

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cap_std::fs::{Dir as CapDir, Metadata, MetadataExt};
use rustix::io::Errno;

use super::attributes;
use super::clean;
use super::place::{Below, Lock, Patience, Place, identity, rename_new};
use super::staging::Staging;
use crate::{Error, Progress, Result, StepKind};

/// The name of a redo log.
pub(crate) const PENDING: &str = ".pending.lodstone";

/// A file in a redo log.
struct Logged<'a> {
    name: &'a Path,
    /// Device and inode, if this process has written it.
    identity: Option<(u64, u64)>,
}

/// Publishes what is staged; `names` are in the order in which they were written.
pub(super) fn publish(
    staging: &mut Staging,
    root: &Arc<Place>,
    names: &[PathBuf],
    progress: &Progress,
) -> Result<()> {
    /// Others come in between where the file system has no locks; what cannot be removed stays.
    const TRIES: usize = 100;
    let path = root.path.join(PENDING);
    let failed = |error| Error::io("publish", &path)(error);
    // Who may write to the directory may finish this, and who may read it may see what it waits for.
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
            Err(error) if is_occupied(&error) && tries < TRIES && !is_strangers(root) => tries += 1,
            Err(error) => return Err(failed(error)),
        }
    }
    if let Err(error) = root.sync(progress) {
        // Whether the disk has it is unknown. Nothing is in its place yet, so that it can be taken
        // back; if that fails, or the disk has it nevertheless, it is finished later.
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

/// Finishes what a writer that died has left to do in `root`, in the order of names; says how many
/// files that were. A writer that lives is waited for, or left alone.
pub(super) fn finish(root: &Place, wait: bool, progress: &Progress) -> Result<usize> {
    let path = root.path.join(PENDING);
    let mut patience = Patience::default();
    loop {
        let place = match root.enter(PENDING) {
            Ok(place) => place,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
            // A link or a file in its place is nothing that was written here.
            Err(error) if is_no_directory(&error) => {
                root.dir.remove_file(PENDING).map_err(Error::io("remove", &path))?;
                return Ok(0);
            }
            Err(error) => return Err(Error::io("open the directory", path)(error)),
        };
        if is_theirs(root, &place) {
            return Ok(0);
        }
        if place.lock() == Lock::Busy {
            if !wait {
                return Ok(0);
            }
            patience.pause(&root.path, progress)?;
            continue;
        }
        // Its writer has finished, and the next may have come.
        if !place.is_at(root, PENDING) {
            continue;
        }
        let names = files(&place).map_err(Error::io("list", &path))?;
        names.iter().try_for_each(|name| check_target(root, &place, name))?;
        // The disk has it as a log before a file of it is anywhere else.
        root.sync(progress)?;
        let logged: Vec<_> = names.iter().map(|name| Logged { name, identity: None }).collect();
        roll_forward(root, &place, &logged, progress)?;
        return Ok(names.len());
    }
}

/// Fails if there still is a redo log that could not be removed.
pub(super) fn check_finished(root: &Place) -> Result<()> {
    let log = root.enter(PENDING).ok().filter(|log| !is_theirs(root, log));
    // A living writer may have come.
    let Some(log) = log.filter(|log| log.lock() != Lock::Busy && log.is_at(root, PENDING)) else {
        return Ok(());
    };
    let left = Below::of(&log).unwrap_or_default();
    let name = left.files.first().or(left.directories.last()).cloned().unwrap_or_default();
    Err(Error::io("remove", log.path.join(name))(io::ErrorKind::DirectoryNotEmpty.into()))
}

fn is_no_directory(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::NOTDIR | Errno::LOOP))
}

/// What is published from a redo log: regular files, whatever else a stranger has put there.
fn files(log: &Place) -> io::Result<Vec<PathBuf>> {
    let mut names = Below::of(log)?.files;
    names.retain(|name| log.dir.symlink_metadata(name).is_ok_and(|file| file.is_file()));
    names.sort();
    Ok(names)
}

/// Fails if the file that would be replaced was changed after its writer had died: nothing else
/// than the writer, and who finishes its work, changes the log.
fn check_target(root: &Place, log: &Place, name: &Path) -> Result<()> {
    let changed = |metadata: &Metadata| (metadata.ctime(), metadata.ctime_nsec());
    let died = log.dir.dir_metadata().map_err(Error::io("inspect", &log.path))?;
    match root.dir.symlink_metadata(name) {
        Ok(target) if target.is_file() && changed(&target) > changed(&died) => {
            Err(Error::Overtaken { path: root.path.join(name), log: log.path.join(name) })
        }
        _ => Ok(()),
    }
}

/// Whether the redo log in a directory replaces nothing, and nothing waits for it: in a directory
/// where everybody may write, and nobody replace what is another's (the sticky bit), it has to be
/// of this user or of the owner of the directory, and nobody else may write to it.
pub(super) fn is_foreign(root: &Metadata, log: &Metadata) -> bool {
    let user = rustix::process::geteuid().as_raw();
    let ours = [user, root.uid()].contains(&log.uid());
    attributes::is_shared(root.mode()) && !(ours && log.mode() & attributes::WRITE_OF_OTHERS == 0)
}

fn is_theirs(root: &Place, log: &Place) -> bool {
    let (Ok(root), Ok(log)) = (root.dir.dir_metadata(), log.dir.dir_metadata()) else {
        return true;
    };
    is_foreign(&root, &log)
}

/// Whether there is a redo log that stays where it is.
fn is_strangers(root: &Place) -> bool {
    root.enter(PENDING).is_ok_and(|log| is_theirs(root, &log))
}

/// Puts every file in its place.
fn roll_forward(
    root: &Place,
    log: &Place,
    files: &[Logged<'_>],
    progress: &Progress,
) -> Result<()> {
    put_all(root, log, files, progress).map_err(|source| Error::Unfinished {
        path: root.path.clone(),
        source: Box::new(source),
    })?;
    clean::remove(root, PENDING, log, progress);
    Ok(())
}

fn put_all(root: &Place, log: &Place, files: &[Logged<'_>], progress: &Progress) -> Result<()> {
    let mut changed = BTreeSet::from([PathBuf::new()]);
    for file in files {
        let (name, path) = (file.name, root.path.join(file.name));
        let parent = name.parent().unwrap_or(Path::new(""));
        root.make(parent, progress)?;
        changed.extend(parent.ancestors().map(Path::to_path_buf));
        progress.step(StepKind::Replace, &path)?;
        match log.dir.rename(name, &root.dir, name) {
            // By somebody else, who finishes it too.
            Err(_) if is_gone(&log.dir, name) && is_put(root, file) => {}
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

/// Whether a file is in its place, as far as it is known.
fn is_put(root: &Place, file: &Logged<'_>) -> bool {
    file.identity.is_none() || identity(&root.dir, file.name) == file.identity
}
