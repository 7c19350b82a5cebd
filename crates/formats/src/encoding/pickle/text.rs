//! Texts, and bytes that protocol 2 wrote as texts.

use lodstone_store::{Blob, Derive, Error as StoreError};

/// How the characters of a text are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    /// UTF-8.
    Utf8,
    /// Protocol 0: `raw-unicode-escape`.
    Escaped,
    /// Python 2's `str`, bytes or text, as it is.
    Bytes,
    /// Protocol 0: the same in quotes, with escapes.
    Quoted,
}

/// The characters of a text; `None` if it is not encoded so. Python 2's bytes are taken as Latin-1.
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

/// `\uXXXX` and `\UXXXXXXXX` are characters, and so is every other byte.
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

/// The bytes of a Python 2 string in quotes.
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

/// Whether Python may read an integer in `word`, of any base, with underscores.
pub(super) fn may_be_integer(word: &str) -> bool {
    let word = word.trim_start();
    let digits = word.strip_prefix(['+', '-']).unwrap_or(word);
    // A line that has nothing before a zero byte is a zero, to the C library.
    word.is_empty()
        || (digits.starts_with(|c: char| c.is_ascii_digit())
            && digits.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'))
}

/// Whether Python may read a float in `word`.
pub(super) fn may_be_float(word: &str) -> bool {
    let word = word.trim_start();
    let digits = word.strip_prefix(['+', '-']).unwrap_or(word).to_ascii_lowercase();
    matches!(digits.as_str(), "" | "inf" | "infinity" | "nan")
        || (digits.contains(|c: char| c.is_ascii_digit())
            && digits.chars().all(|c| c.is_ascii_digit() || "_.e+-".contains(c)))
}

/// How bytes are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spelling {
    /// As they are.
    Plain,
    /// As the characters U+0000 to U+00FF in UTF-8.
    Utf8,
    /// The same in `raw-unicode-escape`: a byte each, but for `\uXXXX`.
    Escaped,
}

impl Spelling {
    /// How many bytes of the file one byte takes at most.
    pub(crate) fn most(self) -> u64 {
        match self {
            Self::Plain => 1,
            Self::Utf8 => 2,
            Self::Escaped => ESCAPE as u64,
        }
    }

    /// The first byte that is written in `text`, and how much of the text it takes; `None` if it is
    /// another character, or cut off.
    fn first(self, text: &[u8]) -> Option<(u8, usize)> {
        let (first, rest) = text.split_first()?;
        match self {
            Self::Plain => Some((*first, 1)),
            Self::Utf8 => match (first, rest.first()) {
                (0..=0x7f, _) => Some((*first, 1)),
                (0xc2 | 0xc3, Some(second @ 0x80..=0xbf)) => Some((first << 6 | second & 0x3f, 2)),
                _ => None,
            },
            // No pickler writes a backslash as itself.
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

/// Size of an escape: `\u00ff`.
const ESCAPE: usize = 6;

/// Bytes that are written as a text, as protocols before 3 do (`_codecs.encode(text, 'latin1')`,
/// `bytearray(text, 'latin-1')`).
///
/// An index of where the text was after every so many bytes makes a read in the middle as cheap as
/// one at the beginning.
pub(crate) struct Latin1 {
    source: Blob,
    spelling: Spelling,
    /// Places in the source about every [`STEP`] bytes, and how many bytes are written before each.
    index: Vec<(u64, u64)>,
    len: u64,
}

/// Size in bytes of the pieces of the source that the index counts.
const STEP: u64 = 64 << 10;

impl Latin1 {
    /// Reads the text once, a piece at a time, and keeps none of it.
    ///
    /// # Errors
    /// If it has other characters; what reading gives.
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

    /// The text.
    pub(crate) fn source(&self) -> &Blob {
        &self.source
    }

    /// Where in the text byte number `offset` is written.
    ///
    /// # Errors
    /// What reading gives.
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

    /// Calls `each` with the bytes from number `offset` on, as [`walk`].
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

/// Calls `each` with every byte that is written from `start` on and its place, until it says to end.
fn walk(
    source: &Blob,
    spelling: Spelling,
    start: u64,
    mut each: impl FnMut(u64, u8) -> bool,
) -> Result<(), StoreError> {
    let (mut at, mut piece) = (start, Vec::new());
    while at < source.len() {
        let left = source.len() - at;
        piece.resize(usize::try_from(STEP.min(left)).unwrap_or(0), 0);
        source.read_at(at, &mut piece)?;
        let is_last = piece.len() as u64 == left;
        let mut rest = piece.as_slice();
        // A character that goes on in the next piece begins that one.
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
