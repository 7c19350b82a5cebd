//! The cache of the Hugging Face hub, in which the files of a snapshot are links to the files of their own repository:
//!
//! | path | contents |
//! |---|---|
//! | `models--ORGANIZATION--NAME/blobs/HASH` | a file |
//! | `models--ORGANIZATION--NAME/snapshots/REVISION/PATH` | a link to it: `../../blobs/HASH`, with more `..` in a folder |
//!
//! Such a link is followed, although it leads out of the directory of the snapshot. Every other one is an error: a link to
//! another repository, through a link, or to a link that leads out of `blobs`.
//!
//! Source of truth: `huggingface_hub/file_download.py` of huggingface_hub 1.0.

use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};

use cap_std::ambient_authority;
use cap_std::fs::Dir;

/// The beginnings of the names of repositories in the cache.
const KINDS: [&str; 3] = ["models--", "datasets--", "spaces--"];

/// Returns the directory of the blobs and the name of the blob, if `name` below the directory `dir`, at `path`, is a link
/// from a snapshot to a blob of the same repository.
pub(super) fn blob(dir: &Dir, path: &Path, name: &str) -> Option<(Dir, String)> {
    let link = dir.read_link_contents(name).ok()?;
    let full = std::fs::canonicalize(path).ok()?.join(name);
    let folder = full.parent()?;
    // A folder that is a link would change the meaning of `..`.
    if std::fs::canonicalize(folder).ok()? != folder {
        return None;
    }
    let repository = repository_of(folder)?;
    let blobs = repository.join("blobs");
    let target = joined(folder, &link)?;
    let hash = target.strip_prefix(&blobs).ok()?.to_str()?;
    let is_hash = !hash.is_empty() && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_itself = is_hash && std::fs::canonicalize(&blobs).ok()? == blobs;
    let dir = is_itself.then(|| Dir::open_ambient_dir(&blobs, ambient_authority()))?;
    Some((dir.ok()?, hash.to_owned()))
}

/// Returns the directory of the repository, if `folder` is a snapshot in it or a folder of one.
fn repository_of(folder: &Path) -> Option<&Path> {
    let snapshots = folder.ancestors().skip(1).find(|above| {
        let is_repository = |name: &OsStr| {
            name.to_str().is_some_and(|name| KINDS.iter().any(|kind| name.starts_with(kind)))
        };
        above.file_name() == Some(OsStr::new("snapshots"))
            && above.parent().and_then(Path::file_name).is_some_and(is_repository)
    })?;
    snapshots.parent()
}

/// Returns the target of a relative link in a folder, without `..`.
fn joined(folder: &Path, link: &Path) -> Option<PathBuf> {
    let mut target = folder.to_path_buf();
    for part in link.components() {
        match part {
            Component::Normal(name) => target.push(name),
            Component::ParentDir if target.pop() => {}
            Component::ParentDir => return None,
            Component::CurDir => {}
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(target)
}
