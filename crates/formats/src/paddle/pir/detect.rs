//! Detection of programs.

/// Returns whether a file may be a PIR program: a JSON object with the key `base_code`.
pub fn is_pir(head: &[u8]) -> bool {
    let text = head.trim_ascii_start();
    text.starts_with(b"{") && head.windows(11).any(|window| window == b"\"base_code\"")
}
