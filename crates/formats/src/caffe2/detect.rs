//! Detection of nets, blobs and databases.

use crate::encoding::protobuf::glance::Glance;
use crate::format::Probe;

/// The number of bytes of a file that are inspected.
pub(super) const HEAD: u64 = HEAD_LEN as u64;

const HEAD_LEN: usize = 4096;

/// Returns whether a file looks like a net, binary or text.
pub(super) fn is_net(head: &[u8], len: u64) -> bool {
    is_text(head) || is_binary(head, len)
}

/// The fields of `NetDef`, `OperatorDef` and `BlobProto`: number and wire type.
const NET: &[(u64, u64)] =
    &[(1, 2), (2, 2), (3, 2), (4, 0), (5, 2), (6, 2), (7, 2), (8, 2), (9, 2)];
const OP: &[(u64, u64)] = &[
    (1, 2),
    (2, 2),
    (3, 2),
    (4, 2),
    (5, 2),
    (6, 2),
    (7, 2),
    (8, 2),
    (9, 0),
    (10, 2),
    (11, 2),
    (12, 0),
];

/// Returns whether bytes are the beginning of a `NetDef`: only its fields as far as visible, and an operator whose kind
/// is an identifier.
fn is_binary(head: &[u8], len: u64) -> bool {
    let mut glance = Glance { bytes: head, left: len };
    while glance.left > 0 {
        match glance.tag() {
            Some((2, 2)) => return begins_with_operator(&mut glance),
            Some((1 | 3, 2)) if !skip_text(&mut glance) => return false,
            Some((1 | 3, 2)) => {}
            Some((number, wire_type)) if NET.contains(&(number, wire_type)) => {
                if glance.skip(wire_type).is_none() {
                    return false;
                }
            }
            _ => return false,
        }
    }
    false
}

fn begins_with_operator(glance: &mut Glance<'_>) -> bool {
    let Some(len) = glance.varint().filter(|len| *len <= glance.left) else { return false };
    let mut op = Glance { bytes: glance.bytes, left: len };
    while op.left > 0 {
        match op.tag() {
            Some((4, 2)) => {
                return text(&mut op).is_some_and(|kind| {
                    !kind.is_empty()
                        && kind
                            .bytes()
                            .all(|byte| byte.is_ascii_alphanumeric() || b"_.:".contains(&byte))
                });
            }
            Some((1..=3, 2)) if !skip_text(&mut op) => return false,
            Some((1..=3, 2)) => {}
            Some((number, wire_type)) if OP.contains(&(number, wire_type)) => {
                if op.skip(wire_type).is_none() {
                    return false;
                }
            }
            _ => return false,
        }
    }
    false
}

fn skip_text(glance: &mut Glance<'_>) -> bool {
    text(glance).is_some()
}

/// Returns a visible text of no control characters.
fn text<'a>(glance: &mut Glance<'a>) -> Option<&'a str> {
    let len = glance.varint().filter(|len| *len <= glance.left)?;
    let size = usize::try_from(len).ok()?;
    let bytes = glance.bytes.get(..size)?;
    let text = std::str::from_utf8(bytes).ok()?;
    glance.bytes = glance.bytes.get(size..)?;
    glance.left -= len;
    (!text.chars().any(char::is_control)).then_some(text)
}

/// Returns whether bytes are the beginning of a `NetDef` in text format: the first field is one of its fields, and an
/// operator or an external blob is among the first lines.
pub(super) fn is_text(head: &[u8]) -> bool {
    const FIRST: [&str; 8] = [
        "name",
        "op",
        "type",
        "arg",
        "device_option",
        "external_input",
        "external_output",
        "partition_info",
    ];
    let text = String::from_utf8_lossy(head);
    let lines = text.lines().map(str::trim_end);
    let mut lines = lines.filter(|line| !line.trim().is_empty() && !line.trim().starts_with('#'));
    let Some(first) = lines.next() else { return false };
    let begins = |line: &str, names: &[&str]| {
        let name = line.trim_start();
        let rest = name.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || c == '_');
        let found = name.get(..name.len() - rest.len()).unwrap_or_default();
        names.contains(&found) && rest.trim_start().starts_with([':', '{', '<'])
    };
    let decides = |line: &str| {
        let is_external = begins(line, &["external_input", "external_output"]);
        let is_op = begins(line, &["op"]) && line.contains(['{', '<']);
        !line.starts_with([' ', '\t']) && (is_external || is_op)
    };
    // The whole net may be in one line.
    let has_op = |line: &str| {
        line.match_indices("op").any(|(at, name)| {
            let (before, after) = line.split_at(at);
            let rest = after.trim_start_matches(name).trim_start();
            before.ends_with([' ', '"', '\'', '}', '>', ';', ',']) && rest.starts_with(['{', '<'])
        })
    };
    begins(first, &FIRST) && (decides(first) || has_op(first) || lines.any(decides))
}

/// Recognizes a net in text format whose first bytes, which [`is_text`] inspects, are comments.
pub(crate) fn after_comments(text: &str) -> Option<&'static str> {
    let is_comment = |line: &str| line.trim().is_empty() || line.trim_start().starts_with('#');
    let comments: usize =
        text.split_inclusive('\n').take_while(|line| is_comment(line)).map(str::len).sum();
    let has_net = |text: &str| {
        let bytes = text.as_bytes();
        is_text(bytes.get(..HEAD_LEN).unwrap_or(bytes))
    };
    let (_, rest) = text.split_at(comments);
    let is_net = comments > 0 && has_net(rest) && !has_net(text);
    is_net.then_some("a net of Caffe2 after comments")
}

/// The types of blobs that `BlobProto` names.
const BLOBS: [&str; 8] = [
    "Tensor",
    "TensorCPU",
    "TensorCUDA",
    "Tensor<CPUContext>",
    "std::string",
    "Int8TensorCPU",
    "QTensor",
    "int8::Int8TensorCPU",
];

/// Returns whether a file looks like a `BlobProto`: a name, then a type that has an encoding of its own.
pub(super) fn is_blob(head: &[u8], len: u64) -> bool {
    let mut glance = Glance { bytes: head, left: len };
    let mut tag = glance.tag();
    if tag == Some((1, 2)) {
        if !skip_text(&mut glance) {
            return false;
        }
        tag = glance.tag();
    }
    tag == Some((2, 2)) && text(&mut glance).is_some_and(|kind| BLOBS.contains(&kind))
}

/// Maximum length of a key of a database.
const MAX_KEY: u32 = 4096;

/// Returns whether a file looks like a database of blobs: the first record has a readable key, and a blob.
pub(super) fn is_minidb(head: &[u8], len: u64) -> bool {
    let Some((lengths, rest)) = head.split_first_chunk::<8>() else { return false };
    let [a, b, c, d, e, f, g, h] = *lengths;
    let (key, value) = (u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h]));
    let total = u64::from(key) + u64::from(value) + 8;
    if !(1..=MAX_KEY).contains(&key) || i32::try_from(value).is_err() || total > len {
        return false;
    }
    let size = key as usize;
    let (Some(key), Some(value_head)) = (rest.get(..size), rest.get(size..)) else { return false };
    let is_readable = std::str::from_utf8(key).is_ok_and(|key| !key.chars().any(char::is_control));
    is_readable && is_blob(value_head, value.into())
}

/// Returns whether a path may hold nets: a file, or a directory of files with conventional names.
pub(super) fn detect(probe: &Probe<'_>) -> bool {
    match probe.entries {
        None => is_net(probe.head, probe.len),
        Some(entries) => {
            let files = entries.iter().filter(|entry| !entry.is_dir);
            super::layout::in_directory(files.map(|entry| entry.name.as_str())).is_some()
        }
    }
}
