//! A file that is being written and is not visible yet.

use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;

use crate::{Blob, Error, Progress, Result};

/// A staged file: buffered, knows its position, and copies blobs without holding them.
#[derive(Debug)]
pub struct Output {
    file: File,
    path: PathBuf,
    buffer: Vec<u8>,
    position: u64,
    progress: Progress,
}

const BUFFER: usize = 256 << 10;

impl Output {
    pub(crate) fn new(file: File, path: PathBuf, progress: Progress) -> Self {
        Self { file, path, buffer: Vec::with_capacity(BUFFER), position: 0, progress }
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
            self.file.write_all(bytes).map_err(Error::io("write", &self.path))?;
        } else {
            self.buffer.extend_from_slice(bytes);
        }
        self.position += bytes.len() as u64;
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
        const STEP: u64 = 64 << 20;
        let Some((source, start)) = blob.file_range().filter(|_| blob.len() >= WORTH_IT) else {
            return Ok(0);
        };
        self.drain()?;
        source.check(start, blob.len())?;
        let mut copied = 0;
        while copied < blob.len() {
            let mut offset = start + copied;
            let step = usize::try_from(STEP.min(blob.len() - copied)).unwrap_or(0);
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
        std::os::unix::fs::FileExt::write_all_at(&self.file, bytes, offset)
            .map_err(Error::io("write", &self.path))
    }

    /// Writes what is buffered and waits until the disk has it.
    pub(crate) fn finish(mut self) -> Result<()> {
        self.drain()?;
        self.file.sync_all().map_err(Error::io("sync", &self.path))
    }

    fn drain(&mut self) -> Result<()> {
        self.file.write_all(&self.buffer).map_err(Error::io("write", &self.path))?;
        self.buffer.clear();
        Ok(())
    }
}

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
