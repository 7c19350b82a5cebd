//! FlatBuffers: tables, vectors and strings that refer to each other.
//!
//! | part | bytes |
//! |---|---|
//! | beginning | `u32` offset of the root table, then four bytes that identify the schema |
//! | table | `i32` distance back to its vtable, then its fields |
//! | vtable | `u16` size of the vtable, `u16` size of the table, and for each field its `u16` offset in the table, or 0 if it is absent |
//! | vector | `u32` number of elements, then the elements |
//! | string | `u32` number of bytes, the bytes in UTF-8, and a zero |
//! | reference | `u32` distance forward to a table, a vector or a string |
//!
//! Integers are little-endian. There is no description of a schema in a file: callers know the number of each field. Many
//! references may lead to one table; so the size of all that is read is limited to a multiple of that of the buffer.
//!
//! The reader records every range that it reads, for byte maps and scans.
//!
//! Source of truth: `docs/source/internals.md` of FlatBuffers 25.

use lodstone_store::{Blob, Cursor, Field};

use crate::error::{Error, Result};

/// The number of fields that are kept of a vtable: more than any table that is read has.
const MAX_SLOTS: usize = 12;

/// The bytes that may be read for each byte of the buffer, and in addition: strings may be shared.
const RATIO: u64 = 8;
const ALLOWANCE: u64 = 4096;

/// A reader of a buffer.
pub(crate) struct FlatBuffer<'a> {
    buffer: &'a Blob,
    cursor: Cursor<'a>,
    /// The remaining bytes that may be read.
    left: u64,
    /// The ranges that were read, if they are recorded.
    pub(crate) spans: Option<Vec<Span>>,
}

/// A range of bytes that was read.
#[derive(Debug)]
pub(crate) struct Span {
    pub(crate) offset: u64,
    pub(crate) len: u64,
    pub(crate) what: &'static str,
    pub(crate) contents: Contents,
}

/// The contents of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contents {
    /// An integer, little-endian.
    Number,
    /// A distance to another part.
    Reference,
    /// Text, or bytes that are shown as such.
    Text,
    /// Bytes that are not shown.
    Bytes,
    /// The elements of the tensor of this index.
    Tensor(usize),
}

/// A table: its position and its vtable.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Table {
    pub(crate) at: u64,
    size: u16,
    slots: [u16; MAX_SLOTS],
}

impl<'a> FlatBuffer<'a> {
    /// Creates a reader of a whole buffer.
    pub(crate) fn new(buffer: &'a Blob, records: bool) -> Self {
        let left = buffer.len().saturating_mul(RATIO).saturating_add(ALLOWANCE);
        Self { buffer, cursor: Cursor::new(buffer), left, spans: records.then(Vec::new) }
    }

    /// Returns the root table.
    pub(crate) fn root(&mut self) -> Result<Table> {
        let at = self.target(0, "the root table")?;
        self.record(4, 4, "identifier", Contents::Text);
        self.table_at(at, "the root table")
    }

    /// Returns a number of a table, or 0 if it is absent.
    pub(crate) fn number(
        &mut self,
        table: &Table,
        slot: usize,
        size: u16,
        what: &'static str,
    ) -> Result<u64> {
        let Some(at) = self.field(table, slot, size, what)? else { return Ok(0) };
        self.record(at, u64::from(size), what, Contents::Number);
        self.read(at, size, what)
    }

    /// Returns a boolean of a table.
    pub(crate) fn is_set(
        &mut self,
        table: &Table,
        slot: usize,
        what: &'static str,
    ) -> Result<bool> {
        Ok(self.number(table, slot, 1, what)? != 0)
    }

    /// Returns a table that a table refers to.
    pub(crate) fn table(
        &mut self,
        table: &Table,
        slot: usize,
        what: &'static str,
    ) -> Result<Option<Table>> {
        let Some(at) = self.field(table, slot, 4, what)? else { return Ok(None) };
        let target = self.target(at, what)?;
        self.table_at(target, what).map(Some)
    }

    /// Returns the text that a table refers to.
    pub(crate) fn text(
        &mut self,
        table: &Table,
        slot: usize,
        what: &'static str,
    ) -> Result<Option<String>> {
        let Some((at, len)) = self.vector(table, slot, 1, what)? else { return Ok(None) };
        self.cursor.seek(at);
        let bytes = self.cursor.bytes(len, what)?;
        let [end] = self.cursor.array("the zero after a text")?;
        if end != 0 {
            let found = format!("{end:#04x}");
            return Err(self.cursor.error(format!("a zero after {what}"), found).into());
        }
        self.record(at, len, what, Contents::Text);
        let text = String::from_utf8(bytes)
            .map_err(|_| self.buffer.malformed(at, format!("{what} in UTF-8"), "other bytes"))?;
        Ok(Some(text))
    }

    /// Returns the tables that a table refers to.
    pub(crate) fn tables(
        &mut self,
        table: &Table,
        slot: usize,
        what: &'static str,
    ) -> Result<Vec<Table>> {
        let Some((start, count)) = self.vector(table, slot, 4, what)? else {
            return Ok(Vec::new());
        };
        let mut tables = Vec::new();
        for index in 0..count {
            let target = self.target(start + 4 * index, what)?;
            tables.push(self.table_at(target, what)?);
        }
        Ok(tables)
    }

    /// Returns the numbers that a table refers to, of `size` bytes each.
    pub(crate) fn numbers(
        &mut self,
        table: &Table,
        slot: usize,
        size: u16,
        what: &'static str,
    ) -> Result<Vec<u64>> {
        let found = self.vector(table, slot, size, what)?;
        let Some((start, count)) = found else { return Ok(Vec::new()) };
        let width = u64::from(size);
        self.record(start, count * width, what, Contents::Bytes);
        let mut numbers = Vec::new();
        for index in 0..count {
            numbers.push(self.read(start + index * width, size, what)?);
        }
        Ok(numbers)
    }

    /// Returns the bytes that a table refers to, without reading them.
    pub(crate) fn bytes(
        &mut self,
        table: &Table,
        slot: usize,
        what: &'static str,
    ) -> Result<Option<(u64, Blob)>> {
        let Some((start, len)) = self.vector(table, slot, 1, what)? else { return Ok(None) };
        Ok(Some((start, self.buffer.slice(start, len)?)))
    }

    /// Records a range as read.
    pub(crate) fn record(&mut self, offset: u64, len: u64, what: &'static str, contents: Contents) {
        if let Some(spans) = &mut self.spans {
            spans.push(Span { offset, len, what, contents });
        }
    }

    /// Returns the position of a field of a table; `None` if it is absent.
    fn field(&mut self, table: &Table, slot: usize, size: u16, what: &str) -> Result<Option<u64>> {
        let offset = table.slots.get(slot).copied();
        let offset = offset.ok_or_else(|| Error::internal("a slot that is not read"))?;
        if offset == 0 {
            return Ok(None);
        }
        if offset < 4 || offset.checked_add(size).is_none_or(|end| end > table.size) {
            let expected = format!("{what} inside a table of {} bytes", table.size);
            let found = format!("{size} bytes at its byte {offset}");
            return Err(self.buffer.malformed(table.at, expected, found).into());
        }
        Ok(Some(table.at + u64::from(offset)))
    }

    /// Reads a number of `size` bytes.
    fn read(&mut self, at: u64, size: u16, what: &str) -> Result<u64> {
        self.cursor.seek(at);
        let number = match size {
            1 => u64::from(u8::from_le_bytes(self.cursor.array(what)?)),
            2 => u64::from(self.cursor.u16(what)?),
            4 => u64::from(self.cursor.u32(what)?),
            _ => self.cursor.u64(what)?,
        };
        Ok(number)
    }

    /// Returns the position that the reference at `at` leads to.
    fn target(&mut self, at: u64, what: &'static str) -> Result<u64> {
        let distance = self.read(at, 4, what)?;
        self.record(at, 4, what, Contents::Reference);
        let target = at.saturating_add(distance);
        if distance == 0 || target >= self.buffer.len() {
            let expected = format!("a reference to {what} in {} bytes", self.buffer.len());
            return Err(self.buffer.malformed(at, expected, format!("offset {distance}")).into());
        }
        Ok(target)
    }

    /// Reads the vtable of the table at `at`.
    fn table_at(&mut self, at: u64, what: &'static str) -> Result<Table> {
        self.cursor.seek(at);
        let distance = i64::from(self.cursor.i32(what)?);
        let vtable = i64::try_from(at).ok().and_then(|at| at.checked_sub(distance));
        let vtable = vtable.and_then(|vtable| u64::try_from(vtable).ok());
        let Some(vtable) = vtable.filter(|vtable| *vtable < self.buffer.len()) else {
            let expected = format!("the vtable of {what}");
            return Err(self.buffer.malformed(at, expected, format!("distance {distance}")).into());
        };
        self.cursor.seek(vtable);
        let known = self.cursor.u16("the size of a vtable")?;
        let size = self.cursor.u16("the size of a table")?;
        if known < 4 || known % 2 == 1 || size < 4 {
            let expected = format!("the vtable of {what}");
            let found = format!("one of {known} bytes, for a table of {size}");
            return Err(self.buffer.malformed(vtable, expected, found).into());
        }
        self.cursor.seek(vtable);
        self.cursor.need(known.into(), "a vtable")?;
        self.cursor.seek(at);
        self.cursor.need(size.into(), what)?;
        self.charge(at, size.into())?;
        let mut slots = [0; MAX_SLOTS];
        self.cursor.seek(vtable + 4);
        for slot in slots.iter_mut().take(usize::from((known - 4) / 2)) {
            *slot = self.cursor.u16("a vtable")?;
        }
        self.record(vtable, known.into(), "vtable", Contents::Bytes);
        self.record(at, 4, "the vtable", Contents::Reference);
        Ok(Table { at, size, slots })
    }

    /// Returns the position of the first element, and the number of elements of `size` bytes.
    fn vector(
        &mut self,
        table: &Table,
        slot: usize,
        size: u16,
        what: &'static str,
    ) -> Result<Option<(u64, u64)>> {
        let Some(at) = self.field(table, slot, 4, what)? else { return Ok(None) };
        let target = self.target(at, what)?;
        let count = self.read(target, 4, what)?;
        self.record(target, 4, "number of elements", Contents::Number);
        self.cursor.need(count.saturating_mul(u64::from(size)), what)?;
        self.charge(target, 4 + count * u64::from(size))?;
        Ok(Some((target + 4, count)))
    }

    /// Returns the error for a value of the table or field at `at`: what was expected, and what was found.
    pub(crate) fn malformed(&self, at: u64, (expected, found): (String, String)) -> Error {
        self.buffer.malformed(at, expected, found).into()
    }

    fn charge(&mut self, at: u64, size: u64) -> Result<()> {
        match self.left.checked_sub(size) {
            Some(left) => self.left = left,
            None => {
                let limit = format!("at most {RATIO} reads of each byte of a FlatBuffer");
                return Err(self.buffer.over_limit(at, limit).into());
            }
        }
        Ok(())
    }
}

/// Returns the fields of a byte map: recorded ranges without those that overlap others, in order, and, if everything was
/// read, the zeros between them.
pub(crate) fn fields(blob: &Blob, mut spans: Vec<Span>, is_whole: bool) -> Result<Vec<Field>> {
    if spans.len() > MAX_FIELDS {
        return Err(blob
            .over_limit(0, format!("at most {MAX_FIELDS} fields in a byte map"))
            .into());
    }
    spans.retain(|span| span.len > 0);
    spans.sort_by_key(|span| (span.offset, span.len));
    let (mut fields, mut end) = (Vec::new(), 0);
    for span in spans {
        if span.offset < end || span.offset.saturating_add(span.len) > blob.len() {
            continue;
        }
        if is_whole {
            add_padding(blob, end, span.offset, &mut fields)?;
        }
        let head = || Ok::<_, Error>(blob.slice(span.offset, span.len)?.head(MAX_SHOWN)?);
        let value = match span.contents {
            Contents::Number => {
                let number = head()?.iter().rev().fold(0, |n, byte| n << 8 | u64::from(*byte));
                number.to_string()
            }
            Contents::Reference => {
                let bytes = head()?.try_into().unwrap_or_default();
                format!("{:+}", i32::from_le_bytes(bytes))
            }
            Contents::Text => Field::show(&head()?),
            Contents::Bytes | Contents::Tensor(_) => size(span.len),
        };
        let tensor = match span.contents {
            Contents::Tensor(index) => Some(index),
            _ => None,
        };
        let Span { offset, len, what, .. } = span;
        let name = match span.contents {
            Contents::Reference => format!("reference to {what}"),
            _ => ARTICLES.iter().find_map(|it| what.strip_prefix(it)).unwrap_or(what).to_owned(),
        };
        fields.push(Field { offset, len, tensor, name, value });
        end = offset + len;
    }
    if is_whole {
        add_padding(blob, end, blob.len(), &mut fields)?;
    }
    Ok(fields)
}

/// The beginnings of names in messages.
const ARTICLES: [&str; 3] = ["the ", "a ", "an "];

/// Maximum number of fields of a byte map.
const MAX_FIELDS: usize = 250_000;

/// The number of bytes of a text that are read to show it.
const MAX_SHOWN: u64 = 64;

fn size(len: u64) -> String {
    format!("{len} byte{}", if len == 1 { "" } else { "s" })
}

fn add_padding(blob: &Blob, start: u64, end: u64, fields: &mut Vec<Field>) -> Result<()> {
    if start < end && is_zero(&blob.slice(start, end - start)?)? {
        let (offset, len, name) = (start, end - start, "padding".to_owned());
        fields.push(Field { offset, len, tensor: None, name, value: size(len) });
    }
    Ok(())
}

/// Returns the first range of a file that was not read and is not zero.
pub(crate) fn unread(blob: &Blob, spans: &[Span]) -> Result<Option<(u64, u64)>> {
    let mut ranges: Vec<_> = spans.iter().map(|span| (span.offset, span.len)).collect();
    ranges.push((blob.len(), 0));
    ranges.sort_unstable();
    let mut end = 0;
    for (offset, len) in ranges {
        if offset > end && !is_zero(&blob.slice(end, offset - end)?)? {
            return Ok(Some((end, offset)));
        }
        end = end.max(offset.saturating_add(len));
    }
    Ok(None)
}

fn is_zero(blob: &Blob) -> Result<bool> {
    let mut is_zero = true;
    blob.for_each_chunk(|chunk| {
        is_zero &= chunk.iter().all(|byte| *byte == 0);
        Ok::<_, Error>(())
    })?;
    Ok(is_zero)
}
