//! Messages without the elements of their tensors.
//!
//! A model of many gigabytes has a structure of some kilobytes, with the elements of its tensors in
//! between. [`without_elements`] reads only the structure: a message in which each range of elements
//! is a hole. [`filled`] puts them back, as file ranges rather than bytes.
//!
//! A hole is a group (wire types 3 and 4) under the field number of the elements, which contains the index of the
//! hole. No writer encodes elements as groups, and a file that does is rejected, so that it cannot claim
//! the elements of another tensor.
//!
//! | in the group | contents of the hole |
//! |---|---|
//! | field 1, a varint | the value of one field, without its tag and length |
//! | field 2, a varint | a run of fields with the same number: unpacked values, each with its tag |
//!
//! Runs are holes only in fields that [`schema::runs`] marks, and only if they are long.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use lodstone_model::Limits;
use lodstone_store::{Blob, Cursor, Identity};

use super::run;
use super::schema::{self, Kind};
use super::varint::{self, min_len};
use super::wire::{Encoder, Field, Message, Source, Value};
use crate::error::{Error, Result};

/// The structure of a file.
#[derive(Debug)]
pub(crate) struct Structure {
    /// A message with holes.
    pub(crate) bytes: Bytes,
    /// The contents of the holes.
    pub(crate) holes: Arc<[Blob]>,
    /// Whether filling the holes restores the file exactly: all lengths are encoded minimally.
    pub(crate) is_exact: bool,
    /// The mapping of ranges of `bytes` to the file: first byte here and there.
    pub(crate) places: Vec<(u64, u64)>,
}

/// Reads a file except for the elements of its tensors.
///
/// # Errors
/// Fails if the file is not a message, or exceeds the limits.
pub(crate) fn without_elements(
    blob: &Blob,
    schema: &'static schema::Message,
    limits: &Limits,
) -> Result<Structure> {
    let mut cursor = Cursor::new(blob);
    let mut holes = Vec::new();
    let mut open =
        vec![Frame { schema, number: 0, end: blob.len(), bytes: vec![], places: vec![] }];
    let (mut size, mut is_exact) = (0, true);
    loop {
        limits.check_cancelled()?;
        let depth = open.len();
        if let Some(done) = open.pop_if(|frame| cursor.position() == frame.end) {
            let Some(parent) = open.last_mut() else {
                let (bytes, places) = (done.bytes.into(), done.places);
                return Ok(Structure { bytes, holes: holes.into(), is_exact, places });
            };
            parent.close(done);
            continue;
        }
        let frame = open.last_mut();
        let frame = frame.ok_or_else(|| Error::internal("no message is open"))?;
        let start = cursor.position();
        frame.place(frame.bytes.len() as u64, start);
        let tag = varint::read(&mut cursor, frame.end)?;
        is_exact &= cursor.position() - start == min_len(tag);
        let number = varint::number(&cursor, start, tag)?;
        let known = frame.schema.field(number);
        let elements = known.is_some_and(schema::Field::is_elements);
        // The number of bytes behind the header.
        let mut rest = 0;
        match (tag & 7, known.map(|field| field.kind)) {
            (2, Some(Kind::Message(schema))) => {
                let at = cursor.position();
                let len = length(&mut cursor, frame.end)?;
                is_exact &= cursor.position() - at == min_len(len);
                if depth > limits.depth {
                    let limit = format!("at most {} levels of messages", limits.depth);
                    return Err(cursor.over_limit_at(start, limit).into());
                }
                let end = cursor.position() + len;
                open.push(Frame { schema, number, end, bytes: vec![], places: vec![] });
                continue;
            }
            (2, _) if elements => {
                let at = cursor.position();
                let len = length(&mut cursor, frame.end)?;
                is_exact &= cursor.position() - at == min_len(len);
                let blob = cursor.blob(len, "elements of a tensor")?;
                let mut encoder = Encoder::default();
                if len == 0 {
                    encoder.bytes(number, &[]);
                } else {
                    encoder.hole(number, holes.len());
                    holes.push(blob);
                }
                frame.bytes.extend(encoder.finish());
                continue;
            }
            (3, _) if elements || known.is_some_and(|field| field.runs) => {
                return Err(cursor.error_at(start, "elements of a tensor", "a group").into());
            }
            (2, _) if known.is_some_and(|field| field.runs) => {
                let at = cursor.position();
                let len = length(&mut cursor, frame.end)?;
                is_exact &= cursor.position() - at == min_len(len);
                if len >= run::MIN_VALUE {
                    let mut encoder = Encoder::default();
                    encoder.hole(number, holes.len());
                    holes.push(cursor.blob(len, "elements of a tensor")?);
                    frame.bytes.extend(encoder.finish());
                    continue;
                }
                rest = len;
            }
            (0 | 5, _) if known.is_some_and(|field| field.runs) => {
                if let Some(len) = run::length(blob, (start, frame.end), tag, limits)? {
                    cursor.seek(start);
                    let mut encoder = Encoder::default();
                    encoder.run(number, holes.len());
                    holes.push(cursor.blob(len, "elements of a tensor")?);
                    frame.bytes.extend(encoder.finish());
                    continue;
                }
                match tag & 7 {
                    0 => drop(varint::read(&mut cursor, frame.end)?),
                    _ => rest = 4,
                }
            }
            (2, _) => rest = length(&mut cursor, frame.end)?,
            (0, _) => drop(varint::read(&mut cursor, frame.end)?),
            (1, _) => rest = 8,
            (5, _) => rest = 4,
            (3, _) => group(&mut cursor, number, frame.end, limits)?,
            (kind, _) => {
                let found = format!("wire type {kind}");
                return Err(cursor.error_at(start, "a field", found).into());
            }
        }
        // Copy the original header, and the bytes that follow it.
        let end = cursor.position() + rest;
        if end > frame.end {
            let found = format!("{} bytes left", frame.end - cursor.position());
            return Err(cursor.error(format!("{} bytes", end - cursor.position()), found).into());
        }
        size += end - start;
        if size > limits.structure_bytes {
            let limit = limits.at_most_bytes("beside the elements of tensors");
            return Err(cursor.over_limit_at(start, limit).into());
        }
        cursor.seek(start);
        frame.bytes.extend(cursor.bytes(end - start, "a field")?);
    }
}

/// A message that is being read.
struct Frame {
    schema: &'static schema::Message,
    number: u32,
    /// The end in the file.
    end: u64,
    bytes: Vec<u8>,
    places: Vec<(u64, u64)>,
}

impl Frame {
    /// Appends a message that has been read completely.
    fn close(&mut self, inner: Frame) {
        let mut encoder = Encoder::default();
        encoder.header(inner.number, inner.bytes.len() as u64);
        self.bytes.extend(encoder.finish());
        let base = self.bytes.len() as u64;
        inner.places.into_iter().for_each(|(here, there)| self.place(base + here, there));
        self.bytes.extend(inner.bytes);
    }

    /// Records the position of a byte in the file, unless it follows from the previous ones.
    fn place(&mut self, here: u64, there: u64) {
        let expected = self.places.last().map(|(known, place)| place + (here - known));
        if expected != Some(there) {
            self.places.push((here, there));
        }
    }
}

fn length(cursor: &mut Cursor<'_>, end: u64) -> Result<u64> {
    let start = cursor.position();
    let len = varint::read(cursor, end)?;
    let left = end - cursor.position();
    if len > left {
        let error = cursor.error_at(start, format!("{len} bytes"), format!("{left} bytes left"));
        return Err(error.into());
    }
    Ok(len)
}

/// Skips an unknown group.
fn group(cursor: &mut Cursor<'_>, number: u32, end: u64, limits: &Limits) -> Result<()> {
    let mut open = vec![number];
    while let Some(innermost) = open.last().copied() {
        let start = cursor.position();
        let tag = varint::read(cursor, end)?;
        let number = varint::number(cursor, start, tag)?;
        let hop = match tag & 7 {
            0 => {
                varint::read(cursor, end)?;
                0
            }
            1 => 8,
            2 => length(cursor, end)?,
            3 if open.len() >= limits.depth => {
                let limit = format!("at most {} levels of groups", limits.depth);
                return Err(cursor.over_limit_at(start, limit).into());
            }
            3 => {
                open.push(number);
                0
            }
            4 if number == innermost => {
                open.pop();
                0
            }
            5 => 4,
            kind => {
                let expected = format!("the end of group {innermost}");
                let found = format!("field {number} of wire type {kind}");
                return Err(cursor.error_at(start, expected, found).into());
            }
        };
        if hop > end - cursor.position() {
            let found = format!("{} bytes left", end - cursor.position());
            return Err(cursor.error_at(start, format!("{hop} bytes"), found).into());
        }
        cursor.seek(cursor.position() + hop);
    }
    Ok(())
}

/// Fills the holes of a message.
///
/// # Errors
/// Fails if the index of a hole exceeds `holes`.
pub(crate) fn filled(
    schema: &'static schema::Message,
    bytes: &Bytes,
    holes: &[Blob],
) -> Result<Blob> {
    let source = Source::new("the encoding of a model", &Limits::none());
    let mut out = Segments::default();
    fill(&Message::new(&source, bytes.clone()), schema, holes, &mut out)?;
    Ok(Blob::concat(out.finish()))
}

/// A sequence of bytes and file ranges.
#[derive(Default)]
struct Segments {
    done: Vec<Blob>,
    bytes: Vec<u8>,
    len: u64,
}

impl Segments {
    fn put(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.len += bytes.len() as u64;
    }

    fn append(&mut self, blobs: impl IntoIterator<Item = Blob>) {
        if !self.bytes.is_empty() {
            self.done.push(Blob::memory(std::mem::take(&mut self.bytes)));
        }
        for blob in blobs {
            self.len += blob.len();
            self.done.push(blob);
        }
    }

    fn finish(mut self) -> Vec<Blob> {
        self.append([]);
        self.done
    }
}

/// Recurses to the nesting depth of messages, which the reader has bounded.
fn fill(
    message: &Message<'_>,
    schema: &'static schema::Message,
    holes: &[Blob],
    out: &mut Segments,
) -> Result<()> {
    for field in message.fields() {
        let field = field?;
        match (schema.field(field.number), &field.value) {
            (Some(known), Value::Group) if known.runs && field.is_run() => {
                out.append([content(&field, holes)?.clone()]);
            }
            (Some(known), Value::Group) if known.is_elements() || known.runs => {
                let blob = content(&field, holes)?;
                let mut encoder = Encoder::default();
                encoder.header(field.number, blob.len());
                out.put(&encoder.finish());
                out.append([blob.clone()]);
            }
            (Some(schema::Field { kind: Kind::Message(inner), .. }), Value::Bytes(_)) => {
                let mut segments = Segments::default();
                fill(&field.message()?, inner, holes, &mut segments)?;
                if segments.done.is_empty() {
                    // The length keeps its original encoding.
                    out.put(&field.raw);
                    continue;
                }
                let mut encoder = Encoder::default();
                encoder.header(field.number, segments.len);
                out.put(&encoder.finish());
                out.append(segments.finish());
            }
            _ => out.put(&field.raw),
        }
    }
    Ok(())
}

/// Renumbers the holes of a message by `number`.
///
/// # Errors
/// The errors of `number`.
pub(crate) fn renumbered(
    schema: &'static schema::Message,
    bytes: &Bytes,
    number: &mut dyn FnMut(usize) -> Result<usize>,
) -> Result<Bytes> {
    let source = Source::new("the encoding of a model", &Limits::none());
    let mut out = Encoder::default();
    for field in Message::new(&source, bytes.clone()).fields() {
        let field = field?;
        match (schema.field(field.number), &field.value) {
            (Some(known), Value::Group) if known.runs && field.is_run() => {
                out.run(field.number, number(field.hole()?)?);
            }
            (Some(known), Value::Group) if known.is_elements() || known.runs => {
                out.hole(field.number, number(field.hole()?)?);
            }
            (Some(schema::Field { kind: Kind::Message(inner), .. }), Value::Bytes(bytes)) => {
                let new = renumbered(inner, bytes, number)?;
                match new == bytes {
                    true => out.raw(&field.raw),
                    false => out.bytes(field.number, &new),
                }
            }
            _ => out.raw(&field.raw),
        }
    }
    Ok(out.finish().into())
}

/// Returns the contents of a hole.
///
/// # Errors
/// Fails if the index of the hole exceeds `holes`.
pub(crate) fn content<'b>(field: &Field<'_>, holes: &'b [Blob]) -> Result<&'b Blob> {
    let number = field.hole()?;
    holes.get(number).ok_or_else(|| field.error("elements that are there", format!("{number}")))
}

/// The contents of the holes of a message that is being written.
#[derive(Debug, Default)]
pub(crate) struct HoleTable {
    pub(crate) blobs: Vec<Blob>,
    numbers: HashMap<Identity, usize>,
    /// The holes of the original file, which come first.
    base: Option<Arc<[Blob]>>,
}

impl HoleTable {
    pub(crate) fn new(base: Option<&Arc<[Blob]>>) -> Self {
        let mut holes = Self { base: base.cloned(), ..Self::default() };
        for blob in base.iter().flat_map(|base| base.iter()) {
            holes.add(blob);
        }
        holes
    }

    fn add(&mut self, blob: &Blob) -> usize {
        let number = self.blobs.len();
        self.blobs.push(blob.clone());
        if let Some(identity) = blob.identity() {
            self.numbers.entry(identity).or_insert(number);
        }
        number
    }

    /// Returns the index of the hole for these elements.
    pub(crate) fn number(&mut self, blob: &Blob) -> usize {
        let known = blob.identity().and_then(|identity| self.numbers.get(&identity)).copied();
        known.unwrap_or_else(|| self.add(blob))
    }

    /// Renumbers the holes of an encoding. `format` is the format that is written, for messages.
    pub(crate) fn adopt(
        &mut self,
        schema: &'static schema::Message,
        bytes: &Bytes,
        holes: &Arc<[Blob]>,
        format: &'static str,
    ) -> Result<Bytes> {
        if holes.is_empty() || self.base.as_ref().is_some_and(|base| Arc::ptr_eq(base, holes)) {
            return Ok(bytes.clone());
        }
        renumbered(schema, bytes, &mut |number| {
            let what = || format!("elements number {number}, of which there are {}", holes.len());
            let absent = || Error::Incompatible { format, what: what() };
            Ok(self.number(holes.get(number).ok_or_else(absent)?))
        })
    }
}
