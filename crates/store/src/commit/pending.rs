//! Several files into a directory with other things in it: a redo log.
//!
//! When all files are on disk, the staging directory is renamed to [`PENDING`], and from then on they
//! are published: each is renamed to its target, by this process or by whoever comes later. Until
//! all of them are, a file that is still waiting must not be read under its name: what is there is
//! the old one, and others are new already.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

use cap_std::fs::Dir as CapDir;
use rustix::io::Errno;

use super::attributes;
use super::clean;
use super::place::{Below, Lock, Place, rename_new};
use super::staging::Staging;
use super::target::{follow, parent_of};
use crate::{Entry, Error, Progress, Result, Step};

/// The name of a redo log.
pub(super) const PENDING: &str = ".pending.lodstone";

/// How often it is looked whether a writer has finished.
const PAUSE: Duration = Duration::from_millis(10);

/// Publishes what is staged; `names` are in the order in which they were written.
pub(super) fn publish(
    staging: &mut Staging,
    root: &Arc<Place>,
    names: &[&Path],
    progress: &Progress,
) -> Result<()> {
    let failed = |error| Error::io("publish", root.path.join(PENDING))(error);
    // Who may write to the directory may finish this, and who may read it may see what it waits for.
    let old = root.dir.dir_metadata().map_err(failed)?;
    attributes::keep(&staging.place.dir, &old).map_err(failed)?;
    staging.sync()?;
    loop {
        finish(root, true, progress)?;
        progress.step(Step::Pend(&root.path.join(PENDING)))?;
        match rename_new((root, &staging.name), (root, PENDING)) {
            Ok(()) => break,
            Err(error) if is_occupied(&error) && !is_strangers(root) => {}
            Err(error) => return Err(failed(error)),
        }
    }
    if let Err(error) = root.sync(progress) {
        // Whether the disk has it is unknown. Nothing is in its place yet, so that it can be taken
        // back; if that fails, or the disk has it nevertheless, it is finished later.
        let retracted = progress.step(Step::Retract(&root.path.join(PENDING))).is_ok()
            && rename_new((root, PENDING), (root, &staging.name)).is_ok();
        staging.published = !retracted;
        return Err(error);
    }
    staging.published = true;
    roll_forward(root, &staging.place, names, progress)
}

fn is_occupied(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::EXIST | Errno::NOTEMPTY | Errno::NOTDIR))
}

/// Finishes what a writer that died has left to do in `root`; says how many files that were. A
/// writer that lives is waited for, or left alone.
pub(super) fn finish(root: &Place, wait: bool, progress: &Progress) -> Result<usize> {
    let path = root.path.join(PENDING);
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
        while place.lock() == Lock::Busy {
            if !wait {
                return Ok(0);
            }
            progress.advance(0)?;
            sleep(PAUSE);
        }
        if !is_trusted(root, &place) {
            return Ok(0);
        }
        // Its writer has finished, and the next may have come.
        if !place.is_at(root, PENDING) {
            continue;
        }
        let mut names = Below::of(&place).map_err(Error::io("list", &path))?.files;
        names.retain(|name| place.dir.symlink_metadata(name).is_ok_and(|file| file.is_file()));
        names.sort();
        let names: Vec<_> = names.iter().map(PathBuf::as_path).collect();
        roll_forward(root, &place, &names, progress)?;
        return Ok(names.len());
    }
}

fn is_no_directory(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::NOTDIR | Errno::LOOP))
}

/// Whether the files in a redo log may replace others. In a directory where everybody may write, and
/// nobody replace what is another's (the sticky bit), it has to be of this user or of the owner.
fn is_trusted(root: &Place, pending: &Place) -> bool {
    use cap_std::fs::MetadataExt;
    const STICKY: u32 = 0o1000;
    let (Ok(root), Ok(pending)) = (root.dir.dir_metadata(), pending.dir.dir_metadata()) else {
        return false;
    };
    let user = rustix::process::geteuid().as_raw();
    root.mode() & STICKY == 0 || [user, root.uid()].contains(&pending.uid())
}

/// Whether there is a redo log that stays where it is.
fn is_strangers(root: &Place) -> bool {
    root.enter(PENDING).is_ok_and(|pending| !is_trusted(root, &pending))
}

/// Puts every file in its place. One that is not there any more was put there by somebody else.
fn roll_forward(root: &Place, pending: &Place, names: &[&Path], progress: &Progress) -> Result<()> {
    put_all(root, pending, names, progress).map_err(|source| Error::Unfinished {
        path: root.path.clone(),
        source: Box::new(source),
    })?;
    clean::remove(root, PENDING, pending, progress);
    Ok(())
}

fn put_all(root: &Place, pending: &Place, names: &[&Path], progress: &Progress) -> Result<()> {
    let mut changed = BTreeSet::from([PathBuf::new()]);
    for name in names {
        let path = root.path.join(name);
        let parent = name.parent().unwrap_or(Path::new(""));
        root.make(parent, progress)?;
        changed.extend(parent.ancestors().map(Path::to_path_buf));
        progress.step(Step::Replace(&path))?;
        match pending.dir.rename(name, &root.dir, name) {
            Err(_) if is_gone(&pending.dir, name) => {}
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

/// Fails if the file at `path`, or what a link there leads to, waits for an interrupted write.
pub(crate) fn check_path(path: &Path) -> Result<()> {
    let path = follow(path);
    log_beside(&path).map_or(Ok(()), |(dir, parent, name)| check(&dir, parent, name))
}

/// Whether there will be a file at `path` when an interrupted write is finished.
pub(crate) fn is_expected(path: &Path) -> bool {
    let path = follow(path);
    log_beside(&path).is_some_and(|(dir, _, name)| is_waiting(&dir, name))
}

/// The directory that a file is in, opened and by its path, and the name of the file there, if there
/// is a redo log beside it.
fn log_beside(path: &Path) -> Option<(CapDir, &Path, &Path)> {
    let (parent, name) = (parent_of(path), path.file_name()?);
    std::fs::symlink_metadata(parent.join(PENDING)).ok()?;
    let dir = CapDir::open_ambient_dir(parent, cap_std::ambient_authority()).ok()?;
    Some((dir, parent, Path::new(name)))
}

/// Fails if the file `name` in a directory waits for a write into it, or into a directory on the way
/// to the file, that was interrupted.
pub(crate) fn check_below(dir: &CapDir, path: &Path, name: &Path) -> Result<()> {
    check(dir, path, name)?;
    for root in name.ancestors().skip(1).filter(|root| !root.as_os_str().is_empty()) {
        if let Ok(rest) = name.strip_prefix(root)
            && dir.symlink_metadata(root.join(PENDING)).is_ok()
            && let Ok(dir) = dir.open_dir(root)
        {
            check(&dir, &path.join(root), rest)?;
        }
    }
    Ok(())
}

fn check(dir: &CapDir, root: &Path, name: &Path) -> Result<()> {
    /// As long as a writer that lives is waited for: renaming takes no time.
    const TRIES: usize = 100;
    for _ in 0..TRIES {
        if !is_waiting(dir, name) {
            return Ok(());
        }
        if !is_alive(dir) {
            break;
        }
        sleep(PAUSE);
    }
    match is_waiting(dir, name) {
        true => Err(Error::Interrupted { path: root.join(name), directory: root.to_path_buf() }),
        false => Ok(()),
    }
}

fn is_waiting(dir: &CapDir, name: &Path) -> bool {
    if dir.symlink_metadata(PENDING).is_err() {
        return false;
    }
    match dir.symlink_metadata(Path::new(PENDING).join(name)) {
        Ok(file) => file.is_file(),
        // If it cannot be told, it may be.
        Err(error) => Errno::from_io_error(&error) == Some(Errno::ACCESS),
    }
}

fn is_alive(dir: &CapDir) -> bool {
    let root = dir.try_clone().map(|dir| Place::at(dir, PathBuf::new()));
    let pending = root.and_then(|root| root.enter(PENDING));
    pending.is_ok_and(|pending| pending.lock_shared() != Lock::Held)
}

/// The files that wait for an interrupted write into a directory, by relative path. What lists the
/// directory lists them too, though they may not be there: else what is there would look complete.
pub(crate) fn waiting(dir: &CapDir) -> Vec<String> {
    let root = dir.try_clone().map(|dir| Place::at(dir, PathBuf::new()));
    let pending = root.and_then(|root| root.enter(PENDING));
    let files = pending.and_then(|pending| Below::of(&pending)).unwrap_or_default().files;
    files.into_iter().filter_map(|file| file.into_os_string().into_string().ok()).collect()
}

/// The same in the directory at `path`: its entries.
pub(crate) fn waiting_entries(path: &Path) -> Vec<Entry> {
    if std::fs::symlink_metadata(path.join(PENDING)).is_err() {
        return Vec::new();
    }
    let Ok(dir) = CapDir::open_ambient_dir(path, cap_std::ambient_authority()) else {
        return Vec::new();
    };
    let entry = |name: String| match name.split_once('/') {
        Some((directory, _)) => Entry { name: directory.to_owned(), is_dir: true },
        None => Entry { name, is_dir: false },
    };
    waiting(&dir).into_iter().map(entry).collect()
}
