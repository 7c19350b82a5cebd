//! A capability for one directory: names that come out of a model are resolved here and nowhere
//! else, so that no model can reach a file outside its own directory.

use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use crate::checks::SEAL;
use crate::commit::is_hidden;
use crate::commit::waiting::{Log, check_below, target_of};
use crate::{Blob, Error, Escape, Result, SourceFile};

/// One directory, and everything below it.
#[derive(Debug)]
pub struct Dir {
    dir: cap_std::fs::Dir,
    path: PathBuf,
    links: Links,
    mmap: bool,
    /// The redo logs above it.
    logs: Vec<Log>,
}

/// What is below a directory.
#[derive(Clone, Debug, Default)]
pub struct Listing {
    /// Regular files and links to such, by relative path, sorted.
    pub files: Vec<String>,
    /// What is neither a file nor a directory, or has a name that is not UTF-8, and why it is not
    /// among the files.
    pub others: Vec<(String, &'static str)>,
}

/// What to do with symbolic links inside the directory that lead out of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Links {
    /// Refuse them.
    #[default]
    Confined,
    /// Follow them: download caches keep a model as links to a store elsewhere.
    Follow,
}

impl Dir {
    /// Opens a directory that the user named.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn open(path: &Path, links: Links, mmap: bool) -> Result<Self> {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let dir = cap_std::fs::Dir::open_ambient_dir(path, cap_std::ambient_authority())
            .map_err(Error::io("open the directory", path))?;
        let (path, logs) = (path.to_path_buf(), Log::above(path));
        Ok(Self { dir, path, links, mmap, logs })
    }

    /// The path it was opened by.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens the regular file `name` below this directory as a blob; `None` if there is none.
    ///
    /// # Errors
    /// As [`open_source`](Self::open_source).
    pub fn open_file(&self, name: &str) -> Result<Option<Blob>> {
        let file = self.open_source(name)?;
        Ok(file.map(|file| Blob::file(Arc::new(file))))
    }

    /// Opens the regular file `name` below this directory; `None` if there is none.
    ///
    /// # Errors
    /// [`Error::Escapes`] if the name is absolute, climbs with `..`, or passes a symbolic link
    /// that leads out; [`Error::Interrupted`] if a write that would replace it is unfinished;
    /// otherwise as [`SourceFile::open`].
    pub fn open_source(&self, name: &str) -> Result<Option<SourceFile>> {
        check_relative(name)?;
        check_below(&self.dir, &self.path, Path::new(name))?;
        let path = self.path.join(name);
        self.logs.iter().try_for_each(|log| log.check(Path::new(name), &path))?;
        // Asked first, because opening a pipe or a device can wait or act.
        let metadata = match self.links {
            Links::Confined => self.dir.metadata(name).map(|metadata| metadata.is_file()),
            Links::Follow => std::fs::metadata(&path).map(|metadata| metadata.is_file()),
        };
        match metadata {
            Ok(true) => {}
            Ok(false) => {
                return Err(Error::NotAFile { path, found: "something that is not a file" });
            }
            Err(error) if is_absent(&error) => return Ok(None),
            Err(error) => return Err(self.explain(name, error)),
        }
        Ok(Some(match self.links {
            Links::Confined => {
                let file = self.dir.open(name).map_err(|error| self.explain(name, error))?;
                SourceFile::from_std(file.into_std(), &path, self.mmap)?
            }
            Links::Follow => SourceFile::open(&path, self.mmap)?,
        }))
    }

    /// The regular files below this directory, by relative path and sorted; at most `most` entries
    /// are looked at. Symbolic links to files are listed, those to directories are not followed. Files
    /// that an interrupted write has yet to put there are listed too.
    ///
    /// # Errors
    /// If a directory cannot be read, or there are more entries.
    pub fn files(&self, most: usize) -> Result<Vec<String>> {
        let there = self.everything(most)?.files.into_iter();
        let mut files: Vec<_> =
            there.filter_map(|name| target_of(&self.dir, &name).or(Some(name))).collect();
        files.extend(self.logs.iter().flat_map(Log::waiting));
        files.retain(|name| !name.split('/').any(|part| is_hidden(part) || part == SEAL));
        files.sort();
        files.dedup();
        Ok(files)
    }

    /// Everything below this directory: its files, seals and files that are being written among
    /// them, and what is none.
    ///
    /// # Errors
    /// As [`files`](Self::files).
    pub fn everything(&self, most: usize) -> Result<Listing> {
        let (mut found, mut open, mut seen) = (Listing::default(), vec![String::new()], 0);
        while let Some(prefix) = open.pop() {
            let directory = if prefix.is_empty() { "." } else { &prefix };
            let failed = |error| self.explain(directory, error);
            for entry in self.dir.read_dir(directory).map_err(failed)? {
                seen += 1;
                if seen > most {
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
                } else if kind.is_symlink() && self.path.join(&name).is_dir() {
                    found.others.push((name, "it is a link to a directory"));
                } else if kind.is_file() || kind.is_symlink() {
                    found.files.push(name);
                } else {
                    found.others.push((name, "it is not a regular file"));
                }
            }
        }
        found.files.sort();
        found.others.sort();
        Ok(found)
    }

    fn explain(&self, name: &str, error: std::io::Error) -> Error {
        // cap-std answers `PermissionDenied` without an errno for a path that leads out.
        if error.kind() == ErrorKind::PermissionDenied && error.raw_os_error().is_none() {
            return Error::Escapes { path: name.to_owned(), why: Escape::SymbolicLink };
        }
        Error::io("open", self.path.join(name))(error)
    }
}

/// A relative name without `.` and doubled slashes, so that one file has one name.
pub fn plain(name: &str) -> String {
    let parts: Vec<_> = name.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    parts.join("/")
}

fn is_absent(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
        // A name longer than the file system allows cannot be there.
        || error.kind() == ErrorKind::InvalidFilename
}

/// Fails unless `name` is a relative path that stays below where it starts.
///
/// # Errors
/// [`Error::Escapes`] that says which rule is broken.
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
            Component::Normal(_) | Component::CurDir => {}
            Component::ParentDir => return escapes(Escape::Climbs),
            Component::RootDir | Component::Prefix(_) => return escapes(Escape::Absolute),
        }
    }
    Ok(())
}
