//! Byte maps of messages: a field of the map for each field, down to the elements of tensors.

use lodstone_model::Limits;
use lodstone_store::{Cursor, Field as Mapped};

use super::schema::{Field, Generation, Kind, Message};
use super::varint;
use crate::error::Result;

/// Maximum length of texts that are read; of others, the length is listed.
const MAX_TEXT: u64 = 4096;

/// Reads the message of a whole file with a recording cursor. `is_tensor` returns whether a field of a message, which
/// is so many levels deep, is a tensor of the model; these are counted in order.
///
/// # Errors
/// Fails at the first byte that is not part of a field.
pub(crate) fn map(
    cursor: &mut Cursor<'_>,
    schema: &'static Message,
    limits: &Limits,
    is_tensor: fn(usize, &Message, u32) -> bool,
) -> Result<()> {
    let mut open = vec![Frame::new(Some(schema), cursor.remaining(), String::new())];
    let (mut tensors, mut nodes) = (0.., 0);
    loop {
        let depth = open.len();
        let Some(frame) = open.last_mut() else { return Ok(()) };
        if cursor.position() >= frame.end {
            if frame.is_tensor {
                cursor.set_tensor(None);
            }
            open.pop();
            continue;
        }
        limits.check_cancelled()?;
        nodes += 1;
        if nodes > limits.nodes {
            let limit = limits.at_most_nodes("fields in all");
            return Err(cursor.over_limit_at(cursor.position(), limit).into());
        }
        let start = cursor.position();
        // A part of a field is no field.
        let tag = varint::read(cursor, frame.end).inspect_err(|_| cursor.seek(start))?;
        let number = varint::number(cursor, start, tag).inspect_err(|_| cursor.seek(start))?;
        let known = frame.schema.and_then(|schema| schema.field(number));
        let name = frame.name(number, known);
        let value = value(cursor, start, tag & 7, known, &name, frame);
        let Some(len) = value.inspect_err(|_| cursor.seek(start))? else { continue };
        let Some(Kind::Message(message)) = known.map(|field| field.kind) else {
            text(cursor, start, len, known, &name)?;
            continue;
        };
        let mut inner = Frame::new(Some(message), cursor.position() + len, name);
        inner.is_tensor = frame.schema.is_some_and(|schema| is_tensor(depth, schema, number));
        if inner.is_tensor {
            cursor.set_tensor(tensors.next());
        }
        cursor.label(start, &inner.path, || format!("{}, {len} bytes", message.name));
        if depth > limits.depth {
            let limit = format!("at most {} levels of messages", limits.depth);
            return Err(cursor.over_limit_at(start, limit).into());
        }
        open.push(inner);
    }
}

/// Reads the value of a field, or its length if it is length-delimited, which is returned.
fn value(
    cursor: &mut Cursor<'_>,
    start: u64,
    wire_type: u64,
    known: Option<&Field>,
    name: &str,
    frame: &mut Frame,
) -> Result<Option<u64>> {
    let kind = known.map(|field| field.kind);
    match wire_type {
        0 => {
            let value = varint::read(cursor, frame.end)?;
            cursor.label(start, name, || integer(value, kind));
        }
        1 => {
            within(cursor, 8, frame.end)?;
            let bytes = cursor.array("a number of 8 bytes")?;
            cursor.label(start, name, || match kind {
                Some(Kind::Double) => f64::from_le_bytes(bytes).to_string(),
                _ => u64::from_le_bytes(bytes).to_string(),
            });
        }
        2 => {
            let len = varint::read(cursor, frame.end)?;
            within(cursor, len, frame.end)?;
            return Ok(Some(len));
        }
        3 => {
            frame.groups += 1;
            cursor.label(start, name, || "begin of a group".to_owned());
        }
        4 if frame.groups > 0 => {
            frame.groups -= 1;
            cursor.label(start, name, || "end of a group".to_owned());
        }
        5 => {
            within(cursor, 4, frame.end)?;
            let bytes = cursor.array("a number of 4 bytes")?;
            cursor.label(start, name, || match kind {
                Some(Kind::Float) => f32::from_le_bytes(bytes).to_string(),
                _ => u32::from_le_bytes(bytes).to_string(),
            });
        }
        other => {
            cursor.seek(start);
            return Err(cursor.error("a field", format!("wire type {other}")).into());
        }
    }
    Ok(None)
}

/// Reads a text, or skips elements of a tensor.
fn text(
    cursor: &mut Cursor<'_>,
    start: u64,
    len: u64,
    known: Option<&Field>,
    name: &str,
) -> Result<()> {
    if len > MAX_TEXT || known.is_some_and(Field::is_elements) {
        cursor.label(start, &format!("{name}: size"), || len.to_string());
        cursor.blob(len, name)?;
    } else {
        let text = cursor.bytes(len, name)?;
        cursor.label(start, name, || Mapped::show(&text));
    }
    Ok(())
}

/// A message that is being read.
struct Frame {
    schema: Option<&'static Message>,
    /// The end in the file.
    end: u64,
    /// The names of the fields that lead to the message: `graph.node[3]`.
    path: String,
    /// The number of values of each repeated field so far.
    counts: Vec<(u32, usize)>,
    /// The number of open groups.
    groups: usize,
    is_tensor: bool,
}

impl Frame {
    fn new(schema: Option<&'static Message>, end: u64, path: String) -> Self {
        Self { schema, end, path, counts: Vec::new(), groups: 0, is_tensor: false }
    }

    /// Returns the name of the next field of a number: `graph.node[3].op_type`.
    fn name(&mut self, number: u32, known: Option<&Field>) -> String {
        let mut name = match known {
            Some(field) => field.name(Generation::Latest).to_owned(),
            None => format!("field {number}"),
        };
        if known.is_some_and(|field| field.repeated && !field.packed) {
            let index = match self.counts.iter_mut().find(|(known, _)| *known == number) {
                Some((_, count)) => {
                    *count += 1;
                    *count
                }
                None => {
                    self.counts.push((number, 0));
                    0
                }
            };
            name = format!("{name}[{index}]");
        }
        if self.path.is_empty() { name } else { format!("{}.{name}", self.path) }
    }
}

/// Formats a varint as its field declares it.
fn integer(value: u64, kind: Option<Kind>) -> String {
    match kind {
        Some(Kind::Uint) => value.to_string(),
        Some(Kind::Bool) => (value != 0).to_string(),
        Some(Kind::Enum(kind)) => {
            let number = value.cast_signed();
            let name = i32::try_from(number).ok();
            match name.and_then(|number| kind.name(number, Generation::Latest)) {
                Some(name) => format!("{number} ({name})"),
                None => number.to_string(),
            }
        }
        _ => value.cast_signed().to_string(),
    }
}

/// Fails unless `len` bytes are left in a message.
fn within(cursor: &Cursor<'_>, len: u64, end: u64) -> Result<()> {
    let left = end.saturating_sub(cursor.position());
    if len <= left {
        return Ok(());
    }
    Err(cursor.error(format!("{len} bytes"), format!("{left} bytes left in the message")).into())
}
