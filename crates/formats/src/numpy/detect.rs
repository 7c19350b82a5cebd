//! Detection of NumPy files.

use super::{MAGIC, SUFFIX};
use crate::encoding::zip::first_name;
use crate::format::Probe;

/// Returns whether a file may be an array.
pub fn is_npy(head: &[u8]) -> bool {
    head.starts_with(&MAGIC)
}

/// Returns whether a file may be an archive of arrays: a zip archive whose first member is an array.
pub fn is_npz(head: &[u8]) -> bool {
    first_name(head).is_some_and(|name| name.ends_with(SUFFIX.as_bytes()))
}

pub(super) fn detect_npy(probe: &Probe<'_>) -> bool {
    is_npy(probe.head)
}

pub(super) fn detect_npz(probe: &Probe<'_>) -> bool {
    // An archive without members begins with its end record.
    let named = probe.path.extension().is_some_and(|extension| extension == "npz");
    let zip = probe.head.starts_with(b"PK\x03\x04") || probe.head.starts_with(b"PK\x05\x06");
    is_npz(probe.head) || (named && zip)
}
