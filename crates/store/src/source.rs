//! Files that are read: the interface for stores, and the type for readers.
//!
//! A [`Source`] is one file of a [`Store`](crate::Store), opened once. A [`SourceFile`] is a source
//! together with the checksums to verify its bytes, if any.

use std::fmt;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;

#[cfg(unix)]
use crate::LocalFile;
use crate::memory::Memory;
use crate::{Blob, Checks, Error, Location, Result, chunked};

/// The identity of a file: two sources with the same identity have the same bytes.
///
/// Local files use device and inode; an object store uses a hash of the object's address and its
/// entity tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId(pub u64, pub u64);

/// The state of a file at one moment: a file with other content, or another file at the same path, has
/// another stamp.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub struct Stamp {
    /// Size in bytes.
    pub len: u64,
    /// Modification time in seconds and nanoseconds; zero if new content always means a new file.
    pub modified: (i64, i64),
    /// The identity of the file.
    pub id: FileId,
}

/// A range to be read from a file.
#[derive(Debug)]
pub struct ReadRange<'a> {
    /// Offset of the first byte in the file.
    pub offset: u64,
    /// The destination of the bytes.
    pub buffer: &'a mut [u8],
}

/// A file of some store, open for reading.
///
/// All calls block; an implementation may own threads.
pub trait Source: fmt::Debug + Send + Sync {
    /// Returns the size in bytes when the file was opened.
    fn len(&self) -> u64;

    /// Returns whether the file was empty when it was opened.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the identity of the file.
    fn identity(&self) -> FileId;

    /// Fills all buffers, each from its offset; a remote store fetches them together.
    ///
    /// # Errors
    /// Fails if the store fails, or the file ends before the end of a range ([`Error::Changed`]).
    fn read_ranges(&self, ranges: &mut [ReadRange<'_>]) -> Result<()>;

    /// Hints that ranges will be read soon.
    fn prefetch(&self, ranges: &[Range<u64>]) {
        let _ = ranges;
    }

    /// Announces that a range will be read in order, so that a remote store may request more of it than the next read.
    fn announce(&self, range: Range<u64>) {
        let _ = range;
    }

    /// Returns the bytes of a range without a copy, if the source has them in memory or can map them.
    fn shared(&self, offset: u64, len: u64) -> Option<Bytes> {
        let _ = (offset, len);
        None
    }

    /// Fails if this file changed since it was opened. An implementation need not detect that another file
    /// has replaced it at its path.
    ///
    /// # Errors
    /// [`Error::Changed`], or an error of the store.
    fn check_unchanged(&self) -> Result<()>;

    /// Fails if the file at its path is not the one that was opened, or has changed.
    ///
    /// # Errors
    /// [`Error::Changed`], or an error of the store.
    fn check_in_place(&self) -> Result<()>;

    /// Fails if the file has another hard link, through which a directory can expose a file from outside.
    ///
    /// # Errors
    /// [`Error::Escapes`].
    fn check_only_name(&self) -> Result<()> {
        Ok(())
    }

    /// Returns the file of the operating system, if there is one. Only this crate uses it: for copy-on-write mappings,
    /// copies inside the kernel, and reads of cached pages.
    #[cfg(unix)]
    fn local(&self) -> Option<&LocalFile> {
        None
    }
}

/// A file that is read, and the checksums to verify its bytes before they are returned.
#[derive(Debug)]
pub struct SourceFile {
    location: Location,
    source: Box<dyn Source>,
    checks: Option<Arc<Checks>>,
}

impl SourceFile {
    /// Opens a regular file; `mmap` allows its bytes to be memory-mapped.
    ///
    /// # Errors
    /// Fails if the file cannot be opened, or is a directory, pipe, socket or device;
    /// [`Error::Interrupted`] if an interrupted write would replace it.
    pub fn open(location: impl Into<Location>, mmap: bool) -> Result<Self> {
        let location = location.into();
        let source = match location.store().open(location.path(), mmap) {
            Err(error) if error.is_not_found() => {
                // It may be stored in chunks.
                let table = location.append(chunked::SUFFIX);
                match table.store().open(table.path(), false) {
                    Ok(table) => chunked::open(table, &location)?,
                    Err(other) if other.is_not_found() => return Err(error),
                    Err(other) => return Err(other),
                }
            }
            opened => opened?,
        };
        Ok(Self::new(location, source))
    }

    /// Returns the source, without checksums.
    pub(crate) fn into_source(self) -> Box<dyn Source> {
        self.source
    }

    /// Wraps a source that was opened at `location`.
    pub(crate) fn new(location: Location, source: Box<dyn Source>) -> Self {
        Self { location, source, checks: None }
    }

    /// Returns the file with checksums, which are verified before its bytes are returned.
    ///
    /// # Errors
    /// [`Error::Resized`] if the size of the file does not match.
    pub fn checked(mut self, checks: Arc<Checks>) -> Result<Self> {
        let (sealed, found) = (checks.len(), self.len());
        if sealed != found {
            return Err(Error::Resized { path: self.path().to_path_buf(), sealed, found });
        }
        self.checks = Some(checks);
        Ok(self)
    }

    /// Returns whether the file has checksums.
    pub fn is_checked(&self) -> bool {
        self.checks.is_some()
    }

    /// Returns the path that was opened.
    pub fn path(&self) -> &Path {
        self.location.path()
    }

    /// Returns the location that was opened.
    pub fn location(&self) -> &Location {
        &self.location
    }

    /// Returns the size in bytes when the file was opened.
    pub fn len(&self) -> u64 {
        self.source.len()
    }

    /// Returns whether the file was empty when it was opened.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Fills `buffer` from `offset`.
    ///
    /// # Errors
    /// Fails if the store fails, the file has become shorter than the range, or a checksum does not match.
    pub fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        match &self.checks {
            Some(checks) => checks.read(self, offset, buffer),
            None => self.read_plain(offset, buffer),
        }
    }

    /// Fills several buffers, each from its offset.
    ///
    /// # Errors
    /// The errors of [`read_at`](Self::read_at).
    pub fn read_ranges(&self, ranges: &mut [ReadRange<'_>]) -> Result<()> {
        match &self.checks {
            Some(checks) => ranges
                .iter_mut()
                .try_for_each(|range| checks.read(self, range.offset, range.buffer)),
            None => self.source.read_ranges(ranges),
        }
    }

    /// Fills `buffer` from `offset` without verifying checksums.
    pub(crate) fn read_plain(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.source.read_ranges(&mut [ReadRange { offset, buffer }])
    }

    /// Verifies the checksums of the `len` bytes at `offset`, if the file has any and they have not been
    /// verified yet.
    pub(crate) fn check(&self, offset: u64, len: u64) -> Result<()> {
        self.checks.as_ref().map_or(Ok(()), |checks| checks.check(self, offset, len))
    }

    /// Returns how many of the `len` bytes at `offset` are in the same part.
    pub(crate) fn at_once(&self, offset: u64, len: u64) -> u64 {
        self.checks.as_ref().map_or(len, |checks| checks.left_of_part(offset).min(len))
    }

    /// Returns where the bytes begin that have a checksum together with byte `offset`; `offset` if it has none.
    pub(crate) fn begin_of_piece(&self, offset: u64) -> u64 {
        self.checks.as_ref().map_or(offset, |checks| checks.begin_of_piece(offset))
    }

    /// Fills `buffer` from `offset` if the system reports that this needs no disk access, and returns whether it
    /// did. A file with checks is always read.
    ///
    /// # Errors
    /// The errors of [`read_at`](Self::read_at).
    pub(crate) fn read_cached(&self, offset: u64, buffer: &mut [u8]) -> Result<bool> {
        #[cfg(unix)]
        if let Some(file) = self.local().filter(|_| self.checks.is_none())
            && let Some(read) = file.read_cached(offset, buffer)?
        {
            return Ok(read);
        }
        self.read_at(offset, buffer).map(|()| true)
    }

    /// Hints that bytes will be read soon.
    pub(crate) fn prefetch(&self, offset: u64, len: u64) {
        self.source.prefetch(std::slice::from_ref(&(offset..offset.saturating_add(len))));
    }

    /// Announces that bytes will be read in order.
    pub(crate) fn announce(&self, offset: u64, len: u64) {
        self.source.announce(offset..offset.saturating_add(len));
    }

    /// Reads all bytes. Those with checksums are read once, in order, on all processors.
    ///
    /// # Errors
    /// The errors of [`read_at`](Self::read_at), or an error if memory is insufficient.
    pub fn read_all(self) -> Result<Bytes> {
        match self.checks.clone() {
            Some(checks) => checks.read_all(&self),
            None => Blob::file(Arc::new(self)).read(),
        }
    }

    /// Returns the verified bytes of a range without a copy, if they are in memory or mapped.
    ///
    /// # Errors
    /// The errors of [`read_at`](Self::read_at).
    pub(crate) fn shared(&self, offset: u64, len: u64) -> Result<Option<Bytes>> {
        let Some(bytes) = self.source.shared(offset, len) else { return Ok(None) };
        self.check(offset, len)?;
        Ok(Some(bytes))
    }

    /// Returns verified copy-on-write pages of the file; `None` if it cannot be mapped.
    ///
    /// # Errors
    /// The errors of [`read_at`](Self::read_at).
    #[cfg(unix)]
    pub(crate) fn private(&self, offset: u64, len: u64) -> Result<Option<Memory>> {
        let Some(memory) = self.local().and_then(|file| file.map_private(offset, len)) else {
            return Ok(None);
        };
        self.check(offset, len)?;
        Ok(Some(memory))
    }

    #[cfg(not(unix))]
    #[expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "same signature as on Unix")]
    pub(crate) fn private(&self, _offset: u64, _len: u64) -> Result<Option<Memory>> {
        Ok(None)
    }

    /// Fails if the file changed since it was opened.
    ///
    /// # Errors
    /// The errors of [`Source::check_unchanged`].
    pub fn check_unchanged(&self) -> Result<()> {
        self.source.check_unchanged()
    }

    /// Fails if the file at its path is not the one that was opened, or has changed.
    ///
    /// # Errors
    /// The errors of [`Source::check_in_place`].
    pub fn check_in_place(&self) -> Result<()> {
        self.source.check_in_place()
    }

    /// Fails if the file has another hard link.
    ///
    /// # Errors
    /// The errors of [`Source::check_only_name`].
    pub fn check_only_name(&self) -> Result<()> {
        self.source.check_only_name()
    }

    /// Returns the identity of the file.
    pub fn identity(&self) -> FileId {
        self.source.identity()
    }

    #[cfg(unix)]
    pub(crate) fn local(&self) -> Option<&LocalFile> {
        self.source.local()
    }
}
