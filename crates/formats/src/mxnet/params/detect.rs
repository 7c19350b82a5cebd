//! What MXNet's parameters look like.

/// How a file begins.
pub(super) const MAGIC: u64 = 0x112;

/// Whether a file of `len` bytes may be a list or dict of arrays.
pub fn is_params(head: &[u8], len: u64) -> bool {
    let word = |at: usize| {
        head.get(at..).and_then(|rest| rest.first_chunk()).map(|word| u64::from_le_bytes(*word))
    };
    if word(0) != Some(MAGIC) {
        return false;
    }
    // It may be the size of a record of another format, too; then zeros follow, and something else
    // where the number of names is.
    match (word(8), word(16), word(24)) {
        (_, Some(0), names) => matches!(names, None | Some(0)),
        (Some(0), ..) => true,
        (_, Some(arrays), _) => arrays <= len / 4,
        _ => true,
    }
}
