//! What a loader does with a file, whatever the file is called, and whether every byte of it is
//! understood.
//!
//! A file, or a member of an archive, is understood if all of its bytes belong to one of these:
//!
//! | what | where |
//! |---|---|
//! | pickles end to end, without persistent identifiers and extension codes | `look` |
//! | an archive (zip, tar) whose members are understood, and nothing beside them | `look` |
//! | something compressed (gzip, zlib) of which that holds | `compressed` |
//! | an array of NumPy: numbers, or objects that are such a pickle | `look` |
//! | a pickle, and numbers in the places that it names | [`Outside`] |
//! | text, or nothing | `text` |
//!
//! and if no unpickler of CPython that begins at the first byte of it imports anything before it fails.
//! The readers of the formats recognize all other models; everything else is unknown.

mod compressed;
mod look;
mod text;

use std::collections::BTreeMap;

use lodstone_model::Limits;
use lodstone_store::{Blob, Location, Progress};

use self::look::{Look, Place};
use crate::encoding::pickle::{self, Finding, Loads, Steps, Tree};
use crate::{Error, Result};

/// What the pickles in a file would do, and what is not known of it.
#[derive(Clone, Debug, Default)]
pub struct Pickles {
    /// What they would import and call that tensors do not need, each with the member of an archive that
    /// it is in.
    pub findings: Vec<(Option<String>, Finding)>,
    /// Whether the file is an archive whose members were looked at.
    pub is_archive: bool,
    /// Names in an archive that lead out of where it is unpacked, with the rule they break.
    pub escapes: Vec<(String, String)>,
    /// Members, or the file itself, that could not be looked into, or are not what they should be, with
    /// the reason.
    pub unread: Vec<(Option<String>, String)>,
    /// Members, or the file itself, that are none of what is looked into here. They may be models.
    pub uninterpreted: Vec<Option<String>>,
    /// Members, or the file itself, by which a loader of pickles imports something that has no name of a
    /// module, before it fails: texts, mostly.
    pub improbable: Vec<(Option<String>, String)>,
    /// Why an archive cannot be relied on: who loads it may see other members than are seen here.
    pub ambiguous: Option<String>,
}

/// How a framework keeps the numbers of a model outside of the pickle that names them.
#[derive(Debug)]
pub(crate) struct Outside {
    /// The name of a member of an archive that is such a pickle.
    pub(crate) pickle: &'static str,
    /// The members that are the numbers of a pickle, by name, with their sizes in bytes.
    pub(crate) members: fn(&str, &Tree) -> Option<BTreeMap<String, u64>>,
    /// Whether [`is_file`](Self::is_file) needs pickle number N of a file, given that it needs those before it.
    pub(crate) keeps: fn(usize, &Tree) -> bool,
    /// Whether a file is pickles and the numbers that they name, to the last byte.
    pub(crate) is_file: fn(&Blob, &Loads) -> bool,
    /// What a member's name contains if the archive is a program.
    pub(crate) code: &'static str,
    /// Whether a module belongs to such a program, rather than to Python.
    pub(crate) is_own_module: fn(&str) -> bool,
    /// What such a program is, for messages.
    pub(crate) code_is: &'static str,
    /// Endings of the names of files that are archives and tensors end to end.
    pub(crate) joined: &'static [&'static str],
}

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

/// What a scan may still do for small files that become large ones, however many there are. What a file
/// justifies by its size is beside that.
#[derive(Debug)]
pub struct Effort {
    /// Bytes that may be inflated.
    inflated: u64,
    /// Opcodes of pickles that may be looked at.
    steps: Steps,
}

impl Default for Effort {
    fn default() -> Self {
        Self::new(&Progress::default())
    }
}

impl Effort {
    /// What one scan may do, until `progress` is cancelled.
    pub fn new(progress: &Progress) -> Self {
        let steps = Steps { left: pickle::STEPS, progress: progress.clone() };
        Self { inflated: INFLATED, steps }
    }
}

/// Lists what the pickles in a file would do when its own framework loads it, and what of it is not
/// understood. Files are looked at by content: a name can hide a pickle, and not make one of what is none.
/// Files that are scanned together share an `effort`.
///
/// # Errors
/// What reading the file gives; that the scan was cancelled.
pub fn pickles(
    path: &Location,
    blob: &Blob,
    limits: &Limits,
    effort: &mut Effort,
) -> Result<Pickles> {
    let values = usize::try_from(blob.len().saturating_mul(VALUES_RATIO)).unwrap_or(usize::MAX);
    let values = values.saturating_add(VALUES);
    let limits = limits.clone().with_nodes(limits.nodes.min(values));
    let steps = effort.steps.left.saturating_add(pickle::steps_of(blob));
    let left = Effort {
        inflated: effort.inflated.saturating_add(blob.len().saturating_mul(RATIO)),
        steps: Steps { left: steps, progress: effort.steps.progress.clone() },
    };
    let mut look = Look { found: Pickles::default(), limits: &limits, left };
    let name = path.path().to_string_lossy();
    let looked = look.at(&Place { name: &name, member: None, blob, left: DEEP, numbers: None });
    effort.inflated = effort.inflated.min(look.left.inflated);
    effort.steps.left = effort.steps.left.min(look.left.steps.left);
    effort.steps.progress.advance(0).map_err(Error::from)?;
    looked.map(|()| look.found)
}
