//! The first fields of a message of which only the beginning is available, for format detection.

use super::varint::Varint;
use crate::lengths::at_most;

/// The remaining length of a message, and its available bytes.
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

    /// Returns the field number and wire type of the next field.
    pub(crate) fn tag(&mut self) -> Option<(u64, u64)> {
        self.varint().map(|tag| (tag >> 3, tag & 7))
    }

    /// Skips the value of a field; `None` if it is invalid, or exceeds the message.
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

    /// Skips the fields of a group up to its end; `None` if one is invalid, or exceeds the message.
    pub(crate) fn skip_group(&mut self, number: u64) -> Option<()> {
        let mut open = vec![number];
        while let Some(last) = open.last() {
            match self.tag()? {
                (number, 3) => open.push(number),
                (number, 4) if number == *last => {
                    open.pop();
                }
                (_, wire_type) => self.skip(wire_type)?,
            }
        }
        Some(())
    }

    pub(crate) fn hop(&mut self, len: u64) -> Option<()> {
        self.left = self.left.checked_sub(len)?;
        (_, self.bytes) = self.bytes.split_at(at_most(len, self.bytes.len()));
        Some(())
    }

    /// Returns whether the message continues beyond the available bytes.
    pub(crate) fn is_cut(&self) -> bool {
        self.bytes.is_empty() && self.left > 0
    }
}
