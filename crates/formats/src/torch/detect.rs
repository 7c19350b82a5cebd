//! Detection of PyTorch files.
//!
//! | file | detected by |
//! |---|---|
//! | archives | the members that their directory lists |
//! | `torch.save` before 1.6 | a pickle of the integer `0x1950a86a20f9469cfc6c` |
//! | `torch.save` until 0.1.9 | a tape archive with the members `storages` and `tensors` |
//! | the index of shards | its name, `*.bin.index.json`, and its first byte |
//! | ExecuTorch programs and their tensors | `ET12` or `FT01` at byte 4 |
//! | ExecuTorch programs of other versions, or with test inputs, which are not read | `ET`, `FT` or `BP` and two digits at byte 4 |
//!
//! Source of truth: files that PyTorch 1.0 to 2.15 wrote.

use lodstone_model::Limits;
use lodstone_store::{Blob, Entry, SourceFile};

use super::archive::{Archive, Kind};
use super::distributed::{INDEX, is_index};
use super::executorch;
use super::outside::is_numbered;
use crate::encoding::tar;
use crate::encoding::zip::first_name;
use crate::format::Probe;

/// Returns the kind of an archive, if the file is one of PyTorch.
fn kind(probe: &Probe<'_>) -> Option<Kind> {
    let first = first_name(probe.head)?;
    let is_plausible =
        first.contains(&b'/') || first.starts_with(b"serialized_") || first == b"version";
    if probe.entries.is_some() || !is_plausible {
        return None;
    }
    let file = SourceFile::open(probe.path, false).ok()?;
    let archive = Archive::open(&Blob::file(file.into()), &Limits::default());
    archive.ok().map(|archive| archive.kind)
}

/// Returns whether a file is an archive that is read.
pub(super) fn is_archive(probe: &Probe<'_>) -> bool {
    kind(probe).is_some_and(|kind| kind != Kind::Package)
}

/// Returns whether a tape archive has the members of one of PyTorch.
fn is_tape(probe: &Probe<'_>) -> bool {
    if probe.entries.is_some() || !tar::is_tar(probe.head) {
        return false;
    }
    let Ok(file) = SourceFile::open(probe.path, false) else { return false };
    let members = tar::members(&Blob::file(file.into()), &Limits::default());
    members.is_ok_and(|found| {
        let has = |name: &str| {
            found.members.iter().any(|(member, _)| member.trim_start_matches("./") == name)
        };
        has("storages") && has("tensors") && has("pickle")
    })
}

/// Returns the only index of shards in a directory.
pub(super) fn index_of(entries: &[Entry]) -> Option<&str> {
    let names = entries.iter().filter(|entry| !entry.is_dir).map(|entry| entry.name.as_str());
    let mut found = names.filter(|name| name.ends_with(INDEX));
    found.next().filter(|_| found.next().is_none())
}

pub(super) fn detect_saved(probe: &Probe<'_>) -> bool {
    match probe.entries {
        Some(entries) => index_of(entries).is_some(),
        None => {
            let name = probe.path.file_name().unwrap_or_default().to_string_lossy();
            is_index(&name, probe.head)
                || is_numbered(probe.head, probe.len)
                || kind(probe) == Some(Kind::Saved)
                || is_tape(probe)
        }
    }
}

pub(super) fn detect_script(probe: &Probe<'_>) -> bool {
    matches!(kind(probe), Some(Kind::Script | Kind::EarlyScript))
}

pub(super) fn detect_exported(probe: &Probe<'_>) -> bool {
    matches!(kind(probe), Some(Kind::Exported | Kind::EarlyExported))
}

pub(super) fn detect_executorch(probe: &Probe<'_>) -> bool {
    let identifier = probe.head.get(4..8).filter(|_| probe.entries.is_none());
    identifier.is_some_and(|it| it == executorch::PROGRAM || it == executorch::TENSORS)
}

/// Returns the description of a file that is not read, if it is one of PyTorch.
pub(crate) fn identify(probe: &Probe<'_>) -> Option<&'static str> {
    if probe.entries.is_some() {
        return None;
    }
    // FlatBuffers have their identifier after the offset of the root: two letters and a version.
    match probe.head.get(4..8) {
        Some([b'E', b'T', first, second]) if [first, second].iter().all(|c| c.is_ascii_digit()) => {
            return Some("an ExecuTorch program (`.pte`) of another version");
        }
        Some([b'F', b'T', first, second]) if [first, second].iter().all(|c| c.is_ascii_digit()) => {
            return Some("tensors of an ExecuTorch program (`.ptd`) of another version");
        }
        Some([b'B', b'P', first, second]) if [first, second].iter().all(|c| c.is_ascii_digit()) => {
            return Some("an ExecuTorch program with test inputs (`.bpte`)");
        }
        _ => {}
    }
    // It consists of archives, one for each tensor.
    let is_part = probe.path.path().extension().is_some_and(|ending| ending == "distcp");
    if is_part && probe.head.starts_with(b"PK") {
        return Some("a part of a distributed checkpoint of PyTorch: open its directory");
    }
    match kind(probe) {
        Some(Kind::Package) => Some("a package of PyTorch (`torch.package`)"),
        _ => None,
    }
}
