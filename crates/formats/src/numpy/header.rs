//! The header of an array: a Python dict with three keys.

use std::path::{Path, PathBuf};

use lodstone_model::DType;
use lodstone_store::{Blob, Cursor};

use super::survey::{Elements, item_size};
use super::{CODES, MAGIC, MAX_HEADER, MAX_RANK, code};
use crate::encoding::array::elements::Stored;
use crate::error::{Error, Result};
use crate::lengths::{item, length};

/// A spelling of bfloat16, which NumPy lacks: a structure with one field.
pub(crate) const BFLOAT16: &[u8] = b"[('bfloat16', '<u2')]";

/// Maximum nesting depth of structures.
const MAX_NESTING: usize = 8;

/// The contents of a header.
#[derive(Debug)]
pub(super) struct Header {
    pub(super) dtype: DType,
    pub(super) stored: Stored,
    pub(super) shape: Vec<u64>,
}

impl Header {
    /// Reads everything before the elements, and also returns those bytes; `path` names the file in
    /// messages.
    ///
    /// # Errors
    /// Fails if the header is invalid, or the array is not supported.
    pub(super) fn read(cursor: &mut Cursor<'_>, path: &Path) -> Result<(Self, Vec<u8>)> {
        let start = cursor.position();
        let (dict, text, long) = dict(cursor)?;
        let parser = Parser { text: &dict, position: 0, cursor, start: text, path };
        let fields = parser.dict(long, Parser::descr)?;
        let raw = cursor.again(start, cursor.position(), "the header")?;
        let ((dtype, swap), fortran, shape) = fields;
        Ok((Header { dtype, stored: Stored::new(swap, fortran, &shape), shape }, raw))
    }

    /// Reads the header of an array with any element type, and describes the elements.
    ///
    /// # Errors
    /// Fails if the header is not one that NumPy writes.
    pub(super) fn survey(cursor: &mut Cursor<'_>, path: &Path) -> Result<Elements> {
        let (dict, text, long) = dict(cursor)?;
        let parser = Parser { text: &dict, position: 0, cursor, start: text, path };
        let (item, _, shape) = parser.dict(long, |parser| parser.item(MAX_NESTING))?;
        let size = match item {
            None => return Ok(Elements::Objects),
            Some(size) => shape.iter().try_fold(size, |size, dim| size.checked_mul(*dim)),
        };
        let found = || format!("elements of shape {shape:?}");
        size.map(Elements::Plain)
            .ok_or_else(|| cursor.error_at(text, "a size that fits 64 bits", found()).into())
    }

    /// Parses the bytes that [`read`](Self::read) returned.
    pub(super) fn decode(raw: &[u8]) -> Result<Self> {
        let blob = Blob::memory(raw.to_vec());
        Self::read(&mut Cursor::new(&blob), Path::new("memory")).map(|(header, _)| header)
    }
}

/// Returns the text of the dict, its offset, and whether its integers may end in `L`, as in Python 2.
fn dict(cursor: &mut Cursor<'_>) -> Result<(Vec<u8>, u64, bool)> {
    let start = cursor.position();
    let magic = cursor.array("the magic of an array")?;
    if magic != MAGIC {
        let found = magic.escape_ascii().to_string();
        return Err(cursor.error_at(start, "`\\x93NUMPY`", found).into());
    }
    cursor.label(start, "the magic of an array", || magic.escape_ascii().to_string());
    let version = cursor.array("the version")?;
    let size = match version {
        [1, 0] => u64::from(cursor.u16("the size of the header")?),
        [2 | 3, 0] => u64::from(cursor.u32("the size of the header")?),
        [major, minor] => {
            let found = format!("{major}.{minor}");
            return Err(cursor.error_at(start + 6, "version 1.0, 2.0 or 3.0", found).into());
        }
    };
    let text = cursor.position();
    cursor.need(size, "the header")?;
    if size > MAX_HEADER {
        return Err(cursor
            .over_limit_at(text, format!("at most {MAX_HEADER} bytes of a header"))
            .into());
    }
    let dict = cursor.bytes(size, "the header")?;
    Ok((dict, text, version < [3, 0]))
}

/// Encodes everything before the elements as `numpy.save` does; `None` if the element type has no code.
///
/// Version 1.0 suffices for headers of [64 dims](super::MAX_RANK).
pub(super) fn encode(dtype: DType, shape: &[u64]) -> Option<Vec<u8>> {
    let order = if dtype.bits()? == 8 { '|' } else { '<' };
    encode_as(&format!("'{order}{}'", code(dtype)?), shape)
}

/// Encodes the same with the element type `descr`.
pub(crate) fn encode_as(descr: &str, shape: &[u64]) -> Option<Vec<u8>> {
    /// The alignment of elements.
    const ALIGN: usize = 64;
    /// The number of digits to which the first dim can grow without moving the elements.
    const GROWTH: usize = 21;
    let tuple = match shape {
        [] => "()".to_owned(),
        [one] => format!("({one},)"),
        all => {
            let dims: Vec<_> = all.iter().map(u64::to_string).collect();
            format!("({})", dims.join(", "))
        }
    };
    let mut text = format!("{{'descr': {descr}, 'fortran_order': False, 'shape': {tuple}, }}");
    if let Some(first) = shape.first() {
        let digits = first.to_string().len();
        text.extend(std::iter::repeat_n(' ', GROWTH.saturating_sub(digits)));
    }
    // NumPy adds 64 spaces even if none are needed.
    let before = MAGIC.len() + 4 + text.len() + 1;
    text.extend(std::iter::repeat_n(' ', ALIGN - before % ALIGN));
    text.push('\n');
    let mut header = MAGIC.to_vec();
    header.extend([1, 0]);
    header.extend(u16::try_from(text.len()).ok()?.to_le_bytes());
    header.extend(text.as_bytes());
    Some(header)
}

/// A parser of the dict; it accepts only Python literals.
struct Parser<'a, 'b> {
    text: &'a [u8],
    position: usize,
    cursor: &'a Cursor<'b>,
    /// The offset of the text in the file.
    start: u64,
    path: &'a Path,
}

impl<'a> Parser<'a, '_> {
    /// Parses the element type with `read`, whether the first axis varies fastest, and the shape;
    /// `long` allows integers to end in `L`, as in Python 2.
    fn dict<T>(
        mut self,
        long: bool,
        read: impl Fn(&mut Self) -> Result<T>,
    ) -> Result<(T, bool, Vec<u64>)> {
        let (mut descr, mut fortran, mut shape) = (None, None, None);
        self.expect(b'{')?;
        while !self.take(b'}') {
            let at = self.position;
            let key = self.string()?;
            self.expect(b':')?;
            let again = match key {
                b"descr" => descr.replace(read(&mut self)?).is_some(),
                b"fortran_order" => fortran.replace(self.boolean()?).is_some(),
                b"shape" => shape.replace(self.tuple(long)?).is_some(),
                _ => {
                    let expected = "the key `descr`, `fortran_order` or `shape`";
                    return Err(self.error(at, expected, quoted(key)));
                }
            };
            if again {
                return Err(self.error(at, "unique keys", format!("{} twice", quoted(key))));
            }
            if !self.take(b',') {
                self.expect(b'}')?;
                break;
            }
        }
        self.blanks();
        if self.position < self.text.len() {
            return Err(self.error(self.position, "blanks after the dict", self.found()));
        }
        let missing = |key| self.error(0, format!("the key `{key}`"), "none");
        let descr = descr.ok_or_else(|| missing("descr"))?;
        let fortran = fortran.ok_or_else(|| missing("fortran_order"))?;
        let shape = shape.ok_or_else(|| missing("shape"))?;
        Ok((descr, fortran, shape))
    }

    /// Returns the size of an element of any type in bytes; `None` if it contains objects. A structure is a list of
    /// fields, each with a name (or a title and a name), a type and an optional shape.
    fn item(&mut self, left: usize) -> Result<Option<u64>> {
        self.blanks();
        let at = self.position;
        let unknown = |parser: &Self| parser.error(at, "a NumPy element type", parser.found());
        if !self.take(b'[') {
            let descr = self.string()?;
            let code = match descr {
                [b'<' | b'>' | b'|' | b'=', code @ ..] => code,
                code => code,
            };
            let code = std::str::from_utf8(code).unwrap_or_default();
            return match code {
                "O" | "O4" | "O8" | "object" => Ok(None),
                code => item_size(code).map(Some).ok_or_else(|| unknown(self)),
            };
        }
        let (mut size, mut has_objects) = (0_u64, false);
        while !self.take(b']') {
            if left == 0 {
                return Err(unknown(self));
            }
            self.expect(b'(')?;
            match self.take(b'(') {
                true => {
                    self.string()?;
                    self.expect(b',')?;
                    self.string()?;
                    self.expect(b')')?;
                }
                false => _ = self.string()?,
            }
            self.expect(b',')?;
            let field = self.item(left - 1)?;
            let mut count = Some(1_u64);
            if self.take(b',') && self.peek_after_blanks() == Some(b'(') {
                let shape = self.tuple(true)?;
                count = shape.iter().try_fold(1, |count: u64, dim| count.checked_mul(*dim));
                self.take(b',');
            }
            self.expect(b')')?;
            self.take(b',');
            has_objects |= field.is_none();
            let field = count.and_then(|count| count.checked_mul(field.unwrap_or_default()));
            size = field.and_then(|field| size.checked_add(field)).ok_or_else(|| unknown(self))?;
        }
        Ok((!has_objects).then_some(size))
    }

    fn peek_after_blanks(&mut self) -> Option<u8> {
        self.blanks();
        self.peek()
    }

    /// Returns the element type, and the size of the values whose byte order is reversed.
    fn descr(&mut self) -> Result<(DType, Option<usize>)> {
        self.blanks();
        let at = self.position;
        if self.rest().starts_with(BFLOAT16) {
            self.position += BFLOAT16.len();
            return Ok((DType::BFloat16, None));
        }
        if matches!(self.peek(), Some(b'[' | b'(')) {
            return Err(self.unsupported("an array of structures"));
        }
        let descr = self.string()?;
        let (order, code) = match descr {
            [order @ (b'<' | b'>' | b'=' | b'|'), code @ ..] => (*order, code),
            code => (b'=', code),
        };
        // Another spelling of bfloat16, with its own code.
        if descr == b"<b2" {
            return Ok((DType::BFloat16, None));
        }
        let known = CODES.iter().find(|(_, known)| known.as_bytes() == code);
        let Some((dtype, _)) = known else {
            return Err(match code {
                [b'O', ..] => {
                    self.unsupported("an array of Python objects (a pickle, which is never loaded)")
                }
                [b'V', ..] => self.unsupported(
                    "an array of raw bytes (as which NumPy saves bfloat16 and most types of \
                     ml_dtypes, without recording which)",
                ),
                b"f1" => self
                    .unsupported("an array of float8_e5m2 (which NumPy saves but does not load)"),
                [b'W', ..] => self.unsupported("an array of 16-bit complex numbers of ml_dtypes"),
                [b'U' | b'S' | b'a' | b'T', ..] => self.unsupported("an array of text"),
                [b'M' | b'm', ..] => self.unsupported("an array of dates or spans of time"),
                b"f12" | b"f16" | b"c24" | b"c32" => self.unsupported(
                    "an array of extended precision (which differs from machine to machine)",
                ),
                _ => self.error(at, "a NumPy element type", quoted(descr)),
            });
        };
        let bytes = length(item(*dtype)?)?;
        if order == b'|' && bytes > 1 {
            return Err(self.error(at, "a byte order, `<` or `>`", quoted(descr)));
        }
        let number = if code.starts_with(b"c") { bytes / 2 } else { bytes };
        Ok((*dtype, (order == b'>' && number > 1).then_some(number)))
    }

    fn boolean(&mut self) -> Result<bool> {
        self.blanks();
        let (at, rest) = (self.position, self.rest());
        for (word, value) in [(b"True".as_slice(), true), (b"False", false)] {
            if rest.starts_with(word) {
                self.position += word.len();
                return Ok(value);
            }
        }
        Err(self.error(at, "`True` or `False`", self.found()))
    }

    fn tuple(&mut self, long: bool) -> Result<Vec<u64>> {
        self.expect(b'(')?;
        let mut shape = Vec::new();
        let mut comma = true;
        while !self.take(b')') {
            if !comma {
                return Err(self.error(self.position, "`,` or `)`", self.found()));
            }
            if shape.len() == MAX_RANK {
                let expected = format!("at most {MAX_RANK} dims");
                return Err(self.error(self.position, expected, "more"));
            }
            shape.push(self.number(long)?);
            comma = self.take(b',');
        }
        if let ([_], false) = (shape.as_slice(), comma) {
            return Err(self.error(self.position, "`(n,)`, a tuple", "`(n)`, a number"));
        }
        Ok(shape)
    }

    fn number(&mut self, long: bool) -> Result<u64> {
        self.blanks();
        let at = self.position;
        let size = self.rest().iter().take_while(|byte| byte.is_ascii_digit()).count();
        let digits = self.rest().get(..size).unwrap_or_default();
        let value = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok());
        let value = value.filter(|_| digits.len() == 1 || !digits.starts_with(b"0"));
        let value = value.ok_or_else(|| {
            let found = if digits.is_empty() { self.found() } else { quoted(digits) };
            self.error(at, "a dim of 0 to 2^64 - 1", found)
        })?;
        self.position += size;
        if long && self.peek() == Some(b'L') {
            self.position += 1;
        }
        Ok(value)
    }

    /// Parses a string in single or double quotes, without escapes.
    fn string(&mut self) -> Result<&'a [u8]> {
        self.blanks();
        let at = self.position;
        let body = match self.text.get(at..) {
            Some([quote @ (b'\'' | b'"'), body @ ..]) => {
                body.iter().position(|byte| byte == quote).and_then(|size| body.get(..size))
            }
            _ => None,
        };
        let Some(body) = body.filter(|body| !body.contains(&b'\\')) else {
            return Err(self.error(at, "a string in quotes", self.found()));
        };
        self.position += body.len() + 2;
        Ok(body)
    }

    /// Skips `byte` if it is next.
    fn take(&mut self, byte: u8) -> bool {
        self.blanks();
        let next = self.peek() == Some(byte);
        self.position += usize::from(next);
        next
    }

    fn expect(&mut self, byte: u8) -> Result<()> {
        if self.take(byte) {
            return Ok(());
        }
        Err(self.error(self.position, format!("`{}`", char::from(byte)), self.found()))
    }

    fn blanks(&mut self) {
        self.position += self.rest().iter().take_while(|byte| byte.is_ascii_whitespace()).count();
    }

    fn peek(&self) -> Option<u8> {
        self.rest().first().copied()
    }

    fn rest(&self) -> &'a [u8] {
        self.text.get(self.position..).unwrap_or_default()
    }

    fn found(&self) -> String {
        match self.rest() {
            [] => "the end of the header".to_owned(),
            rest => quoted(rest),
        }
    }

    fn error(&self, at: usize, expected: impl Into<String>, found: impl Into<String>) -> Error {
        self.cursor.error_at(self.start + at as u64, expected, found).into()
    }

    fn unsupported(&self, what: &'static str) -> Error {
        Error::Unsupported { path: PathBuf::from(self.path), what }
    }
}

/// Returns the start of `bytes` for a message.
fn quoted(bytes: &[u8]) -> String {
    const MAX: usize = 24;
    format!("`{}`", bytes.get(..MAX).unwrap_or(bytes).escape_ascii())
}
