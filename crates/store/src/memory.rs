//! Aligned memory that is filled once, and then shared or written to.
//!
//! A model is loaded into one block: page faults are the main cost of loading, and large pages avoid most of them. The
//! block is freed with its last tensor.

use std::ops::{Deref, DerefMut, Range};

use bytes::Bytes;
#[cfg(unix)]
use memmap2::MmapMut;

use crate::blob::to_usize;
use crate::{Blob, Error, PIECE, Progress, Result, internal, parallel};

/// An allocation of a fixed size. Its address is a multiple of 64, unless it maps a part of a file.
#[derive(Debug)]
pub struct Memory {
    repr: Repr,
    /// The index of the first byte in the allocation.
    begin: usize,
    len: usize,
}

#[derive(Debug)]
enum Repr {
    Heap(Vec<u8>),
    /// A separate mapping.
    #[cfg(unix)]
    Pages(MmapMut),
}

/// The alignment of tensor data: that of the widest vectors of a processor.
const ALIGNMENT: u64 = 64;

/// The size of a huge page in bytes, which is that of the smallest allocation in huge pages. They are used where the system
/// supports them: the time to load a model is dominated by page faults, of which there are 512 times fewer.
#[cfg(unix)]
const LARGE: usize = 2 << 20;

/// The size in bytes from which memory in pages of the usual size is a mapping of its own.
#[cfg(unix)]
const MAPPED: u64 = 128 << 10;

/// Makes room for more bytes.
///
/// # Errors
/// Fails if memory is insufficient.
pub(crate) fn reserve(bytes: &mut Vec<u8>, len: usize) -> Result<()> {
    bytes.try_reserve(len).map_err(|_| insufficient(len))
}

fn insufficient(len: usize) -> Error {
    Error::Memory { len, source: std::io::ErrorKind::OutOfMemory.into() }
}

/// Returns zeros, to be overwritten.
///
/// # Errors
/// Fails if memory is insufficient.
pub(crate) fn zeros(len: usize) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(len).map_err(|_| insufficient(len))?;
    bytes.resize(len, 0);
    Ok(bytes)
}

impl Memory {
    /// Allocates zeroed memory.
    ///
    /// # Errors
    /// Fails if memory is insufficient.
    pub fn zeroed(len: u64) -> Result<Self> {
        #[cfg(unix)]
        if len >= LARGE as u64 {
            let len = to_usize(len);
            // Linux aligns a mapping to huge pages only if it fills them.
            let whole = len.checked_next_multiple_of(LARGE).unwrap_or(len);
            let pages = MmapMut::map_anon(whole).map_err(|source| Error::Memory { len, source })?;
            // Only a hint: systems without huge pages use normal ones, as does the end if it is small.
            #[cfg(target_os = "linux")]
            {
                let large = whole - if whole - len > LARGE / 2 { LARGE } else { 0 };
                let _ = pages.advise_range(memmap2::Advice::HugePage, 0, large);
            }
            return Ok(Self { repr: Repr::Pages(pages), begin: 0, len });
        }
        let room = to_usize(len.saturating_add(ALIGNMENT));
        let bytes = zeros(room)?;
        let begin = bytes.as_ptr().align_offset(to_usize(ALIGNMENT));
        Ok(Self { repr: Repr::Heap(bytes), begin, len: to_usize(len) })
    }

    /// Allocates zeroed memory in pages of the usual size, for what is written at once. Huge pages would take less time, but
    /// more than any other where a host has taken free ones back from a virtual machine, and has to clear them, too.
    ///
    /// # Errors
    /// Fails if memory is insufficient.
    pub fn paged(len: u64) -> Result<Self> {
        #[cfg(unix)]
        if len >= MAPPED {
            let len = to_usize(len);
            let pages = MmapMut::map_anon(len).map_err(|source| Error::Memory { len, source })?;
            return Ok(Self { repr: Repr::Pages(pages), begin: 0, len });
        }
        Self::zeroed(len)
    }

    /// Requests the pages of a range from the system: page faults would take longer. Several threads may request pages of the
    /// same memory.
    pub fn populate(&self, range: Range<usize>) {
        // Only a hint: without it, the system provides pages when they are first written.
        #[cfg(target_os = "linux")]
        if let Repr::Pages(pages) = &self.repr {
            let _ = pages.advise_range(memmap2::Advice::PopulateWrite, range.start, range.len());
        }
        #[cfg(not(target_os = "linux"))]
        let _ = range;
    }

    /// Reads all bytes of several blobs into one allocation; returns it with the range of each blob, whose
    /// address is a multiple of 64.
    ///
    /// # Errors
    /// Fails if reading fails or memory is insufficient, or with [`Error::Cancelled`].
    pub fn read(blobs: &[Blob], progress: &Progress) -> Result<(Self, Vec<Range<usize>>)> {
        let room = |blob: &Blob| blob.len().checked_next_multiple_of(ALIGNMENT);
        let len = blobs.iter().try_fold(0_u64, |sum, blob| sum.checked_add(room(blob)?));
        let mut memory = Self::zeroed(len.unwrap_or(u64::MAX))?;
        let mut rest = &mut memory[..];
        let mut targets = Vec::with_capacity(blobs.len());
        for blob in blobs {
            let (now, later) = rest.split_at_mut(to_usize(room(blob).unwrap_or(0)));
            let (now, _) = now.split_at_mut(to_usize(blob.len()));
            targets.push((blob, now));
            rest = later;
        }
        read_to(targets, progress)?;
        let mut offset = 0;
        let place = |blob: &Blob| {
            let start = offset;
            offset += to_usize(room(blob).unwrap_or(0));
            start..start + to_usize(blob.len())
        };
        let places = blobs.iter().map(place).collect();
        Ok((memory, places))
    }

    /// Copy-on-write pages of a file.
    #[cfg(unix)]
    pub(crate) fn of_file(pages: MmapMut) -> Self {
        let len = pages.len();
        Self { repr: Repr::Pages(pages), begin: 0, len }
    }

    /// Converts the memory into shared, immutable bytes.
    pub(crate) fn freeze(self) -> Bytes {
        let bytes: Bytes = match self.repr {
            Repr::Heap(bytes) => bytes.into(),
            #[cfg(unix)]
            Repr::Pages(pages) => Bytes::from_owner(pages),
        };
        bytes.slice(self.begin..self.begin + self.len)
    }
}

/// Reads all bytes of blobs on all processors, each into memory of its size.
///
/// # Errors
/// Fails if reading fails, or with [`Error::Cancelled`].
pub(crate) fn read_to(targets: Vec<(&Blob, &mut [u8])>, progress: &Progress) -> Result<()> {
    let mut pieces = Vec::new();
    for (blob, memory) in targets {
        let (mut start, mut rest) = (0, memory);
        while !rest.is_empty() {
            let end = match blob.file_range() {
                // Bytes with one checksum are read once if they are read together.
                Some((file, offset)) => {
                    let next = offset.saturating_add(start).saturating_add(PIECE);
                    file.begin_of_piece(next) - offset
                }
                // Splitting computed blobs would not speed them up.
                None => blob.len(),
            };
            let len = to_usize(end.saturating_sub(start)).min(rest.len());
            if len == 0 {
                return Err(internal("a piece of memory is beyond the end of its blob"));
            }
            let (piece, later) = rest.split_at_mut(len);
            pieces.push((blob, (start, piece)));
            (start, rest) = (end, later);
        }
    }
    let read = |(): &mut (), (blob, (start, piece)): (&Blob, (u64, &mut [u8]))| {
        blob.read_at(start, piece)?;
        progress.advance(piece.len() as u64)
    };
    parallel::for_each(pieces, || (), read)
}

impl Deref for Memory {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let all = match &self.repr {
            Repr::Heap(bytes) => &bytes[..],
            #[cfg(unix)]
            Repr::Pages(pages) => pages,
        };
        let (_, bytes) = all.split_at(self.begin);
        let (bytes, _) = bytes.split_at(self.len);
        bytes
    }
}

impl DerefMut for Memory {
    fn deref_mut(&mut self) -> &mut [u8] {
        let all = match &mut self.repr {
            Repr::Heap(bytes) => &mut bytes[..],
            #[cfg(unix)]
            Repr::Pages(pages) => pages,
        };
        let (_, bytes) = all.split_at_mut(self.begin);
        let (bytes, _) = bytes.split_at_mut(self.len);
        bytes
    }
}

impl Default for Memory {
    fn default() -> Self {
        Self { repr: Repr::Heap(Vec::new()), begin: 0, len: 0 }
    }
}
