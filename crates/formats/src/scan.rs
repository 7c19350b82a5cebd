//! Every pickle in a file, whatever it is called: alone, in an archive, in an array of objects.

use std::path::Path;

use lodstone_model::Limits;
use lodstone_store::{Blob, check_relative};

use crate::pickle::{self, Finding};
use crate::{Result, numpy};

/// What the pickles in a file would do, and what is odd about what holds them.
#[derive(Clone, Debug, Default)]
pub struct Pickles {
    /// What they would import and call, each with the member of an archive that it is in.
    pub findings: Vec<(Option<String>, Finding)>,
    /// Names in an archive that lead out of where it is unpacked, with the rule they break.
    pub escapes: Vec<(String, String)>,
    /// Why an archive cannot be relied on: who loads it may see other members than are seen here.
    pub ambiguous: Option<String>,
}

/// Endings of names under which pickles go.
const ENDINGS: [&str; 20] = [
    "pdparams", "pdopt", "pdstates", "pdtensor", "info", "metadata", "distcp", "states", "pkl",
    "pickle", "pk", "p", "pt", "pth", "ckpt", "bin", "model", "joblib", "dill", "data",
];

/// Lists what the pickles in a file would do when its own framework loads it. Files are looked at
/// by content: a name can hide a pickle, and not make one of what is none.
///
/// # Errors
/// What reading the file gives.
pub fn pickles(path: &Path, blob: &Blob, limits: &Limits) -> Result<Pickles> {
    let mut found = Pickles::default();
    let head = blob.head(16)?;
    if !head.starts_with(b"PK\x03\x04") && !head.starts_with(b"PK\x05\x06") {
        let name = path.to_string_lossy();
        found.findings = in_file(&name, blob, limits)?.into_iter().map(|f| (None, f)).collect();
        return Ok(found);
    }
    let members = match numpy::members(blob, limits) {
        Ok(members) => members,
        Err(error) => {
            let named = pickle::scan(blob, limits)?.into_iter().filter(is_named);
            found.findings = named.map(|finding| (None, finding)).collect();
            // Torch's distributed checkpoints are archives and tensors end to end.
            let joined = path.extension().is_some_and(|ending| ending == "distcp");
            found.ambiguous = (!joined).then(|| error.to_string());
            return Ok(found);
        }
    };
    for member in &members {
        if let Err(error) = check_relative(&member.name) {
            found.escapes.push((member.name.clone(), error.to_string()));
        }
        match in_file(&member.name, &numpy::whole(member), limits) {
            Ok(findings) => {
                let inside = findings.into_iter().map(|f| (Some(member.name.clone()), f));
                found.findings.extend(inside);
            }
            // Deflated bytes that are none, or not those of the checksum.
            Err(error) => found.ambiguous = Some(format!("member `{}`: {error}", member.name)),
        }
    }
    Ok(found)
}

fn in_file(name: &str, blob: &Blob, limits: &Limits) -> Result<Vec<Finding>> {
    let head = blob.head(16)?;
    if numpy::is_npy(&head) {
        return in_array(&head, blob, limits);
    }
    let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
    let by_name = ENDINGS.iter().any(|known| ending.eq_ignore_ascii_case(known));
    if matches!(head.as_slice(), [0x80, 2..=5, ..]) || is_old(blob, limits) {
        return pickle::scan(blob, limits);
    }
    if by_name {
        return Ok(pickle::scan(blob, limits)?.into_iter().filter(is_named).collect());
    }
    Ok(Vec::new())
}

/// Whether something has a name that a person could have given it: in bytes that are no pickle, that
/// is what tells one that hides there from chance.
fn is_named(finding: &Finding) -> bool {
    let readable = |text: &str| {
        !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "._".contains(c))
    };
    readable(&finding.module) && readable(&finding.name)
}

/// Whether a file is a pickle of the protocols that have no signature: from the first byte to the
/// last.
fn is_old(blob: &Blob, limits: &Limits) -> bool {
    /// Nobody has written larger ones for a long time.
    const LARGEST: u64 = 64 << 20;
    blob.len() <= LARGEST
        && pickle::read(blob, 0, limits).is_ok_and(|tree| tree.end() == blob.len())
}

/// In an array of Python objects, the elements are a pickle.
fn in_array(head: &[u8], blob: &Blob, limits: &Limits) -> Result<Vec<Finding>> {
    let (start, size) = match *head {
        [_, _, _, _, _, _, 1, _, a, b, ..] => (10, u32::from_le_bytes([a, b, 0, 0])),
        [_, _, _, _, _, _, _, _, a, b, c, d, ..] => (12, u32::from_le_bytes([a, b, c, d])),
        _ => return Ok(Vec::new()),
    };
    let start = start + u64::from(size);
    if start >= blob.len() {
        return Ok(Vec::new());
    }
    // Not by what the header says of the elements, which might be spelled in another way: numbers
    // look like pickles as rarely as any bytes do, and then have no readable names.
    let first = blob.slice(start, blob.len() - start)?;
    match first.head(16)?.as_slice() {
        [0x80, 2..=5, ..] => {
            let mut findings = pickle::scan(&first, limits)?;
            findings.iter_mut().for_each(|finding| finding.offset += start);
            Ok(findings)
        }
        _ => Ok(Vec::new()),
    }
}
