//! What MXNet's parameters look like.

/// How a file begins.
pub(super) const MAGIC: u64 = 0x112;

/// Whether a file may be a list or dict of arrays.
pub fn is_params(head: &[u8]) -> bool {
    head.first_chunk().is_some_and(|magic| u64::from_le_bytes(*magic) == MAGIC)
}
