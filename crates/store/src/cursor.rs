//! Bounds-checked, little-endian reads of headers.

use crate::blob::{CHUNK, to_usize};
use crate::{Blob, Error, Result};

/// A reader of a [`Blob`] with a position.
///
/// Every length is compared with the bytes left before anything is allocated. Data can be skipped
/// ([`Cursor::blob`]) without being read.
#[derive(Debug)]
pub struct Cursor<'a> {
    blob: &'a Blob,
    position: u64,
    window: Vec<u8>,
    window_start: u64,
    /// The number of consecutive reads that were each close to the one before.
    dense: u32,
    /// Whether everything up to the end of the dense headers is read sequentially.
    through: bool,
}

/// Maximum size of a header read.
const WINDOW: u64 = 4096;

/// Size of the first read of sparse headers: most are smaller.
const MIN_WINDOW: u64 = 256;

/// Maximum distance of dense headers. If they are on disk, reading them sequentially with the bytes between them is
/// faster than reading each alone.
const DENSE: u64 = 128 << 10;

/// The number of consecutive dense headers after which more are expected.
const MIN_DENSE_READS: u32 = 8;

impl<'a> Cursor<'a> {
    /// Creates a cursor at the first byte.
    pub fn new(blob: &'a Blob) -> Self {
        Self::at(blob, 0)
    }

    /// Creates a cursor at `position`.
    pub fn at(blob: &'a Blob, position: u64) -> Self {
        Self {
            blob,
            position,
            window: Vec::new(),
            window_start: position,
            dense: 0,
            through: false,
        }
    }

    /// Returns the offset of the next byte from the start of the blob.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Moves to `position`.
    pub fn seek(&mut self, position: u64) {
        self.position = position;
    }

    /// Returns the number of bytes left.
    pub fn remaining(&self) -> u64 {
        self.blob.len().saturating_sub(self.position)
    }

    /// Fails unless `len` bytes are left for `what`.
    ///
    /// # Errors
    /// [`Error::Malformed`] with the position, what was expected and how many bytes are left.
    pub fn need(&self, len: u64, what: &str) -> Result<()> {
        let left = self.remaining();
        if len <= left {
            return Ok(());
        }
        Err(self.error(format!("{what} ({len} bytes)"), format!("{left} bytes left")))
    }

    /// Returns the next `len` bytes as a blob, and skips them without reading.
    ///
    /// # Errors
    /// The errors of [`Cursor::need`].
    pub fn blob(&mut self, len: u64, what: &str) -> Result<Blob> {
        self.need(len, what)?;
        let blob = self.blob.slice(self.position, len)?;
        self.position += len;
        Ok(blob)
    }

    /// Reads the next `len` bytes.
    ///
    /// # Errors
    /// The errors of [`Cursor::need`], or the error of the read.
    pub fn bytes(&mut self, len: u64, what: &str) -> Result<Vec<u8>> {
        self.need(len, what)?;
        let size = usize::try_from(len)
            .map_err(|_| self.error(format!("{what} that fits memory"), format!("{len} bytes")))?;
        let mut buffer = vec![0; size];
        if len > WINDOW {
            self.blob.read_at(self.position, &mut buffer)?;
        } else {
            buffer.copy_from_slice(self.peek(size)?);
        }
        self.position += len;
        Ok(buffer)
    }

    /// Reads the next `N` bytes.
    ///
    /// # Errors
    /// The errors of [`Cursor::bytes`].
    pub fn array<const N: usize>(&mut self, what: &str) -> Result<[u8; N]> {
        const { assert!(N as u64 <= WINDOW) };
        self.need(N as u64, what)?;
        let mut array = [0; N];
        array.copy_from_slice(self.peek(N)?);
        self.position += N as u64;
        Ok(array)
    }

    /// Reads a `u32`.
    ///
    /// # Errors
    /// The errors of [`Cursor::bytes`].
    pub fn u32(&mut self, what: &str) -> Result<u32> {
        self.array(what).map(u32::from_le_bytes)
    }

    /// Reads an `i32`.
    ///
    /// # Errors
    /// The errors of [`Cursor::bytes`].
    pub fn i32(&mut self, what: &str) -> Result<i32> {
        self.array(what).map(i32::from_le_bytes)
    }

    /// Reads a `u64`.
    ///
    /// # Errors
    /// The errors of [`Cursor::bytes`].
    pub fn u64(&mut self, what: &str) -> Result<u64> {
        self.array(what).map(u64::from_le_bytes)
    }

    /// Reads an `i64`.
    ///
    /// # Errors
    /// The errors of [`Cursor::bytes`].
    pub fn i64(&mut self, what: &str) -> Result<i64> {
        self.array(what).map(i64::from_le_bytes)
    }

    /// Creates an [`Error::Malformed`] at the current position.
    pub fn error(&self, expected: impl Into<String>, found: impl Into<String>) -> Error {
        self.blob.malformed(self.position, expected, found)
    }

    /// Creates an [`Error::Malformed`] for the byte at `position`.
    pub fn error_at(
        &self,
        position: u64,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> Error {
        self.blob.malformed(position, expected, found)
    }

    /// Creates an [`Error::Limit`] for the byte at `position`; `limit` describes the limit of the reader.
    pub fn over_limit_at(&self, position: u64, limit: impl Into<String>) -> Error {
        self.blob.over_limit(position, limit)
    }

    /// Returns the next `len <= WINDOW` bytes; the caller has checked that they exist.
    fn peek(&mut self, len: usize) -> Result<&[u8]> {
        let start = self.position.checked_sub(self.window_start);
        let inside = start.and_then(|start| usize::try_from(start).ok());
        let cached = inside.filter(|s| s.checked_add(len).is_some_and(|e| e <= self.window.len()));
        let start = match cached {
            Some(start) => start,
            None => {
                if let Err(error) = self.refill(len) {
                    self.window.clear();
                    return Err(error);
                }
                to_usize(self.position - self.window_start)
            }
        };
        Ok(self.window.get(start..start + len).unwrap_or(&[]))
    }

    /// Reads a window that contains the next `len` bytes.
    fn refill(&mut self, len: usize) -> Result<()> {
        let size = self.window.len() as u64;
        let end = self.window_start + size;
        let hop = self.position.checked_sub(end);
        let near = hop.is_some_and(|hop| hop <= DENSE);
        self.through &= near;
        if hop != Some(0) {
            self.dense = if near { self.dense.saturating_add(1) } else { 0 };
        }
        if !self.through {
            // Read more after contiguous reads than after skips.
            let size =
                if hop == Some(0) { (2 * size).clamp(MIN_WINDOW, WINDOW) } else { MIN_WINDOW };
            let size = self.blob.at_once(self.position, size.min(self.remaining()));
            self.window.resize(to_usize(size).max(len), 0);
            self.window_start = self.position;
            if self.dense < MIN_DENSE_READS {
                return self.blob.read_at(self.position, &mut self.window);
            }
            if self.blob.read_cached(self.position, &mut self.window)? {
                return Ok(());
            }
            self.through = true;
        }
        // Consecutive reads without gaps, for which the system reads ahead.
        self.window_start = if near { end } else { self.position };
        self.window.resize(CHUNK.min(to_usize(self.blob.len() - self.window_start)), 0);
        self.blob.read_at(self.window_start, &mut self.window)
    }
}
