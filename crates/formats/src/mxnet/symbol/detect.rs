//! What a program looks like.

/// Whether a file may be a program: JSON whose first key is one of a graph's, with nodes.
pub fn is_symbol(head: &[u8]) -> bool {
    const KEYS: [&[u8]; 5] =
        [b"\"nodes\"", b"\"arg_nodes\"", b"\"heads\"", b"\"node_row_ptr\"", b"\"attrs\""];
    let Some(text) = head.trim_ascii_start().strip_prefix(b"{") else { return false };
    let text = text.trim_ascii_start();
    let has = |key: &[u8]| head.windows(key.len()).any(|window| window == key);
    let first = KEYS.iter().position(|key| text.starts_with(key));
    match first {
        // With a long list of numbers before them, the nodes are further on.
        Some(1..=3) => true,
        // A node says what it does and what it is called.
        Some(_) => has(b"\"nodes\"") && (has(b"\"op\"") || has(b"\"name\"") || head.len() < 64),
        None => false,
    }
}
