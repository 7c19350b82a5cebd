//! Numbers of seven bits a byte, lowest first, at most ten bytes.

/// A varint that is being read.
#[derive(Debug, Default)]
pub(crate) struct Varint {
    value: u64,
    shift: u32,
}

/// A varint that goes on after ten bytes.
#[derive(Debug)]
pub(crate) struct TooLong;

impl Varint {
    /// Longest one in bytes.
    pub(crate) const LONGEST: u64 = 10;

    /// Takes one byte; gives the number that ends with it, and begins anew.
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

/// How many bytes a number takes at least.
pub(crate) fn shortest(value: u64) -> u64 {
    u64::from(64 - (value | 1).leading_zeros()).div_ceil(7)
}
