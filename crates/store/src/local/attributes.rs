//! Mode, owner and group of what is replaced.

use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;

use cap_std::fs::{Metadata, MetadataExt};
use rustix::fs::{Gid, Mode, RawMode, Uid, fchmod, fchown, fstat};

use super::place::{Below, Place};

const SET_UID: u32 = 0o4000;
const SET_GID: u32 = 0o2000;
const GROUP: u32 = 0o070;
const OTHERS: u32 = 0o007;
pub(super) const WRITE_OF_OTHERS: u32 = 0o022;

/// Whether a directory of this mode is one where everybody may put something, and nobody take away
/// what is another's (the sticky bit).
pub(crate) fn is_shared(mode: u32) -> bool {
    const STICKY: u32 = 0o1000;
    mode & STICKY != 0
}

/// Gives a file or directory the mode, and as far as this user may the owner and group, of what it
/// will replace; says whether it has all of them.
///
/// Under another group, the bits of the group would let others in than before: it keeps no more
/// than everybody has. A file never takes over that it runs as its owner or group.
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
    // After the owner: a change of that clears bits.
    change_mode(new, mode)?;
    Ok(owner && group)
}

/// Lets nobody but the owner write to a directory and what is below it.
pub(super) fn close(place: &Place) -> io::Result<()> {
    for name in std::iter::once(PathBuf::new()).chain(Below::of(place)?.directories) {
        let directory = place.below(&name)?;
        let mode = directory.dir.dir_metadata()?.mode() & 0o7777;
        change_mode(&directory.dir, mode & !WRITE_OF_OTHERS)?;
    }
    Ok(())
}

fn change_mode(of: impl AsFd, mode: u32) -> io::Result<()> {
    // Narrower on some systems.
    let mode = RawMode::try_from(mode).map_err(io::Error::other)?;
    Ok(fchmod(of, Mode::from_raw_mode(mode))?)
}
