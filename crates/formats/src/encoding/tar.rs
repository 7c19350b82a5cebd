//! Tape archives, as far as a scan looks into them: some frameworks wrote them, and zoos of models are
//! handed out in them.
//!
//! | bytes of a header of 512 | what |
//! |---|---|
//! | 0 to 99 | the name, up to a zero byte |
//! | 124 to 135 | the size in octal digits, or big-endian behind a byte of 0x80 |
//! | 148 to 155 | the sum of the bytes of the header, or of them as `i8`, with these as blanks |
//! | 156 | the type |
//! | 157 to 256 | what a link leads to |
//!
//! The bytes of a member follow, and zeros up to a multiple of 512. Zeros end the archive.
//!
//! Whatever CPython takes for a header is one here: it reads numbers as `int(text, 8)` does, which has
//! signs, underscores and a prefix. An archive that is not as archivers write it is read, and said to be
//! odd. Source of truth: POSIX `ustar`, and `Lib/tarfile.py` of CPython 3.13.

use lodstone_model::Limits;
use lodstone_store::Blob;

use crate::Result;

/// Size of a header, and what everything is aligned to.
pub(crate) const BLOCK: usize = 512;

/// The members of an archive.
#[derive(Default)]
pub(crate) struct Members {
    pub(crate) members: Vec<(String, Blob)>,
    /// Names in headers by which members are unpacked, or links lead somewhere.
    pub(crate) names: Vec<String>,
    /// Why other readers may see other members.
    pub(crate) ambiguous: Option<String>,
    /// What is between members, or behind them, that is not part of any.
    pub(crate) odd: Option<String>,
}

/// Whether a file that begins with `head` is an archive.
pub(crate) fn is_tar(head: &[u8]) -> bool {
    head.first_chunk::<BLOCK>().is_some_and(|header| Header::read(header).is_some())
}

/// What is in an archive, up to the first block that is no header, as CPython reads it.
///
/// # Errors
/// What reading gives.
pub(crate) fn members(blob: &Blob, limits: &Limits) -> Result<Members> {
    let (mut found, mut at) = (Members::default(), 0_u64);
    let block = BLOCK as u64;
    while blob.len().saturating_sub(at) >= block {
        let mut bytes = [0; BLOCK];
        blob.read_at(at, &mut bytes)?;
        let Some(header) = Header::read(&bytes) else { break };
        if found.members.len() >= limits.tensors {
            found.ambiguous = Some(format!("more than {} members", limits.tensors));
            break;
        }
        let mut name = text(bytes.get(..100).unwrap_or_default());
        let before = text(bytes.get(345..500).unwrap_or_default());
        if bytes.get(257..263).is_some_and(|magic| magic == b"ustar\0") && !before.is_empty() {
            name = format!("{before}/{name}");
        }
        if header.is_odd {
            found.ambiguous = Some(format!("the header of `{name}` is not as archivers write it"));
        }
        let start = at + block;
        let Ok(size) = u64::try_from(header.size) else {
            found.ambiguous = Some(format!("the size of `{name}` is negative"));
            break;
        };
        let data = blob.slice(start, size.min(blob.len() - start))?;
        if data.len() < size {
            found.odd = Some(format!("of the {size} bytes of `{name}`, {} are there", data.len()));
        }
        if says_otherwise(header.kind, &data)? {
            found.ambiguous = Some(format!("`{name}` has its size in another place"));
        }
        // Links and directories have no bytes, whatever size they say.
        let has_bytes = !matches!(header.kind, b'1'..=b'6');
        if !has_bytes && size > 0 {
            found.ambiguous = Some(format!("`{name}` has a size and no bytes"));
        }
        let size = if has_bytes { size } else { 0 };
        if matches!(header.kind, b'1' | b'2') {
            found.names.push(text(bytes.get(157..257).unwrap_or_default()));
        }
        found.names.extend(other_names(header.kind, &data)?);
        if has_bytes {
            found.members.push((name, data));
        } else {
            found.names.push(name.trim_end_matches('/').to_owned());
        }
        let end = start.saturating_add(size);
        at = end.checked_next_multiple_of(block).unwrap_or(u64::MAX);
        if !is_zero(blob, end, at)? {
            found.odd = Some(format!("there are bytes between members, from byte {end} on"));
        }
    }
    if !is_zero(blob, at, blob.len())? {
        found.odd = Some(format!("there are bytes behind the last member, from byte {at} on"));
    }
    Ok(found)
}

/// Whether all bytes of a range, as far as it is there, are zero.
fn is_zero(blob: &Blob, start: u64, end: u64) -> Result<bool> {
    const PIECE: u64 = 64 << 10;
    let end = end.min(blob.len());
    let (mut at, mut piece) = (start, Vec::new());
    while at < end {
        piece.resize(usize::try_from(PIECE.min(end - at)).unwrap_or(0), 0);
        blob.read_at(at, &mut piece)?;
        if piece.iter().any(|byte| *byte != 0) {
            return Ok(false);
        }
        at += piece.len() as u64;
    }
    Ok(true)
}

/// The names that a member has for the next: of GNU (`L`, `K`), and `path=` of POSIX.
fn other_names(kind: u8, data: &Blob) -> Result<Vec<String>> {
    if !matches!(kind, b'x' | b'g' | b'X' | b'L' | b'K') {
        return Ok(Vec::new());
    }
    let bytes = data.slice(0, data.len().min(LARGEST))?.read()?;
    if matches!(kind, b'L' | b'K') {
        return Ok(vec![text(&bytes)]);
    }
    let lines = bytes.split(|byte| *byte == b'\n').map(String::from_utf8_lossy);
    let named = lines.filter_map(|line| {
        let (_, field) = line.split_once(' ')?;
        let name = field.strip_prefix("path=").or(field.strip_prefix("linkpath="))?;
        Some(name.to_owned())
    });
    Ok(named.collect())
}

/// Size of what says something about other members; longer ones are of whole trees of files.
const LARGEST: u64 = 64 << 10;

/// Whether a member changes the size of the next, or has none of the usual kinds of sizes.
fn says_otherwise(kind: u8, data: &Blob) -> Result<bool> {
    if !matches!(kind, b'x' | b'g' | b'X') {
        return Ok(!matches!(kind, 0 | b'0'..=b'7' | b'L' | b'K'));
    }
    let bytes = data.slice(0, data.len().min(LARGEST))?.read()?;
    let words = [b" size=".as_slice(), b" GNU.sparse."];
    let found = words.iter().any(|word| bytes.windows(word.len()).any(|part| part == *word));
    Ok(found || data.len() > LARGEST)
}

/// Text up to a zero byte.
fn text(bytes: &[u8]) -> String {
    let bytes = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(bytes).into_owned()
}

/// What is read of a header.
struct Header {
    size: i128,
    kind: u8,
    /// Whether numbers are written as no archiver writes them.
    is_odd: bool,
}

impl Header {
    /// A header, if its sum is right.
    fn read(header: &[u8; BLOCK]) -> Option<Self> {
        let rest = || header.iter().enumerate().filter(|(index, _)| !(148..156).contains(index));
        let blanks = 8 * i128::from(b' ');
        let unsigned: i128 = rest().map(|(_, byte)| i128::from(*byte)).sum();
        let signed: i128 = rest().map(|(_, byte)| i128::from(byte.cast_signed())).sum();
        let (sum, odd_sum) = number(header.get(148..156)?)?;
        if sum != unsigned + blanks && sum != signed + blanks {
            return None;
        }
        let (size, odd_size) = number(header.get(124..136)?)?;
        let kind = *header.get(156)?;
        let is_odd = odd_sum || odd_size || sum != unsigned + blanks;
        Some(Self { size, kind, is_odd })
    }
}

/// A number as CPython reads it, and whether no archiver writes it so.
fn number(field: &[u8]) -> Option<(i128, bool)> {
    if let Some((first @ (0x80 | 0xff), rest)) = field.split_first() {
        let fold = |number: i128, byte: &u8| Some(number.checked_mul(256)? + i128::from(*byte));
        let number = rest.iter().try_fold(0, fold)?;
        let bits = u32::try_from(8 * rest.len()).ok()?;
        let negative = || Some(number - 1_i128.checked_shl(bits)?);
        return if *first == 0x80 { Some((number, false)) } else { Some((negative()?, true)) };
    }
    let text = std::str::from_utf8(field.split(|byte| *byte == 0).next()?).ok()?;
    let text = text.trim_matches(|c: char| c.is_ascii_whitespace() || c == '\x0b');
    if text.bytes().all(|byte| matches!(byte, b'0'..=b'7')) {
        let number = if text.is_empty() { Some(0) } else { i128::from_str_radix(text, 8).ok() };
        return number.map(|number| (number, false));
    }
    let (sign, digits) = match text.split_at_checked(1) {
        Some(("-", digits)) => (-1, digits),
        Some(("+", digits)) => (1, digits),
        _ => (1, text),
    };
    let digits = digits.strip_prefix("0o").or(digits.strip_prefix("0O")).unwrap_or(digits);
    let digits = digits.replace('_', "");
    let is_octal = digits.bytes().all(|byte| matches!(byte, b'0'..=b'7'));
    let number = i128::from_str_radix(&digits, 8).ok().filter(|_| is_octal)?;
    Some((sign * number, true))
}
