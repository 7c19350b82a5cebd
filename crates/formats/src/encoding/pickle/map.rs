//! Byte maps of pickles: a field for each opcode with its argument, and one for the bytes of long arguments.

use lodstone_model::Limits;
use lodstone_store::{Blob, Cursor, Field};

use super::opcode::{self, Argument, Span};
use crate::error::{Error, Result};

/// Maximum length of arguments that are read; of others, the length is listed.
const MAX_TEXT: u64 = 4096;

/// Reads a pickle that is a whole file with a recording cursor. `contents` reads the bytes of an argument, as far as
/// their structure is known.
///
/// # Errors
/// Fails at the first byte that is not part of an opcode, and if bytes follow the pickle.
pub(crate) fn map(
    cursor: &mut Cursor<'_>,
    blob: &Blob,
    limits: &Limits,
    contents: impl Fn(&mut Cursor<'_>) -> Result<()>,
) -> Result<()> {
    loop {
        limits.check_cancelled()?;
        let start = cursor.position();
        let (opcode, argument) = opcode::read(cursor, blob, false).inspect_err(|_| {
            // Its parts are no fields without the rest.
            cursor.seek(start);
        })?;
        let name = opcode.name;
        match argument {
            Argument::None => cursor.label(start, name, String::new),
            Argument::Number(number) => cursor.label(start, name, || number.to_string()),
            Argument::Float(number) => cursor.label(start, name, || number.to_string()),
            Argument::Data(span) if opcode.is_frame() => {
                cursor.label(start, name, || format!("{} bytes", span.len));
            }
            Argument::Data(span) if opcode.is_bytes() || span.len > MAX_TEXT => {
                cursor.seek(span.start);
                cursor.label(start, name, || format!("{} bytes", span.len));
                let what = format!("bytes of {name}");
                cursor.nested(span.len, &what, |inner| {
                    // Damage in the contents is an error of the reader.
                    let _ = contents(inner);
                    match inner.remaining() {
                        0 => Ok::<_, Error>(()),
                        rest if rest > MAX_TEXT => Ok(inner.blob(rest, &what).map(|_| ())?),
                        rest => Ok(inner.bytes(rest, &what).map(|_| ())?),
                    }
                })?;
            }
            Argument::Data(span) | Argument::Line(span) => {
                let value = text(blob, span)?;
                cursor.label(start, name, || value);
            }
            Argument::Lines(first, second) => {
                let value = format!("{} {}", text(blob, first)?, text(blob, second)?);
                cursor.label(start, name, || value);
            }
        }
        if opcode.is_stop() {
            break;
        }
    }
    let left = cursor.remaining();
    if left > 0 {
        return Err(cursor.error("the end of the file", format!("{left} bytes more")).into());
    }
    Ok(())
}

/// Returns the beginning of an argument as text.
fn text(blob: &Blob, span: Span) -> Result<String> {
    let bytes = blob.slice(span.start, span.len)?.head(MAX_TEXT)?;
    Ok(Field::show(&bytes))
}
