//! Resolution of target paths from callers.

use std::io;
use std::path::{Path, PathBuf};

use super::write_dir::{WriteDir, if_there};
use crate::names::parent_of;
use crate::{Error, Result};

/// Fails if an existing entry would block the publication of `target`: a
/// directory or device at its path, or a file or a symlink to the outside among its parents.
pub(super) fn check_free(root: &WriteDir, target: &Path) -> Result<()> {
    let path = root.path.join(target);
    let parents: Vec<_> = target.ancestors().skip(1).collect();
    for parent in parents.into_iter().rev().filter(|parent| !parent.as_os_str().is_empty()) {
        let failed = |error| Error::io("write into", root.path.join(parent))(error);
        if if_there(root.dir.symlink_metadata(parent)).map_err(failed)?.is_none() {
            break;
        }
        if !root.dir.metadata(parent).map_err(failed)?.is_dir() {
            return Err(failed(io::ErrorKind::NotADirectory.into()));
        }
    }
    let there = if_there(root.dir.symlink_metadata(target));
    if let Some(there) = there.map_err(Error::io("inspect", &path))?
        && !there.is_file()
        && !there.is_symlink()
    {
        return Err(Error::NotAFile { path, found: "something that is not a file" });
    }
    Ok(())
}

/// Resolves the symlinks at `path`, so that they are kept; the target need not exist.
pub(super) fn follow(path: &Path) -> Result<PathBuf> {
    /// Maximum number of links, as on Linux.
    const LINKS: usize = 40;
    let mut path = path.to_path_buf();
    for _ in 0..LINKS {
        let link = match std::fs::read_link(&path) {
            // Not a link.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => break,
            link => if_there(link).map_err(Error::io("open", &path))?,
        };
        let Some(link) = link else { break };
        path = parent_of(&path).join(link);
    }
    Ok(path)
}
