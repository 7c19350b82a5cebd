//! Atomic replacement of an existing directory by a new one.
//!
//! The staging directory is moved beside the root and exchanged with it. The old root is then
//! marked, hidden and locked. Its files are removed one by one, and files that another process has added
//! meanwhile are moved to the new root.
//!
//! An exchange is atomic for readers, too, but would move files of others, and is impossible for mount points. So a
//! directory with foreign files gets a redo log instead, which readers must look for: one `stat` for each directory
//! above a file.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cap_std::fs::MetadataExt;
use rustix::io::Errno;

use super::attributes;
use super::clean::remove_directory;
use super::staging::{Staging, stem, stem_of};
use super::write_dir::{self, Below, Lock, WriteDir};
use crate::names::is_hidden;
use crate::{Error, Progress, Result, StepKind};

/// The name of an empty directory that marks a replaced directory, whose contents are old. A
/// staging directory without the mark was never published.
pub(super) const REPLACED: &str = ".replaced.lodstone";

/// Publishes by exchange, if the directory contains only files of this commit and the system supports it; returns
/// whether it did. `names` are those of all staged files.
pub(super) fn publish(
    staging: &mut Staging,
    root: &Arc<WriteDir>,
    names: &HashSet<&Path>,
    progress: &Progress,
) -> Result<bool> {
    let path = &root.path;
    let here = std::env::current_dir().is_ok_and(|here| here.starts_with(path));
    let Some((parent, name)) = path.parent().zip(path.file_name().and_then(|name| name.to_str()))
    else {
        return Ok(false);
    };
    let failed = |error| Error::io("publish", path)(error);
    if here || !staging.locked || stem(name) != name || !has_only(root, &staging.name, names)? {
        return Ok(false);
    }
    let parent = match WriteDir::open(parent) {
        Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::PermissionDenied => {
            return Ok(false);
        }
        parent => Arc::new(parent?),
    };
    // Locked, so that no cleanup mistakes the old root for a leftover.
    let locked = root.lock().map_err(failed)?;
    if locked != Lock::Held || !root.is_at(&parent, name).map_err(failed)? {
        return Ok(false);
    }
    if !inherit(staging, root).map_err(failed)? {
        return Ok(false);
    }
    staging.sync()?;
    if !swap(staging, root, (&parent, name), names, progress)? {
        return Ok(false);
    }
    // Sync before the removal of the old contents.
    parent.sync(progress)?;
    staging.spare.clear();
    // The old root now has the name of the staging directory. If it cannot be opened, the next commit removes it.
    if let (Ok(new), Ok(old)) = (parent.enter(name), root.dir.try_clone()) {
        let old = WriteDir::at(old, parent.path.join(&staging.name));
        retire((&parent, &staging.name), &old, &new, &|file| names.contains(file), progress);
    }
    Ok(true)
}

/// Moves the staging directory beside the root and exchanges them. The old root then has
/// the name of the staging directory.
fn swap(
    staging: &mut Staging,
    root: &Arc<WriteDir>,
    (parent, name): (&Arc<WriteDir>, &str),
    names: &HashSet<&Path>,
    progress: &Progress,
) -> Result<bool> {
    let marker = root.path.join(REPLACED);
    let failed = |error| Error::io("publish", &root.path)(error);
    progress.step(StepKind::MakeDirectory, &marker)?;
    root.dir.create_dir(REPLACED).map_err(Error::io("create the directory", &marker))?;
    let exchanged = progress.step(StepKind::Move, &staging.place.path).and_then(|()| {
        staging.move_to(parent, name).map_err(failed)?;
        // If another process has added files meanwhile, they would have to be rescued.
        if !has_only(root, REPLACED, names)? {
            return Err(failed(Errno::BUSY.into()));
        }
        progress.step(StepKind::Exchange, &root.path)?;
        write_dir::exchange((parent, &staging.name), (parent, name)).map_err(failed)
    });
    let Err(error) = exchanged else {
        staging.published = true;
        return Ok(true);
    };
    // A directory in the parent cannot become a redo log in the root.
    if Arc::ptr_eq(&staging.home, parent) {
        progress.step(StepKind::Move, &staging.place.path)?;
        staging.move_to(root, "").map_err(failed)?;
    }
    remove_directory(root, Path::new(REPLACED), progress);
    match &error {
        Error::Io { source, .. } if is_impossible(source) => Ok(false),
        _ => Err(error),
    }
}

/// Returns whether the error means that the system does not support the exchange here.
fn is_impossible(error: &io::Error) -> bool {
    use Errno as E;
    let errno = Errno::from_io_error(error);
    let unknown = [E::INVAL, E::NOSYS, E::OPNOTSUPP, E::NOTSUP];
    let ways = [&unknown[..], &[E::XDEV, E::BUSY, E::ACCESS, E::PERM, E::ROFS]].concat();
    errno.is_some_and(|errno| ways.contains(&errno))
}

/// Returns whether the root contains only files of this commit and the directory `own`, and no other
/// writer is active.
fn has_only(root: &WriteDir, own: &str, names: &HashSet<&Path>) -> Result<bool> {
    let failed = |error| Error::io("list", &root.path)(error);
    let parents: HashSet<_> = names.iter().flat_map(|name| name.ancestors().skip(1)).collect();
    let mut open = vec![PathBuf::from(".")];
    while let Some(directory) = open.pop() {
        for entry in root.dir.read_dir(&directory).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let kind = entry.file_type().map_err(failed)?;
            let name = directory.join(entry.file_name());
            let name = name.strip_prefix(".").unwrap_or(&name);
            if kind.is_dir() && parents.contains(name) {
                open.push(name.to_path_buf());
            } else if name != Path::new(own) && (kind.is_dir() || !names.contains(name)) {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

/// Gives the staged directories the mode, owner and group of those that they replace; returns whether no
/// other attributes (such as access control lists) would be lost.
fn inherit(staging: &Staging, root: &WriteDir) -> io::Result<bool> {
    let directories = Below::of(&staging.place)?.directories;
    let directories = directories.iter().map(PathBuf::as_path);
    for name in std::iter::once(Path::new("")).chain(directories) {
        let old = match root.below(name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            old => old?,
        };
        let new = staging.place.below(name)?;
        if has_attributes(&old) || !attributes::keep(&new.dir, &old.dir.dir_metadata()?)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns whether a directory has extended attributes beyond the security labels of the system.
#[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
fn has_attributes(place: &WriteDir) -> bool {
    let mut names = vec![0; 4096];
    match rustix::fs::flistxattr(&place.dir, names.as_mut_slice()) {
        Ok(len) => names
            .get(..len)
            .unwrap_or_default()
            .split(|byte| *byte == 0)
            .any(|name| !name.is_empty() && !name.starts_with(b"security.")),
        // Unless the file system has none, there may be some.
        Err(errno) => ![Errno::NOSYS, Errno::OPNOTSUPP, Errno::NOTSUP].contains(&errno),
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
fn has_attributes(_: &WriteDir) -> bool {
    false
}

/// Completes the work of a writer that was killed after it had exchanged the directory called `stem`.
pub(super) fn retire_left_over(
    home: &Arc<WriteDir>,
    name: &str,
    stem: &str,
    old: &WriteDir,
    progress: &Progress,
) {
    // In a directory with the sticky bit, a replaced directory of another user would plant its files in the new one.
    let owner = |place: &WriteDir| place.dir.dir_metadata().map(|metadata| metadata.uid());
    if let Ok(new) = home.enter(stem)
        && owner(old).is_ok_and(|old| owner(&new).is_ok_and(|new| old == new))
    {
        // The exchange must be durable before the old contents are removed.
        if home.sync(progress).is_err() {
            return;
        }
        let replaced = |file: &Path| new.dir.symlink_metadata(file).is_ok();
        retire((home, name), old, &new, &replaced, progress);
    }
}

/// Removes a replaced directory, and rescues the files that are not `replaced`. If that fails,
/// or the directory contains entries other than files, it is kept.
fn retire(
    (home, name): (&WriteDir, &str),
    old: &WriteDir,
    new: &WriteDir,
    replaced: &dyn Fn(&Path) -> bool,
    progress: &Progress,
) {
    /// Other processes may add files between attempts.
    const MAX_TRIES: usize = 10;
    for _ in 0..MAX_TRIES {
        if empty(old, new, replaced, progress).is_err()
            || !remove_directory(old, Path::new(REPLACED), progress)
            || remove_directory(home, Path::new(name), progress)
            || old.dir.create_dir(REPLACED).is_err()
        {
            return;
        }
    }
}

fn empty(
    old: &WriteDir,
    new: &WriteDir,
    replaced: &dyn Fn(&Path) -> bool,
    progress: &Progress,
) -> Result<()> {
    let failed = |error| Error::io("list", &old.path)(error);
    // Staging directories of other writers, which look for them in the new root.
    for entry in old.dir.entries().map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if let Ok(name) = entry.file_name().into_string()
            && stem_of(&name).is_some()
        {
            rescue(old, new, Path::new(&name), progress)?;
        }
    }
    let below = Below::of(old).map_err(failed)?;
    for file in &below.files {
        if replaced(file) {
            let path = old.path.join(file);
            progress.step(StepKind::Remove, &path)?;
            old.dir.remove_file(file).map_err(Error::io("remove", path))?;
        } else if is_plain(old, file) {
            rescue(old, new, file, progress)?;
        }
    }
    let marker = Path::new(REPLACED);
    for directory in below.directories.iter().rev().filter(|directory| *directory != marker) {
        remove_directory(old, directory, progress);
    }
    Ok(())
}

/// Returns whether the path is a regular file that is not hidden.
fn is_plain(place: &WriteDir, file: &Path) -> bool {
    let hidden = file.iter().any(|part| part.to_str().is_some_and(is_hidden));
    !hidden && place.dir.symlink_metadata(file).is_ok_and(|metadata| metadata.is_file())
}

/// Moves an unrelated file from a replaced directory to the new one.
fn rescue(old: &WriteDir, new: &WriteDir, name: &Path, progress: &Progress) -> Result<()> {
    let path = new.path.join(name);
    progress.step(StepKind::Rescue, &path)?;
    new.make(name.parent().unwrap_or(Path::new("")), progress)?;
    if new.dir.symlink_metadata(name).is_ok() {
        return Err(Error::Twice { path });
    }
    old.dir.rename(name, &new.dir, name).map_err(Error::io("move", path))
}
