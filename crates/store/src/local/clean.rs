//! Removing what processes that were killed have left behind.

use std::io;
use std::path::Path;
use std::sync::Arc;

use super::place::{Below, Lock, Place, rename_new};
use super::staging::{hidden_name, stem, stem_of};
use super::{exchange, pending};
use crate::names::parent_of;
use crate::{Error, Progress, Recovery, StepKind};

/// Removes the staging directories in `home` whose writers are dead, only those beside `stem` if it
/// is given; says how many there were. Those of the living are locked.
///
/// Nobody asked for it: what cannot be removed now stays until the next time.
pub(super) fn clean(home: &Arc<Place>, stem: Option<&str>, progress: &Progress) -> usize {
    let Ok(entries) = home.dir.entries() else { return 0 };
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    // Listed first: what is removed meanwhile may disturb the listing.
    let names: Vec<_> = names.filter(|name| stem_of(name).is_some()).collect();
    let mut removed = 0;
    for name in names {
        let of = stem_of(&name).unwrap_or_default();
        if stem.is_some_and(|stem| stem != of) {
            continue;
        }
        let Ok(place) = home.enter(&name) else { continue };
        // With the lock, but before it had it, its writer may have published it.
        if place.lock() != Lock::Held || !place.is_at(home, &name) {
            continue;
        }
        match place.dir.is_dir(exchange::REPLACED) {
            true => exchange::retire_left_over(home, &name, of, &place, progress),
            false => remove(home, &name, &place, progress),
        }
        removed += usize::from(!place.is_at(home, &name));
    }
    // Its writer was killed before it could exchange the directory. A living one has it locked.
    if stem.is_none() && home.dir.is_dir(exchange::REPLACED) && home.lock() == Lock::Held {
        remove_directory(home, Path::new(exchange::REPLACED), progress);
        home.unlock();
    }
    removed
}

/// Removes a directory called `name` with all that is in it; links are removed, not followed.
pub(super) fn remove(home: &Place, name: &str, place: &Place, progress: &Progress) {
    let below = Below::of(place).unwrap_or_default();
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
pub(super) fn remove_directory(home: &Place, name: &Path, progress: &Progress) -> bool {
    let step = progress.step(StepKind::Remove, &home.path.join(name));
    step.is_ok() && home.dir.remove_dir(name).is_ok()
}

/// Removes the directory at `path` with all that is in it. It is taken out of its place at once, so that whoever
/// looks finds all of it or nothing; then its files are removed, and what cannot be is left over for the next
/// commit beside it.
///
/// # Errors
/// If it is not there, is being written to, or cannot be taken out of its place; if the disk does not take that.
pub(super) fn remove_dir(path: &Path, progress: &Progress) -> crate::Result<()> {
    let failed = |error| Error::io("remove", path)(error);
    let parent = Place::open(parent_of(path))?;
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let place = parent.enter(name).map_err(failed)?;
    // Who removes what is left over leaves alone what is locked.
    if place.lock() == Lock::Busy {
        return Err(Error::Busy { path: path.to_path_buf() });
    }
    progress.step(StepKind::Retire, path)?;
    let hidden = loop {
        let hidden = hidden_name(&stem(name));
        match rename_new((&parent, name), (&parent, &hidden)) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            renamed => break renamed.map(|()| hidden).map_err(failed)?,
        }
    };
    parent.sync(progress)?;
    remove(&parent, &hidden, &place, progress);
    Ok(())
}

/// Finishes a write into the directory at `path` that was interrupted, and removes what killed
/// processes have left in it and beside it. Writers that live are left alone; one that is just
/// publishing is waited for.
///
/// # Errors
/// If the directory cannot be opened, or a file cannot be put in its place.
pub(super) fn recover(path: &Path) -> crate::Result<Recovery> {
    let path = path.canonicalize().map_err(Error::io("open the directory", path))?;
    let (progress, root) = (Progress::default(), Arc::new(Place::open(&path)?));
    let files = pending::finish(&root, true, &progress)?;
    pending::check_finished(&root)?;
    let mut left_over = clean(&root, None, &progress);
    if let Some((parent, name)) = path.parent().zip(path.file_name())
        && let Some(name) = name.to_str()
        && let Ok(parent) = Place::open(parent)
    {
        left_over += clean(&Arc::new(parent), Some(&stem(name)), &progress);
    }
    Ok(Recovery { files, left_over })
}
