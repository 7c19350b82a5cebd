//! Every pickle in a file, whatever it is called: alone, in an archive, in an array of objects.

use std::path::Path;

use lodstone_model::Limits;
use lodstone_store::{Blob, check_relative};

use crate::pickle::{self, Finding};
use crate::{Error, Result, numpy, tar, zip};

/// What the pickles in a file would do, and what is odd about what holds them.
#[derive(Clone, Debug, Default)]
pub struct Pickles {
    /// What they would import and call, each with the member of an archive that it is in.
    pub findings: Vec<(Option<String>, Finding)>,
    /// Whether the file is an archive whose members were looked at.
    pub is_archive: bool,
    /// Names in an archive that lead out of where it is unpacked, with the rule they break.
    pub escapes: Vec<(String, String)>,
    /// Members, or the file itself, that could not be looked into, with the reason.
    pub unread: Vec<(Option<String>, String)>,
    /// Why an archive cannot be relied on: who loads it may see other members than are seen here.
    pub ambiguous: Option<String>,
}

/// Endings of names under which pickles go.
const ENDINGS: [&str; 20] = [
    "pdparams", "pdopt", "pdstates", "pdtensor", "info", "metadata", "distcp", "states", "pkl",
    "pickle", "pk", "p", "pt", "pth", "ckpt", "bin", "model", "joblib", "dill", "data",
];

/// Levels of archives in archives that are looked into.
const DEEP: usize = 3;

/// Bytes of a deflated member that are inflated to be looked into.
const LARGEST: u64 = 256 << 20;

/// Bytes that are inflated in a scan at most, members of members among them, beside [`RATIO`] for each
/// byte of a file: archives in archives multiply, and so does the time.
const INFLATED: u64 = 256 << 20;

/// Bytes that are inflated for each byte of a file: pickles take a third of themselves.
const RATIO: u64 = 4;

/// Values of a pickle in a small file: deflated, they are a thousand for each byte.
const VALUES: usize = 1 << 20;

/// The same for each byte of the file.
const VALUES_RATIO: u64 = 16;

/// Bytes of numbers that are looked at, deflated: who loads them loads no pickle.
const NUMBERS: u64 = 1 << 20;

/// What a scan may still do for small files that become large ones, however many there are. What a file
/// justifies by its size is beside that.
#[derive(Debug)]
pub struct Effort {
    /// Bytes that may be inflated.
    inflated: u64,
    /// Opcodes of pickles that may be looked at.
    steps: u64,
}

impl Default for Effort {
    fn default() -> Self {
        Self { inflated: INFLATED, steps: pickle::STEPS }
    }
}

/// Lists what the pickles in a file would do when its own framework loads it. Files are looked at
/// by content: a name can hide a pickle, and not make one of what is none. Files that are scanned
/// together share an `effort`.
///
/// # Errors
/// What reading the file gives.
pub fn pickles(path: &Path, blob: &Blob, limits: &Limits, effort: &mut Effort) -> Result<Pickles> {
    let values = usize::try_from(blob.len().saturating_mul(VALUES_RATIO)).unwrap_or(usize::MAX);
    let values = values.saturating_add(VALUES);
    let limits = Limits { nodes: limits.nodes.min(values), ..*limits };
    let left = Effort {
        inflated: effort.inflated.saturating_add(blob.len().saturating_mul(RATIO)),
        steps: effort.steps.saturating_add(pickle::steps_of(blob)),
    };
    let mut look = Look { found: Pickles::default(), limits: &limits, left };
    let looked = look.at(&Place { name: &path.to_string_lossy(), member: None, blob, left: DEEP });
    effort.inflated = effort.inflated.min(look.left.inflated);
    effort.steps = effort.steps.min(look.left.steps);
    looked.map(|()| look.found)
}

/// A look into a file, and everything in it.
struct Look<'a> {
    found: Pickles,
    limits: &'a Limits,
    left: Effort,
}

/// A file, or a member of an archive.
struct Place<'a> {
    /// What it is called where it is.
    name: &'a str,
    /// What it is called from outside, if it is a member.
    member: Option<&'a str>,
    blob: &'a Blob,
    /// How many levels of archives may be in it.
    left: usize,
}

impl Look<'_> {
    fn at(&mut self, place: &Place<'_>) -> Result<()> {
        let Place { name, blob, left, .. } = *place;
        let block = tar::BLOCK as u64;
        // What is deflated may be damaged right there.
        let head = self.inflated(blob, block)?.0.head(block)?;
        let is_zip = head.starts_with(b"PK\x03\x04") || head.starts_with(b"PK\x05\x06");
        if let Some(how) = compressed(&head, name) {
            self.unread(place, format!("it is compressed by {how}: what is in it is not known"));
        } else if (is_zip || tar::is_tar(&head)) && left == 0 {
            self.unread(place, "it is an archive in archives in an archive".to_owned());
        } else if is_zip || tar::is_tar(&head) {
            let (there, damage) = self.inflated(blob, LARGEST)?;
            damage.map_or(Ok(()), Err)?;
            if there.len() < blob.len() {
                let what = format!("it is an archive of {} bytes, itself deflated", blob.len());
                self.unread(place, what);
                return Ok(());
            }
            let place = &Place { blob: &there, ..*place };
            if is_zip {
                return self.members_of_zip(place);
            }
            let inside = tar::members(&there, self.limits)?;
            self.found.is_archive = true;
            self.found.ambiguous = inside.ambiguous.or(self.found.ambiguous.take());
            for (name, data) in inside.members {
                self.at_member(place, &name, &data);
            }
        } else {
            let numbers = is_numbers(&head, blob).unwrap_or(false);
            let most = if numbers { NUMBERS } else { LARGEST };
            let (there, damage) = self.inflated(blob, most)?;
            let (all, some) = (blob.len(), there.len());
            if some < all && (some < most || most == LARGEST) && damage.is_none() {
                self.unread(place, format!("of its {all} bytes, deflated, {some} were looked at"));
            }
            let findings = in_file(name, &head, &there, self.limits, &mut self.left.steps)?;
            self.add(place, findings);
            damage.map_or(Ok(()), Err)?;
        }
        Ok(())
    }

    /// What is deflated in memory, up to `most` bytes, and why there is no more if it is damaged there.
    /// It is inflated from the beginning whenever somebody goes back, as who looks for something does.
    fn inflated(&mut self, blob: &Blob, most: u64) -> Result<(Blob, Option<Error>)> {
        const PIECE: u64 = 64 << 10;
        if blob.file_range().is_some() || blob.in_memory().is_some() {
            return Ok((blob.clone(), None));
        }
        let size = blob.len().min(most).min(self.left.inflated);
        self.left.inflated -= size;
        let (mut bytes, mut damage) = (Vec::new(), None);
        let (mut at, mut step) = (0, PIECE);
        while at < size && step > 0 {
            let piece = blob.slice(at, step.min(size - at))?;
            match piece.read() {
                Ok(piece) => bytes.extend_from_slice(&piece),
                // Up to the very byte: a loader may act on it before it knows of the damage.
                Err(error) => {
                    damage = Some(error.into());
                    step = if at <= self.left.inflated { step / 2 } else { 0 };
                    self.left.inflated = self.left.inflated.saturating_sub(at);
                    continue;
                }
            }
            at += piece.len();
        }
        Ok((Blob::memory(bytes), damage))
    }

    fn members_of_zip(&mut self, place: &Place<'_>) -> Result<()> {
        let Place { name, blob, .. } = *place;
        let members = match zip::members(blob, self.limits) {
            Ok(members) => members,
            Err(error) => {
                let findings = pickle::scan_within(blob, self.limits, &mut self.left.steps)?;
                self.add(place, findings.into_iter().filter(is_likely).collect());
                // Torch's distributed checkpoints are archives and tensors end to end.
                if !ending_of(name).eq_ignore_ascii_case("distcp") {
                    self.found.ambiguous = Some(error.to_string());
                }
                return Ok(());
            }
        };
        self.found.is_archive = true;
        for inner in &members {
            self.at_member(place, &inner.name, &inner.whole());
        }
        Ok(())
    }

    fn at_member(&mut self, archive: &Place<'_>, name: &str, blob: &Blob) {
        let member = match archive.member {
            Some(outer) => format!("{outer}/{name}"),
            None => name.to_owned(),
        };
        if let Err(error) = check_relative(name) {
            self.found.escapes.push((member.clone(), error.to_string()));
        }
        let place = Place { name, member: Some(&member), blob, left: archive.left - 1 };
        if let Err(error) = self.at(&place) {
            // Deflated bytes that are none, or not those of the checksum.
            self.found.ambiguous = Some(format!("member `{member}`: {error}"));
        }
    }

    fn add(&mut self, place: &Place<'_>, findings: Vec<Finding>) {
        let member = place.member.map(str::to_owned);
        self.found.findings.extend(findings.into_iter().map(|finding| (member.clone(), finding)));
    }

    fn unread(&mut self, place: &Place<'_>, why: String) {
        self.found.unread.push((place.member.map(str::to_owned), why));
    }
}

/// How bytes are compressed, if they are. Two bytes tell of zlib, which only some names make likely.
fn compressed(head: &[u8], name: &str) -> Option<&'static str> {
    const STARTS: [(&[u8], &str); 6] = [
        (b"\x1f\x8b\x08", "gzip"),
        (b"BZh", "bzip2"),
        (b"\xfd7zXZ\0", "xz"),
        (b"\x28\xb5\x2f\xfd", "zstd"),
        (b"\x04\x22\x4d\x18", "lz4"),
        (b"7z\xbc\xaf\x27\x1c", "7-zip"),
    ];
    let by_start = STARTS.iter().find(|(start, _)| head.starts_with(start)).map(|(_, how)| *how);
    let by_name = || match head {
        [0x78, 0x01 | 0x5e | 0x9c | 0xda, ..] => Some("zlib"),
        [0x5d, 0, 0, ..] => Some("lzma"),
        _ => None,
    };
    by_start.or_else(|| has_pickle_ending(name).then(by_name).flatten())
}

fn ending_of(name: &str) -> &str {
    name.rsplit_once('.').map_or("", |(_, ending)| ending)
}

fn has_pickle_ending(name: &str) -> bool {
    ENDINGS.iter().any(|known| ending_of(name).eq_ignore_ascii_case(known))
}

fn in_file(
    name: &str,
    head: &[u8],
    blob: &Blob,
    limits: &Limits,
    steps: &mut u64,
) -> Result<Vec<Finding>> {
    if numpy::is_npy(head) {
        return in_array(head, blob, limits, steps);
    }
    if matches!(head, [0x80, 2..=5, ..]) || is_old(blob, limits, steps) {
        return pickle::scan_within(blob, limits, steps);
    }
    if has_pickle_ending(name) {
        let findings = pickle::scan_within(blob, limits, steps)?.into_iter();
        return Ok(findings.filter(is_likely).collect());
    }
    Ok(pickle::scan_calls_within(blob, limits, steps))
}

/// Whether something has a name that a person could have given it: in bytes that are no pickle, that
/// is what tells one that hides there from chance. That not all was looked at is no chance.
fn is_likely(finding: &Finding) -> bool {
    let readable = |text: &str| {
        !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "._".contains(c))
    };
    finding.how == "limit" || (readable(&finding.module) && readable(&finding.name))
}

/// Whether a file is a pickle of the protocols that have no signature: from the first byte to the
/// last.
fn is_old(blob: &Blob, limits: &Limits, steps: &mut u64) -> bool {
    /// Nobody has written larger ones for a long time.
    const LARGEST: u64 = 64 << 20;
    blob.len() <= LARGEST
        && pickle::read_within(blob, 0, limits, steps).is_ok_and(|tree| tree.end() == blob.len())
}

/// In an array of Python objects, the elements are a pickle.
fn in_array(head: &[u8], blob: &Blob, limits: &Limits, steps: &mut u64) -> Result<Vec<Finding>> {
    let Some((start, elements)) = elements(head, blob)? else { return Ok(Vec::new()) };
    let mut findings = match are_objects(head, &elements)? {
        true => pickle::scan_within(&elements, limits, steps)?,
        false => pickle::scan_calls_within(&elements, limits, steps),
    };
    findings.iter_mut().for_each(|finding| finding.offset += start);
    Ok(findings)
}

/// Whether a file is an array of anything but objects.
fn is_numbers(head: &[u8], blob: &Blob) -> Result<bool> {
    if !numpy::is_npy(head) {
        return Ok(false);
    }
    Ok(match elements(head, blob)? {
        Some((_, elements)) => !are_objects(head, &elements)?,
        None => true,
    })
}

/// The elements of an array, and where they begin; nothing if there are none.
fn elements(head: &[u8], blob: &Blob) -> Result<Option<(u64, Blob)>> {
    let (start, size) = match *head {
        [_, _, _, _, _, _, 1, _, a, b, ..] => (10, u32::from_le_bytes([a, b, 0, 0])),
        [_, _, _, _, _, _, _, _, a, b, c, d, ..] => (12, u32::from_le_bytes([a, b, c, d])),
        _ => return Ok(None),
    };
    let start = start + u64::from(size);
    let there = blob.len().checked_sub(start).filter(|left| *left > 0);
    Ok(there.map(|left| blob.slice(start, left)).transpose()?.map(|elements| (start, elements)))
}

/// Whether elements are a pickle. Not only by what the header says of them, which might be spelled in
/// another way: numbers look like pickles as rarely as any bytes do, and then have no readable names.
fn are_objects(head: &[u8], elements: &Blob) -> Result<bool> {
    let said = head.windows(2).any(|pair| matches!(pair, b"O'" | b"O\""));
    Ok(said || matches!(elements.head(16)?.as_slice(), [0x80, 2..=5, ..]))
}
