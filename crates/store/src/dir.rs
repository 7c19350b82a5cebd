//! A capability for one directory. Names from a model are resolved only here, so that no model can reach a file
//! outside its own directory.
//!
//! Files with conventional names beside a model are opened like files that the user names, through links too; names
//! that come from a model go through [`Dir`].

use std::path::Path;
use std::sync::Arc;

use crate::checks::SEAL;
use crate::chunked;
use crate::names::is_hidden;
use crate::{Blob, Folder, Links, Listing, Location, Result, SourceFile, check_relative};

/// A directory and everything below it.
#[derive(Debug)]
pub struct Dir {
    folder: Box<dyn Folder>,
    location: Location,
}

impl Dir {
    /// Opens a directory at a path from the user.
    ///
    /// # Errors
    /// Fails if the directory cannot be opened.
    pub fn open(location: impl Into<Location>, links: Links, mmap: bool) -> Result<Self> {
        let location = location.into().or_here();
        let folder = location.store().folder(location.path(), links, mmap)?;
        Ok(Self { folder, location })
    }

    /// Returns the path that was opened.
    pub fn path(&self) -> &Path {
        self.location.path()
    }

    /// Returns the location that was opened.
    pub fn location(&self) -> &Location {
        &self.location
    }

    /// Opens the regular file `name` below this directory as a blob; `None` if it does not exist.
    ///
    /// # Errors
    /// The errors of [`open_source`](Self::open_source).
    pub fn open_file(&self, name: &str) -> Result<Option<Blob>> {
        let file = self.open_source(name)?;
        Ok(file.map(|file| Blob::file(Arc::new(file))))
    }

    /// Opens the regular file `name` below this directory, or the one that is stored in [chunks](crate::chunks_beside); `None` if
    /// it does not exist.
    ///
    /// # Errors
    /// [`Error::Escapes`](crate::Error::Escapes) if the name is absolute, contains `..`, or passes
    /// a symlink that leads out; [`Error::Interrupted`](crate::Error::Interrupted) if an interrupted write
    /// would replace the file; and the errors of [`SourceFile::open`].
    pub fn open_source(&self, name: &str) -> Result<Option<SourceFile>> {
        check_relative(name)?;
        let location = self.location.join(name);
        let source = match self.folder.open(name)? {
            Some(source) => source,
            None => match self.folder.open(&format!("{name}{}", chunked::SUFFIX))? {
                Some(table) => chunked::open(table, &location)?,
                None => return Ok(None),
            },
        };
        Ok(Some(SourceFile::new(location, source)))
    }

    /// Returns the sorted relative paths of the regular files below this directory; at most `max` entries
    /// are visited. Symlinks to files are included, those to directories are not followed. Files
    /// that an interrupted write has yet to publish are included.
    ///
    /// # Errors
    /// Fails if a directory cannot be read, or there are more entries.
    pub fn files(&self, max: usize) -> Result<Vec<String>> {
        let mut files = self.folder.files(max)?;
        files.retain(|name| !name.split('/').any(|part| is_hidden(part) || part == SEAL));
        files.sort();
        files.dedup();
        Ok(files)
    }

    /// Lists everything below this directory, including seals, files that are being written, and entries other
    /// than files.
    ///
    /// # Errors
    /// The errors of [`files`](Self::files).
    pub fn everything(&self, max: usize) -> Result<Listing> {
        let mut found = self.folder.everything(max)?;
        found.files.sort();
        found.others.sort();
        Ok(found)
    }
}
