//! JSON files with a checksum of themselves: seals, and the manifests of checkpoints.
//!
//! A file is one JSON object. Its first key is `schema`, the version of its layout ([`Schema`]); its last is `self`, the
//! [`checksum`] of all bytes before the line of that key, as 16 hexadecimal digits. The checksum is verified before the
//! text is parsed.

use std::io::{self, BufWriter, Write};
use std::path::Path;

use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::blob::to_usize;
use crate::memory::zeros;
use crate::{Blob, Checksum, Error, Location, Output, Result, SourceFile, checksum};

/// A kind of JSON file with a checksum of itself.
#[derive(Clone, Copy, Debug)]
pub struct CheckedJson {
    /// The kind of file in error messages, such as `seal`.
    pub kind: &'static str,
    /// The name of the file in its directory.
    pub name: &'static str,
    /// Maximum size in bytes, for reading and writing.
    pub max_len: u64,
    /// The bytes before the digits on the line of the checksum.
    pub before: &'static str,
    /// The bytes after the digits, up to the end of the file.
    pub after: &'static str,
}

/// The reason why a [`CheckedJson`] file cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Flaw {
    /// The last line is missing, or its checksum does not match the lines before it.
    #[error("it is damaged: checksum mismatch")]
    Damaged,
    /// The text does not have the layout of this version.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// The file would exceed the size limit for reading.
    #[error("it would exceed {0} bytes, the size limit for reading")]
    TooLarge(u64),
    /// The contents are inconsistent.
    #[error("{0}")]
    Contradiction(String),
}

/// The version of a file's layout; no other version deserializes to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Schema<const VERSION: u64>;

impl CheckedJson {
    /// Reads the file in `directory`.
    ///
    /// # Errors
    /// [`Error::Unusable`] if the file is damaged or of another version, [`Error::Limit`] if it is too large, or the
    /// error of the read.
    pub fn read<T: DeserializeOwned>(&self, directory: &Location) -> Result<T> {
        let path = directory.join(self.name);
        self.parse(&self.read_bytes(&path)?, &path)
    }

    /// Reads an open file at `path`, of any name.
    pub(crate) fn read_file<T: DeserializeOwned>(
        &self,
        file: &SourceFile,
        path: &Location,
    ) -> Result<T> {
        if file.len() > self.max_len {
            let (origin, offset) = (path.display().to_string(), 0);
            let limit = format!("at most {} bytes of a {}", self.max_len, self.kind);
            return Err(Error::Limit { origin, offset, limit: limit.into() });
        }
        let mut bytes = zeros(to_usize(file.len()))?;
        file.read_at(0, &mut bytes)?;
        self.parse(&bytes, path)
    }

    fn parse<T: DeserializeOwned>(&self, bytes: &[u8], path: &Location) -> Result<T> {
        if !self.is_intact(bytes) {
            return Err(self.unusable(path.path(), Flaw::Damaged));
        }
        serde_json::from_slice(bytes).map_err(|error| self.unusable(path.path(), error.into()))
    }

    /// Writes the file.
    ///
    /// # Errors
    /// [`Error::Unusable`] if the file would exceed the size limit for reading, or the error of the write.
    pub fn write<T: Serialize>(&self, out: &mut Output, value: &T) -> Result<()> {
        let body = Body { file: self, out, held: Vec::new(), sum: Checksum::default() };
        let mut buffered = BufWriter::new(body);
        let written = serde_json::to_writer_pretty(&mut buffered, value).map_err(io::Error::from);
        let body = written.and_then(|()| Ok(buffered.into_inner()?));
        body.map_err(|error| self.write_error(error))?.end()
    }

    /// Creates the error for a file in `directory` that is inconsistent, in itself or with the files beside it.
    pub fn contradiction(&self, directory: &Location, what: impl Into<String>) -> Error {
        self.contradiction_in(&directory.join(self.name), what)
    }

    /// Creates the error for a file at `path` that is inconsistent.
    pub(crate) fn contradiction_in(&self, path: &Location, what: impl Into<String>) -> Error {
        self.unusable(path.path(), Flaw::Contradiction(what.into()))
    }

    fn unusable(&self, path: &Path, flaw: Flaw) -> Error {
        Error::Unusable { kind: self.kind, path: path.to_path_buf(), flaw }
    }

    /// Reads all bytes of the file at `path` without verifying the checksum.
    pub(crate) fn read_bytes(&self, path: &Location) -> Result<Bytes> {
        let blob = Blob::open(path, false)?;
        if blob.len() > self.max_len {
            let limit = format!("at most {} bytes of a {}", self.max_len, self.kind);
            return Err(blob.over_limit(0, limit));
        }
        blob.read()
    }

    fn is_intact(&self, bytes: &[u8]) -> bool {
        let line_len = self.last_line(0).len();
        let start = bytes.len().checked_sub(line_len);
        let split = start.and_then(|start| bytes.split_at_checked(start));
        split.is_some_and(|(body, line)| line == self.last_line(checksum(body)).as_bytes())
    }

    fn last_line(&self, sum: u64) -> String {
        format!("{}{sum:016x}{}", self.before, self.after)
    }

    /// Returns the error that stopped `write`, unwrapped from [`io::Error`].
    fn write_error(&self, error: io::Error) -> Error {
        let flaw = |error: io::Error| Flaw::Contradiction(error.to_string());
        error.downcast().unwrap_or_else(|error| self.unusable(self.name.as_ref(), flaw(error)))
    }
}

/// A writer for the object of a file.
struct Body<'a> {
    file: &'a CheckedJson,
    out: &'a mut Output,
    /// Bytes that may be the end of the object, which the line of the checksum replaces.
    held: Vec<u8>,
    sum: Checksum,
}

/// The end of an object.
const CLOSE: &[u8] = b"\n}";

impl Body<'_> {
    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        let CheckedJson { name, max_len, .. } = *self.file;
        if self.out.position() + bytes.len() as u64 > max_len {
            return Err(self.file.unusable(name.as_ref(), Flaw::TooLarge(max_len)));
        }
        self.sum.update(bytes);
        self.out.put(bytes)
    }

    fn end(mut self) -> Result<()> {
        self.put(b",\n")?;
        self.put(self.file.last_line(self.sum.value()).as_bytes())
    }
}

impl Write for Body<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.held.extend_from_slice(bytes);
        let kept = self.held.split_off(self.held.len().saturating_sub(CLOSE.len()));
        let ready = std::mem::replace(&mut self.held, kept);
        self.put(&ready).map_err(io::Error::other)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<const VERSION: u64> Serialize for Schema<VERSION> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(VERSION)
    }
}

impl<'de, const VERSION: u64> Deserialize<'de> for Schema<VERSION> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let found = u64::deserialize(deserializer)?;
        if found == VERSION {
            return Ok(Self);
        }
        let what = format!("unsupported version: expected schema {VERSION}, found {found}");
        Err(serde::de::Error::custom(what))
    }
}
