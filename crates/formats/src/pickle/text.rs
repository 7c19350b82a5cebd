//! Texts, and bytes that protocol 2 wrote as texts.

use lodstone_store::{Blob, Derive, Error as StoreError};

use super::tree::Encoding;

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

/// Bytes that are written as a text of the characters U+0000 to U+00FF in UTF-8, as protocol 2 does
/// (`_codecs.encode(text, 'latin1')`).
///
/// An index of where the text was after every so many bytes makes a read in the middle as cheap as
/// one at the beginning.
pub(crate) struct Latin1 {
    source: Blob,
    /// Bytes before each [`STEP`] of the source.
    index: Vec<u64>,
    len: u64,
}

/// Size in bytes of the pieces of the source that the index counts.
const STEP: u64 = 64 << 10;

impl Latin1 {
    /// Reads the text once, a piece at a time, and keeps none of it.
    ///
    /// # Errors
    /// If it has other characters; what reading gives.
    pub(crate) fn new(source: Blob) -> Result<Self, StoreError> {
        let mut index = Vec::new();
        let (mut len, mut at) = (0u64, 0u64);
        // Whether a character is open, of which one byte is left.
        let mut open = false;
        let mut piece = Vec::new();
        while at < source.len() {
            index.push(len);
            piece.resize(usize::try_from(STEP.min(source.len() - at)).unwrap_or(0), 0);
            source.read_at(at, &mut piece)?;
            for (place, byte) in (at..).zip(&piece) {
                match (open, byte) {
                    (true, 0x80..=0xbf) => open = false,
                    (false, 0..=0x7f) => len += 1,
                    (false, 0xc2 | 0xc3) => {
                        len += 1;
                        open = true;
                    }
                    _ => {
                        let expected = "characters up to U+00FF in UTF-8, which stand for bytes";
                        return Err(source.malformed(place, expected, format!("`\\x{byte:02x}`")));
                    }
                }
            }
            at += piece.len() as u64;
        }
        if open {
            let expected = "the second byte of a character";
            return Err(source.malformed(at, expected, "the end of the text"));
        }
        Ok(Self { source, index, len })
    }

    /// The text.
    pub(crate) fn source(&self) -> &Blob {
        &self.source
    }
}

impl Derive for Latin1 {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), StoreError> {
        if self.len == self.source.len() {
            return self.source.read_at(offset, buffer);
        }
        let number = self.index.partition_point(|before| *before <= offset).saturating_sub(1);
        let mut at = number as u64 * STEP;
        let mut skip = offset - self.index.get(number).copied().unwrap_or_default();
        let mut out = buffer.iter_mut();
        let mut piece = Vec::new();
        // The high bits of a character whose second byte is next. One that began before this piece
        // was counted there.
        let mut high = None;
        while out.len() > 0 && at < self.source.len() {
            piece.resize(usize::try_from(STEP.min(self.source.len() - at)).unwrap_or(0), 0);
            self.source.read_at(at, &mut piece)?;
            at += piece.len() as u64;
            for byte in &piece {
                let value = match byte {
                    0..=0x7f => *byte,
                    0xc0..=0xff => {
                        high = Some(*byte << 6);
                        continue;
                    }
                    _ => match high.take() {
                        Some(high) => high | (byte & 0x3f),
                        None => continue,
                    },
                };
                if skip > 0 {
                    skip -= 1;
                } else if let Some(out) = out.next() {
                    *out = value;
                } else {
                    break;
                }
            }
        }
        Ok(())
    }

    fn source(&self) -> Option<&Blob> {
        Some(&self.source)
    }
}
