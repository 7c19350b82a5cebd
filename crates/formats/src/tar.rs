//! Tape archives, as far as a scan looks into them: PyTorch wrote them until 0.1.10 and still reads
//! them, and zoos of models are handed out in them.
//!
//! | bytes of a header of 512 | what |
//! |---|---|
//! | 0 to 99 | the name, up to a zero byte |
//! | 124 to 135 | the size in octal digits, or big-endian behind a byte of 0x80 |
//! | 148 to 155 | the sum of the bytes of the header in octal digits, with these as blanks |
//! | 156 | the type |
//!
//! The bytes of a member follow, up to a multiple of 512. Source of truth: POSIX `ustar`, and
//! `Lib/tarfile.py` of CPython 3.13.

use lodstone_model::Limits;
use lodstone_store::Blob;

use crate::Result;

/// Size of a header, and what everything is aligned to.
pub(crate) const BLOCK: usize = 512;

/// The members of an archive, and why others may see other ones.
#[derive(Default)]
pub(crate) struct Members {
    pub(crate) members: Vec<(String, Blob)>,
    pub(crate) ambiguous: Option<String>,
}

/// Whether a file that begins with `head` is an archive.
pub(crate) fn is_tar(head: &[u8]) -> bool {
    head.first_chunk::<BLOCK>().is_some_and(|header| size(header).is_some())
}

/// What is in an archive, up to the first block that is no header, as CPython reads it.
///
/// # Errors
/// What reading gives.
pub(crate) fn members(blob: &Blob, limits: &Limits) -> Result<Members> {
    let (mut found, mut at) = (Members::default(), 0_u64);
    let block = BLOCK as u64;
    while blob.len().saturating_sub(at) >= block {
        let mut header = [0; BLOCK];
        blob.read_at(at, &mut header)?;
        let Some(size) = size(&header) else { break };
        if found.members.len() >= limits.tensors {
            found.ambiguous = Some(format!("more than {} members", limits.tensors));
            break;
        }
        let kind = header.get(156).copied().unwrap_or_default();
        let bytes = header.get(..100).unwrap_or_default();
        let bytes = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
        let name = String::from_utf8_lossy(bytes).into_owned();
        let start = at + block;
        let data = blob.slice(start, size.min(blob.len() - start))?;
        if says_otherwise(kind, &data)? {
            found.ambiguous = Some(format!("`{name}` has its size in another place"));
        }
        // Links and directories have no bytes, whatever size they say.
        let has_bytes = !matches!(kind, b'1'..=b'6');
        let size = if has_bytes { size } else { 0 };
        if has_bytes {
            found.members.push((name, data));
        }
        at = start.saturating_add(size).checked_next_multiple_of(block).unwrap_or(u64::MAX);
    }
    Ok(found)
}

/// Whether a member changes the size of the next, or has none of the usual kinds of sizes.
fn says_otherwise(kind: u8, data: &Blob) -> Result<bool> {
    /// Longer ones are of whole trees of files.
    const MOST: u64 = 64 << 10;
    if kind == b'S' {
        return Ok(true);
    }
    if !matches!(kind, b'x' | b'g' | b'X') {
        return Ok(false);
    }
    let bytes = data.slice(0, data.len().min(MOST))?.read()?;
    let words = [b" size=".as_slice(), b" GNU.sparse."];
    let found = words.iter().any(|word| bytes.windows(word.len()).any(|part| part == *word));
    Ok(found || data.len() > MOST)
}

/// The size of the member, if the sum of the header is right.
fn size(header: &[u8; BLOCK]) -> Option<u64> {
    let sum = header.iter().enumerate().map(|(index, byte)| match index {
        148..156 => u64::from(b' '),
        _ => u64::from(*byte),
    });
    if number(header.get(148..156)?)? != sum.sum::<u64>() {
        return None;
    }
    number(header.get(124..136)?)
}

fn number(field: &[u8]) -> Option<u64> {
    if let Some((0x80, rest)) = field.split_first() {
        return rest.iter().try_fold(0_u64, |number, byte| {
            Some(number.checked_mul(256)?.saturating_add(u64::from(*byte)))
        });
    }
    let text = std::str::from_utf8(field.split(|byte| *byte == 0).next()?).ok()?.trim();
    if text.is_empty() { Some(0) } else { u64::from_str_radix(text, 8).ok() }
}
