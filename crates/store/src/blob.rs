//! Bytes in memory, in a range of a file, concatenated, or computed on read.

use std::any::Any;
use std::fmt;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;

use crate::memory::{self, Memory, zeros};
use crate::{Ceiling, Error, FileId, Location, Progress, ReadRange, Result, SourceFile, internal};

/// Bytes that need not be in memory; cheap to clone and slice.
#[derive(Clone)]
pub struct Blob(Repr);

#[derive(Clone)]
enum Repr {
    Memory(Bytes),
    File { file: Arc<SourceFile>, offset: u64, len: u64 },
    Concat { parts: Arc<[Blob]>, len: u64 },
    Derived { source: Arc<dyn Derive>, offset: u64, len: u64 },
}

/// The name of bytes in memory in messages.
const MEMORY: &str = "memory";

/// The location of the bytes of a blob; valid while the blob exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Identity(Base, u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Base {
    /// An address.
    Memory(usize),
    /// A file and an offset in it.
    File(FileId, u64),
    /// The address of a computation, and an offset in its result.
    Derived(usize, u64),
}

/// Bytes that are computed from other bytes on read.
pub trait Derive: Any + Send + Sync {
    /// Returns the size in bytes.
    fn len(&self) -> u64;

    /// Returns whether there are no bytes.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Fills `buffer` with the bytes at `offset`; the range is inside `len`.
    ///
    /// # Errors
    /// Fails if reading the source fails.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()>;

    /// Returns the bytes that these are computed from, if any.
    fn source(&self) -> Option<&Blob>;
}

/// Maximum size of a read when bytes are streamed through memory; it fits the cache of a processor.
pub(crate) const CHUNK: usize = 1 << 20;

impl Blob {
    /// Creates a blob of bytes in memory.
    pub fn memory(bytes: impl Into<Bytes>) -> Self {
        Self(Repr::Memory(bytes.into()))
    }

    /// Creates a blob of a whole file.
    pub fn file(file: Arc<SourceFile>) -> Self {
        let len = file.len();
        Self(Repr::File { file, offset: 0, len })
    }

    /// Opens a regular file as a blob.
    ///
    /// # Errors
    /// The errors of [`SourceFile::open`].
    pub fn open(location: impl Into<Location>, mmap: bool) -> Result<Self> {
        Ok(Self::file(Arc::new(SourceFile::open(location, mmap)?)))
    }

    /// Concatenates blobs; a single blob is returned as it is.
    pub fn concat(parts: Vec<Blob>) -> Self {
        if let [one] = parts.as_slice() {
            return one.clone();
        }
        let len = parts.iter().map(Blob::len).fold(0, u64::saturating_add);
        Self(Repr::Concat { parts: parts.into(), len })
    }

    /// Creates a blob of bytes that are computed on read.
    pub fn derived(source: Arc<dyn Derive>) -> Self {
        let len = source.len();
        Self(Repr::Derived { source, offset: 0, len })
    }

    /// Returns the size in bytes.
    pub fn len(&self) -> u64 {
        match &self.0 {
            Repr::Memory(bytes) => bytes.len() as u64,
            Repr::File { len, .. } | Repr::Concat { len, .. } | Repr::Derived { len, .. } => *len,
        }
    }

    /// Returns whether the blob is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the `len` bytes at `offset` as a blob, without reading them.
    ///
    /// # Errors
    /// [`Error::OutOfRange`].
    pub fn slice(&self, offset: u64, len: u64) -> Result<Blob> {
        self.check(offset, len)?;
        Ok(Self(match &self.0 {
            Repr::Memory(bytes) => {
                // Both fit usize: they lie inside `bytes`.
                let start = usize::try_from(offset).unwrap_or(0);
                let end = usize::try_from(offset + len).unwrap_or(0);
                Repr::Memory(bytes.slice(start..end))
            }
            Repr::File { file, offset: base, .. } => {
                Repr::File { file: Arc::clone(file), offset: base + offset, len }
            }
            Repr::Concat { parts, .. } => {
                let parts = overlaps(parts, offset, len)
                    .map(|(part, start, len)| part.slice(start, len))
                    .collect::<Result<Vec<_>>>()?;
                return Ok(Self::concat(parts));
            }
            Repr::Derived { source, offset: base, .. } => {
                Repr::Derived { source: Arc::clone(source), offset: base + offset, len }
            }
        }))
    }

    /// Fills `buffer` with the bytes at `offset`.
    ///
    /// # Errors
    /// [`Error::OutOfRange`], or the error of the read.
    pub fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let len = buffer.len() as u64;
        self.check(offset, len)?;
        match &self.0 {
            Repr::Memory(bytes) => {
                let rest = usize::try_from(offset).ok().and_then(|start| bytes.get(start..));
                let from = rest.and_then(|rest| rest.get(..buffer.len()));
                buffer.copy_from_slice(from.ok_or_else(|| internal("checked bytes are missing"))?);
                Ok(())
            }
            Repr::File { file, offset: base, .. } => file.read_at(base + offset, buffer),
            Repr::Concat { parts, .. } => read_parts(overlaps(parts, offset, len), buffer),
            Repr::Derived { source, offset: base, .. } => source.read_at(base + offset, buffer),
        }
    }

    /// Reads at most the first `max` bytes: enough to detect a format, but no more than one checked part of a file.
    ///
    /// # Errors
    /// Fails if reading fails.
    pub fn head(&self, max: u64) -> Result<Vec<u8>> {
        let size = self.at_once(0, max.min(self.len()));
        let mut head = zeros(to_usize(size))?;
        self.read_at(0, &mut head)?;
        Ok(head)
    }

    /// Returns how many of the `len` bytes at `offset` can be read together: of a file with checks, those
    /// that are in the same checked part.
    pub(crate) fn at_once(&self, offset: u64, len: u64) -> u64 {
        match &self.0 {
            Repr::File { file, offset: base, .. } => file.at_once(base + offset, len),
            _ => len,
        }
    }

    /// Hints that the system should prefetch bytes.
    pub(crate) fn fetch(&self, offset: u64, len: usize) {
        if let Repr::File { file, offset: base, .. } = &self.0 {
            file.prefetch(base + offset, len as u64);
        }
    }

    /// Announces that all bytes will be read in order.
    pub(crate) fn announce(&self) {
        // A loop instead of recursion: computations may be nested.
        let mut next = Some(self);
        while let Some(blob) = next.take() {
            match &blob.0 {
                Repr::File { file, offset, len } => file.announce(*offset, *len),
                Repr::Derived { source, .. } => next = source.source(),
                Repr::Memory(_) | Repr::Concat { .. } => {}
            }
        }
    }

    /// Fills `buffer` with the bytes at `offset` if that needs no disk access, and returns whether it
    /// did. A file with checks is always read.
    ///
    /// # Errors
    /// The errors of [`read_at`](Self::read_at).
    pub(crate) fn read_cached(&self, offset: u64, buffer: &mut [u8]) -> Result<bool> {
        self.check(offset, buffer.len() as u64)?;
        match &self.0 {
            Repr::File { file, offset: base, .. } => file.read_cached(base + offset, buffer),
            _ => self.read_at(offset, buffer).map(|()| true),
        }
    }

    /// Returns all bytes: shared if they are in memory or mapped, read otherwise.
    ///
    /// # Errors
    /// Fails if reading fails.
    pub fn bytes(&self) -> Result<Bytes> {
        match &self.0 {
            Repr::Memory(bytes) => return Ok(bytes.clone()),
            Repr::File { file, offset, len } => {
                if let Some(bytes) = file.shared(*offset, *len)? {
                    return Ok(bytes);
                }
            }
            _ => {}
        }
        self.read()
    }

    /// Returns all bytes, read into memory if necessary. Use it for bytes that are kept for long or written to files,
    /// which must not change with the source file.
    ///
    /// # Errors
    /// Fails if reading fails or memory is insufficient.
    pub fn read(&self) -> Result<Bytes> {
        if let Repr::Memory(bytes) = &self.0 {
            return Ok(bytes.clone());
        }
        let all = Self::read_all(std::slice::from_ref(self), &Progress::default())?;
        all.into_iter().next().ok_or_else(|| internal("a blob was not read"))
    }

    /// Reads all bytes of several blobs into one allocation, which is freed when the last of them is dropped. The
    /// address of each is a multiple of 64.
    ///
    /// # Errors
    /// The errors of [`read`](Self::read); [`Error::Cancelled`].
    pub fn read_all(blobs: &[Blob], progress: &Progress) -> Result<Vec<Bytes>> {
        let (memory, places) = Memory::read(blobs, progress)?;
        let memory = memory.freeze();
        Ok(places.into_iter().map(|place| memory.slice(place)).collect())
    }

    /// Fills each buffer with the first bytes of its blob, on all processors.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if a buffer is larger than its blob; the errors of [`read`](Self::read); [`Error::Cancelled`].
    pub fn fill(mut targets: Vec<(Self, &mut [u8])>, progress: &Progress) -> Result<()> {
        targets.iter().try_for_each(|(blob, buffer)| blob.check(0, buffer.len() as u64))?;
        let targets = targets.iter_mut().map(|(blob, buffer)| (&*blob, &mut **buffer)).collect();
        memory::read_to(targets, progress)
    }

    /// Returns all bytes in private memory, which may be written to without affecting anything else. Pages of a
    /// mappable file are not read before they are used.
    ///
    /// # Errors
    /// The errors of [`read`](Self::read).
    pub fn private(&self) -> Result<(Memory, Range<usize>)> {
        if let Repr::File { file, offset, len } = &self.0
            && let Some(memory) = file.private(*offset, *len)?
        {
            let len = memory.len();
            return Ok((memory, 0..len));
        }
        let one = std::slice::from_ref(self);
        let (memory, mut places) = Memory::read(one, &Progress::default())?;
        let place = places.pop().ok_or_else(|| internal("a blob was not read"))?;
        Ok((memory, place))
    }

    /// Calls `each` with all bytes in order, in chunks of bounded size.
    ///
    /// # Errors
    /// Fails if reading fails, or with the error of `each`.
    pub fn for_each_chunk<E: From<Error>>(
        &self,
        mut each: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        if let Repr::Memory(bytes) = &self.0 {
            return bytes.chunks(CHUNK).try_for_each(each);
        }
        self.announce();
        let len = self.len();
        let mut buffer = vec![0; CHUNK.min(usize::try_from(len).unwrap_or(CHUNK))];
        let mut offset = 0;
        while offset < len {
            let size = buffer.len().min(usize::try_from(len - offset).unwrap_or(usize::MAX));
            let (piece, _) = buffer.split_at_mut(size);
            self.read_at(offset, piece).map_err(E::from)?;
            each(piece)?;
            offset += size as u64;
        }
        Ok(())
    }

    /// Fails if a file that holds these bytes has changed since it was opened.
    ///
    /// # Errors
    /// [`Error::Changed`] for the first changed file.
    pub fn check_unchanged(&self) -> Result<()> {
        self.file_ranges().try_for_each(|(file, ..)| file.check_unchanged())
    }

    /// Fails if a file that holds bytes of `blobs` has changed since it was opened. Consecutive blobs of one file
    /// cause one check.
    ///
    /// # Errors
    /// The errors of [`check_unchanged`](Self::check_unchanged).
    pub fn check_all_unchanged(blobs: &[Blob]) -> Result<()> {
        let mut before = None;
        let mut files = blobs.iter().flat_map(Blob::file_ranges).map(|(file, ..)| file);
        files.try_for_each(|file| {
            match before.replace(file).is_some_and(|it| Arc::ptr_eq(it, file)) {
                true => Ok(()),
                false => file.check_unchanged(),
            }
        })
    }

    /// Returns the file ranges of these bytes, in order: file, offset and length. Of computed bytes, they include
    /// everything that the bytes may be computed from.
    pub fn file_ranges(&self) -> impl Iterator<Item = (&Arc<SourceFile>, u64, u64)> {
        // An explicit stack instead of recursion: computations may be nested.
        let mut open = vec![self];
        std::iter::from_fn(move || {
            while let Some(blob) = open.pop() {
                match &blob.0 {
                    Repr::File { file, offset, len } => return Some((file, *offset, *len)),
                    Repr::Concat { parts, .. } => open.extend(parts.iter().rev()),
                    Repr::Derived { source, .. } => open.extend(source.source()),
                    Repr::Memory(_) => {}
                }
            }
            None
        })
    }

    /// Returns the computation of these bytes, if they are all that a `T` computes: a writer that finds its own
    /// format's computation can use the source instead.
    pub fn derivation<T: Derive>(&self) -> Option<&T> {
        match &self.0 {
            Repr::Derived { source, offset: 0, len } if *len == source.len() => {
                let source: &dyn Any = source.as_ref();
                source.downcast_ref()
            }
            _ => None,
        }
    }

    /// Returns the location of these bytes, if it is a single one: two blobs of the same identity are equal.
    pub fn identity(&self) -> Option<Identity> {
        let place = match &self.0 {
            Repr::Memory(bytes) => Base::Memory(bytes.as_ptr().addr()),
            Repr::File { file, offset, .. } => Base::File(file.identity(), *offset),
            Repr::Derived { source, offset, .. } => {
                Base::Derived(Arc::as_ptr(source).addr(), *offset)
            }
            Repr::Concat { .. } => return None,
        };
        Some(Identity(place, self.len()))
    }

    /// Returns whether these are known, without reading, to be the bytes of `other`: they have the same location,
    /// or are computed from the same location by the same computation.
    pub fn is(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Repr::Concat { parts, .. }, Repr::Concat { parts: others, .. }) => {
                parts.len() == others.len()
                    && parts.iter().zip(others.iter()).all(|(part, other)| part.is(other))
            }
            (
                Repr::Derived { source, offset, len },
                Repr::Derived { source: other, offset: other_offset, len: other_len },
            ) => Arc::ptr_eq(source, other) && (offset, len) == (other_offset, other_len),
            _ if self.is_empty() => other.is_empty(),
            _ => self.identity().is_some_and(|this| other.identity() == Some(this)),
        }
    }

    /// Returns whether two blobs have the same bytes, which are read.
    ///
    /// # Errors
    /// Fails if reading fails.
    pub fn is_equal(&self, other: &Self) -> Result<bool> {
        let (mut at, mut same) = (0, self.len() == other.len());
        let mut bytes = Vec::new();
        if !same {
            return Ok(false);
        }
        self.for_each_chunk(|piece| {
            if same {
                bytes.resize(piece.len(), 0);
                other.read_at(at, &mut bytes)?;
                at += piece.len() as u64;
                same = bytes == piece;
            }
            Ok::<_, Error>(())
        })?;
        Ok(same)
    }

    /// Returns the bytes, if they are in memory.
    pub fn in_memory(&self) -> Option<&Bytes> {
        match &self.0 {
            Repr::Memory(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// Returns the file and the offset in it, if these bytes are a single range of a file.
    pub fn file_range(&self) -> Option<(&Arc<SourceFile>, u64)> {
        match &self.0 {
            Repr::File { file, offset, .. } => Some((file, *offset)),
            _ => None,
        }
    }

    /// Returns the path of the file in messages; `memory` if these bytes are not a single range of a file.
    pub fn path(&self) -> &Path {
        self.file_range().map_or(Path::new(MEMORY), |(file, _)| file.path())
    }

    /// Returns the name of the location of byte `offset` in messages: the file and the offset in it.
    pub(crate) fn place(&self, offset: u64) -> (String, u64) {
        match &self.0 {
            Repr::File { file, offset: base, .. } => {
                (file.path().display().to_string(), base + offset)
            }
            Repr::Memory(_) => (MEMORY.to_owned(), offset),
            Repr::Concat { .. } => ("concatenated bytes".to_owned(), offset),
            Repr::Derived { .. } => ("computed bytes".to_owned(), offset),
        }
    }

    /// Creates an [`Error::Malformed`] for the byte at `offset`.
    pub fn malformed(
        &self,
        offset: u64,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> Error {
        let (origin, offset) = self.place(offset);
        Error::Malformed { origin, offset, expected: expected.into(), found: found.into() }
    }

    /// Creates an [`Error::Limit`] for the byte at `offset`; `limit` describes the limit of the reader.
    pub fn over_limit(&self, offset: u64, limit: impl Into<Ceiling>) -> Error {
        let (origin, offset) = self.place(offset);
        Error::Limit { origin, offset, limit: limit.into() }
    }

    pub(crate) fn parts(&self) -> Option<&[Blob]> {
        match &self.0 {
            Repr::Concat { parts, .. } => Some(parts),
            _ => None,
        }
    }

    fn check(&self, offset: u64, len: u64) -> Result<()> {
        let end = offset.saturating_add(len);
        if end <= self.len() {
            return Ok(());
        }
        let (origin, _) = self.place(0);
        Err(Error::OutOfRange { origin, start: offset, end, len: self.len() })
    }
}

/// Fills `buffer` with concatenated parts; ranges of one file are read together.
fn read_parts<'a>(
    parts: impl Iterator<Item = (&'a Blob, u64, u64)>,
    buffer: &mut [u8],
) -> Result<()> {
    let mut rest = buffer;
    let (mut of, mut ranges) = (None::<&Arc<SourceFile>>, Vec::new());
    for (part, start, len) in parts {
        let (buffer, later) = rest.split_at_mut(to_usize(len));
        rest = later;
        let Repr::File { file, offset, .. } = &part.0 else {
            part.read_at(start, buffer)?;
            continue;
        };
        if let Some(before) = of.replace(file).filter(|before| !Arc::ptr_eq(before, file)) {
            before.read_ranges(&mut std::mem::take(&mut ranges))?;
        }
        ranges.push(ReadRange { offset: offset + start, buffer });
    }
    of.map_or(Ok(()), |file| file.read_ranges(&mut ranges))
}

/// Converts a length that is known not to exceed that of a buffer.
pub(crate) fn to_usize(len: u64) -> usize {
    usize::try_from(len).unwrap_or(usize::MAX)
}

/// Returns the slices of `parts` that make up the `len` bytes at `offset`: part, start in it, length.
fn overlaps(parts: &[Blob], offset: u64, len: u64) -> impl Iterator<Item = (&Blob, u64, u64)> {
    let end = offset + len;
    let mut base = 0;
    parts.iter().filter_map(move |part| {
        let (start, stop) = (base, base + part.len());
        base = stop;
        let (from, to) = (start.max(offset), stop.min(end));
        (from < to).then(|| (part, from - start, to - from))
    })
}

/// An empty blob.
impl Default for Blob {
    fn default() -> Self {
        Self::memory(Bytes::new())
    }
}

impl From<Vec<u8>> for Blob {
    fn from(bytes: Vec<u8>) -> Self {
        Self::memory(bytes)
    }
}

impl fmt::Debug for Blob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (origin, offset) = self.place(0);
        write!(f, "Blob({} bytes at {offset} of {origin})", self.len())
    }
}
