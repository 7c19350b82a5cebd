//! Detection of the layout of a file.
//!
//! With A the `u32` at 0, B the `u32` at 4 and C the byte at 8:
//! - A is a version word, always 0, unless the file begins with a size (or with the count of a
//!   vocabulary);
//! - with A = 0, B is the low half of the number of levels (LoD first) or the size of a
//!   description (LoD last), which is never 0;
//! - with B not 0, C is the tag of the first field of a description, 8 (LoD last), or the high
//!   half of a count, 0 (LoD first, `SelectedRows`).
//!
//! These rules order the candidates; a strict parse to the end of the file confirms one.

use lodstone_store::{Blob, Cursor};

use super::{Layout, MAX_LEVELS};
use crate::error::Result;

/// Returns whether a file may begin with a record: a version word of 0 and a plausible count or size.
pub fn is_stream(head: &[u8]) -> bool {
    match head.first_chunk::<9>() {
        Some([0, 0, 0, 0, count @ .., c]) => match u32::from_le_bytes(*count) {
            0 => true,
            _ => *c == 0x08 || *c == 0,
        },
        _ => false,
    }
}

/// Returns whether a file begins with the complete head of a record, in any layout. In contrast to [`is_stream`], it
/// rejects damaged and truncated heads.
pub(crate) fn begins_record(blob: &Blob) -> bool {
    [0, 8].into_iter().any(|start| {
        let heads = [lod_first, lod_last, selected_rows];
        heads.into_iter().any(|head| head(&mut Cursor::at(blob, start)).is_some())
    }) || vocabularies(blob)
}

/// Returns whether a file may hold concatenated vocabularies, of which the first may be empty, and may follow its size.
fn vocabularies(blob: &Blob) -> bool {
    /// Maximum number of empty vocabularies to skip.
    const EMPTY: u64 = 8;
    let is_one = |start: u64| tokens(&mut Cursor::at(blob, start)).is_some();
    let is_empty = |start: u64| {
        let mut count = [1; 8];
        blob.len() >= start + 8 && blob.read_at(start, &mut count).is_ok() && count == [0; 8]
    };
    let empty = (0..EMPTY).take_while(|number| is_empty(number * 8)).count() as u64;
    is_one(8) || is_one(empty * 8)
}

/// Parses a version word, LoD levels, and the head of a tensor.
fn lod_first(cursor: &mut Cursor<'_>) -> Option<()> {
    version(cursor)?;
    let levels = cursor.u64("levels").ok().filter(|levels| *levels <= MAX_LEVELS)?;
    for _ in 0..levels {
        let size = cursor.u64("a level").ok().filter(|size| size.is_multiple_of(8))?;
        hop(cursor, size)?;
    }
    version(cursor)?;
    description(cursor)
}

/// Parses a version word, and the description of a tensor.
fn lod_last(cursor: &mut Cursor<'_>) -> Option<()> {
    version(cursor)?;
    description(cursor)
}

/// Parses a version word, the row indices, the height, and the head of a tensor.
fn selected_rows(cursor: &mut Cursor<'_>) -> Option<()> {
    version(cursor)?;
    let rows = cursor.u64("rows").ok()?;
    hop(cursor, rows.checked_mul(8)?.checked_add(8)?)?;
    version(cursor)?;
    description(cursor)
}

fn version(cursor: &mut Cursor<'_>) -> Option<()> {
    cursor.u32("a version").ok().filter(|version| *version == 0).map(drop)
}

/// Parses the head of a `TensorDesc`: its size, then the tag and the code of its element type.
fn description(cursor: &mut Cursor<'_>) -> Option<()> {
    let size = cursor.u32("the size of a description").ok()?;
    let left = cursor.remaining();
    let [tag, dtype] = cursor.array("an element type").ok()?;
    ((2..=left).contains(&size.into()) && tag == 0x08 && dtype < 0x80).then_some(())
}

/// Parses the number of tokens, and the first of them: strings without zero bytes.
fn tokens(cursor: &mut Cursor<'_>) -> Option<()> {
    /// Maximum number of tokens to inspect, and maximum bytes of each.
    const SOME: u64 = 16;
    const MAX_LEN: u64 = 4096;
    let count = cursor.u64("tokens").ok()?;
    if count == 0 || count > cursor.remaining() / 12 {
        return None;
    }
    let mut is_text = false;
    for _ in 0..count.min(SOME) {
        let size = cursor.u64("a token").ok().filter(|size| *size <= MAX_LEN)?;
        let token = String::from_utf8(cursor.bytes(size, "a token").ok()?).ok()?;
        cursor.i32("the id of a token").ok()?;
        if token.contains('\0') {
            return None;
        }
        is_text |= !token.is_empty();
    }
    is_text.then_some(())
}

fn hop(cursor: &mut Cursor<'_>, bytes: u64) -> Option<()> {
    let position = cursor.position().checked_add(bytes)?;
    (bytes <= cursor.remaining()).then(|| cursor.seek(position))
}

/// Returns the possible layouts of a file, the more likely one first.
pub(super) fn candidates(blob: &Blob) -> Result<[Layout; 2]> {
    let plain = |lod_last| Layout { lod_last, ..Layout::default() };
    let sized = |lod_last| Layout { sized: true, ..plain(lod_last) };
    let lod_last = |offset: u64| -> Result<bool> {
        let mut head = [0; 5];
        if blob.len() >= offset + 9 {
            blob.read_at(offset + 4, &mut head)?;
        }
        let [b @ .., c] = head;
        Ok(u32::from_le_bytes(b) != 0 && c != 0)
    };
    let mut version = [0; 4];
    if blob.len() >= 4 {
        blob.read_at(0, &mut version)?;
    }
    let (outer, inner) = (lod_last(0)?, lod_last(8)?);
    // A size that is a multiple of 4 GiB begins like a version word.
    Ok(if version == [0; 4] { [plain(outer), sized(inner)] } else { [sized(inner), plain(false)] })
}
