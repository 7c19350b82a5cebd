//! Byte maps: every field of a file with its offset, as the tables of `docs/formats` describe it.
//!
//! A map is what the reader of the format reads: the reader runs with a recording [`Cursor`], so that both agree by
//! construction. Elements of tensors are not read.

use lodstone_model::Limits;
use lodstone_store::{Blob, Cursor, Field};

use crate::error::{Error, Result};
use crate::format::Probe;

/// The fields of a file.
#[derive(Debug)]
pub struct ByteMap {
    /// The fields, in the order of their offsets, without gaps and overlaps, up to the end of the file.
    pub fields: Vec<Field>,
    /// The damage, which is the error of the reader. If it cannot read on, the last field is the unread rest of the file.
    pub error: Option<Error>,
}

impl ByteMap {
    /// Creates the map of a file of `len` bytes.
    pub fn new(fields: Vec<Field>, len: u64) -> Self {
        Self { fields: without_gaps(fields, len), error: None }
    }

    /// Returns whether nothing in the file was read.
    pub fn is_unread(&self) -> bool {
        self.fields.iter().all(|field| field.name == UNREAD)
    }
}

/// The fields that a reader has read, and its result.
pub type Recorded = (Vec<Field>, Result<()>);

/// The byte map of a kind of file.
#[derive(Debug)]
pub struct Mapper {
    /// The kind of file, for messages: `safetensors files`.
    pub what: &'static str,
    /// Returns whether a file is of this kind.
    pub detect: fn(&Probe<'_>) -> bool,
    /// Reads the file with a recording cursor.
    pub read: fn(&Blob, &Limits) -> Recorded,
}

/// The name of bytes that the reader does not read.
pub const UNREAD: &str = "unread";

impl Mapper {
    /// Maps a file. Damage ends the map, with an error.
    pub fn map(&self, blob: &Blob, limits: &Limits) -> ByteMap {
        let (fields, read) = (self.read)(blob, limits);
        ByteMap { error: read.err(), ..ByteMap::new(fields, blob.len()) }
    }
}

/// Reads a file with a recording cursor; returns its fields, and the error of `read`.
pub(crate) fn record<T>(blob: &Blob, read: impl FnOnce(&mut Cursor<'_>) -> Result<T>) -> Recorded {
    let mut cursor = Cursor::recording(blob);
    let read = read(&mut cursor).map(drop);
    let (fields, complete) = cursor.into_fields();
    (fields, complete.map_err(Into::into).and(read))
}

/// Adds the check of what a map does not depend on, such as the sizes of elements.
pub(crate) fn checked<T>((fields, read): Recorded, check: impl FnOnce() -> Result<T>) -> Recorded {
    (fields, read.and_then(|()| check().map(drop)))
}

/// Returns the name of a file in messages.
pub(crate) fn origin(blob: &Blob) -> String {
    blob.path().display().to_string()
}

/// Adds a field for each range of a file of `len` bytes that no field covers.
fn without_gaps(fields: Vec<Field>, len: u64) -> Vec<Field> {
    let unread = |offset: u64, end: u64| {
        let len = end.checked_sub(offset).filter(|len| *len > 0)?;
        let value = format!("{len} byte{}", if len == 1 { "" } else { "s" });
        Some(Field { offset, len, tensor: None, name: UNREAD.to_owned(), value })
    };
    let (mut all, mut end) = (Vec::with_capacity(fields.len() + 1), 0);
    for field in fields {
        all.extend(unread(end, field.offset));
        end = field.offset + field.len;
        all.push(field);
    }
    all.extend(unread(end, len));
    all
}
