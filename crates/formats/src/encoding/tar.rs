//! Tape archives, as far as the scan inspects them: some frameworks wrote them, and model zoos distribute them.
//!
//! | bytes of a 512-byte header | contents |
//! |---|---|
//! | 0 to 99 | the name, up to a zero byte |
//! | 124 to 135 | the size in octal digits, or big-endian after a byte of 0x80 |
//! | 148 to 155 | the sum of the bytes of the header, unsigned or signed, with these as spaces |
//! | 156 | the type |
//! | 157 to 256 | the target of a link |
//!
//! The bytes of a member follow, and zeros up to a multiple of 512. Zeros end the archive.
//!
//! A header is whatever CPython accepts as one: it parses numbers as `int(text, 8)` does, which allows
//! signs, underscores and a prefix. An archive that deviates from the output of archivers is read, and reported as
//! ambiguous or odd. Source of truth: POSIX `ustar`, and `Lib/tarfile.py` of CPython 3.13.

use lodstone_model::Limits;
use lodstone_store::Blob;

use crate::error::Result;
use crate::lengths::length;

/// The size of a header, and the alignment of members.
pub(crate) const BLOCK: usize = 512;

/// The members of an archive.
#[derive(Default)]
pub(crate) struct Members {
    pub(crate) members: Vec<(String, Blob)>,
    /// Names in headers that determine the paths of members or the targets of links.
    pub(crate) names: Vec<String>,
    /// The reason why other readers may see other members.
    pub(crate) ambiguous: Option<String>,
    /// Bytes between or after members that belong to none.
    pub(crate) odd: Option<String>,
}

/// Returns whether a file that begins with `head` is an archive.
pub(crate) fn is_tar(head: &[u8]) -> bool {
    head.first_chunk::<BLOCK>().is_some_and(|header| Header::read(header).is_some())
}

/// Lists the members of an archive up to the first block that is not a header, as CPython reads it.
///
/// # Errors
/// Fails if reading fails.
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
            found.ambiguous = Some(format!("the header of `{name}` is nonstandard"));
        }
        let start = at + block;
        let Ok(size) = u64::try_from(header.size) else {
            found.ambiguous = Some(format!("the size of `{name}` is negative"));
            break;
        };
        let data = blob.slice(start, size.min(blob.len() - start))?;
        if data.len() < size {
            found.odd =
                Some(format!("of the {size} bytes of `{name}`, {} are present", data.len()));
        }
        if overrides_size(header.kind, &data)? {
            found.ambiguous = Some(format!("`{name}` has its size in another record"));
        }
        // Links and directories have no data, whatever their size field contains.
        let has_bytes = !matches!(header.kind, b'1'..=b'6');
        if !has_bytes && size > 0 {
            found.ambiguous = Some(format!("`{name}` has a size but no data"));
        }
        let size = if has_bytes { size } else { 0 };
        if matches!(header.kind, b'1' | b'2') {
            found.names.push(text(bytes.get(157..257).unwrap_or_default()));
        }
        if matches!(header.kind, b'3' | b'4' | b'6') {
            found.odd = Some(format!("`{name}` is a device or a pipe"));
        }
        found.names.extend(other_names(header.kind, &data)?);
        if has_bytes {
            found.members.push((name, data));
        } else {
            found.names.push(name.trim_end_matches('/').to_owned());
        }
        let end = start.saturating_add(size);
        // A member that goes beyond the file is the last one.
        at = end.checked_next_multiple_of(block).unwrap_or(blob.len());
        if !is_zero(blob, end, at)? {
            found.odd = Some(format!("unused bytes between members at offset {end}"));
        }
    }
    if !is_zero(blob, at, blob.len())? {
        found.odd = Some(format!("unused bytes after the last member at offset {at}"));
    }
    Ok(found)
}

/// Returns whether all existing bytes of a range are zero.
fn is_zero(blob: &Blob, start: u64, end: u64) -> Result<bool> {
    const PIECE: u64 = 64 << 10;
    let end = end.min(blob.len());
    let (mut at, mut piece) = (start, Vec::new());
    while at < end {
        piece.resize(length(PIECE.min(end - at))?, 0);
        blob.read_at(at, &mut piece)?;
        if piece.iter().any(|byte| *byte != 0) {
            return Ok(false);
        }
        at += piece.len() as u64;
    }
    Ok(true)
}

/// Returns the names that a member defines for the next one: GNU (`L`, `K`), and `path=` of POSIX.
fn other_names(kind: u8, data: &Blob) -> Result<Vec<String>> {
    if !matches!(kind, b'x' | b'g' | b'X' | b'L' | b'K') {
        return Ok(Vec::new());
    }
    let bytes = data.slice(0, data.len().min(MAX_METADATA))?.read()?;
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

/// Maximum bytes of a member with metadata of other members; longer ones belong to whole trees of files.
const MAX_METADATA: u64 = 64 << 10;

/// Returns whether a member may override the size of the next one, or is of an unusual type.
fn overrides_size(kind: u8, data: &Blob) -> Result<bool> {
    if !matches!(kind, b'x' | b'g' | b'X') {
        return Ok(!matches!(kind, 0 | b'0'..=b'7' | b'L' | b'K'));
    }
    let bytes = data.slice(0, data.len().min(MAX_METADATA))?.read()?;
    let words = [b" size=".as_slice(), b" GNU.sparse."];
    let found = words.iter().any(|word| bytes.windows(word.len()).any(|part| part == *word));
    Ok(found || data.len() > MAX_METADATA)
}

/// Returns the text up to a zero byte.
fn text(bytes: &[u8]) -> String {
    let bytes = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(bytes).into_owned()
}

/// The relevant fields of a header.
struct Header {
    size: i128,
    kind: u8,
    /// Whether numbers are written in a form that no archiver uses.
    is_odd: bool,
}

impl Header {
    /// Parses a header; `None` if its checksum does not match.
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

/// Parses a number as CPython does; also returns whether no archiver writes this form.
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
