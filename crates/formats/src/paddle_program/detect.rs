//! What a program looks like.

/// Whether a file may be a binary `ProgramDesc`: it begins with the tag of a block (field 1,
/// length-delimited) whose first field is its number (field 1, varint).
pub fn is_binary(head: &[u8]) -> bool {
    let Some((0x0a, rest)) = head.split_first() else { return false };
    let length = rest.iter().take_while(|byte| **byte & 0x80 != 0).count() + 1;
    rest.get(length) == Some(&0x08)
}

/// Whether a file may be a `ProgramDesc` in text form.
pub fn is_text(head: &[u8]) -> bool {
    let text = head.trim_ascii_start();
    let Some(rest) = text.strip_prefix(b"blocks") else { return false };
    matches!(rest.trim_ascii_start().first(), Some(b'{' | b'<' | b':'))
}
