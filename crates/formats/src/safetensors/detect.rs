//! What safetensors look like.

use lodstone_store::Entry;

use super::INDEX;
use crate::Probe;

/// Whether a file may be safetensors: a size, then a JSON object with a key or without any.
///
/// Streams of tensors have no `{` there: that byte is 0 or 8.
pub fn is_file(head: &[u8]) -> bool {
    let Some((size, [b'{', rest @ ..])) = head.split_first_chunk::<8>() else { return false };
    // `{"meta":{"` is text, and no size that any file has.
    let is_text = size.iter().all(|byte| byte.is_ascii_graphic() || byte.is_ascii_whitespace());
    !is_text && matches!(rest.trim_ascii_start().first(), Some(b'"' | b'}'))
}

/// Whether a file may be an index, by its name and its first byte.
pub fn is_index(name: &str, head: &[u8]) -> bool {
    name.ends_with(INDEX) && head.trim_ascii_start().first() == Some(&b'{')
}

pub(super) fn detect(probe: &Probe<'_>) -> bool {
    match probe.entries {
        Some(entries) => entry(entries).is_some(),
        None => {
            let name = probe.path.file_name().unwrap_or_default().to_string_lossy();
            is_file(probe.head) || is_index(&name, probe.head)
        }
    }
}

/// The name that a model in one file has by convention.
pub(super) const USUAL: &str = "model.safetensors";

/// The files of a directory that may hold a model of their own.
pub(super) fn files(entries: &[Entry]) -> impl Iterator<Item = &str> {
    let names = entries.iter().filter(|entry| !entry.is_dir).map(|entry| entry.name.as_str());
    names.filter(|name| name.ends_with(".safetensors"))
}

/// The file of a directory that holds the model: the usual names first, then the only one.
pub(super) fn entry(entries: &[Entry]) -> Option<&str> {
    let names = || entries.iter().filter(|entry| !entry.is_dir).map(|entry| entry.name.as_str());
    let usual = ["model.safetensors.index.json", USUAL];
    if let Some(name) = usual.iter().find_map(|usual| names().find(|name| name == usual)) {
        return Some(name);
    }
    [INDEX, ".safetensors"].iter().find_map(|suffix| {
        let mut found = names().filter(|name| name.ends_with(suffix));
        found.next().filter(|_| found.next().is_none())
    })
}
