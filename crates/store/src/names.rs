//! Checks of file names: whether they stay inside a directory, and whether they are reserved.

use std::path::Component::CurDir;
use std::path::{Component, Path, PathBuf};

use crate::checks::SEAL;
use crate::{Error, Escape, Result};

/// The suffix of hidden files.
pub(crate) const SUFFIX: &str = ".lodstone";

/// Returns whether a name is reserved for files in progress and leftovers of killed writers.
pub fn is_hidden(name: &str) -> bool {
    name.starts_with('.') && name.ends_with(SUFFIX)
}

/// Removes `.` and doubled slashes from a relative name, so that one file has one name.
pub fn plain(name: &str) -> String {
    let parts: Vec<_> = name.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    parts.join("/")
}

/// Returns the result of [`plain`] as a path.
pub(crate) fn target_of(name: &str) -> PathBuf {
    Path::new(name).components().filter(|part| *part != CurDir).collect()
}

/// Fails unless `name` is a relative path that stays below its starting point.
///
/// # Errors
/// [`Error::Escapes`] with the violated rule.
pub fn check_relative(name: &str) -> Result<()> {
    let escapes = |why| Err(Error::Escapes { path: name.to_owned(), why });
    if name.is_empty() {
        return escapes(Escape::Empty);
    }
    if name.contains('\0') {
        return escapes(Escape::ZeroByte);
    }
    // Backslashes and drive letters matter on other systems, and a name must be safe wherever the model is
    // copied to.
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

/// Fails if a component of `name` is the name of a seal or is reserved for files in progress: readers would
/// mistake the file for one of those, and never for part of a model.
///
/// # Errors
/// [`Error::Reserved`].
pub fn check_unreserved(name: &str) -> Result<()> {
    match name.split('/').any(|part| part == SEAL || is_hidden(part)) {
        true => Err(Error::Reserved { name: name.to_owned() }),
        false => Ok(()),
    }
}

/// Fails if a directory, or a parent of it, is reserved for files in progress.
pub(crate) fn check_root(root: &Path) -> Result<()> {
    if root.iter().any(|part| part.to_str().is_some_and(is_hidden)) {
        return Err(Error::NotAFile { path: root.to_path_buf(), found: RESERVED });
    }
    Ok(())
}

/// Fails unless `name`, whose path is `target` and whose final path is `path`, is a valid file name.
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

const RESERVED: &str = "a name that is reserved for files in progress";

/// Returns the directory of `path`; `.` for the working directory.
pub(crate) fn parent_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        Some(_) => Path::new("."),
        None => path,
    }
}
