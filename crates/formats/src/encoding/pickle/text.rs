//! Strings, and bytes that protocol 2 writes as strings.

use lodstone_store::{Blob, Derive, Error as StoreError};

use crate::lengths::length;

/// The encoding of a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    /// UTF-8.
    Utf8,
    /// Protocol 0: `raw-unicode-escape`.
    Escaped,
    /// `str` of Python 2: bytes or text, unescaped.
    Bytes,
    /// Protocol 0: the same in quotes, with escapes.
    Quoted,
}

/// Decodes a string; `None` if the encoding is invalid. Bytes of Python 2 are decoded as Latin-1.
pub(super) fn decode(bytes: &[u8], encoding: Encoding) -> Option<String> {
    match encoding {
        Encoding::Utf8 => std::str::from_utf8(bytes).ok().map(str::to_owned),
        Encoding::Bytes => Some(latin1(bytes)),
        Encoding::Quoted => unquote(bytes).map(|bytes| latin1(&bytes)),
        Encoding::Escaped => unescape(bytes),
    }
}

fn latin1(bytes: &[u8]) -> String {
    bytes.iter().copied().map(char::from).collect()
}

/// Decodes `\uXXXX` and `\UXXXXXXXX`; every other byte is a character.
fn unescape(bytes: &[u8]) -> Option<String> {
    let mut text = String::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some((first, after)) = rest.split_first() {
        let digits = match after.first() {
            Some(b'u') if *first == b'\\' => 4,
            Some(b'U') if *first == b'\\' => 8,
            _ => {
                text.push(char::from(*first));
                rest = after;
                continue;
            }
        };
        let hex = std::str::from_utf8(after.get(1..=digits)?).ok()?;
        text.push(char::from_u32(u32::from_str_radix(hex, 16).ok()?)?);
        rest = after.get(1 + digits..)?;
    }
    Some(text)
}

/// Returns the bytes of a quoted Python 2 string.
pub(super) fn unquote(bytes: &[u8]) -> Option<Vec<u8>> {
    let bytes = bytes.trim_ascii_end();
    let (quote, rest) = bytes.split_first()?;
    let (last, body) = rest.split_last()?;
    if quote != last || !matches!(quote, b'\'' | b'"') {
        return None;
    }
    let mut out = Vec::with_capacity(body.len());
    let mut rest = body.iter().copied();
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        out.push(match rest.next()? {
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'x' => {
                let digits = [rest.next()?, rest.next()?];
                u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
            }
            byte @ (b'\\' | b'\'' | b'"') => byte,
            _ => return None,
        });
    }
    Some(out)
}

/// Returns whether Python may parse `word` as an integer, in any base, with underscores.
pub(super) fn may_be_integer(word: &str) -> bool {
    let word = word.trim_start();
    let digits = word.strip_prefix(['+', '-']).unwrap_or(word);
    // The C library parses a line that begins with a zero byte as 0.
    word.is_empty()
        || (digits.starts_with(|c: char| c.is_ascii_digit())
            && digits.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'))
}

/// Returns whether Python may parse `word` as a float.
pub(super) fn may_be_float(word: &str) -> bool {
    let word = word.trim_start();
    let digits = word.strip_prefix(['+', '-']).unwrap_or(word).to_ascii_lowercase();
    matches!(digits.as_str(), "" | "inf" | "infinity" | "nan")
        || (digits.contains(|c: char| c.is_ascii_digit())
            && digits.chars().all(|c| c.is_ascii_digit() || "_.e+-".contains(c)))
}

/// The encoding of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spelling {
    /// Plain bytes.
    Plain,
    /// As the characters U+0000 to U+00FF in UTF-8.
    Utf8,
    /// The same in `raw-unicode-escape`: one byte each, except for `\uXXXX`.
    Escaped,
}

impl Spelling {
    /// Returns the maximum number of file bytes per encoded byte.
    pub(crate) fn max(self) -> u64 {
        match self {
            Self::Plain => 1,
            Self::Utf8 => 2,
            Self::Escaped => ESCAPE as u64,
        }
    }

    /// Decodes the first byte in `text`; also returns the length of its encoding. `None` if it is
    /// another character, or truncated.
    fn first(self, text: &[u8]) -> Option<(u8, usize)> {
        let (first, rest) = text.split_first()?;
        match self {
            Self::Plain => Some((*first, 1)),
            Self::Utf8 => match (first, rest.first()) {
                (0..=0x7f, _) => Some((*first, 1)),
                (0xc2 | 0xc3, Some(second @ 0x80..=0xbf)) => Some((first << 6 | second & 0x3f, 2)),
                _ => None,
            },
            // No pickler writes a bare backslash.
            Self::Escaped if *first != b'\\' => Some((*first, 1)),
            Self::Escaped => {
                let digits = text.get(..ESCAPE)?.strip_prefix(b"\\u00")?;
                let digits = std::str::from_utf8(digits).ok()?;
                let plain = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
                Some((u8::from_str_radix(digits, 16).ok().filter(|_| plain)?, ESCAPE))
            }
        }
    }
}

/// The length of an escape: `\u00ff`.
const ESCAPE: usize = 6;

/// Bytes encoded as a string, as in protocols before 3 (`_codecs.encode(text, 'latin1')`,
/// `bytearray(text, 'latin-1')`).
///
/// An index of positions at regular intervals makes a read in the middle as cheap as
/// one at the beginning.
pub(crate) struct Latin1 {
    source: Blob,
    spelling: Spelling,
    /// Positions in the source about every [`STEP`] bytes, and the number of decoded bytes before each.
    index: Vec<(u64, u64)>,
    len: u64,
}

/// The interval of the index, in bytes of the source.
const STEP: u64 = 64 << 10;

impl Latin1 {
    /// Scans the string once, in chunks, and keeps none of it.
    ///
    /// # Errors
    /// Fails if it contains other characters, or if reading fails.
    pub(crate) fn new(source: Blob, spelling: Spelling) -> Result<Self, StoreError> {
        let (mut index, mut len, mut next) = (vec![(0, 0)], 0u64, STEP);
        walk(&source, spelling, 0, |place, _| {
            if place >= next {
                index.push((place, len));
                next = place.saturating_add(STEP);
            }
            len += 1;
            true
        })?;
        Ok(Self { source, spelling, index, len })
    }

    /// Returns the encoded string.
    pub(crate) fn source(&self) -> &Blob {
        &self.source
    }

    /// Returns the position in the string of the decoded byte at `offset`.
    ///
    /// # Errors
    /// Fails if reading fails.
    pub(crate) fn place(&self, offset: u64) -> Result<u64, StoreError> {
        let mut found = self.source.len();
        if offset < self.len {
            self.from(offset, |place, _| {
                found = place;
                false
            })?;
        }
        Ok(found)
    }

    /// Calls `each` with the decoded bytes from `offset`, as [`walk`] does.
    fn from(&self, offset: u64, mut each: impl FnMut(u64, u8) -> bool) -> Result<(), StoreError> {
        let after = self.index.partition_point(|(_, before)| *before <= offset);
        let known = after.checked_sub(1).and_then(|last| self.index.get(last));
        let (start, before) = known.copied().unwrap_or_default();
        let mut skip = offset - before;
        walk(&self.source, self.spelling, start, |place, byte| {
            if skip > 0 {
                skip -= 1;
                return true;
            }
            each(place, byte)
        })
    }
}

/// Calls `each` with every decoded byte from `start` and its position, until it returns false.
fn walk(
    source: &Blob,
    spelling: Spelling,
    start: u64,
    mut each: impl FnMut(u64, u8) -> bool,
) -> Result<(), StoreError> {
    let (mut at, mut piece) = (start, Vec::new());
    while at < source.len() {
        let left = source.len() - at;
        piece.resize(length(STEP.min(left))?, 0);
        source.read_at(at, &mut piece)?;
        let is_last = piece.len() as u64 == left;
        let mut rest = piece.as_slice();
        // A character that crosses the end of a chunk is decoded with the next one.
        while !rest.is_empty() && (is_last || rest.len() >= ESCAPE) {
            let place = at + (piece.len() - rest.len()) as u64;
            let Some((byte, size)) = spelling.first(rest) else {
                let expected = "characters up to U+00FF, which stand for bytes";
                let found = rest.get(..ESCAPE).unwrap_or(rest).escape_ascii();
                return Err(source.malformed(place, expected, format!("`{found}`")));
            };
            if !each(place, byte) {
                return Ok(());
            }
            rest = rest.get(size..).unwrap_or_default();
        }
        at += (piece.len() - rest.len()) as u64;
    }
    Ok(())
}

impl Derive for Latin1 {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), StoreError> {
        if self.len == self.source.len() {
            return self.source.read_at(offset, buffer);
        }
        let mut out = buffer.iter_mut();
        self.from(offset, |_, byte| match out.next() {
            Some(out) => {
                *out = byte;
                true
            }
            None => false,
        })
    }

    fn source(&self) -> Option<&Blob> {
        Some(&self.source)
    }
}
