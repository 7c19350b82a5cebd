//! Bytes somewhere: in memory, in a range of a file, end to end, or computed when they are read.

use std::any::Any;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use crate::memory::Memory;
use crate::{Error, FileId, Location, Progress, ReadRange, Result, SourceFile, internal};

/// Bytes that need not be in memory: cheap to clone, slice and hand around.
#[derive(Clone)]
pub struct Blob(Repr);

#[derive(Clone)]
enum Repr {
    Memory(Bytes),
    File { file: Arc<SourceFile>, offset: u64, len: u64 },
    Concat { parts: Arc<[Blob]>, len: u64 },
    Derived { source: Arc<dyn Derive>, offset: u64, len: u64 },
}

/// The place of bytes, while there is a blob of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Identity(Place, u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Place {
    /// An address.
    Memory(usize),
    /// A file, and an offset.
    File(FileId, u64),
}

/// Bytes that are computed from others when they are read.
pub trait Derive: Any + Send + Sync {
    /// How many bytes there are.
    fn len(&self) -> u64;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Fills `buffer` with the bytes from `offset`; the range lies inside `len`.
    ///
    /// # Errors
    /// Whatever reading the source gives.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()>;

    /// The bytes they are computed from, if they come from anywhere.
    fn source(&self) -> Option<&Blob>;
}

/// Largest piece that is read at once when bytes stream through memory: it stays in the cache of a
/// processor.
pub(crate) const CHUNK: usize = 1 << 20;

impl Blob {
    /// Bytes in memory.
    pub fn memory(bytes: impl Into<Bytes>) -> Self {
        Self(Repr::Memory(bytes.into()))
    }

    /// A whole file.
    pub fn file(file: Arc<SourceFile>) -> Self {
        let len = file.len();
        Self(Repr::File { file, offset: 0, len })
    }

    /// Opens a regular file as a blob.
    ///
    /// # Errors
    /// As [`SourceFile::open`].
    pub fn open(location: impl Into<Location>, mmap: bool) -> Result<Self> {
        Ok(Self::file(Arc::new(SourceFile::open(location, mmap)?)))
    }

    /// Blobs end to end; one alone is itself.
    pub fn concat(parts: Vec<Blob>) -> Self {
        if let [one] = parts.as_slice() {
            return one.clone();
        }
        let len = parts.iter().map(Blob::len).fold(0, u64::saturating_add);
        Self(Repr::Concat { parts: parts.into(), len })
    }

    /// Bytes computed when they are read.
    pub fn derived(source: Arc<dyn Derive>) -> Self {
        let len = source.len();
        Self(Repr::Derived { source, offset: 0, len })
    }

    /// How many bytes there are.
    pub fn len(&self) -> u64 {
        match &self.0 {
            Repr::Memory(bytes) => bytes.len() as u64,
            Repr::File { len, .. } | Repr::Concat { len, .. } | Repr::Derived { len, .. } => *len,
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The `len` bytes from `offset`, without reading them.
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

    /// Fills `buffer` with the bytes from `offset`.
    ///
    /// # Errors
    /// [`Error::OutOfRange`], or what reading gives.
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

    /// The first bytes, at most `most`: as many as tell what they are without reading far.
    ///
    /// # Errors
    /// What reading gives.
    pub fn head(&self, most: u64) -> Result<Vec<u8>> {
        let size = self.at_once(0, most.min(self.len()));
        let mut head = vec![0; usize::try_from(size).unwrap_or(0)];
        self.read_at(0, &mut head)?;
        Ok(head)
    }

    /// How many of the `len` bytes from `offset` can be read together: where a file has checks, no
    /// more than one part of it has to be compared for them.
    pub(crate) fn at_once(&self, offset: u64, len: u64) -> u64 {
        match &self.0 {
            Repr::File { file, offset: base, .. } => file.at_once(base + offset, len),
            _ => len,
        }
    }

    /// Asks the system to have bytes in memory soon.
    pub(crate) fn fetch(&self, offset: u64, len: usize) {
        if let Repr::File { file, offset: base, .. } = &self.0 {
            file.prefetch(base + offset, len as u64);
        }
    }

    /// Fills `buffer` with the bytes from `offset` unless they would have to come from a disk; says
    /// whether it did. A file with checks is read in any case.
    ///
    /// # Errors
    /// As [`read_at`](Self::read_at).
    pub(crate) fn read_cached(&self, offset: u64, buffer: &mut [u8]) -> Result<bool> {
        self.check(offset, buffer.len() as u64)?;
        match &self.0 {
            Repr::File { file, offset: base, .. } => file.read_cached(base + offset, buffer),
            _ => self.read_at(offset, buffer).map(|()| true),
        }
    }

    /// All the bytes: shared where they are in memory or mapped, read otherwise.
    ///
    /// # Errors
    /// What reading gives.
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

    /// All the bytes, read into memory if they are not there: what is kept for long or written
    /// from should not change when the file does.
    ///
    /// # Errors
    /// What reading gives, or if there is not so much memory.
    pub fn read(&self) -> Result<Bytes> {
        if let Repr::Memory(bytes) = &self.0 {
            return Ok(bytes.clone());
        }
        let all = Self::read_all(std::slice::from_ref(self), &Progress::default())?;
        all.into_iter().next().ok_or_else(|| internal("a blob was not read"))
    }

    /// All the bytes of several blobs, read into one stretch of memory, which is freed when the last of
    /// them is dropped. The address of each is a multiple of 64.
    ///
    /// # Errors
    /// As [`read`](Self::read); [`Error::Cancelled`].
    pub fn read_all(blobs: &[Blob], progress: &Progress) -> Result<Vec<Bytes>> {
        let (memory, places) = Memory::read(blobs, progress)?;
        let memory = memory.freeze();
        Ok(places.into_iter().map(|place| memory.slice(place)).collect())
    }

    /// All the bytes in memory of one's own, which may be written to: nothing else sees that. What is in
    /// a file that may be mapped is not read before it is used.
    ///
    /// # Errors
    /// As [`read`](Self::read).
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

    /// Calls `each` with all the bytes in order, a bounded piece at a time.
    ///
    /// # Errors
    /// What reading gives, or what `each` returns.
    pub fn for_each_chunk<E: From<Error>>(
        &self,
        mut each: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        if let Repr::Memory(bytes) = &self.0 {
            return bytes.chunks(CHUNK).try_for_each(each);
        }
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

    /// Fails if one of the files that these bytes come from is not what it was.
    ///
    /// # Errors
    /// [`Error::Changed`] for the first that is not what it was.
    pub fn check_unchanged(&self) -> Result<()> {
        self.file_ranges().try_for_each(|(file, ..)| file.check_unchanged())
    }

    /// Fails if one of the files that blobs come from is not what it was. It is asked once of those that
    /// lie behind each other in a file.
    ///
    /// # Errors
    /// As [`check_unchanged`](Self::check_unchanged).
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

    /// The ranges of files that these bytes come from, in order: file, offset and length. For
    /// computed bytes, all that they may be computed from.
    pub fn file_ranges(&self) -> impl Iterator<Item = (&Arc<SourceFile>, u64, u64)> {
        // Without recursion: computations may stand on computations.
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

    /// What computes these bytes, if they are all that a `T` computes: a writer that finds its own
    /// format's computation can take the source instead.
    pub fn derivation<T: Derive>(&self) -> Option<&T> {
        match &self.0 {
            Repr::Derived { source, offset: 0, len } if *len == source.len() => {
                let source: &dyn Any = source.as_ref();
                source.downcast_ref()
            }
            _ => None,
        }
    }

    /// Where these bytes are, if they are in one place: two blobs of one identity are equal.
    pub fn identity(&self) -> Option<Identity> {
        let place = match &self.0 {
            Repr::Memory(bytes) => Place::Memory(bytes.as_ptr().addr()),
            Repr::File { file, offset, .. } => Place::File(file.identity(), *offset),
            Repr::Concat { .. } | Repr::Derived { .. } => return None,
        };
        Some(Identity(place, self.len()))
    }

    /// Whether it is known, without reading, that these are the bytes of `other`: they are in the same
    /// place, or computed from it by the same computation.
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

    /// The bytes, if they are in memory.
    pub fn in_memory(&self) -> Option<&Bytes> {
        match &self.0 {
            Repr::Memory(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// The file and the offset in it, if these bytes are one range of a file.
    pub fn file_range(&self) -> Option<(&Arc<SourceFile>, u64)> {
        match &self.0 {
            Repr::File { file, offset, .. } => Some((file, *offset)),
            _ => None,
        }
    }

    /// What messages call the place of byte `offset`: the file and the offset in it.
    pub(crate) fn place(&self, offset: u64) -> (String, u64) {
        match &self.0 {
            Repr::File { file, offset: base, .. } => {
                (file.path().display().to_string(), base + offset)
            }
            Repr::Memory(_) => ("memory".to_owned(), offset),
            Repr::Concat { .. } => ("joined bytes".to_owned(), offset),
            Repr::Derived { .. } => ("computed bytes".to_owned(), offset),
        }
    }

    /// An error about the byte at `offset`.
    pub fn malformed(
        &self,
        offset: u64,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> Error {
        let (origin, offset) = self.place(offset);
        Error::Malformed { origin, offset, expected: expected.into(), found: found.into() }
    }

    /// An error about bytes that ask for more than a reader takes on; `limit` is how much that is.
    pub fn over_limit(&self, offset: u64, limit: impl Into<String>) -> Error {
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

/// Fills `buffer` with parts end to end: ranges of one file together.
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

/// A length that was compared with that of memory.
pub(crate) fn to_usize(len: u64) -> usize {
    usize::try_from(len).unwrap_or(usize::MAX)
}

/// The pieces of `parts` that make up the `len` bytes from `offset`: part, start in it, length.
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

/// No bytes.
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
