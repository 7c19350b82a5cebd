//! Which layout a file has.
//!
//! With A the `u32` at 0, B the `u32` at 4 and C the byte at 8:
//! - A is a version word, always 0, unless the file begins with a size (or with the count of a
//!   vocabulary);
//! - with A = 0, B is the low half of the number of levels (LoD first) or the size of a
//!   description (LoD last), which is never 0;
//! - with B not 0, C is the tag of the first field of a description, 8 (LoD last), or the high
//!   half of a count, 0 (LoD first, `SelectedRows`).
//!
//! These rules order the guesses; a strict parse to the end of the file confirms one.

use lodstone_store::Blob;

use super::Layout;
use crate::Result;

/// Whether a file may begin with a record: a version word of 0 and a plausible count or size.
pub fn is_stream(head: &[u8]) -> bool {
    match head.first_chunk::<9>() {
        Some([0, 0, 0, 0, count @ .., c]) => match u32::from_le_bytes(*count) {
            0 => true,
            _ => *c == 0x08 || *c == 0,
        },
        _ => false,
    }
}

/// The layouts that a file may have, the likelier first.
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
