//! Resolution of target paths from callers.

use std::path::{Path, PathBuf};

use super::write_dir::WriteDir;
use crate::names::parent_of;
use crate::{Error, Result};

/// Fails if an existing entry would block the publication of `target`: a
/// directory or device at its path, or a file or a symlink to the outside among its parents.
pub(super) fn check_free(root: &WriteDir, target: &Path) -> Result<()> {
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

/// Resolves the symlinks at `path`, so that they are kept; the target need not exist.
pub(super) fn follow(path: &Path) -> PathBuf {
    /// Maximum number of links, as on Linux.
    const LINKS: usize = 40;
    let mut path = path.to_path_buf();
    for _ in 0..LINKS {
        let Ok(link) = std::fs::read_link(&path) else { break };
        path = parent_of(&path).join(link);
    }
    path
}
