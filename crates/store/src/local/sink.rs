//! A file that is being written.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;

use crate::store::Sink;
use crate::{Error, Result, SourceFile};

/// A file in a staging directory, which the publisher keeps open until it is synced.
#[derive(Debug)]
pub(super) struct LocalSink {
    pub(super) file: Arc<File>,
    /// The path in messages.
    pub(super) path: PathBuf,
}

impl Sink for LocalSink {
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        (&*self.file).write_all(bytes).map_err(Error::io("write", &self.path))
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.file.write_all_at(bytes, offset).map_err(Error::io("write", &self.path))
    }

    /// Copies inside the kernel, if that copies whole pages.
    #[cfg(target_os = "linux")]
    fn copy(&mut self, from: &SourceFile, offset: u64, len: u64) -> Result<u64> {
        let Some(from) = from.local() else { return Ok(0) };
        let mut offset = offset;
        let len = crate::blob::to_usize(len);
        let moved = from.with(|from| {
            rustix::fs::copy_file_range(from, Some(&mut offset), &*self.file, None, len)
        })?;
        // Other file systems, old kernels: the caller copies through a buffer.
        Ok(moved.map_or(0, |moved| moved as u64))
    }

    #[cfg(not(target_os = "linux"))]
    fn copy(&mut self, _: &SourceFile, _: u64, _: u64) -> Result<u64> {
        Ok(0)
    }

    /// Requests write-back, of the whole file if `len` is 0. Errors appear when the file is synced.
    fn write_back(&mut self, offset: u64, len: u64) {
        #[cfg(target_os = "linux")]
        {
            use std::os::fd::AsRawFd;
            let range = i64::try_from(offset).ok().zip(i64::try_from(len).ok());
            if let Some((offset, len)) = range {
                let (file, flags) = (self.file.as_raw_fd(), libc::SYNC_FILE_RANGE_WRITE);
                // SAFETY: the descriptor is open, and no memory is passed.
                #[expect(unsafe_code, reason = "there is no safe wrapper")]
                unsafe {
                    libc::sync_file_range(file, offset, len, flags)
                };
            }
        }
        #[cfg(not(target_os = "linux"))]
        let _ = (offset, len);
    }

    fn close(mut self: Box<Self>) -> Result<()> {
        self.write_back(0, 0);
        Ok(())
    }
}
