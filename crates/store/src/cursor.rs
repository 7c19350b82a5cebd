//! Reading headers: little-endian, bounds-checked, and never past what is left.

use crate::blob::{CHUNK, to_usize};
use crate::{Blob, Error, Result};

/// A reader of a [`Blob`] that knows where it is.
///
/// Nothing is allocated before it is known to be there: every length is compared with what is
/// left first. Data can be hopped over ([`Cursor::blob`]) without being read.
#[derive(Debug)]
pub struct Cursor<'a> {
    blob: &'a Blob,
    position: u64,
    window: Vec<u8>,
    window_start: u64,
    /// How many of the last reads were each not far behind the one before.
    dense: u32,
    /// Whether everything is read, to the end of the dense headers.
    through: bool,
}

/// Headers are read in pieces of this size at most.
const WINDOW: u64 = 4096;

/// What is read first where headers lie apart: most are smaller.
const FIRST: u64 = 256;

/// Headers that lie no farther apart are read sooner with all that is between them than each for
/// itself, if they have to come from a disk.
const DENSE: u64 = 128 << 10;

/// How many such headers tell that there will be more.
const SEVERAL: u32 = 8;

impl<'a> Cursor<'a> {
    /// Starts at the first byte.
    pub fn new(blob: &'a Blob) -> Self {
        Self::at(blob, 0)
    }

    /// Starts at `position`.
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

    /// Offset of the next byte from the start of the blob.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Moves to `position`, to read something again.
    pub fn seek(&mut self, position: u64) {
        self.position = position;
    }

    /// How many bytes are left.
    pub fn remaining(&self) -> u64 {
        self.blob.len().saturating_sub(self.position)
    }

    /// Fails unless `len` bytes are left for `what`.
    ///
    /// # Errors
    /// [`Error::Malformed`] with the place, what was expected and how much is left.
    pub fn need(&self, len: u64, what: &str) -> Result<()> {
        let left = self.remaining();
        if len <= left {
            return Ok(());
        }
        Err(self.error(format!("{what} ({len} bytes)"), format!("{left} bytes left")))
    }

    /// The next `len` bytes as a blob, hopped over without being read.
    ///
    /// # Errors
    /// As [`Cursor::need`].
    pub fn blob(&mut self, len: u64, what: &str) -> Result<Blob> {
        self.need(len, what)?;
        let blob = self.blob.slice(self.position, len)?;
        self.position += len;
        Ok(blob)
    }

    /// The next `len` bytes, read.
    ///
    /// # Errors
    /// As [`Cursor::need`], or what reading gives.
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

    /// The next `N` bytes, read.
    ///
    /// # Errors
    /// As [`Cursor::bytes`].
    pub fn array<const N: usize>(&mut self, what: &str) -> Result<[u8; N]> {
        const { assert!(N as u64 <= WINDOW) };
        self.need(N as u64, what)?;
        let mut array = [0; N];
        array.copy_from_slice(self.peek(N)?);
        self.position += N as u64;
        Ok(array)
    }

    /// A `u32`.
    ///
    /// # Errors
    /// As [`Cursor::bytes`].
    pub fn u32(&mut self, what: &str) -> Result<u32> {
        self.array(what).map(u32::from_le_bytes)
    }

    /// An `i32`.
    ///
    /// # Errors
    /// As [`Cursor::bytes`].
    pub fn i32(&mut self, what: &str) -> Result<i32> {
        self.array(what).map(i32::from_le_bytes)
    }

    /// A `u64`.
    ///
    /// # Errors
    /// As [`Cursor::bytes`].
    pub fn u64(&mut self, what: &str) -> Result<u64> {
        self.array(what).map(u64::from_le_bytes)
    }

    /// An `i64`.
    ///
    /// # Errors
    /// As [`Cursor::bytes`].
    pub fn i64(&mut self, what: &str) -> Result<i64> {
        self.array(what).map(i64::from_le_bytes)
    }

    /// An error about the place where the cursor stands.
    pub fn error(&self, expected: impl Into<String>, found: impl Into<String>) -> Error {
        self.blob.malformed(self.position, expected, found)
    }

    /// An error about the byte at `position`.
    pub fn error_at(
        &self,
        position: u64,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> Error {
        self.blob.malformed(position, expected, found)
    }

    /// An error about what the byte at `position` begins: a reader takes on no more than `limit`.
    pub fn over_limit_at(&self, position: u64, limit: impl Into<String>) -> Error {
        self.blob.over_limit(position, limit)
    }

    /// `len <= WINDOW` bytes from the position on; the caller has checked that they are there.
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

    /// Reads what the next `len` bytes are among.
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
            // More where it goes on than where it hops.
            let size = if hop == Some(0) { (2 * size).clamp(FIRST, WINDOW) } else { FIRST };
            let size = self.blob.at_once(self.position, size.min(self.remaining()));
            self.window.resize(to_usize(size).max(len), 0);
            self.window_start = self.position;
            if self.dense < SEVERAL {
                return self.blob.read_at(self.position, &mut self.window);
            }
            if self.blob.read_cached(self.position, &mut self.window)? {
                return Ok(());
            }
            self.through = true;
        }
        // One read after the other, without gaps: the system reads ahead of such.
        self.window_start = if near { end } else { self.position };
        self.window.resize(CHUNK.min(to_usize(self.blob.len() - self.window_start)), 0);
        self.blob.read_at(self.window_start, &mut self.window)
    }
}
