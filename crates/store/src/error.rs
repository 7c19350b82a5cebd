//! Errors of storage.

use std::fmt::{self, Display, Formatter};
use std::io;
use std::path::{Path, PathBuf};

use crate::Flaw;

/// The result of an operation of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of reading or publishing bytes.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system reported an error.
    #[error("cannot {action} `{}`: {source}", path.display())]
    Io {
        /// The failed action, such as "open", "read" or "rename".
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// Memory is insufficient.
    #[error("cannot allocate {len} bytes of memory: {source}")]
    Memory {
        /// The requested number of bytes.
        len: usize,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The path is not a regular file.
    #[error("expected a regular file at `{}`, found {found}", path.display())]
    NotAFile {
        /// The path to be read or written.
        path: PathBuf,
        /// What the path is instead.
        found: &'static str,
    },
    /// The bytes violate the format.
    #[error("`{origin}` at offset {offset}: expected {expected}, found {found}")]
    Malformed {
        /// The file, or another name for the source of the bytes.
        origin: String,
        /// Offset in bytes from the start of the origin.
        offset: u64,
        /// What the format requires.
        expected: String,
        /// What was found.
        found: String,
    },
    /// The bytes exceed a limit of the reader. Whether they follow the format is unknown.
    #[error("`{origin}` at offset {offset}: expected {limit}, found more")]
    Limit {
        /// The file, or another name for the source of the bytes.
        origin: String,
        /// Offset in bytes from the start of the origin.
        offset: u64,
        /// The limit, such as "at most 100 levels of messages".
        limit: Ceiling,
    },
    /// A range is out of bounds.
    #[error("`{origin}` at offset {start}: expected bytes up to {end}, found the end at {len}")]
    OutOfRange {
        /// The file, or another name for the source of the bytes.
        origin: String,
        /// Start of the requested range.
        start: u64,
        /// End of the requested range, exclusive.
        end: u64,
        /// The actual size in bytes.
        len: u64,
    },
    /// A source file changed since it was opened.
    #[error("`{}` changed while it was read: {what}", path.display())]
    Changed {
        /// The file.
        path: PathBuf,
        /// The difference: size, modification time or identity.
        what: String,
    },
    /// Bytes in memory changed while they were written.
    #[error("the bytes that are being written were changed meanwhile, by another thread")]
    Unsteady,
    /// Bytes do not match the checksum in a seal.
    #[error("`{}` is damaged: checksum mismatch: {damage}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The location of the mismatch.
        damage: Box<crate::Damage>,
    },
    /// A file does not have the size recorded in a seal.
    #[error("`{}` is damaged: sealed with {sealed} bytes, found {found}", path.display())]
    Resized {
        /// The file.
        path: PathBuf,
        /// The size in the seal, in bytes.
        sealed: u64,
        /// The actual size in bytes.
        found: u64,
    },
    /// A path from a model leads out of the model directory.
    #[error("the path `{path}` leads out of the model directory: {why}")]
    Escapes {
        /// The path in the model.
        path: String,
        /// The violated rule.
        why: Escape,
    },
    /// A name that is reserved for seals and for files in progress.
    #[error(
        "`{name}` is a reserved name: `lodstone.seal` is for seals, and `.*.lodstone` for files \
         in progress"
    )]
    Reserved {
        /// The name.
        name: String,
    },
    /// A file listed in a seal would be overwritten by a writer that does not update the seal.
    #[error("refusing to overwrite `{}`: the seal `{}` lists it", path.display(), seal.display())]
    Sealed {
        /// The file.
        path: PathBuf,
        /// The seal that lists it.
        seal: PathBuf,
    },
    /// A seal cannot be read, in a target directory or above it: it may list files that would be overwritten.
    #[error(
        "cannot read the seal `{}`, so the files that it lists are unknown: {what}", path.display()
    )]
    Unreadable {
        /// The seal.
        path: PathBuf,
        /// What is wrong with the seal.
        what: String,
    },
    /// A file with a checksum of itself, a seal or a manifest, is damaged or inconsistent.
    #[error("the {kind} `{}` cannot be used: {flaw}", path.display())]
    Unusable {
        /// The kind of file, such as `seal`.
        kind: &'static str,
        /// The file.
        path: PathBuf,
        /// What is wrong with the file.
        flaw: Flaw,
    },
    /// A file exists, and existing files must not be replaced.
    #[error("`{}` already exists", path.display())]
    Exists {
        /// The existing file.
        path: PathBuf,
    },
    /// Several files would be replaced in a store that can replace only single files.
    #[error(
        "`{}` exists: this store can replace single files, but create several files together only if \
         none of them exists", path.display()
    )]
    Replaces {
        /// The existing file.
        path: PathBuf,
    },
    /// A state that cannot occur unless this program has a defect.
    #[error("internal error: {0}")]
    Internal(&'static str),
    /// Two files to be written have the same path.
    #[error("two files have the same path `{}`", path.display())]
    Twice {
        /// The common path.
        path: PathBuf,
    },
    /// A file that an interrupted write would replace: together with the files beside it, it may be a mix of old
    /// and new.
    #[error(
        "`{}` is part of an interrupted write to `{}`: `lodstone recover` or the next write to that directory \
         finishes it", path.display(), directory.display()
    )]
    Interrupted {
        /// The file.
        path: PathBuf,
        /// The target directory of the write.
        directory: PathBuf,
    },
    /// A file that an interrupted write would replace was changed after the interruption.
    #[error(
        "`{}` was changed after the interruption of a write that would replace it: remove either it or `{}`, \
         whichever you do not want to keep", path.display(), log.display()
    )]
    Overtaken {
        /// The file.
        path: PathBuf,
        /// The file that would replace it.
        log: PathBuf,
    },
    /// Another process has held the publication lock of a directory for too long.
    #[error(
        "`{}` has been locked by another process for a minute; it may be publishing files",
        path.display()
    )]
    Busy {
        /// The directory.
        path: PathBuf,
    },
    /// Another writer holds the writer lock of a directory.
    #[error("`{}` is in use: another writer has locked it", path.display())]
    Locked {
        /// The directory.
        path: PathBuf,
    },
    /// Several files are published as a set, but some of them are not at their paths yet.
    #[error(
        "{source}: the write to `{}` is unfinished; after you remove the obstacle, \
         `lodstone recover` or the next write to that directory finishes it",
        path.display()
    )]
    Unfinished {
        /// The target directory.
        path: PathBuf,
        /// The error that stopped the write.
        source: Box<Error>,
    },
    /// The caller cancelled the work.
    #[error("cancelled")]
    Cancelled,
}

/// Returns the error for a state that cannot occur unless this program has a defect.
///
/// # Panics
/// Panics with debug assertions.
#[track_caller]
pub fn internal(what: &'static str) -> Error {
    debug_assert!(false, "{what}");
    Error::Internal(what)
}

impl Error {
    /// Returns whether a file or directory does not exist.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }

    /// Wraps an error of the operating system with the failed action and its path.
    pub fn io(action: &'static str, path: impl AsRef<Path>) -> impl FnOnce(io::Error) -> Self {
        let path = path.as_ref().to_path_buf();
        move |source| Self::Io { action, path, source }
    }
}

/// The rule that a path from a model violates: it leads out of the model directory, or would on another system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Escape {
    /// The path is empty.
    #[error("it is empty")]
    Empty,
    /// The path contains a zero byte.
    #[error("it contains a zero byte")]
    ZeroByte,
    /// The path begins at the root of the file system.
    #[error("it is absolute")]
    Absolute,
    /// The path has a drive letter, or begins with a backslash.
    #[error("it is absolute on another system")]
    AbsoluteElsewhere,
    /// The path has a `..` component.
    #[error("it contains `..`")]
    Climbs,
    /// The path passes a symlink that points outside.
    #[error("it passes a symbolic link that points outside")]
    SymbolicLink,
    /// The file has another hard link, which may be outside.
    #[error("it is a hard link: the same file has another name")]
    HardLink,
}

/// A limit of a reader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ceiling {
    text: String,
    is_option: bool,
}

impl Ceiling {
    /// Creates a limit that an option of the reader sets, and could raise.
    pub fn option(text: impl Into<String>) -> Self {
        Self { text: text.into(), is_option: true }
    }

    /// Returns whether an option of the reader sets this limit.
    pub fn is_option(&self) -> bool {
        self.is_option
    }
}

impl Display for Ceiling {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let option = if self.is_option { ", which `raise-limits` raises" } else { "" };
        write!(f, "{} (a limit of this reader{option})", self.text)
    }
}

impl<T: Into<String>> From<T> for Ceiling {
    /// Creates a fixed limit.
    fn from(text: T) -> Self {
        Self { text: text.into(), is_option: false }
    }
}
