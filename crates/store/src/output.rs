//! A file that is being written and is not visible yet.

use std::io::{self, Write};
use std::ops::Range;
use std::path::PathBuf;

use crate::blob::{CHUNK, to_usize};
use crate::checks::PIECE;
use crate::contents::Contents;
use crate::store::Sink;
use crate::{Blob, Error, Progress, Result, StepKind};

/// A buffered staged file with a position, which copies blobs in chunks.
#[derive(Debug)]
pub struct Output {
    sink: Box<dyn Sink>,
    path: PathBuf,
    buffer: Box<[u8]>,
    /// The range of the buffered bytes.
    filled: Range<usize>,
    position: u64,
    /// The offset up to which write-back to disk was requested.
    begun: u64,
    progress: Progress,
    /// What was written, if the store needs it.
    contents: Option<Contents>,
}

/// The unit of write-back requests, in bytes.
const WRITE_BACK_UNIT: u64 = 16 << 20;

/// The size of pages, and of blocks that file systems can share.
const BLOCK: usize = 4096;

impl Output {
    pub(crate) fn new(
        sink: Box<dyn Sink>,
        path: PathBuf,
        progress: Progress,
        contents: Option<Contents>,
    ) -> Self {
        let buffer = vec![0; CHUNK + BLOCK].into_boxed_slice();
        Self { sink, path, buffer, filled: 0..0, position: 0, begun: 0, progress, contents }
    }

    /// Returns the number of bytes written so far.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Appends bytes.
    ///
    /// # Errors
    /// Fails if the system fails or the work is cancelled.
    pub fn put(&mut self, bytes: &[u8]) -> Result<()> {
        if let Some(contents) = &mut self.contents {
            contents.put(bytes);
        }
        self.put_bytes(bytes)
    }

    fn put_bytes(&mut self, bytes: &[u8]) -> Result<()> {
        if bytes.len() < CHUNK {
            let mut rest = bytes;
            return self.append(bytes.len() as u64, |room| {
                let (now, later) = rest.split_at(room.len());
                room.copy_from_slice(now);
                rest = later;
                Ok(())
            });
        }
        self.drain()?;
        self.progress.step(StepKind::Write, &self.path)?;
        self.sink.write(bytes)?;
        self.advance(bytes.len() as u64)
    }

    /// Appends all bytes of `blob`. A range of a file is copied inside the kernel if that copies whole
    /// pages.
    ///
    /// # Errors
    /// Fails if reading the blob or writing fails.
    pub fn copy(&mut self, blob: &Blob) -> Result<()> {
        if let Some(contents) = &mut self.contents {
            contents.copy(blob);
        }
        self.copy_blob(blob)
    }

    fn copy_blob(&mut self, blob: &Blob) -> Result<()> {
        if let Some(parts) = blob.parts() {
            return parts.iter().try_for_each(|part| self.copy_blob(part));
        }
        if let Some(bytes) = blob.in_memory() {
            let mut shares = bytes.chunks(to_usize(WRITE_BACK_UNIT));
            return shares.try_for_each(|share| self.put_bytes(share));
        }
        blob.announce();
        let mut read = self.copy_in_store(blob)?;
        self.append(blob.len() - read, |room| {
            blob.read_at(read, room)?;
            read += room.len() as u64;
            Ok(())
        })
    }

    /// Appends `len` bytes by calling `fill` with free parts of the buffer.
    fn append(&mut self, len: u64, mut fill: impl FnMut(&mut [u8]) -> Result<()>) -> Result<()> {
        let mut left = len;
        while left > 0 {
            if self.filled.len() >= CHUNK {
                self.drain()?;
            }
            if self.filled.is_empty() {
                let begin = self.aligned();
                self.filled = begin..begin;
            }
            let free = (CHUNK - self.filled.len()).min(to_usize(left));
            let (_, room) = self.buffer.split_at_mut(self.filled.end);
            let (room, _) = room.split_at_mut(free);
            fill(room)?;
            self.filled.end += free;
            left -= free as u64;
            self.advance(free as u64)?;
        }
        Ok(())
    }

    /// Returns the first place in the buffer whose address has the same remainder by the size of a page as the position in
    /// the file. Some processors take three times as long to copy to an address whose remainder is a few bytes larger.
    fn aligned(&self) -> usize {
        let address = self.buffer.as_ptr().addr() % BLOCK;
        (to_usize(self.position % BLOCK as u64) + BLOCK - address) % BLOCK
    }

    /// Counts appended bytes.
    fn advance(&mut self, len: u64) -> Result<()> {
        self.position += len;
        self.begin_to_sync();
        self.progress.advance(len)
    }

    /// Copies what the store can copy by itself, and returns the number of bytes copied.
    fn copy_in_store(&mut self, blob: &Blob) -> Result<u64> {
        /// Below this size, a system call costs more than the copy.
        const MIN_COPY: u64 = 256 << 10;
        // For bytes that are not aligned to pages, the kernel takes twice as long as a buffer in the processor's cache.
        let shifted = |start: u64| start % BLOCK as u64 != self.position % BLOCK as u64;
        let Some((file, start)) =
            blob.file_range().filter(|(_, start)| blob.len() >= MIN_COPY && !shifted(*start))
        else {
            return Ok(0);
        };
        self.drain()?;
        file.check(start, blob.len())?;
        let mut copied = 0;
        while copied < blob.len() {
            self.progress.step(StepKind::Write, &self.path)?;
            let moved =
                self.sink.copy(file, start + copied, WRITE_BACK_UNIT.min(blob.len() - copied))?;
            // The caller copies the rest through a buffer.
            if moved == 0 {
                break;
            }
            copied += moved;
            self.advance(moved)?;
        }
        Ok(copied)
    }

    /// Appends all bytes of `blob`, and calls `seen` with them, in order, so that they are read from memory once. Other files
    /// may have the same bytes, as the elements of a tensor: large blobs begin and end chunks, if the file is stored in such.
    ///
    /// # Errors
    /// Fails if reading the blob or writing fails.
    pub fn share(&mut self, blob: &Blob, mut seen: impl FnMut(&[u8])) -> Result<()> {
        /// The size in bytes from which on a blob has chunks of its own.
        const LARGE: u64 = 64 << 10;
        let (mut at, len) = (0, blob.len());
        if len >= LARGE {
            self.drain()?;
        }
        while at < len {
            let piece = blob.slice(at, PIECE.min(len - at))?;
            if len >= LARGE && self.sink.share(&piece, &mut seen)? {
                self.advance(piece.len())?;
            } else {
                piece.for_each_chunk(|bytes| {
                    seen(bytes);
                    self.put(bytes)
                })?;
            }
            at += piece.len();
        }
        Ok(())
    }

    /// Overwrites bytes that were written before, for containers whose sizes are known late.
    ///
    /// # Errors
    /// Fails if the range was not written yet, or the system fails.
    pub fn patch(&mut self, offset: u64, bytes: &[u8]) -> Result<()> {
        let end = offset.saturating_add(bytes.len() as u64);
        if end > self.position {
            let origin = self.path.display().to_string();
            return Err(Error::OutOfRange { origin, start: offset, end, len: self.position });
        }
        self.drain()?;
        self.progress.step(StepKind::Write, &self.path)?;
        self.sink.write_at(offset, bytes)?;
        if let Some(contents) = &mut self.contents {
            contents.patch(offset, bytes)?;
        }
        Ok(())
    }

    /// Returns whether [`patch`](Self::patch) may fail for bytes that were written long before, because they have left
    /// this process. Formats then compute what they would patch before they write it.
    pub fn only_appends(&self) -> bool {
        self.sink.only_appends()
    }

    /// Flushes the buffer, and lets the store begin to make the file durable. Returns the contents, if the store needs
    /// them and they fit.
    pub(crate) fn close(mut self) -> Result<Option<Blob>> {
        self.drain()?;
        self.sink.close()?;
        Ok(self.contents.and_then(Contents::finish))
    }

    fn drain(&mut self) -> Result<()> {
        if self.filled.is_empty() {
            return Ok(());
        }
        self.progress.step(StepKind::Write, &self.path)?;
        let (filled, _) = self.buffer.split_at(self.filled.end);
        let (_, filled) = filled.split_at(self.filled.start);
        self.sink.write(filled)?;
        self.filled = 0..0;
        Ok(())
    }

    /// Requests write-back, so that the disk works while the next bytes are read or computed.
    fn begin_to_sync(&mut self) {
        let share = self.position - self.begun;
        if share >= WRITE_BACK_UNIT {
            self.sink.write_back(self.begun, share);
            self.begun = self.position;
        }
    }
}

/// For libraries that require a [`Write`].
impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.put(bytes).map_err(io::Error::other)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
