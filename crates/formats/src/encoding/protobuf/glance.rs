//! The first fields of a message of which only the beginning is at hand: enough to tell what it is.

use super::varint::Varint;

/// What is left of a message, and how much of that one can see.
#[derive(Debug)]
pub(crate) struct Glance<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) left: u64,
}

impl Glance<'_> {
    pub(crate) fn varint(&mut self) -> Option<u64> {
        let mut varint = Varint::default();
        loop {
            let (byte, rest) = self.bytes.split_first().filter(|_| self.left > 0)?;
            self.bytes = rest;
            self.left -= 1;
            if let Some(value) = varint.take(*byte).ok()? {
                return Some(value);
            }
        }
    }

    /// The number and the wire type of the next field.
    pub(crate) fn tag(&mut self) -> Option<(u64, u64)> {
        self.varint().map(|tag| (tag >> 3, tag & 7))
    }

    /// Hops over the value of a field; nothing if it is none, or longer than the message.
    pub(crate) fn skip(&mut self, wire_type: u64) -> Option<()> {
        let len = match wire_type {
            0 => return self.varint().map(|_| ()),
            1 => 8,
            2 => self.varint()?,
            5 => 4,
            _ => return None,
        };
        self.hop(len)
    }

    pub(crate) fn hop(&mut self, len: u64) -> Option<()> {
        self.left = self.left.checked_sub(len)?;
        let seen = usize::try_from(len).unwrap_or(usize::MAX);
        self.bytes = self.bytes.get(seen..).unwrap_or_default();
        Some(())
    }

    /// Whether the message goes on where one cannot see it.
    pub(crate) fn is_cut(&self) -> bool {
        self.bytes.is_empty() && self.left > 0
    }
}
