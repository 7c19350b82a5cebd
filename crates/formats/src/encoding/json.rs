//! Errors of the JSON parser.

use lodstone_store::Blob;

use crate::error::Error;

/// The nesting limit of the JSON parser, for messages.
pub(crate) const JSON_DEPTH: &str = "at most 128 levels of JSON values";

/// Returns whether the JSON parser stopped at its [nesting limit](JSON_DEPTH), which only its message indicates.
pub(crate) fn is_too_deep(error: &serde_json::Error) -> bool {
    error.to_string().starts_with("recursion limit exceeded")
}

/// Returns the error of a text that begins at `start` in a file.
pub(crate) fn malformed(
    blob: &Blob,
    (start, text): (usize, &[u8]),
    expected: &str,
    error: &serde_json::Error,
) -> Error {
    let lines = text.split_inclusive(|byte| *byte == b'\n');
    let before: usize = lines.take(error.line().saturating_sub(1)).map(<[u8]>::len).sum();
    let within = (before + error.column().saturating_sub(1)).min(text.len());
    let offset = (start + within) as u64;
    match is_too_deep(error) {
        true => blob.over_limit(offset, JSON_DEPTH).into(),
        false => blob.malformed(offset, expected, error.to_string()).into(),
    }
}
