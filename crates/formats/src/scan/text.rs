//! Text, which has no effects when it is loaded.

use lodstone_store::Blob;

use crate::error::Result;
use crate::lengths::length;

/// Returns whether all bytes are UTF-8 without unusual control characters.
///
/// # Errors
/// Fails if reading fails.
pub(super) fn is_text(blob: &Blob) -> Result<bool> {
    const PIECE: u64 = 64 << 10;
    let (mut at, mut piece) = (0, Vec::new());
    while at < blob.len() {
        let size = PIECE.min(blob.len() - at);
        piece.resize(length(size)?, 0);
        blob.read_at(at, &mut piece)?;
        let is_last = at + size == blob.len();
        let valid = match std::str::from_utf8(&piece) {
            Ok(text) => text,
            // A character that crosses the end of a chunk is decoded with the next one.
            Err(error) if error.error_len().is_none() && !is_last && error.valid_up_to() > 0 => {
                let (valid, _) = piece.split_at(error.valid_up_to());
                std::str::from_utf8(valid).unwrap_or_default()
            }
            Err(_) => return Ok(false),
        };
        if valid.bytes().any(|byte| byte.is_ascii_control() && !is_of_text(byte)) {
            return Ok(false);
        }
        at += valid.len() as u64;
    }
    Ok(true)
}

/// Returns whether a control character is usual in text: tabs, ends of lines and pages.
fn is_of_text(byte: u8) -> bool {
    matches!(byte, b'\t'..=b'\r')
}
