//! What an array is for who loads it: numbers of a size, or Python objects. Unlike a reader, this takes
//! every element type that NumPy has.

use std::path::Path;

use lodstone_store::{Blob, Cursor};

use super::header::Header;
use crate::Result;

/// An array without its elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Survey {
    /// Where the elements begin.
    pub(crate) start: u64,
    pub(crate) elements: Elements,
}

/// The elements of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Elements {
    /// So many bytes, which nobody interprets.
    Plain(u64),
    /// A pickle.
    Objects,
}

/// Reads what is before the elements.
///
/// # Errors
/// If it is not an array, or its header has anything else in it than those of NumPy have.
pub(crate) fn survey(blob: &Blob) -> Result<Survey> {
    let mut cursor = Cursor::new(blob);
    let elements = Header::survey(&mut cursor, Path::new(""))?;
    Ok(Survey { start: cursor.position(), elements })
}

/// Where the elements begin by the size that the header has, if it is there, whatever is in it.
pub(crate) fn start(head: &[u8]) -> Option<u64> {
    let (start, size) = match *head {
        [_, _, _, _, _, _, 1, _, a, b, ..] => (10, u32::from_le_bytes([a, b, 0, 0])),
        [_, _, _, _, _, _, _, _, a, b, c, d, ..] => (12, u32::from_le_bytes([a, b, c, d])),
        _ => return None,
    };
    Some(start + u64::from(size))
}

/// Size in bytes of an element type without the order of its bytes; `None` if it is not known.
pub(super) fn item_size(code: &str) -> Option<u64> {
    let kind = code.chars().next()?;
    let (size, unit) = match code.get(1..)?.split_once('[') {
        Some((size, unit)) => (size, Some(unit)),
        None => (code.get(1..)?, None),
    };
    let size: u64 = size.parse().ok().filter(|_| size.bytes().all(|byte| byte.is_ascii_digit()))?;
    // Spans of time have a unit: `M8[ns]`.
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
