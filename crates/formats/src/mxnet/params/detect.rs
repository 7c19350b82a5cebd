//! Detection of MXNet parameters.

/// The first eight bytes of a file.
pub(super) const MAGIC: u64 = 0x112;

/// Returns whether a file of `len` bytes may be a list or dict of arrays.
pub fn is_params(head: &[u8], len: u64) -> bool {
    let word = |at: usize| {
        head.get(at..).and_then(|rest| rest.first_chunk()).map(|word| u64::from_le_bytes(*word))
    };
    if word(0) != Some(MAGIC) {
        return false;
    }
    // The value may also be the size of a record of another format; then zeros follow, and another value
    // in the place of the number of names.
    match (word(8), word(16), word(24)) {
        (_, Some(0), names) => matches!(names, None | Some(0)),
        (Some(0), ..) => true,
        (_, Some(arrays), _) => arrays <= len / 4,
        _ => true,
    }
}
