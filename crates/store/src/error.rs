//! What can go wrong with bytes at rest.

use std::io;
use std::path::{Path, PathBuf};

use crate::Flaw;

/// The result of an operation of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of reading or publishing bytes.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused.
    #[error("cannot {action} `{}`: {source}", path.display())]
    Io {
        /// What was tried: "open", "read", "rename".
        action: &'static str,
        /// The file or directory it was tried on.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// There is not as much memory as was asked for.
    #[error("cannot get {len} bytes of memory: {source}")]
    Memory {
        /// How many bytes were asked for.
        len: usize,
        /// What the operating system said.
        source: io::Error,
    },
    /// The path names something that is not an ordinary file.
    #[error("expected a regular file at `{}`, found {found}", path.display())]
    NotAFile {
        /// The path that was to be read or written.
        path: PathBuf,
        /// What it is instead.
        found: &'static str,
    },
    /// The bytes are not what the format says.
    #[error("`{origin}` at offset {offset}: expected {expected}, found {found}")]
    Malformed {
        /// The file, or another name for where the bytes are.
        origin: String,
        /// Offset in bytes from the start of the origin.
        offset: u64,
        /// What the format asks for here.
        expected: String,
        /// What is here.
        found: String,
    },
    /// The bytes ask for more than a reader takes on. Whether they are what the format says was not
    /// found out.
    #[error("`{origin}` at offset {offset}: expected {limit} (a limit of this reader), found more")]
    Limit {
        /// The file, or another name for where the bytes are.
        origin: String,
        /// Offset in bytes from the start of the origin.
        offset: u64,
        /// The limit: "at most 100 levels of messages".
        limit: String,
    },
    /// A range lies outside the bytes it was taken from.
    #[error("`{origin}` at offset {start}: expected bytes up to {end}, found the end at {len}")]
    OutOfRange {
        /// The file, or another name for where the bytes are.
        origin: String,
        /// First byte asked for.
        start: u64,
        /// One past the last byte asked for.
        end: u64,
        /// How many bytes there are.
        len: u64,
    },
    /// A source file is not the one that was opened any more.
    #[error("`{}` changed while it was read: {what}", path.display())]
    Changed {
        /// The file.
        path: PathBuf,
        /// What differs: its size, time of modification or identity.
        what: String,
    },
    /// Bytes that are not the ones that were sealed.
    #[error("`{}` is damaged: checksum mismatch: {damage}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where in it.
        damage: Box<crate::Damage>,
    },
    /// A file that has not the size that was sealed.
    #[error("`{}` is damaged: sealed with {sealed} bytes, found {found}", path.display())]
    Resized {
        /// The file.
        path: PathBuf,
        /// Its size when it was sealed, in bytes.
        sealed: u64,
        /// Its size now, in bytes.
        found: u64,
    },
    /// A name that comes out of a model leads out of the model's directory.
    #[error("the path `{path}` leads out of the directory of the model: {why}")]
    Escapes {
        /// The name as the model has it.
        path: String,
        /// The rule it breaks.
        why: Escape,
    },
    /// A name that nothing may have but a seal, or what is being written.
    #[error(
        "`{name}` is not a name that a file can have: `lodstone.seal` is kept for seals, and `.*.lodstone` \
         for what is being written"
    )]
    Reserved {
        /// The name.
        name: String,
    },
    /// A file that a seal is of would be written over, by something that does not seal it anew.
    #[error("`{}` would be written over, and `{}` is its seal", path.display(), seal.display())]
    Sealed {
        /// The file.
        path: PathBuf,
        /// The seal that lists it.
        seal: PathBuf,
    },
    /// A seal that cannot be read, in a directory that is written to or above one: it may be of what would be
    /// written over.
    #[error(
        "the seal `{}` cannot be read ({what}), so that nothing tells what it is of", path.display()
    )]
    Unreadable {
        /// The seal.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// A file that holds its own checksum, a seal or a manifest, and cannot be relied on.
    #[error("the {kind} `{}` cannot be used: {flaw}", path.display())]
    Unusable {
        /// The kind of file: `seal`.
        kind: &'static str,
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        flaw: Flaw,
    },
    /// A file exists where only new files may be written.
    #[error("`{}` exists and is not replaced", path.display())]
    Exists {
        /// The file that exists.
        path: PathBuf,
    },
    /// Several files would replace others in a store that replaces single files only.
    #[error(
        "`{}` exists: this store replaces single files, and creates several files together only where \
         there are none", path.display()
    )]
    Replaces {
        /// The file that exists.
        path: PathBuf,
    },
    /// A state that cannot occur unless this program has a defect.
    #[error("internal error: {0}")]
    Internal(&'static str),
    /// Two things to be written have one name.
    #[error("two files would be called `{}`", path.display())]
    Twice {
        /// Where both would be.
        path: PathBuf,
    },
    /// A file that an interrupted write would replace: with its neighbours it may be a mix of old and
    /// new.
    #[error(
        "`{}` waits for a write into `{}` that was interrupted: `lodstone recover` finishes it, and so \
         does the next write into that directory", path.display(), directory.display()
    )]
    Interrupted {
        /// The file.
        path: PathBuf,
        /// The directory that was written to.
        directory: PathBuf,
    },
    /// A file that an interrupted write would replace, and that was changed after it.
    #[error(
        "`{}` was changed after a write that would replace it was interrupted: remove it, or `{}`, \
         whichever is not to be kept", path.display(), log.display()
    )]
    Overtaken {
        /// The file.
        path: PathBuf,
        /// The one that was to replace it.
        log: PathBuf,
    },
    /// Somebody else has been publishing into a directory for a long time, or says so.
    #[error(
        "another process has kept `{}` locked for a minute, as who publishes into it does",
        path.display()
    )]
    Busy {
        /// The directory.
        path: PathBuf,
    },
    /// Somebody else has taken a directory for themselves to write into.
    #[error("`{}` is in use: another writer has locked it, and goes on to write there", path.display())]
    Locked {
        /// The directory.
        path: PathBuf,
    },
    /// Several files that belong together are published, but not all are in their places.
    #[error(
        "{source}: the write into `{}` is unfinished; when nothing is in its way any more, \
         `lodstone recover` finishes it, and so does the next write into that directory",
        path.display()
    )]
    Unfinished {
        /// The directory that is written to.
        path: PathBuf,
        /// What went wrong.
        source: Box<Error>,
    },
    /// The caller asked to stop.
    #[error("cancelled")]
    Cancelled,
}

/// A state that cannot occur unless this program has a defect.
///
/// # Panics
/// With debug assertions.
#[track_caller]
pub fn internal(what: &'static str) -> Error {
    debug_assert!(false, "{what}");
    Error::Internal(what)
}

impl Error {
    /// Wraps an operating-system error with what was tried and on what.
    pub fn io(action: &'static str, path: impl AsRef<Path>) -> impl FnOnce(io::Error) -> Self {
        let path = path.as_ref().to_path_buf();
        move |source| Self::Io { action, path, source }
    }
}

/// How a name that comes out of a model leads out of the model's directory, or would on another system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Escape {
    /// It is empty.
    #[error("it is empty")]
    Empty,
    /// It contains a zero byte.
    #[error("it contains a zero byte")]
    ZeroByte,
    /// It begins at the root of the file system.
    #[error("it is absolute")]
    Absolute,
    /// It has a drive letter, or begins with a backslash.
    #[error("it is absolute on another system")]
    AbsoluteElsewhere,
    /// It has a `..`.
    #[error("it climbs with `..`")]
    Climbs,
    /// It passes a symbolic link that points outside.
    #[error("it passes a symbolic link that points outside")]
    SymbolicLink,
    /// The same file has another name, which may be outside.
    #[error("it is a hard link: the same file has another name")]
    HardLink,
}
