//! Files that are read.
//!
//! A [`SourceFile`] is opened once and remembers what it was (size, time of modification, inode),
//! so that work that reads it for long can ask whether it is still the same before publishing.

use std::fs::{File, Metadata, OpenOptions};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use bytes::Bytes;

use crate::{Error, Result};

/// A regular file open for reading.
#[derive(Debug)]
pub struct SourceFile {
    path: PathBuf,
    file: File,
    identity: Identity,
    map: Option<OnceLock<Bytes>>,
}

#[derive(Debug, PartialEq, Eq, Clone, Copy)]
struct Identity {
    len: u64,
    modified: (i64, i64),
    inode: (u64, u64),
}

impl SourceFile {
    /// Opens a regular file; `mmap` says whether its bytes may be answered by a memory map.
    ///
    /// # Errors
    /// If the file cannot be opened, or is a directory, pipe, socket or device.
    pub fn open(path: &Path, mmap: bool) -> Result<Self> {
        // O_NONBLOCK: opening a named pipe would otherwise wait for a writer for ever.
        let nonblock = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(nonblock)
            .open(path)
            .map_err(Error::io("open", path))?;
        Self::from_std(file, path, mmap)
    }

    pub(crate) fn from_std(file: File, path: &Path, mmap: bool) -> Result<Self> {
        let metadata = file.metadata().map_err(Error::io("inspect", path))?;
        if !metadata.is_file() {
            return Err(Error::NotAFile { path: path.to_path_buf(), found: kind_of(&metadata) });
        }
        let identity = Identity::of(&metadata);
        Ok(Self { path: path.to_path_buf(), file, identity, map: mmap.then(OnceLock::new) })
    }

    /// The path it was opened by.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Size in bytes when it was opened.
    pub fn len(&self) -> u64 {
        self.identity.len
    }

    /// Whether it had no bytes when it was opened.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Fills `buffer` from `offset`.
    ///
    /// # Errors
    /// If the system fails, or the file has become shorter than the range.
    pub fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.file.read_exact_at(buffer, offset).map_err(|error| {
            if error.kind() == std::io::ErrorKind::UnexpectedEof {
                let what = format!("it ends before byte {}", offset + buffer.len() as u64);
                return Error::Changed { path: self.path.clone(), what };
            }
            Error::io("read", &self.path)(error)
        })
    }

    /// The whole file, mapped once and shared; `None` if mapping was not wanted or failed.
    pub(crate) fn map(&self) -> Option<&Bytes> {
        let cell = self.map.as_ref()?;
        if cell.get().is_none() {
            // SAFETY: the map is read-only and private to this object. Another process that
            // shortens the file can make a later access raise SIGBUS; SECURITY.md says so, and
            // opening without `mmap` avoids it.
            #[expect(unsafe_code, reason = "mapping a file is unsafe by nature")]
            let map = unsafe { memmap2::Mmap::map(&self.file) }.ok()?;
            let _ = cell.set(Bytes::from_owner(map));
        }
        cell.get()
    }

    /// Fails if the file is not what it was when it was opened.
    ///
    /// # Errors
    /// [`Error::Changed`] that names size, time of modification or identity.
    pub fn check_unchanged(&self) -> Result<()> {
        let metadata = self.file.metadata().map_err(Error::io("inspect", &self.path))?;
        let now = Identity::of(&metadata);
        let was = self.identity;
        let what = if now.len != was.len {
            format!("it had {} bytes and now has {}", was.len, now.len)
        } else if now.modified != was.modified {
            "it was modified".to_owned()
        } else {
            return Ok(());
        };
        Err(Error::Changed { path: self.path.clone(), what })
    }

    /// Whether `self` and `other` are one file.
    pub fn is_same_file(&self, other: &Self) -> bool {
        self.identity.inode == other.identity.inode
    }

    pub(crate) fn std(&self) -> &File {
        &self.file
    }
}

impl Identity {
    fn of(metadata: &Metadata) -> Self {
        Self {
            len: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            inode: (metadata.dev(), metadata.ino()),
        }
    }
}

fn kind_of(metadata: &Metadata) -> &'static str {
    let kind = metadata.file_type();
    if kind.is_dir() {
        "a directory"
    } else if kind.is_fifo() {
        "a pipe"
    } else if kind.is_socket() {
        "a socket"
    } else {
        "a device"
    }
}

/// Whether there is something at `path` (symbolic links followed).
pub fn exists(path: &Path) -> bool {
    path.exists()
}

/// Whether `path` is a directory (symbolic links followed).
pub fn is_dir(path: &Path) -> bool {
    path.is_dir()
}

/// One entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// Its name, if it is UTF-8; entries with other names are not listed.
    pub name: String,
    /// Whether it is a directory.
    pub is_dir: bool,
}

/// The entries of a directory, sorted by name.
///
/// # Errors
/// If the directory cannot be read.
pub fn list_dir(path: &Path) -> Result<Vec<Entry>> {
    let mut entries = Vec::new();
    for entry in std::fs::read_dir(path).map_err(Error::io("list", path))? {
        let entry = entry.map_err(Error::io("list", path))?;
        let is_dir = entry.path().is_dir();
        if let Ok(name) = entry.file_name().into_string() {
            entries.push(Entry { name, is_dir });
        }
    }
    entries.sort();
    Ok(entries)
}
