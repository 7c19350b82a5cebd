//! Mode, owner and group of what is replaced.

use std::io;
use std::os::fd::AsFd;

use cap_std::fs::{Metadata, MetadataExt};
use rustix::fs::{Gid, Mode, Uid, fchmod, fchown, fstat};

const SET_UID: u32 = 0o4000;
const SET_GID: u32 = 0o2000;
const GROUP: u32 = 0o070;
const OTHERS: u32 = 0o007;

/// Gives a file or directory the mode, and as far as this user may the owner and group, of what it
/// will replace; says whether it has all of them.
///
/// Under another group, the bits of the group would let others in than before: it keeps no more
/// than everybody has.
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
    if !owner {
        mode &= !SET_UID;
    }
    if !group {
        mode &= !SET_GID & (!GROUP | (mode & OTHERS) << 3);
    }
    // After the owner: a change of that clears bits.
    fchmod(&new, Mode::from_raw_mode(mode))?;
    Ok(owner && group)
}
