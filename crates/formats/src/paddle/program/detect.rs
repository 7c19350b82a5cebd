//! Detection of programs.

use super::schema::PROGRAM;
use crate::encoding::protobuf::glance::Glance;

/// Returns whether a file may be a binary `ProgramDesc`: its first known field is a block (field 1,
/// length-delimited), which begins with its index and its parent's, as far as visible (fields 1 and 2, varints).
pub fn is_binary(head: &[u8]) -> bool {
    let mut glance = Glance { bytes: head, left: u64::MAX };
    loop {
        match glance.tag() {
            Some((1, 2)) => return glance.varint().is_some() && begins_block(&mut glance),
            // Fields of a later release.
            Some((number, wire_type)) if number > 5 => {
                if glance.skip(wire_type).is_none() {
                    return false;
                }
            }
            _ => return false,
        }
    }
}

fn begins_block(glance: &mut Glance<'_>) -> bool {
    let begins = glance.tag() == Some((1, 0)) && glance.varint().is_some();
    begins && glance.tag().map_or(glance.is_cut(), |field| field == (2, 0))
}

/// Returns whether a file may be a `ProgramDesc` in text format: it begins, after comments, with the name of
/// one of its fields and a bracket.
pub fn is_text(head: &[u8]) -> bool {
    let mut text = head.trim_ascii_start();
    while text.first() == Some(&b'#') {
        let Some(end) = text.iter().position(|byte| *byte == b'\n') else { return false };
        text = text.get(end..).unwrap_or_default().trim_ascii_start();
    }
    let name =
        text.iter().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_').count();
    let (name, rest) = text.split_at(name);
    let known = std::str::from_utf8(name).ok().and_then(|name| PROGRAM.field_named(name));
    let rest = rest.trim_ascii_start();
    let rest = rest.strip_prefix(b":").unwrap_or(rest).trim_ascii_start();
    known.is_some() && matches!(rest.first(), Some(b'{' | b'<'))
}
