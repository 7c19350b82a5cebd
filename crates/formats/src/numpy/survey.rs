//! The kind of an array for its loader: elements of a fixed size, or Python objects. In contrast to the reader, this
//! accepts every element type of NumPy.

use std::path::Path;

use lodstone_store::{Blob, Cursor};

use super::header::Header;
use crate::error::Result;

/// An array without its elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Survey {
    /// The offset of the elements.
    pub(crate) start: u64,
    pub(crate) elements: Elements,
}

/// The elements of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Elements {
    /// Plain data of this many bytes.
    Plain(u64),
    /// A pickle.
    Objects,
}

/// Reads the part before the elements.
///
/// # Errors
/// Fails if the file is not an array, or its header is not one that NumPy writes.
pub(crate) fn survey(blob: &Blob) -> Result<Survey> {
    let mut cursor = Cursor::new(blob);
    let elements = Header::survey(&mut cursor, Path::new(""))?;
    Ok(Survey { start: cursor.position(), elements })
}

/// Returns the offset of the elements according to the size of the header, whatever it contains.
pub(crate) fn start(head: &[u8]) -> Option<u64> {
    let (start, size) = match *head {
        [_, _, _, _, _, _, 1, _, a, b, ..] => (10, u32::from_le_bytes([a, b, 0, 0])),
        [_, _, _, _, _, _, _, _, a, b, c, d, ..] => (12, u32::from_le_bytes([a, b, c, d])),
        _ => return None,
    };
    Some(start + u64::from(size))
}

/// Returns the size in bytes of an element type without its byte order; `None` if it is unknown.
pub(super) fn item_size(code: &str) -> Option<u64> {
    let kind = code.chars().next()?;
    let (size, unit) = match code.get(1..)?.split_once('[') {
        Some((size, unit)) => (size, Some(unit)),
        None => (code.get(1..)?, None),
    };
    let size: u64 = size.parse().ok().filter(|_| size.bytes().all(|byte| byte.is_ascii_digit()))?;
    // Time types have a unit: `M8[ns]`.
    let is_unit = |unit: &str| {
        unit.strip_suffix(']').is_some_and(|unit| unit.bytes().all(|b| b.is_ascii_alphanumeric()))
    };
    match (kind, unit) {
        ('M' | 'm', None) if size == 8 => Some(8),
        ('M' | 'm', Some(unit)) if size == 8 && is_unit(unit) => Some(8),
        ('b' | 'i' | 'u' | 'f' | 'c' | 'S' | 'a' | 'V', None) => Some(size),
        ('U', None) => size.checked_mul(4),
        _ => None,
    }
}
