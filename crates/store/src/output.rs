//! A file that is being written and is not visible yet.

use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;

use crate::{Blob, Error, Progress, Result, Step};

/// A staged file: buffered, knows its position, and copies blobs without holding them.
#[derive(Debug)]
pub struct Output {
    file: File,
    path: PathBuf,
    buffer: Vec<u8>,
    position: u64,
    /// Up to where the system was asked to begin to write to the disk.
    begun: u64,
    progress: Progress,
}

const BUFFER: usize = 256 << 10;

/// Bytes that are left to the disk at once.
const SHARE: u64 = 16 << 20;

impl Output {
    pub(crate) fn new(file: File, path: PathBuf, progress: Progress) -> Self {
        let buffer = Vec::with_capacity(BUFFER);
        Self { file, path, buffer, position: 0, begun: 0, progress }
    }

    /// Bytes written so far.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Appends bytes.
    ///
    /// # Errors
    /// If the system fails or the work was cancelled.
    pub fn put(&mut self, bytes: &[u8]) -> Result<()> {
        if self.buffer.len() + bytes.len() > BUFFER {
            self.drain()?;
        }
        if bytes.len() >= BUFFER {
            self.progress.step(Step::Write(&self.path))?;
            self.file.write_all(bytes).map_err(Error::io("write", &self.path))?;
        } else {
            self.buffer.extend_from_slice(bytes);
        }
        self.position += bytes.len() as u64;
        self.begin_to_sync();
        self.progress.advance(bytes.len() as u64)
    }

    /// Appends all bytes of `blob`; a range of a file is copied inside the kernel where it can be.
    ///
    /// # Errors
    /// What reading the blob or writing gives.
    pub fn copy(&mut self, blob: &Blob) -> Result<()> {
        if let Some(parts) = blob.parts() {
            return parts.iter().try_for_each(|part| self.copy(part));
        }
        let copied = self.copy_in_kernel(blob)?;
        let rest = blob.slice(copied, blob.len() - copied)?;
        rest.for_each_chunk(|piece| self.put(piece))
    }

    /// Copies as much as the kernel will and says how much that was.
    #[cfg(target_os = "linux")]
    fn copy_in_kernel(&mut self, blob: &Blob) -> Result<u64> {
        // Below this a system call costs more than the copy.
        const WORTH_IT: u64 = BUFFER as u64;
        const STEP: u64 = SHARE;
        let Some((source, start)) = blob.file_range().filter(|_| blob.len() >= WORTH_IT) else {
            return Ok(0);
        };
        self.drain()?;
        source.check(start, blob.len())?;
        let mut copied = 0;
        while copied < blob.len() {
            let mut offset = start + copied;
            let step = usize::try_from(STEP.min(blob.len() - copied)).unwrap_or(0);
            self.progress.step(Step::Write(&self.path))?;
            let moved = source.with(|source| {
                rustix::fs::copy_file_range(source, Some(&mut offset), &self.file, None, step)
            })?;
            // Other file systems, old kernels: the caller goes on with a buffer.
            let Ok(moved) = moved else { break };
            if moved == 0 {
                break;
            }
            copied += moved as u64;
            self.position += moved as u64;
            self.begin_to_sync();
            self.progress.advance(moved as u64)?;
        }
        Ok(copied)
    }

    #[cfg(not(target_os = "linux"))]
    fn copy_in_kernel(&mut self, _blob: &Blob) -> Result<u64> {
        Ok(0)
    }

    /// Overwrites bytes that were written before, as containers need that know sizes late.
    ///
    /// # Errors
    /// If the range was not written yet, or the system fails.
    pub fn patch(&mut self, offset: u64, bytes: &[u8]) -> Result<()> {
        let end = offset.saturating_add(bytes.len() as u64);
        if end > self.position {
            let origin = self.path.display().to_string();
            return Err(Error::OutOfRange { origin, start: offset, end, len: self.position });
        }
        self.drain()?;
        self.progress.step(Step::Write(&self.path))?;
        std::os::unix::fs::FileExt::write_all_at(&self.file, bytes, offset)
            .map_err(Error::io("write", &self.path))
    }

    /// Writes what is buffered; gives the file, which the system begins to write to the disk.
    pub(crate) fn finish(mut self) -> Result<File> {
        self.drain()?;
        write_back(&self.file, 0, 0);
        Ok(self.file)
    }

    fn drain(&mut self) -> Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        self.progress.step(Step::Write(&self.path))?;
        self.file.write_all(&self.buffer).map_err(Error::io("write", &self.path))?;
        self.buffer.clear();
        Ok(())
    }

    /// Lets the disk work while the next bytes are read or computed.
    fn begin_to_sync(&mut self) {
        let share = self.position - self.begun;
        if share >= SHARE {
            write_back(&self.file, self.begun, share);
            self.begun = self.position;
        }
    }
}

/// Asks the system to begin to write `len` bytes from `offset` to the disk, all if `len` is 0. Nothing
/// relies on it: an error shows when the file is synced.
#[cfg(target_os = "linux")]
fn write_back(file: &File, offset: u64, len: u64) {
    use std::os::fd::AsRawFd;
    let range = i64::try_from(offset).ok().zip(i64::try_from(len).ok());
    if let Some((offset, len)) = range {
        // SAFETY: the descriptor is open, and no memory is handed over.
        #[expect(unsafe_code, reason = "there is no safe wrapper")]
        unsafe {
            libc::sync_file_range(file.as_raw_fd(), offset, len, libc::SYNC_FILE_RANGE_WRITE)
        };
    }
}

#[cfg(not(target_os = "linux"))]
fn write_back(_file: &File, _offset: u64, _len: u64) {}

/// For libraries that write to a [`Write`].
impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.put(bytes).map_err(io::Error::other)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
