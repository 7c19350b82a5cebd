//! The wire format: a message is a sequence of fields, each a tag and a value.
//!
//! | wire type | value |
//! |---|---|
//! | 0 | varint: 7 bits per byte, lowest first, at most 10 bytes |
//! | 1 | 8 bytes |
//! | 2 | varint length, then that many bytes: strings, bytes, messages, packed values |
//! | 3, 4 | start and end of a group |
//! | 5 | 4 bytes |

use std::cell::Cell;

use bytes::Bytes;
use lodstone_model::{Limits, MAX_DEPTH};

use super::holes::Structure;
use super::varint::{TooLong, Varint};
use crate::error::{Error, Result};

/// Maximum bytes of structures in memory per byte of a file. Programs written by frameworks have messages of at least
/// ten bytes, and stay below it.
const MAX_EXPANSION: u64 = 32;

/// The bytes of structures in memory that are allowed for a file of any size.
const MIN_ROOM: u64 = 1 << 20;

/// The state that all messages of a file share.
#[derive(Debug)]
pub(crate) struct Source<'a> {
    /// The file, for messages.
    pub(crate) origin: &'a str,
    limits: Limits,
    nodes: Cell<usize>,
    /// The remaining bytes of structures in memory.
    room: Cell<u64>,
    /// The mapping of ranges of the messages to the file, if elements between them were left out.
    places: &'a [(u64, u64)],
}

impl<'a> Source<'a> {
    pub(crate) fn new(origin: &'a str, limits: &Limits) -> Self {
        Self {
            origin,
            limits: limits.clone(),
            nodes: Cell::new(0),
            room: Cell::new(u64::MAX),
            places: &[],
        }
    }

    /// Creates the source of a file without the elements of its tensors.
    pub(crate) fn with_holes(origin: &'a str, limits: &Limits, structure: &'a Structure) -> Self {
        let room = structure.bytes.len() as u64 * MAX_EXPANSION + MIN_ROOM;
        Self { places: &structure.places, room: Cell::new(room), ..Self::new(origin, limits) }
    }

    pub(crate) fn malformed(
        &self,
        offset: u64,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> Error {
        let (origin, offset) = (self.origin.to_owned(), self.place(offset));
        let (expected, found) = (expected.into(), found.into());
        lodstone_store::Error::Malformed { origin, offset, expected, found }.into()
    }

    /// Creates an error for data that exceeds a limit of the reader.
    pub(crate) fn over_limit(
        &self,
        offset: u64,
        limit: impl Into<lodstone_store::Ceiling>,
    ) -> Error {
        let (origin, offset) = (self.origin.to_owned(), self.place(offset));
        lodstone_store::Error::Limit { origin, offset, limit: limit.into() }.into()
    }

    /// Returns the offset in the file of a byte of the structure.
    fn place(&self, offset: u64) -> u64 {
        let before = self.places.partition_point(|(here, _)| *here <= offset).checked_sub(1);
        let place = before.and_then(|index| self.places.get(index));
        place.map_or(offset, |(here, there)| there + (offset - here))
    }

    /// Counts a structure of type `T` that is built from the message at `offset`. An empty message takes two bytes of
    /// a file, and hundreds in memory.
    ///
    /// # Errors
    /// Fails if the structures would exceed the file size by too large a factor.
    fn charge<T>(&self, offset: u64) -> Result<()> {
        self.room.set(self.room_after::<T>(1, offset)?);
        Ok(())
    }

    /// Returns the remaining bytes after `count` structures of type `T`.
    fn room_after<T>(&self, count: usize, offset: u64) -> Result<u64> {
        let bytes = (size_of::<T>() as u64).saturating_mul(count as u64);
        self.room.get().checked_sub(bytes).ok_or_else(|| {
            let limit =
                format!("at most {MAX_EXPANSION} times the bytes of a file for its structures");
            self.over_limit(offset, limit)
        })
    }

    /// Counts a node of the model that is being built.
    fn count(&self, offset: u64) -> Result<()> {
        self.limits.check_cancelled()?;
        self.nodes.set(self.nodes.get() + 1);
        if self.nodes.get() > self.limits.nodes {
            return Err(self.over_limit(offset, self.limits.at_most_nodes("fields in all")));
        }
        Ok(())
    }
}

/// A message that has not been parsed yet.
#[derive(Clone, Debug)]
pub(crate) struct Message<'a> {
    pub(crate) source: &'a Source<'a>,
    pub(crate) bytes: Bytes,
    /// The offset of its first byte in the file.
    pub(crate) offset: u64,
}

/// A field of a message.
#[derive(Clone, Debug)]
pub(crate) struct Field<'a> {
    source: &'a Source<'a>,
    pub(crate) number: u32,
    pub(crate) value: Value,
    /// The original bytes of tag and value.
    pub(crate) raw: Bytes,
    /// The offset of the tag in the file.
    pub(crate) offset: u64,
}

/// The value of a field, by wire type.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    Varint(u64),
    Fixed64([u8; 8]),
    Bytes(Bytes),
    Group,
    Fixed32([u8; 4]),
}

impl<'a> Message<'a> {
    /// Creates the message of a whole file.
    pub(crate) fn new(source: &'a Source<'a>, bytes: Bytes) -> Self {
        Self { source, bytes, offset: 0 }
    }

    /// Returns the fields in order.
    pub(crate) fn fields(&self) -> Fields<'a> {
        Fields { message: self.clone(), position: 0 }
    }

    /// Counts the fields with each of these numbers, to allocate lists of exact capacity: a list that grows while it is
    /// filled needs twice the memory. Counting stops at the first malformed field, which is reported when the message
    /// is read.
    pub(crate) fn count<const N: usize>(&self, numbers: [u32; N]) -> [usize; N] {
        // Restored below, so that nodes are not counted twice.
        let nodes = self.source.nodes.get();
        let mut counts = [0; N];
        for field in self.fields().map_while(Result::ok) {
            let counted = numbers.iter().zip(&mut counts).filter(|(n, _)| **n == field.number);
            counted.for_each(|(_, count)| *count += 1);
        }
        self.source.nodes.set(nodes);
        counts
    }

    /// Creates an error for this message.
    pub(crate) fn error(&self, expected: impl Into<String>, found: impl Into<String>) -> Error {
        self.source.malformed(self.offset, expected, found)
    }

    /// Creates the error for values that are nested too deeply for the model.
    pub(crate) fn too_deep(&self) -> Error {
        self.error(format!("values nested at most {MAX_DEPTH} levels deep"), "more")
    }

    /// Creates the error for a missing required field.
    pub(crate) fn missing(&self, what: &str) -> Error {
        self.source.malformed(self.offset, what, "a message without it")
    }
}

/// An iterator over the fields of a message; ends after the first error.
#[derive(Debug)]
pub(crate) struct Fields<'a> {
    message: Message<'a>,
    position: usize,
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<Field<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.position >= self.message.bytes.len() {
            return None;
        }
        let field = self.read();
        if field.is_err() {
            self.position = self.message.bytes.len();
        }
        Some(field)
    }
}

impl<'a> Fields<'a> {
    fn read(&mut self) -> Result<Field<'a>> {
        let start = self.position;
        let offset = self.place(start);
        self.message.source.count(offset)?;
        let (number, wire_type) = self.tag()?;
        let value = match wire_type {
            0 => Value::Varint(self.varint()?),
            1 => Value::Fixed64(self.array()?),
            2 => Value::Bytes(self.delimited()?),
            3 => self.group(number)?,
            5 => Value::Fixed32(self.array()?),
            _ => return Err(self.error(start, "a field", format!("wire type {wire_type}"))),
        };
        let raw = self.message.bytes.slice(start..self.position);
        Ok(Field { source: self.message.source, number, value, raw, offset })
    }

    fn tag(&mut self) -> Result<(u32, u64)> {
        let start = self.position;
        let tag = self.varint()?;
        match u32::try_from(tag >> 3) {
            Ok(number) if number > 0 && number < 1 << 29 => Ok((number, tag & 7)),
            _ => Err(self.error(start, "a field number from 1 to 536870911", format!("tag {tag}"))),
        }
    }

    fn varint(&mut self) -> Result<u64> {
        let start = self.position;
        let mut varint = Varint::default();
        loop {
            let Some(byte) = self.message.bytes.get(self.position) else {
                return Err(self.error(start, "a varint", "the end of the message"));
            };
            self.position += 1;
            let taken = varint.take(*byte).map_err(|TooLong| {
                self.error(start, "a varint of at most 10 bytes", "a longer one")
            })?;
            if let Some(value) = taken {
                return Ok(value);
            }
        }
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let bytes = self.message.bytes.get(self.position..).and_then(|rest| rest.first_chunk());
        let Some(array) = bytes.copied() else {
            let left = self.message.bytes.len() - self.position;
            let found = format!("{left} bytes left");
            return Err(self.error(self.position, format!("a number of {N} bytes"), found));
        };
        self.position += N;
        Ok(array)
    }

    fn delimited(&mut self) -> Result<Bytes> {
        let start = self.position;
        let len = self.varint()?;
        let left = self.message.bytes.len() - self.position;
        match usize::try_from(len) {
            Ok(len) if len <= left => {
                self.position += len;
                Ok(self.message.bytes.slice(self.position - len..self.position))
            }
            _ => Err(self.error(start, format!("{len} bytes"), format!("{left} bytes left"))),
        }
    }

    /// Skips an unknown group; groups may be nested, up to the limit.
    fn group(&mut self, number: u32) -> Result<Value> {
        let mut open = vec![number];
        while let Some(innermost) = open.last().copied() {
            let start = self.position;
            let (number, wire_type) = self.tag()?;
            match wire_type {
                0 => drop(self.varint()?),
                1 => drop(self.array::<8>()?),
                2 => drop(self.delimited()?),
                3 if open.len() >= self.message.source.limits.depth => {
                    let limit = format!("at most {} levels of groups", open.len());
                    return Err(self.message.source.over_limit(self.place(start), limit));
                }
                3 => open.push(number),
                4 if number == innermost => drop(open.pop()),
                5 => drop(self.array::<4>()?),
                _ => {
                    let expected = format!("the end of group {innermost}");
                    let found = format!("field {number} of wire type {wire_type}");
                    return Err(self.error(start, expected, found));
                }
            }
        }
        Ok(Value::Group)
    }

    fn place(&self, position: usize) -> u64 {
        self.message.offset + position as u64
    }

    fn error(&self, at: usize, expected: impl Into<String>, found: impl Into<String>) -> Error {
        self.message.source.malformed(self.place(at), expected, found)
    }
}

impl Message<'_> {
    /// Counts a structure that is built from this message, as [`Source::charge`] does.
    ///
    /// # Errors
    /// Fails if the structures would exceed the file size by too large a factor.
    pub(crate) fn charge<T>(&self) -> Result<()> {
        self.source.charge::<T>(self.offset)
    }

    /// Returns an empty list with capacity for `count` structures, which are not counted yet.
    ///
    /// # Errors
    /// Fails if they would exceed the file size by too large a factor.
    pub(crate) fn list<T>(&self, count: usize) -> Result<Vec<T>> {
        self.source.room_after::<T>(count, self.offset)?;
        Ok(Vec::with_capacity(count))
    }
}

impl<'a> Field<'a> {
    /// Returns the bytes of a length-delimited field.
    pub(crate) fn bytes(&self) -> Result<Bytes> {
        match &self.value {
            Value::Bytes(bytes) => Ok(bytes.clone()),
            _ => Err(self.mismatch("a length-delimited value")),
        }
    }

    /// Returns the text of a length-delimited field.
    pub(crate) fn string(&self) -> Result<String> {
        let bytes = self.bytes()?;
        match std::str::from_utf8(&bytes) {
            Ok(text) => Ok(text.to_owned()),
            Err(_) => Err(self.error("UTF-8 text", "other bytes")),
        }
    }

    /// Returns the message in a length-delimited field.
    pub(crate) fn message(&self) -> Result<Message<'a>> {
        let bytes = self.bytes()?;
        let header = self.raw.len() - bytes.len();
        Ok(Message { source: self.source, bytes, offset: self.offset + header as u64 })
    }

    pub(crate) fn i64(&self) -> Result<i64> {
        match self.value {
            Value::Varint(value) => Ok(value.cast_signed()),
            _ => Err(self.mismatch("a varint")),
        }
    }

    /// Returns the `int32` or enum in a varint: the lower half, as protobuf reads it.
    pub(crate) fn i32(&self) -> Result<i32> {
        self.i64().map(low_half)
    }

    pub(crate) fn bool(&self) -> Result<bool> {
        self.i64().map(|value| value != 0)
    }

    pub(crate) fn f32(&self) -> Result<f32> {
        match self.value {
            Value::Fixed32(bytes) => Ok(f32::from_le_bytes(bytes)),
            _ => Err(self.mismatch("a number of 4 bytes")),
        }
    }

    pub(crate) fn f64(&self) -> Result<f64> {
        match self.value {
            Value::Fixed64(bytes) => Ok(f64::from_le_bytes(bytes)),
            _ => Err(self.mismatch("a number of 8 bytes")),
        }
    }

    /// Returns the fields in a group, as a message.
    pub(crate) fn group(&self) -> Result<Message<'a>> {
        let bytes = self.raw.clone();
        let message = Message { source: self.source, bytes, offset: self.offset };
        let mut inner = Fields { message, position: 0 };
        let _ = inner.tag()?;
        let start = inner.position;
        loop {
            let at = inner.position;
            if inner.tag()?.1 == 4 {
                let bytes = self.raw.slice(start..at);
                return Ok(Message { source: self.source, bytes, offset: inner.place(start) });
            }
            inner.position = at;
            inner.read()?;
        }
    }

    /// Returns the index of the [hole](super::holes).
    pub(crate) fn hole(&self) -> Result<usize> {
        let bytes = self.raw.clone();
        let message = Message { source: self.source, bytes, offset: self.offset };
        let mut inner = Fields { message, position: 0 };
        let _ = inner.tag()?;
        match (inner.tag()?, inner.varint().map(usize::try_from)) {
            ((1 | 2, 0), Ok(Ok(number))) => Ok(number),
            _ => Err(self.error("a hole", "another group")),
        }
    }

    /// Whether a [hole](super::holes) holds a run of fields.
    pub(crate) fn is_run(&self) -> bool {
        let message = Message { source: self.source, bytes: self.raw.clone(), offset: self.offset };
        let mut inner = Fields { message, position: 0 };
        inner.tag().is_ok() && matches!(inner.tag(), Ok((2, 0)))
    }

    /// Calls a function for the value of a repeated field, or for all of its values if they are packed.
    pub(crate) fn each<T>(
        &self,
        one: impl Fn(&Self) -> Result<T>,
        packed_as: Packed,
        into: &mut Vec<T>,
    ) -> Result<()> {
        if !matches!(self.value, Value::Bytes(_)) {
            into.push(one(self)?);
            return Ok(());
        }
        let mut elements = Fields { message: self.message()?, position: 0 };
        while elements.position < elements.message.bytes.len() {
            let start = elements.position;
            let value = match packed_as {
                Packed::Varint => Value::Varint(elements.varint()?),
                Packed::Fixed32 => Value::Fixed32(elements.array()?),
                Packed::Fixed64 => Value::Fixed64(elements.array()?),
            };
            let raw = elements.message.bytes.slice(start..elements.position);
            let offset = elements.place(start);
            into.push(one(&Self { source: self.source, number: self.number, value, raw, offset })?);
        }
        Ok(())
    }

    /// Calls a function for the values in a [hole](super::holes) with these contents, like [`each`](Self::each).
    pub(crate) fn each_in_hole<T>(
        &self,
        contents: Bytes,
        one: impl Fn(&Self) -> Result<T>,
        packed_as: Packed,
        into: &mut Vec<T>,
    ) -> Result<()> {
        let (source, offset, number) = (self.source, self.offset, self.number);
        if !self.is_run() {
            let (value, raw) = (Value::Bytes(contents.clone()), contents);
            return Self { source, number, value, raw, offset }.each(one, packed_as, into);
        }
        let run = Message { source, bytes: contents, offset };
        for field in run.fields() {
            into.push(one(&field?)?);
        }
        Ok(())
    }

    /// Creates an error for this field.
    pub(crate) fn error(&self, expected: impl Into<String>, found: impl Into<String>) -> Error {
        self.source.malformed(self.offset, expected, found)
    }

    fn mismatch(&self, expected: &str) -> Error {
        let found = match self.value {
            Value::Varint(_) => "a varint",
            Value::Fixed64(_) => "a number of 8 bytes",
            Value::Bytes(_) => "a length-delimited value",
            Value::Group => "a group",
            Value::Fixed32(_) => "a number of 4 bytes",
        };
        self.error(format!("{expected} in field {}", self.number), found)
    }
}

/// The encoding of the values of a packed field.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Packed {
    Varint,
    Fixed32,
    Fixed64,
}

fn low_half(value: i64) -> i32 {
    let [a, b, c, d, ..] = value.to_le_bytes();
    i32::from_le_bytes([a, b, c, d])
}

/// Builds the canonical encoding of a message: that of protobuf's own writers, if fields are
/// added in the order of their numbers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Encoder(Vec<u8>);

impl Encoder {
    pub(crate) fn finish(self) -> Vec<u8> {
        self.0
    }

    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    pub(crate) fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value.to_le_bytes()[0] | 0x80);
            value >>= 7;
        }
        self.0.push(value.to_le_bytes()[0]);
    }

    fn tag(&mut self, number: u32, wire_type: u64) {
        self.varint(u64::from(number) << 3 | wire_type);
    }

    pub(crate) fn int(&mut self, number: u32, value: impl Into<i64>) {
        self.tag(number, 0);
        self.varint(value.into().cast_unsigned());
    }

    pub(crate) fn bool(&mut self, number: u32, value: bool) {
        self.int(number, i64::from(value));
    }

    pub(crate) fn f32(&mut self, number: u32, value: f32) {
        self.tag(number, 5);
        self.raw(&value.to_le_bytes());
    }

    pub(crate) fn f64(&mut self, number: u32, value: f64) {
        self.tag(number, 1);
        self.raw(&value.to_le_bytes());
    }

    pub(crate) fn bytes(&mut self, number: u32, value: &[u8]) {
        self.header(number, value.len() as u64);
        self.raw(value);
    }

    /// Writes the tag and length of `len` bytes.
    pub(crate) fn header(&mut self, number: u32, len: u64) {
        self.tag(number, 2);
        self.varint(len);
    }

    /// Writes fields as a group.
    pub(crate) fn group(&mut self, number: u32, fields: &[u8]) {
        self.tag(number, 3);
        self.raw(fields);
        self.tag(number, 4);
    }

    /// Writes a [hole](super::holes).
    pub(crate) fn hole(&mut self, number: u32, hole: usize) {
        self.tag(number, 3);
        self.tag(1, 0);
        self.varint(hole as u64);
        self.tag(number, 4);
    }

    /// Writes a [hole](super::holes) for a run of fields.
    pub(crate) fn run(&mut self, number: u32, hole: usize) {
        self.tag(number, 3);
        self.tag(2, 0);
        self.varint(hole as u64);
        self.tag(number, 4);
    }

    pub(crate) fn message(&mut self, number: u32, build: impl FnOnce(&mut Encoder)) {
        let mut message = Self::default();
        build(&mut message);
        self.bytes(number, &message.0);
    }

    pub(crate) fn fixed32(&mut self, number: u32, bytes: [u8; 4]) {
        self.tag(number, 5);
        self.raw(&bytes);
    }

    pub(crate) fn fixed64(&mut self, number: u32, bytes: [u8; 8]) {
        self.tag(number, 1);
        self.raw(&bytes);
    }
}
