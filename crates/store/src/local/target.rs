//! Where files are to be, by the paths that callers give.

use std::path::{Path, PathBuf};

use super::place::Place;
use crate::names::parent_of;
use crate::{Error, Result};

/// Fails if what is in the directory already would be in the way of `target` when it is published: a
/// directory or device in its place, or a file or a link to the outside in that of its directory.
pub(super) fn check_free(root: &Place, target: &Path) -> Result<()> {
    let path = root.path.join(target);
    if let Ok(there) = root.dir.symlink_metadata(target)
        && !there.is_file()
        && !there.is_symlink()
    {
        return Err(Error::NotAFile { path, found: "something that is not a file" });
    }
    let parents: Vec<_> = target.ancestors().skip(1).collect();
    for parent in parents.into_iter().rev().filter(|parent| !parent.as_os_str().is_empty()) {
        if root.dir.symlink_metadata(parent).is_err_and(|error| error.kind() == NOT_FOUND) {
            break;
        }
        let failed = Error::io("write into", root.path.join(parent));
        if !root.dir.metadata(parent).map_err(failed)?.is_dir() {
            let failed = Error::io("write into", root.path.join(parent));
            return Err(failed(std::io::ErrorKind::NotADirectory.into()));
        }
    }
    Ok(())
}

const NOT_FOUND: std::io::ErrorKind = std::io::ErrorKind::NotFound;

/// Where the symbolic links at `path` end, so that they stay links; there may be nothing yet.
pub(super) fn follow(path: &Path) -> PathBuf {
    /// As many as Linux follows.
    const LINKS: usize = 40;
    let mut path = path.to_path_buf();
    for _ in 0..LINKS {
        let Ok(link) = std::fs::read_link(&path) else { break };
        path = parent_of(&path).join(link);
    }
    path
}
