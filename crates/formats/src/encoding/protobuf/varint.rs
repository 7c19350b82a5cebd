//! Varints: seven bits per byte, lowest first, at most ten bytes.

/// A varint that is being read.
#[derive(Debug, Default)]
pub(crate) struct Varint {
    value: u64,
    shift: u32,
}

/// The error for a varint longer than ten bytes.
#[derive(Debug)]
pub(crate) struct TooLong;

impl Varint {
    /// Maximum length in bytes.
    pub(crate) const MAX_LEN: u64 = 10;

    /// Adds a byte; returns the value if the byte completes it, and starts over.
    pub(crate) fn take(&mut self, byte: u8) -> Result<Option<u64>, TooLong> {
        self.value |= u64::from(byte & 0x7f).checked_shl(self.shift).unwrap_or(0);
        self.shift += 7;
        match byte & 0x80 {
            0 => Ok(Some(std::mem::take(self).value)),
            _ if self.shift >= 70 => Err(TooLong),
            _ => Ok(None),
        }
    }
}

/// Returns the minimum length of a value in bytes.
pub(crate) fn min_len(value: u64) -> u64 {
    u64::from(64 - (value | 1).leading_zeros()).div_ceil(7)
}
