//! Mode, owner and group of replaced files and directories.

use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;

use cap_std::fs::{Metadata, MetadataExt};
use rustix::fs::{Gid, Mode, RawMode, Uid, fchmod, fchown, fstat};

use super::write_dir::{Below, WriteDir};

const SET_UID: u32 = 0o4000;
const SET_GID: u32 = 0o2000;
const GROUP: u32 = 0o070;
const OTHERS: u32 = 0o007;
pub(super) const WRITE_OF_OTHERS: u32 = 0o022;

/// Returns whether the mode of a directory has the sticky bit: users may create files, but not replace or remove
/// those of others.
pub(crate) fn is_shared(mode: u32) -> bool {
    const STICKY: u32 = 0o1000;
    mode & STICKY != 0
}

/// Gives a new file or directory the mode and, if permitted, the owner and group of the one it
/// replaces; returns whether owner and group match.
///
/// If the group differs, the group bits would grant access to other users than before: they are limited to
/// those of others. A file never inherits the set-user-ID or set-group-ID bit.
pub(super) fn keep(new: impl AsFd, old: &Metadata) -> io::Result<bool> {
    let owned = || fstat(&new).map(|stat| (stat.st_uid == old.uid(), stat.st_gid == old.gid()));
    if owned()? != (true, true) {
        let (owner, group) = (Uid::from_raw(old.uid()), Gid::from_raw(old.gid()));
        if fchown(&new, Some(owner), Some(group)).is_err() {
            let _ = fchown(&new, None, Some(group));
        }
    }
    let (owner, group) = owned()?;
    let mut mode = old.mode() & 0o7777;
    if !owner || !old.is_dir() {
        mode &= !SET_UID;
    }
    if !old.is_dir() {
        mode &= !SET_GID;
    }
    if !group {
        mode &= !SET_GID & (!GROUP | (mode & OTHERS) << 3);
    }
    // After the change of the owner, which clears bits.
    change_mode(new, mode)?;
    Ok(owner && group)
}

/// Removes the write permission of group and others from a directory and the directories below it.
pub(super) fn close(place: &WriteDir) -> io::Result<()> {
    for name in std::iter::once(PathBuf::new()).chain(Below::of(place)?.directories) {
        let directory = place.below(&name)?;
        let mode = directory.dir.dir_metadata()?.mode() & 0o7777;
        change_mode(&directory.dir, mode & !WRITE_OF_OTHERS)?;
    }
    Ok(())
}

fn change_mode(of: impl AsFd, mode: u32) -> io::Result<()> {
    // The type is narrower on some systems.
    let mode = RawMode::try_from(mode).map_err(io::Error::other)?;
    Ok(fchmod(of, Mode::from_raw_mode(mode))?)
}
