//! Detection of safetensors files.

use lodstone_store::Entry;

use super::INDEX;
use super::numbered::numbered;
use crate::format::Probe;

/// Returns whether a file may be safetensors: a size, then a JSON object.
///
/// Tensor streams have no `{` at that offset, but a byte of 0 or 8.
pub fn is_file(head: &[u8]) -> bool {
    /// Text such as `{"meta":{"`, or compressed bytes, exceed any file as a size.
    const MAX_SIZE: u64 = 1 << 48;
    let Some((size, [b'{', rest @ ..])) = head.split_first_chunk::<8>() else { return false };
    let is_size = u64::from_le_bytes(*size) <= MAX_SIZE;
    is_size && matches!(rest.trim_ascii_start().first(), Some(b'"' | b'}'))
}

/// Returns whether a file may be an index, by its name and its first byte.
pub fn is_index(name: &str, head: &[u8]) -> bool {
    name.ends_with(INDEX) && head.trim_ascii_start().first() == Some(&b'{')
}

pub(super) fn detect(probe: &Probe<'_>) -> bool {
    match probe.entries {
        // The files of a distributed checkpoint belong to its metadata.
        Some(entries) => {
            let is_metadata = |entry: &Entry| {
                let stem = entry.name.strip_suffix(".metadata");
                let stem = stem.map(|stem| stem.strip_prefix("__").unwrap_or(stem));
                stem.is_some_and(|stem| stem.bytes().all(|byte| byte.is_ascii_digit()))
            };
            entry(entries).is_some() && !entries.iter().any(is_metadata)
        }
        None => {
            let name = probe.path.file_name().unwrap_or_default().to_string_lossy();
            is_file(probe.head) || is_index(&name, probe.head)
        }
    }
}

/// The conventional name of a model in one file.
pub(super) const USUAL: &str = "model.safetensors";

/// Returns the files of a directory that may be models by themselves.
pub(super) fn files(entries: &[Entry]) -> impl Iterator<Item = &str> {
    let names = entries.iter().filter(|entry| !entry.is_dir).map(|entry| entry.name.as_str());
    names.filter(|name| name.ends_with(".safetensors"))
}

/// Returns the file of a directory that holds the model: a conventional name, the only file, or the first of numbered ones.
pub(super) fn entry(entries: &[Entry]) -> Option<&str> {
    let names = || entries.iter().filter(|entry| !entry.is_dir).map(|entry| entry.name.as_str());
    let usual = ["model.safetensors.index.json", USUAL];
    if let Some(name) = usual.iter().find_map(|usual| names().find(|name| name == usual)) {
        return Some(name);
    }
    let only = [INDEX, ".safetensors"].iter().find_map(|suffix| {
        let mut found = names().filter(|name| name.ends_with(suffix));
        found.next().filter(|_| found.next().is_none())
    });
    only.or_else(|| {
        let first = files(entries).min()?;
        let place = numbered(first)?;
        let are_siblings = files(entries).all(|name| numbered(name).as_ref() == Some(&place));
        are_siblings.then_some(first)
    })
}
