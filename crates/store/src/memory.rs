//! Memory that is filled once, and shared or written to after that.

use std::ops::{Deref, DerefMut, Range};

use bytes::Bytes;
#[cfg(unix)]
use memmap2::MmapMut;

use crate::blob::to_usize;
use crate::{Blob, Error, PIECE, Progress, Result, parallel};

/// Memory of a fixed size, which belongs to whoever holds it.
#[derive(Debug)]
pub struct Memory(Repr);

#[derive(Debug)]
enum Repr {
    Heap(Vec<u8>),
    /// In pages of its own, large ones where the system has them: the time to load a model is that
    /// of its page faults, of which there are 512 times fewer then.
    #[cfg(unix)]
    Pages(MmapMut),
}

/// From this size on memory has pages of its own.
#[cfg(unix)]
const PAGES: usize = 4 << 20;

/// What the bytes of tensors begin at multiples of: the widest vectors of a processor.
const ALIGNMENT: u64 = 64;

impl Memory {
    /// Memory that is filled with zeros.
    ///
    /// # Errors
    /// If there is not so much.
    fn new(len: u64) -> Result<Self> {
        let len = to_usize(len);
        #[cfg(unix)]
        if len >= PAGES {
            let pages = MmapMut::map_anon(len).map_err(|source| Error::Memory { len, source })?;
            // Systems without large pages refuse, and give the others.
            #[cfg(target_os = "linux")]
            let _ = pages.advise(memmap2::Advice::HugePage);
            return Ok(Self(Repr::Pages(pages)));
        }
        #[cfg(not(unix))]
        if Vec::<u8>::new().try_reserve_exact(len).is_err() {
            return Err(Error::Memory { len, source: std::io::ErrorKind::OutOfMemory.into() });
        }
        Ok(Self(Repr::Heap(vec![0; len])))
    }

    /// Zeros, so many of them from a place on that is at a multiple of 64.
    ///
    /// # Errors
    /// If there is not so much memory.
    pub(crate) fn aligned(len: u64) -> Result<(Self, usize)> {
        let memory = Self::new(len.saturating_add(ALIGNMENT))?;
        let begin = memory.as_ptr().align_offset(to_usize(ALIGNMENT));
        Ok((memory, begin))
    }

    /// All the bytes of several blobs, read into one stretch, and where each of them is in it: at an
    /// address that is a multiple of 64.
    ///
    /// # Errors
    /// What reading gives, or if there is not so much memory; [`Error::Cancelled`].
    pub fn read(blobs: &[Blob], progress: &Progress) -> Result<(Self, Vec<Range<usize>>)> {
        let room = |blob: &Blob| blob.len().checked_next_multiple_of(ALIGNMENT);
        let len = blobs.iter().try_fold(0_u64, |sum, blob| sum.checked_add(room(blob)?));
        let (mut memory, begin) = Self::aligned(len.unwrap_or(u64::MAX))?;
        let (_, mut rest) = memory.split_at_mut(begin);
        let mut pieces = Vec::new();
        for blob in blobs {
            let (now, later) = rest.split_at_mut(to_usize(room(blob).unwrap_or(0)));
            let (now, _) = now.split_at_mut(to_usize(blob.len()));
            // What is computed need not be computed faster in pieces.
            let size = if blob.file_range().is_some() { to_usize(PIECE) } else { now.len() };
            let starts = (0..blob.len()).step_by(size.max(1));
            pieces.extend(starts.zip(now.chunks_mut(size.max(1))).map(|piece| (blob, piece)));
            rest = later;
        }
        let read = |(): &mut (), (blob, (start, piece)): (&Blob, (u64, &mut [u8]))| {
            blob.read_at(start, piece)?;
            progress.advance(piece.len() as u64)
        };
        parallel::for_each(pieces, || (), read)?;
        let mut offset = begin;
        let place = |blob: &Blob| {
            let start = offset;
            offset += to_usize(room(blob).unwrap_or(0));
            start..start + to_usize(blob.len())
        };
        let places = blobs.iter().map(place).collect();
        Ok((memory, places))
    }

    /// Pages of a file, of which those that are written to become copies.
    #[cfg(unix)]
    pub(crate) fn of_file(pages: MmapMut) -> Self {
        Self(Repr::Pages(pages))
    }

    /// The same bytes, which nobody writes to any more.
    pub(crate) fn freeze(self) -> Bytes {
        match self.0 {
            Repr::Heap(bytes) => bytes.into(),
            #[cfg(unix)]
            Repr::Pages(pages) => Bytes::from_owner(pages),
        }
    }
}

impl Deref for Memory {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Repr::Heap(bytes) => bytes,
            #[cfg(unix)]
            Repr::Pages(pages) => pages,
        }
    }
}

impl DerefMut for Memory {
    fn deref_mut(&mut self) -> &mut [u8] {
        match &mut self.0 {
            Repr::Heap(bytes) => bytes,
            #[cfg(unix)]
            Repr::Pages(pages) => pages,
        }
    }
}
