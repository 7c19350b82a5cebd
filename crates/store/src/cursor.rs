//! Reading headers: little-endian, bounds-checked, and never past what is left.

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
    /// To where the system was asked to read ahead.
    ahead: u64,
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

/// How far the system is asked to read ahead of headers.
const AHEAD: u64 = 4 << 20;

impl<'a> Cursor<'a> {
    /// Starts at the first byte.
    pub fn new(blob: &'a Blob) -> Self {
        Self::at(blob, 0)
    }

    /// Starts at `position`.
    pub fn at(blob: &'a Blob, position: u64) -> Self {
        Self { blob, position, window: Vec::new(), window_start: position, dense: 0, ahead: 0 }
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

    /// `len <= WINDOW` bytes from the position on; the caller has checked that they are there.
    fn peek(&mut self, len: usize) -> Result<&[u8]> {
        let start = self.position.checked_sub(self.window_start);
        let inside = start.and_then(|start| usize::try_from(start).ok());
        let cached = inside.filter(|s| s.checked_add(len).is_some_and(|e| e <= self.window.len()));
        let start = match cached {
            Some(start) => start,
            None => {
                let size = self.next_window().min(self.remaining());
                let size = self.blob.at_once(self.position, size).max(len as u64);
                self.window.resize(usize::try_from(size).unwrap_or(0), 0);
                self.blob.read_at(self.position, &mut self.window)?;
                self.window_start = self.position;
                0
            }
        };
        Ok(self.window.get(start..start + len).unwrap_or(&[]))
    }

    /// How much to read at the position: more where it goes on than where it hops.
    fn next_window(&mut self) -> u64 {
        let window = self.window.len() as u64;
        let hop = self.position.checked_sub(self.window_start + window);
        if hop == Some(0) {
            return (2 * window).clamp(FIRST, WINDOW);
        }
        let dense = hop.is_some_and(|hop| hop <= DENSE);
        self.dense = if dense { self.dense.saturating_add(1) } else { 0 };
        if self.dense >= SEVERAL && self.position + AHEAD / 2 > self.ahead {
            let start = self.ahead.max(self.position);
            self.blob.will_need(start, AHEAD);
            self.ahead = start + AHEAD;
        }
        FIRST
    }
}
