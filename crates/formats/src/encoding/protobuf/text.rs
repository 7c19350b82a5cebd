//! The text format: converts between wire format and text, by the tables of [`schema`](super::schema).
//!
//! The output equals that of protobuf's Python printer: two spaces per level, one field per line,
//! strings with octal escapes, floats as the shortest decimal that reads back as the same value.
//! Unknown fields are printed by number (`7: 3`, `7: 0x0000002a`,
//! `7: "bytes"`, `7 {` for a group), as by `DebugString`, and read back unchanged.

use std::fmt::Write as _;

use bytes::Bytes;
use lodstone_model::Limits;

use super::schema::{self, Generation, Kind};
use super::wire::{Encoder, Field, Message, Packed, Source, Value};
use crate::error::{Error, Result};

/// Prints a message.
pub(crate) fn print(
    source: &Source<'_>,
    schema: &'static schema::Message,
    bytes: &Bytes,
    style: Style,
) -> Result<String> {
    let mut printer = Printer { out: String::new(), style };
    printer.message(&Message::new(source, bytes.clone()), schema, 0)?;
    Ok(printer.out)
}

/// The style of the output.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Style {
    /// The generation of field and value names.
    pub(crate) generation: Generation,
    /// Whether floats are printed as the doubles that equal them, as protobuf did before version 4.
    pub(crate) floats_as_doubles: bool,
}

impl Style {
    /// The style of current protobuf releases.
    pub(crate) const LATEST: Self =
        Self { generation: Generation::Latest, floats_as_doubles: false };
}

/// A message without known fields.
static UNKNOWN: schema::Message = schema::Message { name: "an unknown message", fields: &[] };

struct Printer {
    out: String,
    style: Style,
}

impl Printer {
    /// Recurses to the nesting depth of messages, which the reader has bounded; unknown ones are printed as bytes.
    fn message(
        &mut self,
        message: &Message<'_>,
        schema: &'static schema::Message,
        level: usize,
    ) -> Result<()> {
        let mut once = Vec::new();
        for field in message.fields() {
            let field = field?;
            // Packed values of a field that is not repeated are an unknown field, as for protobuf.
            let is_one = |known: &&schema::Field| {
                known.repeated
                    || !matches!(field.value, Value::Bytes(_))
                    || matches!(known.kind, Kind::Message(_) | Kind::Bytes | Kind::Elements)
            };
            match schema.field(field.number).filter(is_one) {
                // Parsers reject text with a duplicate.
                Some(known) if !known.repeated && once.contains(&known.number) => {
                    let expected = format!("`{}` once", known.name(self.style.generation));
                    return Err(field.error(&expected, "a duplicate"));
                }
                Some(known) => {
                    once.extend((!known.repeated).then_some(known.number));
                    self.known(&field, known, level)?;
                }
                None => self.unknown(&field, level)?,
            }
        }
        Ok(())
    }

    fn known(
        &mut self,
        field: &Field<'_>,
        known: &'static schema::Field,
        level: usize,
    ) -> Result<()> {
        let name = known.name(self.style.generation);
        if let Kind::Message(schema) = known.kind {
            self.line(level, &format!("{name} {{"));
            self.message(&field.message()?, schema, level + 1)?;
            self.line(level, "}");
            return Ok(());
        }
        let mut values = Vec::new();
        match known.kind {
            Kind::Float => {
                let as_double = self.style.floats_as_doubles;
                let decimal = |f: &Field<'_>| {
                    let value = f.f32()?;
                    Ok(shortest(if as_double { f64::from(value) } else { short(value) }))
                };
                field.each(decimal, Packed::Fixed32, &mut values)?;
            }
            Kind::Double => field.each(|f| Ok(shortest(f.f64()?)), Packed::Fixed64, &mut values)?,
            Kind::Bytes | Kind::Elements => values.push(quote(&field.bytes()?)),
            Kind::Bool => {
                field.each(|f| Ok(f.bool()?.to_string()), Packed::Varint, &mut values)?;
            }
            Kind::Enum(schema) => {
                let generation = self.style.generation;
                let name = |f: &Field<'_>| {
                    let number = f.i32()?;
                    let name = schema.name(number, generation);
                    Ok(name.map_or_else(|| number.to_string(), str::to_owned))
                };
                field.each(name, Packed::Varint, &mut values)?;
            }
            Kind::Uint => {
                let number = |f: &Field<'_>| Ok(f.i64()?.cast_unsigned().to_string());
                field.each(number, Packed::Varint, &mut values)?;
            }
            Kind::Int | Kind::Message(_) => {
                field.each(|f| Ok(f.i64()?.to_string()), Packed::Varint, &mut values)?;
            }
        }
        for value in values {
            self.line(level, &format!("{name}: {value}"));
        }
        Ok(())
    }

    fn unknown(&mut self, field: &Field<'_>, level: usize) -> Result<()> {
        let value = match &field.value {
            Value::Varint(value) => value.to_string(),
            Value::Fixed32(bytes) => format!("0x{:08x}", u32::from_le_bytes(*bytes)),
            Value::Fixed64(bytes) => format!("0x{:016x}", u64::from_le_bytes(*bytes)),
            Value::Bytes(bytes) => quote(bytes),
            Value::Group => {
                self.line(level, &format!("{} {{", field.number));
                self.message(&field.group()?, &UNKNOWN, level + 1)?;
                self.line(level, "}");
                return Ok(());
            }
        };
        self.line(level, &format!("{}: {value}", field.number));
        Ok(())
    }

    fn line(&mut self, level: usize, text: &str) {
        let _ = writeln!(self.out, "{:1$}{text}", "", level * 2);
    }
}

/// Returns a float as the double with the fewest digits, at least six, that reads back as the same float.
fn short(value: f32) -> f64 {
    let exact = f64::from(value);
    let digits = (6..=9).map(|digits| format!("{exact:.*e}", digits - 1));
    let same = |text: &String| text.parse() == Ok(value);
    digits.filter(same).find_map(|text| text.parse().ok()).unwrap_or(exact)
}

/// Formats a double as Python's `repr`: the shortest decimal that reads back as the same value.
fn shortest(value: f64) -> String {
    if !value.is_finite() {
        return if value.is_nan() {
            "nan"
        } else if value > 0.0 {
            "inf"
        } else {
            "-inf"
        }
        .to_owned();
    }
    let scientific = format!("{value:e}");
    let parts = scientific.split_once('e');
    let parts = parts.and_then(|(digits, power)| Some((digits, power.parse::<i32>().ok()?)));
    let Some((digits, exponent)) = parts else { return scientific };
    if (-4..16).contains(&exponent) || value == 0.0 {
        let plain = format!("{value}");
        return if plain.contains('.') { plain } else { plain + ".0" };
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

fn quote(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len() + 2);
    out.push('"');
    for &byte in bytes {
        match byte {
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            b'"' | b'\'' | b'\\' => {
                out.push('\\');
                out.push(char::from(byte));
            }
            0x20..0x7f => out.push(char::from(byte)),
            _ => {
                let _ = write!(out, "\\{byte:03o}");
            }
        }
    }
    out.push('"');
    out
}

/// Parses a message in text format; returns its wire format, with fields in the order of the text.
pub(crate) fn parse(
    source: &Source<'_>,
    schema: &'static schema::Message,
    text: &[u8],
    limits: &Limits,
) -> Result<Vec<u8>> {
    let mut tokens = Tokens { source, text, position: 0 };
    let mut open = vec![Frame::new(schema, 0, 0)];
    loop {
        limits.check_cancelled()?;
        tokens.blank();
        let at = tokens.position;
        match tokens.peek() {
            None | Some(b'}' | b'>') => {
                let ended = tokens.peek();
                let frame = open.pop();
                let frame = frame.ok_or_else(|| Error::internal("no message is open"))?;
                let Some(parent) = open.last_mut() else {
                    return match ended {
                        None => Ok(frame.finish()),
                        Some(_) => Err(tokens.error(at, "a field", "a closing bracket")),
                    };
                };
                if ended != Some(frame.close) {
                    let expected = format!("`{}` at the end of a message", char::from(frame.close));
                    return Err(tokens.error(at, expected, tokens.here()));
                }
                tokens.position += 1;
                let (number, is_group) = (frame.number, frame.is_group);
                let fields = frame.finish();
                match is_group {
                    true => parent.encoder.group(number, &fields),
                    false => parent.encoder.bytes(number, &fields),
                }
                tokens.separator();
            }
            Some(_) => {
                let frame = open.last_mut();
                let frame = frame.ok_or_else(|| Error::internal("no message is open"))?;
                if let Some(inner) = field(&mut tokens, frame)? {
                    open.push(inner);
                    if open.len() > limits.depth {
                        let limit = format!("at most {} levels of messages", limits.depth);
                        return Err(source.over_limit(at as u64, limit));
                    }
                }
            }
        }
    }
}

/// A message whose end has not been read.
struct Frame {
    schema: &'static schema::Message,
    number: u32,
    is_group: bool,
    close: u8,
    encoder: Encoder,
    /// Field numbers of singular fields that have occurred.
    once: Vec<u32>,
    /// Packed values that have not been written yet.
    packed: Option<(u32, Encoder)>,
}

impl Frame {
    fn new(schema: &'static schema::Message, number: u32, close: u8) -> Self {
        let (encoder, once) = (Encoder::default(), Vec::new());
        Self { schema, number, is_group: false, close, encoder, once, packed: None }
    }

    /// Writes pending packed values, unless more of field `number` may follow.
    fn pack(&mut self, number: Option<u32>) {
        if let Some((packed, numbers)) = self.packed.take_if(|(packed, _)| Some(*packed) != number)
        {
            self.encoder.bytes(packed, &numbers.finish());
        }
    }

    fn finish(mut self) -> Vec<u8> {
        self.pack(None);
        self.encoder.finish()
    }
}

/// Parses a field; returns the message that it opens, if any.
fn field(tokens: &mut Tokens<'_>, frame: &mut Frame) -> Result<Option<Frame>> {
    let at = tokens.position;
    let name = tokens.word();
    let Some(known) = frame.schema.field_named(name) else {
        frame.pack(None);
        return match name.parse::<u32>() {
            Ok(number) if (1..1 << 29).contains(&number) => {
                tokens.blank();
                if tokens.take(b'{') {
                    return Ok(Some(Frame {
                        is_group: true,
                        ..Frame::new(&UNKNOWN, number, b'}')
                    }));
                }
                tokens.expect(b':')?;
                unknown(tokens, number, &mut frame.encoder)?;
                tokens.separator();
                Ok(None)
            }
            _ => {
                let expected = format!("a field of {}", frame.schema.name);
                Err(tokens.error(at, expected, tokens.found(at, name)))
            }
        };
    };
    if !known.repeated {
        if frame.once.contains(&known.number) {
            return Err(tokens.error(at, format!("`{name}` once"), "a duplicate"));
        }
        frame.once.push(known.number);
    }
    frame.pack(known.packed.then_some(known.number));
    tokens.blank();
    let colon = tokens.take(b':');
    tokens.blank();
    if let Kind::Message(schema) = known.kind {
        let close = match tokens.peek() {
            Some(b'{') => b'}',
            Some(b'<') => b'>',
            _ => return Err(tokens.error(tokens.position, "`{`", tokens.here())),
        };
        tokens.position += 1;
        return Ok(Some(Frame::new(schema, known.number, close)));
    }
    if !colon {
        return Err(tokens.error(tokens.position, format!("`:` after `{name}`"), tokens.here()));
    }
    if known.repeated && tokens.take(b'[') {
        tokens.blank();
        while !tokens.take(b']') {
            value(tokens, known, frame)?;
            tokens.blank();
            if !tokens.take(b',') && tokens.peek() != Some(b']') {
                return Err(tokens.error(tokens.position, "`,` or `]`", tokens.here()));
            }
        }
    } else {
        value(tokens, known, frame)?;
    }
    tokens.separator();
    Ok(None)
}

fn value(tokens: &mut Tokens<'_>, known: &schema::Field, frame: &mut Frame) -> Result<()> {
    tokens.blank();
    if known.packed {
        let (_, numbers) = frame.packed.get_or_insert_with(|| (known.number, Encoder::default()));
        return element(tokens, known, numbers);
    }
    let (at, out) = (tokens.position, &mut frame.encoder);
    if matches!(known.kind, Kind::Bytes | Kind::Elements) {
        out.bytes(known.number, &tokens.string()?);
        return Ok(());
    }
    let word = tokens.word();
    let bad = |what: &str| Err(tokens.error(at, what, tokens.found(at, word)));
    match known.kind {
        Kind::Int => match integer(word) {
            Some(value) => out.int(known.number, value),
            None => return bad("an integer"),
        },
        Kind::Uint => match unsigned(word) {
            Some(value) => out.int(known.number, value.cast_signed()),
            None => return bad("an integer of 0 or more"),
        },
        Kind::Bool => match word {
            "true" | "True" | "t" | "1" => out.bool(known.number, true),
            "false" | "False" | "f" | "0" => out.bool(known.number, false),
            _ => return bad("`true` or `false`"),
        },
        Kind::Float => match decimal::<f32>(word) {
            Some(value) => out.f32(known.number, value),
            None => return bad("a number"),
        },
        Kind::Double => match decimal::<f64>(word) {
            Some(value) => out.f64(known.number, value),
            None => return bad("a number"),
        },
        Kind::Enum(schema) => {
            match schema.number(word).or_else(|| word.parse().ok()) {
                Some(value) => out.int(known.number, value),
                None => return bad("an enum value"),
            };
        }
        Kind::Bytes | Kind::Elements | Kind::Message(_) => {}
    }
    Ok(())
}

/// Parses one of several packed values, without a header of its own.
fn element(tokens: &mut Tokens<'_>, known: &schema::Field, out: &mut Encoder) -> Result<()> {
    let at = tokens.position;
    let word = tokens.word();
    let read = match known.kind {
        Kind::Float => decimal::<f32>(word).map(|value| out.raw(&value.to_le_bytes())),
        Kind::Double => decimal::<f64>(word).map(|value| out.raw(&value.to_le_bytes())),
        Kind::Uint => unsigned(word).map(|value| out.varint(value)),
        _ => integer(word).map(|value| out.varint(value.cast_unsigned())),
    };
    read.ok_or_else(|| tokens.error(at, "a number", tokens.found(at, word)))
}

/// Parses the value of a field that is identified by number; the syntax of the value determines its wire type.
fn unknown(tokens: &mut Tokens<'_>, number: u32, out: &mut Encoder) -> Result<()> {
    tokens.blank();
    let at = tokens.position;
    if matches!(tokens.peek(), Some(b'"' | b'\'')) {
        out.bytes(number, &tokens.string()?);
        return Ok(());
    }
    let word = tokens.word();
    let fixed = |digits: usize| {
        let hex = word.strip_prefix("0x").filter(|hex| hex.len() == digits)?;
        u64::from_str_radix(hex, 16).ok()
    };
    if let Some(value) = fixed(8) {
        let [a, b, c, d, ..] = value.to_le_bytes();
        out.fixed32(number, [a, b, c, d]);
    } else if let Some(value) = fixed(16) {
        out.fixed64(number, value.to_le_bytes());
    } else if let Ok(value) = word.parse::<u64>() {
        out.int(number, value.cast_signed());
    } else {
        return Err(tokens.error(at, "a number or a string", tokens.found(at, word)));
    }
    Ok(())
}

fn integer(word: &str) -> Option<i64> {
    let (negative, digits) = match word.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, word),
    };
    let magnitude = i128::from(unsigned(digits)?);
    i64::try_from(if negative { -magnitude } else { magnitude }).ok()
}

fn unsigned(digits: &str) -> Option<u64> {
    match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None if digits.len() > 1 && digits.starts_with('0') => u64::from_str_radix(digits, 8).ok(),
        None => digits.parse().ok(),
    }
}

fn decimal<T: std::str::FromStr>(word: &str) -> Option<T> {
    let digits = word
        .strip_suffix(['f', 'F'])
        .filter(|rest| rest.ends_with(|c: char| c.is_ascii_digit() || c == '.'));
    digits.unwrap_or(word).parse().ok()
}

/// The tokenizer.
struct Tokens<'a> {
    source: &'a Source<'a>,
    text: &'a [u8],
    position: usize,
}

impl<'a> Tokens<'a> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.position).copied()
    }

    fn take(&mut self, byte: u8) -> bool {
        let there = self.peek() == Some(byte);
        self.position += usize::from(there);
        there
    }

    fn expect(&mut self, byte: u8) -> Result<()> {
        self.blank();
        if self.take(byte) {
            return Ok(());
        }
        Err(self.error(self.position, format!("`{}`", char::from(byte)), self.here()))
    }

    /// Skips white space and comments.
    fn blank(&mut self) {
        while let Some(byte) = self.peek() {
            if byte == b'#' {
                while self.peek().is_some_and(|byte| byte != b'\n') {
                    self.position += 1;
                }
            } else if byte.is_ascii_whitespace() {
                self.position += 1;
            } else {
                break;
            }
        }
    }

    /// Skips a comma or semicolon, which may separate fields.
    fn separator(&mut self) {
        self.blank();
        let _ = self.take(b',') || self.take(b';');
    }

    /// A name or number.
    fn word(&mut self) -> &'a str {
        let start = self.position;
        let part = |byte: u8| byte.is_ascii_alphanumeric() || b"_.+-".contains(&byte);
        while self.peek().is_some_and(part) {
            self.position += 1;
        }
        let word = self.text.get(start..self.position).unwrap_or_default();
        std::str::from_utf8(word).unwrap_or_default()
    }

    /// Reads one or more quoted strings, and concatenates them.
    fn string(&mut self) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        let start = self.position;
        while let Some(quote @ (b'"' | b'\'')) = self.peek() {
            self.position += 1;
            loop {
                let at = self.position;
                let Some(byte) = self.peek().filter(|byte| *byte != b'\n') else {
                    return Err(self.error(start, "a terminated string", "the end of the line"));
                };
                self.position += 1;
                match byte {
                    _ if byte == quote => break,
                    b'\\' => self.escape(at, &mut out)?,
                    _ => out.push(byte),
                }
            }
            self.blank();
        }
        if self.position == start {
            return Err(self.error(start, "a string in quotes", self.here()));
        }
        Ok(out)
    }

    fn escape(&mut self, at: usize, out: &mut Vec<u8>) -> Result<()> {
        let byte = self.peek().unwrap_or_default();
        self.position += 1;
        out.push(match byte {
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'a' => 7,
            b'b' => 8,
            b'f' => 12,
            b'v' => 11,
            b'"' | b'\'' | b'\\' | b'?' => byte,
            b'x' | b'X' => self.digits(at, 16, 2)?,
            b'0'..=b'7' => {
                self.position -= 1;
                self.digits(at, 8, 3)?
            }
            _ => return Err(self.error(at, "an escape", format!("`\\{}`", char::from(byte)))),
        });
        Ok(())
    }

    fn digits(&mut self, at: usize, radix: u32, max: usize) -> Result<u8> {
        let mut value = 0;
        let start = self.position;
        while self.position < start + max {
            let Some(digit) = self.peek().and_then(|b| char::from(b).to_digit(radix)) else {
                break;
            };
            value = value * radix + digit;
            self.position += 1;
        }
        u8::try_from(value)
            .ok()
            .filter(|_| self.position > start)
            .ok_or_else(|| self.error(at, "an escape of one byte", format!("{value}")))
    }

    fn here(&self) -> String {
        match self.peek() {
            Some(byte) => format!("`{}`", byte.escape_ascii()),
            None => "the end of the text".to_owned(),
        }
    }

    fn found(&self, at: usize, word: &str) -> String {
        if !word.is_empty() {
            return format!("`{word}`");
        }
        Tokens { position: at, ..*self }.here()
    }

    fn error(
        &self,
        at: usize,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> crate::error::Error {
        self.source.malformed(at as u64, expected, found)
    }
}
