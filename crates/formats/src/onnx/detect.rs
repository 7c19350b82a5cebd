//! Detection of ONNX models.

use super::Container;
use crate::encoding::protobuf::glance::Glance;
use crate::encoding::zip::first_name;
use crate::format::Probe;

/// The number of bytes of a file that are inspected.
pub(super) const HEAD: u64 = 4096;

/// Returns whether a file looks like a `ModelProto` in any container.
pub(super) fn detect(probe: &Probe<'_>) -> bool {
    let seen = container(probe.head);
    probe.entries.is_none() && (seen.is_some() || is_binary(probe.head, probe.len))
}

/// Returns the container of a model, if it has a signature.
pub(super) fn container(head: &[u8]) -> Option<Container> {
    if first_name(head).is_some_and(|name| name.ends_with(b"/weights")) {
        return Some(Container::Zip);
    }
    is_text(head).then_some(Container::Text)
}

/// The fields of `ModelProto` and `GraphProto`: number and wire type.
const MODEL: &[(u64, u64)] = &[
    (1, 0),
    (2, 2),
    (3, 2),
    (4, 2),
    (5, 0),
    (6, 2),
    (7, 2),
    (8, 2),
    (14, 2),
    (20, 2),
    (25, 2),
    (26, 2),
];
/// The largest field number.
const LAST: u64 = 26;
const GRAPH: &[(u64, u64)] =
    &[(1, 2), (2, 2), (5, 2), (10, 2), (11, 2), (12, 2), (13, 2), (14, 2), (15, 2), (16, 2)];

/// Returns whether bytes are the beginning of a `ModelProto`: only its fields as far as visible, of which the version is the
/// first, or one a graph.
fn is_binary(head: &[u8], len: u64) -> bool {
    let mut glance = Glance { bytes: head, left: len };
    let mut known = false;
    while glance.left > 0 {
        let is_first = glance.left == len;
        let field = glance.tag();
        let hopped = match field {
            None => return known && glance.is_cut(),
            // Fields of a later release.
            Some((number, 3)) if known && number > LAST => glance.skip_group(number),
            Some((number, wire_type)) if known && number > LAST => glance.skip(wire_type),
            Some(field) if !MODEL.contains(&field) => return false,
            // A model that begins with a graph must show it.
            Some((7, _)) => return shows_graph(&mut glance, known),
            Some((1, _)) if is_first => {
                // No version has exceeded 13 in ten years.
                known = glance.varint().is_some_and(|version| (1..=99).contains(&version));
                known.then_some(())
            }
            Some((_, wire_type)) => glance.skip(wire_type),
        };
        if hopped.is_none() {
            return known && glance.is_cut();
        }
    }
    known
}

/// Returns whether a graph follows, as far as visible.
fn shows_graph(glance: &mut Glance<'_>, known: bool) -> bool {
    let Some(len) = glance.varint() else { return known && glance.is_cut() };
    let mut graph = Glance { bytes: glance.bytes, left: len };
    match graph.tag() {
        // The file is truncated, if the previous field was that of a model.
        _ if len > glance.left && !known => false,
        // The beginning of other data may have one such field by chance.
        Some(field) if !known => {
            GRAPH.contains(&field)
                && graph.skip(field.1).is_some()
                && graph.tag().map_or(graph.left == 0 || graph.is_cut(), |it| GRAPH.contains(&it))
        }
        Some(field) => GRAPH.contains(&field),
        None => known && (len == 0 || graph.is_cut()),
    }
}

/// Returns whether bytes are the beginning of a `ModelProto` in text format.
fn is_text(head: &[u8]) -> bool {
    let text = String::from_utf8_lossy(head);
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    // Comments and unknown fields, which have no names, may come first.
    let has_name =
        |line: &&str| !line.starts_with(|c: char| "#}".contains(c) || c.is_ascii_digit());
    let first = lines.find(has_name).unwrap_or_default();
    let name: String =
        first.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
    let after = first.get(name.len()..).unwrap_or_default().trim_start();
    let begins =
        |names: &[&str], signs: &[char]| names.contains(&name.as_str()) && after.starts_with(signs);
    begins(&["ir_version", "producer_name", "producer_version", "model_version"], &[':'])
        || begins(&["opset_import", "graph"], &['{', ':', '<'])
}
