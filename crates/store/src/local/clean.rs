//! Removal of leftovers of killed processes.

use std::path::Path;
use std::sync::Arc;

use super::staging::{hide, stem, stem_of};
use super::write_dir::{Below, Lock, WriteDir, rename_new};
use super::{exchange, pending};
use crate::names::parent_of;
use crate::{Error, Progress, Recovery, StepKind};

/// Removes the staging directories in `home` whose writers are dead, and returns their number; only those for the
/// directory `stem`, if it is given. The staging directories of live writers are locked.
///
/// This is best effort: what cannot be removed now is left for the next time.
pub(super) fn clean(home: &Arc<WriteDir>, stem: Option<&str>, progress: &Progress) -> usize {
    let Ok(entries) = home.dir.entries() else { return 0 };
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    // Collected first: removals may disturb the iteration.
    let names: Vec<_> = names.filter(|name| stem_of(name).is_some()).collect();
    let is_locked = |place: &WriteDir| place.lock().is_ok_and(|lock| lock == Lock::Held);
    let mut removed = 0;
    for name in names {
        let of = stem_of(&name).unwrap_or_default();
        if stem.is_some_and(|stem| stem != of) {
            continue;
        }
        let Ok(place) = home.enter(&name) else { continue };
        // Before the lock was taken, the writer may have published the directory.
        if !is_locked(&place) || !place.is_at(home, &name).unwrap_or(false) {
            continue;
        }
        match place.dir.is_dir(exchange::REPLACED) {
            true => exchange::retire_left_over(home, &name, of, &place, progress),
            false => remove(home, &name, &place, progress),
        }
        removed += usize::from(!place.is_at(home, &name).unwrap_or(true));
    }
    // The writer was killed before it could exchange the directory. A live writer holds the lock.
    if stem.is_none() && home.dir.is_dir(exchange::REPLACED) && is_locked(home) {
        remove_directory(home, Path::new(exchange::REPLACED), progress);
        home.unlock();
    }
    removed
}

/// Removes a directory called `name` and its contents; links are removed, not followed.
pub(super) fn remove(home: &WriteDir, name: &str, place: &WriteDir, progress: &Progress) {
    let mut below = Below::default();
    let _ = below.find(place);
    for file in &below.files {
        let removed = progress.step(StepKind::Remove, &place.path.join(file));
        let _ = removed.map(|()| place.dir.remove_file(file));
    }
    for directory in below.directories.iter().rev() {
        remove_directory(place, directory, progress);
    }
    remove_directory(home, Path::new(name), progress);
}

/// Removes a directory if it is empty.
pub(super) fn remove_directory(home: &WriteDir, name: &Path, progress: &Progress) -> bool {
    let step = progress.step(StepKind::Remove, &home.path.join(name));
    step.is_ok() && home.dir.remove_dir(name).is_ok()
}

/// Removes the directory at `path` and its contents. It is first renamed, so that readers find either all or none
/// of it; then its files are removed. The next commit beside it removes what is left.
///
/// # Errors
/// Fails if the directory does not exist, is being written to, or cannot be renamed, or if the sync fails.
pub(super) fn remove_dir(path: &Path, progress: &Progress) -> crate::Result<()> {
    let failed = |error| Error::io("remove", path)(error);
    let parent = WriteDir::open(parent_of(path))?;
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let place = parent.enter(name).map_err(failed)?;
    // The cleanup skips locked directories.
    if place.lock().map_err(failed)? == Lock::Busy {
        return Err(Error::Busy { path: path.to_path_buf() });
    }
    progress.step(StepKind::Retire, path)?;
    let hidden = hide((&parent, name), &parent, &stem(name)).map_err(failed)?;
    if let Err(error) = parent.sync(progress) {
        // Whether the new name is durable is unknown; without its files, the old one must not come back.
        let _ = rename_new((&parent, &hidden), (&parent, name));
        return Err(error);
    }
    remove(&parent, &hidden, &place, progress);
    Ok(())
}

/// Finishes an interrupted write into the directory at `path`, and removes leftovers of killed
/// processes in it and beside it. Live writers are not disturbed; one that is publishing is waited
/// for.
///
/// # Errors
/// Fails if the directory cannot be opened, or a file cannot be published.
pub(super) fn recover(path: &Path) -> crate::Result<Recovery> {
    let path = path.canonicalize().map_err(Error::io("open the directory", path))?;
    let (progress, root) = (Progress::default(), Arc::new(WriteDir::open(&path)?));
    let files = pending::finish(&root, true, &progress)?;
    pending::check_finished(&root)?;
    let mut left_over = clean(&root, None, &progress);
    if let Some((parent, name)) = path.parent().zip(path.file_name())
        && let Some(name) = name.to_str()
        && let Ok(parent) = WriteDir::open(parent)
    {
        left_over += clean(&Arc::new(parent), Some(&stem(name)), &progress);
    }
    Ok(Recovery { files, left_over })
}
