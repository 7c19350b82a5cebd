//! Detection of programs.

/// Returns whether a file may be a program: a JSON object whose first key is one of a graph, with nodes.
pub fn is_symbol(head: &[u8]) -> bool {
    const KEYS: [&[u8]; 5] =
        [b"\"nodes\"", b"\"arg_nodes\"", b"\"heads\"", b"\"node_row_ptr\"", b"\"attrs\""];
    let Some(text) = head.trim_ascii_start().strip_prefix(b"{") else { return false };
    let text = text.trim_ascii_start();
    let has = |key: &[u8]| head.windows(key.len()).any(|window| window == key);
    let first = KEYS.iter().position(|key| text.starts_with(key));
    match first {
        // After a long list of integers, the nodes may be out of sight.
        Some(1..=3) => true,
        // A node has an operator and a name.
        Some(_) => has(b"\"nodes\"") && (has(b"\"op\"") || has(b"\"name\"") || head.len() < 64),
        None => false,
    }
}
