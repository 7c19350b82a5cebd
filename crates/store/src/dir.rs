//! A capability for one directory: names that come out of a model are resolved here and nowhere
//! else, so that no model can reach a file outside its own directory.

use std::path::Path;
use std::sync::Arc;

use crate::checks::SEAL;
use crate::names::is_hidden;
use crate::{Blob, Folder, Links, Listing, Location, Result, SourceFile, check_relative};

/// One directory, and everything below it.
#[derive(Debug)]
pub struct Dir {
    folder: Box<dyn Folder>,
    location: Location,
}

impl Dir {
    /// Opens a directory that the user named.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn open(location: impl Into<Location>, links: Links, mmap: bool) -> Result<Self> {
        let location = location.into().or_here();
        let folder = location.store().folder(location.path(), links, mmap)?;
        Ok(Self { folder, location })
    }

    /// The path it was opened by.
    pub fn path(&self) -> &Path {
        self.location.path()
    }

    /// Where it is.
    pub fn location(&self) -> &Location {
        &self.location
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
    /// [`Error::Escapes`](crate::Error::Escapes) if the name is absolute, climbs with `..`, or passes
    /// a symbolic link that leads out; [`Error::Interrupted`](crate::Error::Interrupted) if a write that
    /// would replace it is unfinished; otherwise as [`SourceFile::open`].
    pub fn open_source(&self, name: &str) -> Result<Option<SourceFile>> {
        check_relative(name)?;
        let source = self.folder.open(name)?;
        Ok(source.map(|source| SourceFile::new(self.location.join(name), source)))
    }

    /// The regular files below this directory, by relative path and sorted; at most `most` entries
    /// are looked at. Symbolic links to files are listed, those to directories are not followed. Files
    /// that an interrupted write has yet to put there are listed too.
    ///
    /// # Errors
    /// If a directory cannot be read, or there are more entries.
    pub fn files(&self, most: usize) -> Result<Vec<String>> {
        let mut files = self.folder.files(most)?;
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
        let mut found = self.folder.everything(most)?;
        found.files.sort();
        found.others.sort();
        Ok(found)
    }
}
