//! What a parser of JSON says of a text.

/// How deep the parser follows the values of a JSON text.
pub(crate) const JSON_DEPTH: &str = "at most 128 levels of JSON values";

/// Whether the parser of JSON stopped at its [limit](JSON_DEPTH), which it tells by its message alone.
pub(crate) fn is_too_deep(error: &serde_json::Error) -> bool {
    error.to_string().starts_with("recursion limit exceeded")
}
