//! The error for a file that no format detects: what it is instead, or the damage that hides what it is.
//!
//! | first bytes | what |
//! |---|---|
//! | `PK 03 04` | an archive: its damage, or its members |
//! | `1f 8b`, `BZh`, `fd 37 7a 58 5a 00`, `28 b5 2f fd`, `7z bc af 27 1c` | a compressed file |
//! | `version https://git-lfs` | a pointer of Git LFS, in place of the file |
//! | `<!doctype html`, `<html`, `<?xml`, after white space | a page, such as the error of a server |
//! | `89 HDF`, `GGUF` | a format that is not read |

use lodstone_model::{Limits, some};
use lodstone_store::Blob;

use crate::encoding::zip;
use crate::error::Error;
use crate::format::Probe;
use crate::registry::identify;

/// The signature of HDF5.
pub(crate) const HDF5: [u8; 8] = *b"\x89HDF\r\n\x1a\n";

/// First bytes of files that are not models, and what they are.
const KINDS: [(&[u8], &str); 8] = [
    (b"\x1f\x8b", "compressed by gzip: decompress it first"),
    (b"BZh", "compressed by bzip2: decompress it first"),
    (b"\xfd7zXZ\0", "compressed by xz: decompress it first"),
    (b"\x28\xb5\x2f\xfd", "compressed by Zstandard: decompress it first"),
    (b"7z\xbc\xaf\x27\x1c", "a 7-Zip archive: extract it first"),
    (b"version https://git-lfs", "a Git LFS pointer, not the file itself: run `git lfs pull`"),
    (&HDF5, "an HDF5 file, and reading it is not supported"),
    (b"GGUF", "a GGUF file, and reading it is not supported"),
];

/// The beginnings of pages, in lower case.
const PAGES: [(&[u8], &str); 3] = [
    (b"<!doctype html", "an HTML page, such as the answer of a server, not a model"),
    (b"<html", "an HTML page, such as the answer of a server, not a model"),
    (b"<?xml", "an XML document, such as the answer of a server, not a model"),
];

/// Returns the error for a file that no format detects.
pub fn unrecognized(blob: &Blob, probe: &Probe<'_>) -> Error {
    let path = probe.path.to_path_buf();
    if let Some(what) = identify(probe) {
        return Error::Unsupported { path, what };
    }
    let kind = KINDS.iter().find(|(start, _)| probe.head.starts_with(start));
    let text: Vec<u8> = probe.head.trim_ascii_start().iter().take(32).copied().collect();
    let text = text.to_ascii_lowercase();
    let page = || PAGES.iter().find(|(start, _)| text.starts_with(start));
    if let Some((_, what)) = kind.or_else(page) {
        return Error::NotAModel { path, what: (*what).to_owned() };
    }
    if zip::first_name(probe.head).is_some() {
        return match zip::members(blob, &Limits::default()) {
            Err(damage) => damage,
            Ok(members) => {
                let names = some(members.iter().map(|member| format!("`{}`", member.name)));
                let what = format!("a zip archive without the members of a model: {names}");
                Error::NotAModel { path, what }
            }
        };
    }
    let found = match probe.head.first_chunk::<16>() {
        Some(start) => format!("begins with `{}`", start.escape_ascii()),
        None if probe.head.is_empty() => "is empty".to_owned(),
        None => format!("begins with `{}`", probe.head.escape_ascii()),
    };
    Error::Unrecognized { path, found }
}
