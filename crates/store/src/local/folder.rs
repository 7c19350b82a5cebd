//! A local directory, accessed through a descriptor that names cannot leave.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::cache;
use super::file::LocalFile;
use super::leads_to_dir;
use super::waiting::{Log, check_below, target_of};
use super::write_dir::if_there;
use crate::store::Folder;
use crate::{Error, Escape, Links, Listing, Result, Source};

/// A directory and everything below it.
#[derive(Debug)]
pub(super) struct LocalFolder {
    dir: cap_std::fs::Dir,
    path: PathBuf,
    links: Links,
    mmap: bool,
    /// The redo logs in the directories above it.
    logs: Vec<Log>,
}

impl LocalFolder {
    pub(super) fn open(path: &Path, links: Links, mmap: bool) -> Result<Self> {
        let dir = cap_std::fs::Dir::open_ambient_dir(path, cap_std::ambient_authority())
            .map_err(Error::io("open the directory", path))?;
        let (path, logs) = (path.to_path_buf(), Log::above(path)?);
        Ok(Self { dir, path, links, mmap, logs })
    }

    /// Opens a file of the cache that a link in this directory leads to.
    fn open_blob(
        &self,
        blobs: &cap_std::fs::Dir,
        hash: &str,
        name: &str,
    ) -> Result<Box<dyn Source>> {
        let (path, failed) = (self.path.join(name), |error| self.explain(name, error));
        if !blobs.metadata(hash).map_err(failed)?.is_file() {
            return Err(Error::NotAFile { path, found: "something that is not a file" });
        }
        let file = blobs.open(hash).map_err(failed)?;
        Ok(Box::new(LocalFile::from_std(file.into_std(), &path, self.mmap)?))
    }

    fn explain(&self, name: &str, error: std::io::Error) -> Error {
        // cap-std returns `PermissionDenied` without an errno for a path that leads out.
        if error.kind() == ErrorKind::PermissionDenied && error.raw_os_error().is_none() {
            return Error::Escapes { path: name.to_owned(), why: Escape::SymbolicLink };
        }
        Error::io("open", self.path.join(name))(error)
    }
}

impl Folder for LocalFolder {
    fn open(&self, name: &str) -> Result<Option<Box<dyn Source>>> {
        check_below(&self.dir, &self.path, Path::new(name))?;
        let path = self.path.join(name);
        self.logs.iter().try_for_each(|log| log.check(Path::new(name), &path))?;
        // Checked before opening, because opening a pipe or a device can block or have side effects.
        let metadata = match self.links {
            Links::Confined => self.dir.metadata(name).map(|metadata| metadata.is_file()),
            Links::Follow => std::fs::metadata(&path).map(|metadata| metadata.is_file()),
        };
        let is_file = match if_there(metadata).map_err(|error| self.explain(name, error)) {
            Err(error @ Error::Escapes { .. }) => {
                return match cache::blob(&self.dir, &self.path, name) {
                    Some((blobs, hash)) => self.open_blob(&blobs, &hash, name).map(Some),
                    None => Err(error),
                };
            }
            is_file => is_file?,
        };
        match is_file {
            Some(true) => {}
            Some(false) => {
                return Err(Error::NotAFile { path, found: "something that is not a file" });
            }
            None => return Ok(None),
        }
        Ok(Some(Box::new(match self.links {
            Links::Confined => {
                let file = self.dir.open(name).map_err(|error| self.explain(name, error))?;
                LocalFile::from_std(file.into_std(), &path, self.mmap)?
            }
            Links::Follow => LocalFile::open(&path, self.mmap)?,
        })))
    }

    fn files(&self, max: usize) -> Result<Vec<String>> {
        let mut files = self.everything(max)?.files;
        for name in &mut files {
            let target = target_of(&self.dir, name).map_err(|error| self.explain(name, error))?;
            if let Some(target) = target {
                *name = target;
            }
        }
        for log in &self.logs {
            files.extend(log.waiting()?);
        }
        Ok(files)
    }

    fn everything(&self, max: usize) -> Result<Listing> {
        let (mut found, mut open, mut seen) = (Listing::default(), vec![String::new()], 0);
        while let Some(prefix) = open.pop() {
            let directory = if prefix.is_empty() { "." } else { &prefix };
            let failed = |error| self.explain(directory, error);
            for entry in self.dir.read_dir(directory).map_err(failed)? {
                seen += 1;
                if seen > max {
                    let (path, what) = (self.path.clone(), "more entries than a model may have");
                    return Err(Error::NotAFile { path, found: what });
                }
                let entry = entry.map_err(failed)?;
                let kind = entry.file_type().map_err(failed)?;
                let name = match entry.file_name().into_string() {
                    Ok(name) => format!("{prefix}{name}"),
                    Err(name) => {
                        let name = format!("{prefix}{}", name.to_string_lossy());
                        found.others.push((name, "its name is not UTF-8"));
                        continue;
                    }
                };
                if kind.is_dir() {
                    open.push(format!("{name}/"));
                } else if kind.is_symlink() && leads_to_dir(&self.path.join(&name))? {
                    found.others.push((name, "it is a link to a directory"));
                } else if kind.is_file() || kind.is_symlink() {
                    found.files.push(name);
                } else {
                    found.others.push((name, "it is not a regular file"));
                }
            }
        }
        Ok(found)
    }
}
