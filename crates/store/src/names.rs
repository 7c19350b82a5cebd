//! Names of files: which stay inside a directory, and which are reserved.

use std::path::Component::CurDir;
use std::path::{Component, Path, PathBuf};

use crate::checks::SEAL;
use crate::{Error, Escape, Result};

/// What the names of hidden files end in.
pub(crate) const SUFFIX: &str = ".lodstone";

/// Whether a name is reserved for what is being written, or for what a killed writer left.
pub fn is_hidden(name: &str) -> bool {
    name.starts_with('.') && name.ends_with(SUFFIX)
}

/// A relative name without `.` and doubled slashes, so that one file has one name.
pub fn plain(name: &str) -> String {
    let parts: Vec<_> = name.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    parts.join("/")
}

/// The same as a path.
pub(crate) fn target_of(name: &str) -> PathBuf {
    Path::new(name).components().filter(|part| *part != CurDir).collect()
}

/// Fails unless `name` is a relative path that stays below where it starts.
///
/// # Errors
/// [`Error::Escapes`] with the rule that is broken.
pub fn check_relative(name: &str) -> Result<()> {
    let escapes = |why| Err(Error::Escapes { path: name.to_owned(), why });
    if name.is_empty() {
        return escapes(Escape::Empty);
    }
    if name.contains('\0') {
        return escapes(Escape::ZeroByte);
    }
    // Backslashes and drive letters are separators on other systems; what is safe here has to be
    // safe where the model goes next.
    let drive = matches!(name.as_bytes(), [_, b':'] | [_, b':', b'/' | b'\\', ..]);
    if name.starts_with('\\') || drive {
        return escapes(Escape::AbsoluteElsewhere);
    }
    if name.split(['/', '\\']).any(|part| part == "..") {
        return escapes(Escape::Climbs);
    }
    for component in Path::new(name).components() {
        match component {
            Component::Normal(_) | CurDir => {}
            Component::ParentDir => return escapes(Escape::Climbs),
            Component::RootDir | Component::Prefix(_) => return escapes(Escape::Absolute),
        }
    }
    Ok(())
}

/// Fails if a file would have the name of a seal or of what is being written, or be in a directory
/// that has: readers would take it for one, and never for a part of a model.
///
/// # Errors
/// [`Error::Reserved`].
pub fn check_unreserved(name: &str) -> Result<()> {
    match name.split('/').any(|part| part == SEAL || is_hidden(part)) {
        true => Err(Error::Reserved { name: name.to_owned() }),
        false => Ok(()),
    }
}

/// Fails if a directory is reserved for what is being written, or is in such a directory.
pub(crate) fn check_root(root: &Path) -> Result<()> {
    if root.iter().any(|part| part.to_str().is_some_and(is_hidden)) {
        return Err(Error::NotAFile { path: root.to_path_buf(), found: RESERVED });
    }
    Ok(())
}

/// Fails unless `name`, which is `target` and will be at `path`, is one that a file can have.
pub(crate) fn check_name(name: &str, target: &Path, path: &Path) -> Result<()> {
    let refuse = |found| Err(Error::NotAFile { path: path.to_path_buf(), found });
    if matches!(name.rsplit('/').next(), Some("" | ".")) {
        return refuse("the name of a directory");
    }
    if target.iter().any(|part| part.to_str().is_some_and(is_hidden)) {
        return refuse(RESERVED);
    }
    Ok(())
}

const RESERVED: &str = "a name that is kept for what is being written";

/// The directory of `path`; the working directory has a name of its own.
pub(crate) fn parent_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        Some(_) => Path::new("."),
        None => path,
    }
}
