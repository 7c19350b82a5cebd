//! Bounds-checked, little-endian reads of headers.
//!
//! A cursor never allocates more than the bytes that remain, and on request records the fields that it reads.

use std::fmt::Display;

use crate::blob::{CHUNK, to_usize};
use crate::fields::{Field, Recording, size};
use crate::memory::zeros;
use crate::{Blob, Ceiling, Error, Result};

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
    /// The fields that were read, if they are recorded.
    recording: Option<Box<Recording>>,
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
            recording: None,
        }
    }

    /// Creates a cursor at the first byte that records the fields that it reads, by the names that its methods take
    /// for error messages.
    ///
    /// Fields that are read again replace those recorded before. Without a recording, the methods below that concern
    /// it do nothing.
    pub fn recording(blob: &'a Blob) -> Self {
        Self { recording: Some(Box::default()), ..Self::new(blob) }
    }

    /// Returns the recorded fields, in the order of their offsets, and an error if there were too many to record.
    pub fn into_fields(self) -> (Vec<Field>, Result<()>) {
        self.recording.unwrap_or_default().finish(self.blob)
    }

    /// Assigns the fields that follow to a tensor, by its index in file order.
    pub fn set_tensor(&mut self, tensor: Option<usize>) {
        if let Some(recording) = &mut self.recording {
            recording.tensor = tensor;
        }
    }

    /// Assigns the fields from `start` to the position to a tensor.
    pub fn assign(&mut self, start: u64, tensor: Option<usize>) {
        if let Some(recording) = &mut self.recording {
            let start = recording.base.saturating_add(start);
            let fields = recording.fields.iter_mut().rev();
            let covered = fields.take_while(|field| field.offset + field.len > start);
            covered.for_each(|field| field.tensor = tensor);
        }
    }

    /// Records the bytes from `start` to the position as one field, instead of the fields recorded there.
    pub fn label(&mut self, start: u64, name: &str, value: impl FnOnce() -> String) {
        if let Some(recording) = &mut self.recording {
            recording.rewind(start);
            recording.add(start, self.position.saturating_sub(start), name, value);
        }
    }

    /// Adds the meaning of the last recorded value.
    pub fn explain(&mut self, meaning: impl FnOnce() -> String) {
        if let Some(field) = self.recording.as_mut().and_then(|it| it.fields.last_mut()) {
            field.value = format!("{} ({})", field.value, meaning());
        }
    }

    fn record(&mut self, len: u64, what: &str, value: impl FnOnce() -> String) {
        if let Some(recording) = &mut self.recording {
            recording.add(self.position - len, len, what, value);
        }
    }

    /// Returns the offset of the next byte from the start of the blob.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Moves to `position`.
    pub fn seek(&mut self, position: u64) {
        self.position = position;
        if let Some(recording) = &mut self.recording {
            recording.rewind(position);
        }
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
        self.record(len, what, || size(len));
        Ok(blob)
    }

    /// Reads the next `len` bytes with a cursor of their own, which ends with them, and continues after them.
    ///
    /// # Errors
    /// The errors of [`Cursor::need`] and of `read`.
    pub fn nested<T, E: From<Error>>(
        &mut self,
        len: u64,
        what: &str,
        read: impl FnOnce(&mut Cursor<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        self.need(len, what)?;
        let blob = self.blob.slice(self.position, len)?;
        let mut inner = Cursor::new(&blob);
        inner.recording = self.recording.take();
        let base = inner.recording.as_ref().map_or(0, |recording| recording.base);
        if let Some(recording) = &mut inner.recording {
            recording.base += self.position;
        }
        let read = read(&mut inner);
        self.recording = inner.recording.take();
        if let Some(recording) = &mut self.recording {
            recording.base = base;
        }
        self.position += len;
        read
    }

    /// Reads bytes again that have been read before; they are not recorded again.
    ///
    /// # Errors
    /// The errors of [`Cursor::bytes`].
    pub fn again(&mut self, start: u64, end: u64, what: &str) -> Result<Vec<u8>> {
        let (position, recording) = (self.position, self.recording.take());
        self.position = start;
        let bytes = self.bytes(end.saturating_sub(start), what);
        (self.position, self.recording) = (position, recording);
        bytes
    }

    /// Reads the next `len` bytes.
    ///
    /// # Errors
    /// The errors of [`Cursor::need`], or the error of the read.
    pub fn bytes(&mut self, len: u64, what: &str) -> Result<Vec<u8>> {
        self.need(len, what)?;
        let size = usize::try_from(len)
            .map_err(|_| self.error(format!("{what} that fits memory"), format!("{len} bytes")))?;
        let mut buffer = zeros(size)?;
        if len > WINDOW {
            self.blob.read_at(self.position, &mut buffer)?;
        } else {
            buffer.copy_from_slice(self.peek(size)?);
        }
        self.position += len;
        self.record(len, what, || Field::show(&buffer));
        Ok(buffer)
    }

    /// Reads the next `N` bytes.
    ///
    /// # Errors
    /// The errors of [`Cursor::bytes`].
    pub fn array<const N: usize>(&mut self, what: &str) -> Result<[u8; N]> {
        let array = self.take(what)?;
        self.record(N as u64, what, || Field::show(&array));
        Ok(array)
    }

    fn number<const N: usize, T: Display>(
        &mut self,
        what: &str,
        decode: fn([u8; N]) -> T,
    ) -> Result<T> {
        let number = decode(self.take(what)?);
        self.record(N as u64, what, || number.to_string());
        Ok(number)
    }

    fn take<const N: usize>(&mut self, what: &str) -> Result<[u8; N]> {
        const { assert!(N as u64 <= WINDOW) };
        self.need(N as u64, what)?;
        let mut array = [0; N];
        array.copy_from_slice(self.peek(N)?);
        self.position += N as u64;
        Ok(array)
    }

    /// Reads a `u16`.
    ///
    /// # Errors
    /// The errors of [`Cursor::bytes`].
    pub fn u16(&mut self, what: &str) -> Result<u16> {
        self.number(what, u16::from_le_bytes)
    }

    /// Reads a `u32`.
    ///
    /// # Errors
    /// The errors of [`Cursor::bytes`].
    pub fn u32(&mut self, what: &str) -> Result<u32> {
        self.number(what, u32::from_le_bytes)
    }

    /// Reads an `i32`.
    ///
    /// # Errors
    /// The errors of [`Cursor::bytes`].
    pub fn i32(&mut self, what: &str) -> Result<i32> {
        self.number(what, i32::from_le_bytes)
    }

    /// Reads a `u64`.
    ///
    /// # Errors
    /// The errors of [`Cursor::bytes`].
    pub fn u64(&mut self, what: &str) -> Result<u64> {
        self.number(what, u64::from_le_bytes)
    }

    /// Reads an `i64`.
    ///
    /// # Errors
    /// The errors of [`Cursor::bytes`].
    pub fn i64(&mut self, what: &str) -> Result<i64> {
        self.number(what, i64::from_le_bytes)
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
    pub fn over_limit_at(&self, position: u64, limit: impl Into<Ceiling>) -> Error {
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
