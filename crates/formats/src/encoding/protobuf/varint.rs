//! Varints: seven bits per byte, lowest first, at most ten bytes.

use lodstone_store::Cursor;

use crate::error::Result;

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
        // By at most 63.
        self.value |= u64::from(byte & 0x7f) << self.shift;
        self.shift += 7;
        match byte & 0x80 {
            0 => Ok(Some(std::mem::take(self).value)),
            _ if self.shift >= 70 => {
                *self = Self::default();
                Err(TooLong)
            }
            _ => Ok(None),
        }
    }
}

/// Reads a varint of a message that ends at `end`.
pub(super) fn read(cursor: &mut Cursor<'_>, end: u64) -> Result<u64> {
    let start = cursor.position();
    let mut varint = Varint::default();
    loop {
        if cursor.position() >= end {
            return Err(cursor.error_at(start, "a varint", "the end of the message").into());
        }
        let [byte] = cursor.array("a varint")?;
        let taken = varint.take(byte).map_err(|TooLong| {
            cursor.error_at(start, "a varint of at most 10 bytes", "a longer one")
        })?;
        if let Some(value) = taken {
            return Ok(value);
        }
    }
}

/// Returns the field number of a tag, which is at `start`.
pub(super) fn number(cursor: &Cursor<'_>, start: u64, tag: u64) -> Result<u32> {
    let number = u32::try_from(tag >> 3);
    Ok(number.map_err(|_| cursor.error_at(start, "a field number", (tag >> 3).to_string()))?)
}

/// Returns the minimum length of a value in bytes.
pub(crate) fn min_len(value: u64) -> u64 {
    u64::from(64 - (value | 1).leading_zeros()).div_ceil(7)
}
