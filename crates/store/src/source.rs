//! Files that are read: what a store has to offer of one, and what readers use.
//!
//! A [`Source`] is one file of a [`Store`](crate::Store), opened once. A [`SourceFile`] is a source
//! with the checksums that its bytes are compared with, if it has any.

use std::fmt;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;

#[cfg(unix)]
use crate::LocalFile;
use crate::memory::Memory;
use crate::{Blob, Checks, Error, Location, Result};

/// What distinguishes a file from every other one: two sources with the same identity have the same
/// bytes.
///
/// Local files have device and inode; an object store has a hash of the object's address and its
/// entity tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId(pub u64, pub u64);

/// A file as it was at one moment: a file with other content, or another file in its place, has
/// another stamp.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub struct Stamp {
    /// Size in bytes.
    pub len: u64,
    /// Seconds and nanoseconds of the last modification; zero where a new content is a new file.
    pub modified: (i64, i64),
    /// Which file it is.
    pub id: FileId,
}

/// A stretch of a file, and where its bytes go.
#[derive(Debug)]
pub struct ReadRange<'a> {
    /// Offset of the first byte in the file.
    pub offset: u64,
    /// Filled with the bytes from there.
    pub buffer: &'a mut [u8],
}

/// A file that is open for reading, in some store.
///
/// All calls block until they are done; an implementation may own threads.
pub trait Source: fmt::Debug + Send + Sync {
    /// Size in bytes when it was opened.
    fn len(&self) -> u64;

    /// Whether it had no bytes when it was opened.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Which file it is.
    fn identity(&self) -> FileId;

    /// Fills all buffers, each from its offset; a store that is far away fetches them together.
    ///
    /// # Errors
    /// If the store fails, or the file ends before the end of a range ([`Error::Changed`]).
    fn read_ranges(&self, ranges: &mut [ReadRange<'_>]) -> Result<()>;

    /// Announces that ranges will be read soon. Nothing relies on it.
    fn prefetch(&self, ranges: &[Range<u64>]) {
        let _ = ranges;
    }

    /// The bytes of a range without a copy, if the source has them in memory or can map them.
    fn shared(&self, offset: u64, len: u64) -> Option<Bytes> {
        let _ = (offset, len);
        None
    }

    /// Fails if this file is not what it was when it was opened. Another file that took its name
    /// need not be noticed.
    ///
    /// # Errors
    /// [`Error::Changed`], or what looking gives.
    fn check_unchanged(&self) -> Result<()>;

    /// Fails if the file at its path is not the one that was opened, as it was.
    ///
    /// # Errors
    /// [`Error::Changed`], or what looking gives.
    fn check_in_place(&self) -> Result<()>;

    /// Fails if the file has another name too, by which a directory can hand out what is not its own.
    ///
    /// # Errors
    /// [`Error::Escapes`].
    fn check_only_name(&self) -> Result<()> {
        Ok(())
    }

    /// The file of the operating system, if it is one. Only this crate uses it: to map pages that may be
    /// written to, to copy inside the kernel, and to read what is cached.
    #[cfg(unix)]
    fn local(&self) -> Option<&LocalFile> {
        None
    }
}

/// A file that is read, and the checksums that its bytes are compared with before they are returned.
#[derive(Debug)]
pub struct SourceFile {
    location: Location,
    source: Box<dyn Source>,
    checks: Option<Arc<Checks>>,
}

impl SourceFile {
    /// Opens a regular file; `mmap` says whether its bytes may come from a memory map.
    ///
    /// # Errors
    /// If the file cannot be opened, or is a directory, pipe, socket or device;
    /// [`Error::Interrupted`] if a write that would replace it is unfinished.
    pub fn open(location: impl Into<Location>, mmap: bool) -> Result<Self> {
        let location = location.into();
        let source = location.store().open(location.path(), mmap)?;
        Ok(Self::new(location, source))
    }

    /// A file that was opened at `location`.
    pub(crate) fn new(location: Location, source: Box<dyn Source>) -> Self {
        Self { location, source, checks: None }
    }

    /// The same file, whose bytes are compared with checksums before they are returned.
    ///
    /// # Errors
    /// [`Error::Resized`] if it has another size.
    pub fn checked(mut self, checks: Arc<Checks>) -> Result<Self> {
        let (sealed, found) = (checks.len(), self.len());
        if sealed != found {
            return Err(Error::Resized { path: self.path().to_path_buf(), sealed, found });
        }
        self.checks = Some(checks);
        Ok(self)
    }

    /// Whether its bytes are compared with checksums.
    pub fn is_checked(&self) -> bool {
        self.checks.is_some()
    }

    /// The path it was opened by.
    pub fn path(&self) -> &Path {
        self.location.path()
    }

    /// Where it is.
    pub fn location(&self) -> &Location {
        &self.location
    }

    /// Size in bytes when it was opened.
    pub fn len(&self) -> u64 {
        self.source.len()
    }

    /// Whether it had no bytes when it was opened.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Fills `buffer` from `offset`.
    ///
    /// # Errors
    /// If the store fails, the file has become shorter than the range, or a checksum differs.
    pub fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        match &self.checks {
            Some(checks) => checks.read(self, offset, buffer),
            None => self.read_plain(offset, buffer),
        }
    }

    /// Fills several buffers, each from its offset.
    ///
    /// # Errors
    /// As [`read_at`](Self::read_at).
    pub fn read_ranges(&self, ranges: &mut [ReadRange<'_>]) -> Result<()> {
        match &self.checks {
            Some(checks) => ranges
                .iter_mut()
                .try_for_each(|range| checks.read(self, range.offset, range.buffer)),
            None => self.source.read_ranges(ranges),
        }
    }

    /// Fills `buffer` from `offset` with what is there, whatever its checksums are.
    pub(crate) fn read_plain(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.source.read_ranges(&mut [ReadRange { offset, buffer }])
    }

    /// Compares the `len` bytes from `offset` with their checksums, if it has any and that was not
    /// done before.
    pub(crate) fn check(&self, offset: u64, len: u64) -> Result<()> {
        self.checks.as_ref().map_or(Ok(()), |checks| checks.check(self, offset, len))
    }

    /// How many of the `len` bytes from `offset` are in one part.
    pub(crate) fn at_once(&self, offset: u64, len: u64) -> u64 {
        self.checks.as_ref().map_or(len, |checks| checks.left_of_part(offset).min(len))
    }

    /// Fills `buffer` from `offset` unless the bytes would have to come from a disk, as far as the
    /// system tells; returns whether it did. A file with checks is read in any case.
    ///
    /// # Errors
    /// As [`read_at`](Self::read_at).
    pub(crate) fn read_cached(&self, offset: u64, buffer: &mut [u8]) -> Result<bool> {
        #[cfg(unix)]
        if let Some(file) = self.local().filter(|_| self.checks.is_none())
            && let Some(read) = file.read_cached(offset, buffer)?
        {
            return Ok(read);
        }
        self.read_at(offset, buffer).map(|()| true)
    }

    /// Asks the store to have bytes ready soon.
    pub(crate) fn prefetch(&self, offset: u64, len: u64) {
        self.source.prefetch(std::slice::from_ref(&(offset..offset.saturating_add(len))));
    }

    /// All its bytes. Those that are compared with checksums are read once, in order, on all processors.
    ///
    /// # Errors
    /// As [`read_at`](Self::read_at), or if memory runs out.
    pub fn read_all(self) -> Result<Bytes> {
        match self.checks.clone() {
            Some(checks) => checks.read_all(&self),
            None => Blob::file(Arc::new(self)).read(),
        }
    }

    /// The bytes of a range that are in memory or mapped, compared with their checksums.
    ///
    /// # Errors
    /// As [`read_at`](Self::read_at).
    pub(crate) fn shared(&self, offset: u64, len: u64) -> Result<Option<Bytes>> {
        let Some(bytes) = self.source.shared(offset, len) else { return Ok(None) };
        self.check(offset, len)?;
        Ok(Some(bytes))
    }

    /// Pages of the file, of which those that are written to become copies, compared with their
    /// checksums; `None` if it cannot be mapped.
    ///
    /// # Errors
    /// As [`read_at`](Self::read_at).
    #[cfg(unix)]
    pub(crate) fn private(&self, offset: u64, len: u64) -> Result<Option<Memory>> {
        let Some(memory) = self.local().and_then(|file| file.map_private(offset, len)) else {
            return Ok(None);
        };
        self.check(offset, len)?;
        Ok(Some(memory))
    }

    #[cfg(not(unix))]
    #[expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "as where files are mapped")]
    pub(crate) fn private(&self, _offset: u64, _len: u64) -> Result<Option<Memory>> {
        Ok(None)
    }

    /// Fails if the file is not what it was when it was opened.
    ///
    /// # Errors
    /// As [`Source::check_unchanged`].
    pub fn check_unchanged(&self) -> Result<()> {
        self.source.check_unchanged()
    }

    /// Fails if the file at its path is not what it was when it was opened.
    ///
    /// # Errors
    /// As [`Source::check_in_place`].
    pub fn check_in_place(&self) -> Result<()> {
        self.source.check_in_place()
    }

    /// Fails if the file has another name, too.
    ///
    /// # Errors
    /// As [`Source::check_only_name`].
    pub fn check_only_name(&self) -> Result<()> {
        self.source.check_only_name()
    }

    /// Which file it is.
    pub fn identity(&self) -> FileId {
        self.source.identity()
    }

    #[cfg(unix)]
    pub(crate) fn local(&self) -> Option<&LocalFile> {
        self.source.local()
    }
}
