//! Errors of the JSON parser.

/// The nesting limit of the JSON parser, for messages.
pub(crate) const JSON_DEPTH: &str = "at most 128 levels of JSON values";

/// Returns whether the JSON parser stopped at its [nesting limit](JSON_DEPTH), which only its message indicates.
pub(crate) fn is_too_deep(error: &serde_json::Error) -> bool {
    error.to_string().starts_with("recursion limit exceeded")
}
