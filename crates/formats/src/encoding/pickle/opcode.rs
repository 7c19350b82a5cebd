//! The table of opcodes, and the reader of a single one.

use lodstone_store::{Blob, Cursor};

use crate::error::Result;
use crate::lengths::length;

/// A byte range of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    /// The offset in the file.
    pub(crate) start: u64,
    /// The length in bytes.
    pub(crate) len: u64,
}

/// The argument of an opcode.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Argument {
    /// No argument.
    None,
    /// An integer of 1 to 4 bytes.
    Number(i64),
    /// Eight bytes, big-endian.
    Float(f64),
    /// Bytes after their size.
    Data(Span),
    /// Text up to a line feed.
    Line(Span),
    /// Two lines.
    Lines(Span, Span),
}

impl Argument {
    /// Returns the number of bytes that were searched for the end of the argument.
    pub(super) fn searched(&self) -> u64 {
        match self {
            Self::Line(line) => line.len,
            Self::Lines(first, second) => first.len.saturating_add(second.len),
            _ => 0,
        }
    }
}

/// The encoding of an argument.
#[derive(Clone, Copy)]
enum Form {
    None,
    /// An unsigned integer of this many bytes.
    Unsigned(usize),
    /// `i32`.
    Signed,
    /// `f64`, big-endian.
    Float,
    /// Bytes after an unsigned size of this many bytes.
    Sized(usize),
    /// Bytes after an `i32` size.
    SizedSigned,
    /// Only a size: that of a frame.
    Frame,
    Line,
    Lines,
}

/// An opcode of protocols 0 to 5: its byte, its name in `pickletools`, and its argument.
#[derive(Clone, Copy)]
pub(super) struct Opcode {
    pub(super) code: u8,
    pub(super) name: &'static str,
    form: Form,
}

impl Opcode {
    pub(super) fn is_stop(self) -> bool {
        self.code == b'.'
    }

    /// Whether the argument is bytes, not text or a number.
    pub(super) fn is_bytes(self) -> bool {
        matches!(self.code, b'B' | b'C' | 0x8e | 0x96)
    }

    /// Whether the argument is a size, not bytes.
    pub(super) fn is_frame(self) -> bool {
        matches!(self.form, Form::Frame)
    }
}

const fn op(code: u8, name: &'static str, form: Form) -> Opcode {
    Opcode { code, name, form }
}

/// All opcodes.
const OPCODES: &[Opcode] = &[
    op(b'(', "MARK", Form::None),
    op(b'.', "STOP", Form::None),
    op(b'0', "POP", Form::None),
    op(b'1', "POP_MARK", Form::None),
    op(b'2', "DUP", Form::None),
    op(b'F', "FLOAT", Form::Line),
    op(b'I', "INT", Form::Line),
    op(b'J', "BININT", Form::Signed),
    op(b'K', "BININT1", Form::Unsigned(1)),
    op(b'L', "LONG", Form::Line),
    op(b'M', "BININT2", Form::Unsigned(2)),
    op(b'N', "NONE", Form::None),
    op(b'P', "PERSID", Form::Line),
    op(b'Q', "BINPERSID", Form::None),
    op(b'R', "REDUCE", Form::None),
    op(b'S', "STRING", Form::Line),
    op(b'T', "BINSTRING", Form::SizedSigned),
    op(b'U', "SHORT_BINSTRING", Form::Sized(1)),
    op(b'V', "UNICODE", Form::Line),
    op(b'X', "BINUNICODE", Form::Sized(4)),
    op(b'a', "APPEND", Form::None),
    op(b'b', "BUILD", Form::None),
    op(b'c', "GLOBAL", Form::Lines),
    op(b'd', "DICT", Form::None),
    op(b'}', "EMPTY_DICT", Form::None),
    op(b'e', "APPENDS", Form::None),
    op(b'g', "GET", Form::Line),
    op(b'h', "BINGET", Form::Unsigned(1)),
    op(b'i', "INST", Form::Lines),
    op(b'j', "LONG_BINGET", Form::Unsigned(4)),
    op(b'l', "LIST", Form::None),
    op(b']', "EMPTY_LIST", Form::None),
    op(b'o', "OBJ", Form::None),
    op(b'p', "PUT", Form::Line),
    op(b'q', "BINPUT", Form::Unsigned(1)),
    op(b'r', "LONG_BINPUT", Form::Unsigned(4)),
    op(b's', "SETITEM", Form::None),
    op(b't', "TUPLE", Form::None),
    op(b')', "EMPTY_TUPLE", Form::None),
    op(b'u', "SETITEMS", Form::None),
    op(b'G', "BINFLOAT", Form::Float),
    op(0x80, "PROTO", Form::Unsigned(1)),
    op(0x81, "NEWOBJ", Form::None),
    op(0x82, "EXT1", Form::Unsigned(1)),
    op(0x83, "EXT2", Form::Unsigned(2)),
    op(0x84, "EXT4", Form::Signed),
    op(0x85, "TUPLE1", Form::None),
    op(0x86, "TUPLE2", Form::None),
    op(0x87, "TUPLE3", Form::None),
    op(0x88, "NEWTRUE", Form::None),
    op(0x89, "NEWFALSE", Form::None),
    op(0x8a, "LONG1", Form::Sized(1)),
    op(0x8b, "LONG4", Form::SizedSigned),
    op(b'B', "BINBYTES", Form::Sized(4)),
    op(b'C', "SHORT_BINBYTES", Form::Sized(1)),
    op(0x8c, "SHORT_BINUNICODE", Form::Sized(1)),
    op(0x8d, "BINUNICODE8", Form::Sized(8)),
    op(0x8e, "BINBYTES8", Form::Sized(8)),
    op(0x8f, "EMPTY_SET", Form::None),
    op(0x90, "ADDITEMS", Form::None),
    op(0x91, "FROZENSET", Form::None),
    op(0x92, "NEWOBJ_EX", Form::None),
    op(0x93, "STACK_GLOBAL", Form::None),
    op(0x94, "MEMOIZE", Form::None),
    op(0x95, "FRAME", Form::Frame),
    op(0x96, "BYTEARRAY8", Form::Sized(8)),
    op(0x97, "NEXT_BUFFER", Form::None),
    op(0x98, "READONLY_BUFFER", Form::None),
];

/// All opcodes by their byte: a search for each opcode would take longer than its execution.
#[expect(clippy::indexing_slicing, reason = "evaluated at compile time")]
const BY_CODE: [Option<Opcode>; 256] = {
    let (mut table, mut rest) = ([None; 256], OPCODES);
    while let [opcode, later @ ..] = rest {
        table[opcode.code as usize] = Some(*opcode);
        rest = later;
    }
    table
};

/// Reads the opcode at the cursor and its argument. With `torn`, a line that ends with the file is accepted
/// without its last byte, as in CPython: it imports by such a line before it detects the error.
///
/// # Errors
/// Fails if there is no opcode, it is unknown, or its argument exceeds the file.
pub(super) fn read(cursor: &mut Cursor<'_>, blob: &Blob, torn: bool) -> Result<(Opcode, Argument)> {
    let start = cursor.position();
    let [code] = cursor.array("an opcode of a pickle, up to STOP")?;
    let Some(opcode) = BY_CODE.get(usize::from(code)).copied().flatten() else {
        let found = format!("`\\x{code:02x}`");
        return Err(cursor.error_at(start, "an opcode of pickle protocols 0 to 5", found).into());
    };
    let name = opcode.name;
    let argument = match opcode.form {
        Form::None => Argument::None,
        Form::Unsigned(width) => Argument::Number(unsigned(cursor, width, name)?.cast_signed()),
        Form::Signed => Argument::Number(cursor.i32(name)?.into()),
        Form::Float => Argument::Float(f64::from_be_bytes(cursor.array(name)?)),
        Form::Frame => Argument::Data(Span { len: cursor.u64(name)?, start: cursor.position() }),
        Form::Sized(width) => {
            let len = unsigned(cursor, width, name)?;
            Argument::Data(data(cursor, len, name)?)
        }
        Form::SizedSigned => {
            let len = cursor.i32(name)?;
            let Ok(len) = u64::try_from(len) else {
                let expected = format!("{name} of a nonnegative size");
                return Err(cursor.error_at(start, expected, len.to_string()).into());
            };
            Argument::Data(data(cursor, len, name)?)
        }
        Form::Line => Argument::Line(line(cursor, blob, name, torn)?),
        Form::Lines => {
            Argument::Lines(line(cursor, blob, name, torn)?, line(cursor, blob, name, torn)?)
        }
    };
    Ok((opcode, argument))
}

/// Reads a little-endian integer of 1, 2, 4 or 8 bytes.
fn unsigned(cursor: &mut Cursor<'_>, width: usize, name: &str) -> Result<u64> {
    Ok(match width {
        1 => u8::from_le_bytes(cursor.array(name)?).into(),
        2 => u16::from_le_bytes(cursor.array(name)?).into(),
        4 => cursor.u32(name)?.into(),
        _ => cursor.u64(name)?,
    })
}

/// Skips bytes, which must exist.
fn data(cursor: &mut Cursor<'_>, len: u64, name: &str) -> Result<Span> {
    cursor.need(len, name)?;
    let start = cursor.position();
    // The end of existing bytes fits 64 bits.
    cursor.seek(start.saturating_add(len));
    Ok(Span { start, len })
}

/// Skips a line and its line feed.
fn line(cursor: &mut Cursor<'_>, blob: &Blob, name: &str, torn: bool) -> Result<Span> {
    const PIECE: u64 = 512;
    let start = cursor.position();
    let mut piece = Vec::new();
    let mut at = start;
    while at < blob.len() {
        piece.resize(length(PIECE.min(blob.len() - at))?, 0);
        blob.read_at(at, &mut piece)?;
        if let Some(place) = piece.iter().position(|byte| *byte == b'\n') {
            let end = at + place as u64;
            cursor.seek(end + 1);
            return Ok(Span { start, len: end - start });
        }
        at += piece.len() as u64;
    }
    if torn {
        cursor.seek(at);
        return Ok(Span { start, len: (at - start).saturating_sub(1) });
    }
    let expected = format!("a line feed at the end of the argument of {name}");
    Err(cursor.error_at(start, expected, "the end of the file").into())
}
