//! Where files are to be, by the paths that callers give.

use std::path::Component::CurDir;
use std::path::{Path, PathBuf};

use super::place::Place;
use super::staging::is_hidden;
use crate::checks::SEAL;
use crate::{Error, Result};

/// Without `.` and doubled slashes, so that one file has one name.
pub(super) fn target_of(name: &str) -> PathBuf {
    Path::new(name).components().filter(|part| *part != CurDir).collect()
}

/// Fails if a directory is one that is kept for what is being written, or is in such.
pub(super) fn check_root(root: &Path) -> Result<()> {
    if root.iter().any(|part| part.to_str().is_some_and(is_hidden)) {
        return Err(Error::NotAFile { path: root.to_path_buf(), found: RESERVED });
    }
    Ok(())
}

/// Fails if a file would be called like a seal or like what is being written, or be in a directory that
/// is: it would be taken for one, and never for a part of a model.
///
/// # Errors
/// [`Error::Reserved`].
pub fn check_unreserved(name: &str) -> Result<()> {
    match name.split('/').any(|part| part == SEAL || is_hidden(part)) {
        true => Err(Error::Reserved { name: name.to_owned() }),
        false => Ok(()),
    }
}

/// Fails unless `name`, which is `target` and will be at `path`, is one that a file can have.
pub(super) fn check_name(name: &str, target: &Path, path: &Path) -> Result<()> {
    let refuse = |found| Err(Error::NotAFile { path: path.to_path_buf(), found });
    if matches!(name.rsplit('/').next(), Some("" | ".")) {
        return refuse("the name of a directory");
    }
    if target.iter().any(|part| part.to_str().is_some_and(is_hidden)) {
        return refuse(RESERVED);
    }
    Ok(())
}

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

const RESERVED: &str = "a name that is kept for what is being written";

const NOT_FOUND: std::io::ErrorKind = std::io::ErrorKind::NotFound;

pub(super) fn parent_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        Some(_) => Path::new("."),
        None => path,
    }
}

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
