//! Reports the effects of loading a file, regardless of its name, and whether every byte of it is
//! understood.
//!
//! A file or archive member is understood if all of its bytes belong to one of these:
//!
//! | contents | module |
//! |---|---|
//! | consecutive pickles, without persistent identifiers and extension codes | `look` |
//! | an archive (zip, tar) whose members are understood, without other bytes | `look` |
//! | compressed data (gzip, zlib, bzip2, xz, lzma, zstd, lz4) that is understood | `compressed` |
//! | a NumPy array: numeric, or of objects in such a pickle | `look` |
//! | a pickle, and numeric data at the locations that it refers to | [`Outside`] |
//! | a pickle of joblib, with the elements of its arrays inside of it | `look` |
//! | a file of a format with parts for other software, if these are understood | [`Opaque`] |
//! | the code of a program whose language has no effects except by operators that are known | [`Outside`] |
//! | text, or an empty file | `text` |
//!
//! and if no unpickler of CPython that starts at its first byte imports anything before it fails.
//! The readers of the formats recognize all other models; everything else is unknown.
//!
//! A missing signature never makes a file clean.

mod compressed;
mod look;
mod text;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lodstone_model::Limits;
use lodstone_store::{Blob, Location, Progress};

use self::look::{Entry, Known, Look};
use crate::encoding::pickle::{self, Allowed, Finding, Loads, Steps, Tree};
use crate::error::{Error, Result};
use crate::lengths::at_most;

/// The effects of the pickles in a file, and the parts of the file that are unknown.
#[derive(Clone, Debug, Default)]
pub struct Pickles {
    /// Imports and calls that tensors do not need, each with its archive
    /// member.
    pub findings: Vec<(Option<String>, Finding)>,
    /// Imports that the user accepts, each with its archive member.
    pub accepted: BTreeSet<(Option<String>, String)>,
    /// Whether the file is an archive whose members were inspected.
    pub is_archive: bool,
    /// Whether the file is arrays one after the other, of which readers take the first one.
    pub is_arrays: bool,
    /// Names in an archive that lead out of the directory it is unpacked to, with the violated rule.
    pub escapes: Vec<(String, String)>,
    /// Members, or the file itself, that could not be inspected, or are invalid, with
    /// the reason.
    pub unread: Vec<(Option<String>, String)>,
    /// Members, or the file itself, that are of no kind that the scan inspects. They may be models.
    pub uninterpreted: Vec<Part>,
    /// Members, or the file itself, for which an unpickler imports an implausible module name
    /// before it fails: mostly text files.
    pub improbable: Vec<(Part, String)>,
    /// Members, or the file itself, that are native code, or are compiled to it, which a loader runs.
    pub native: Vec<Option<String>>,
    /// Effects of programs in archives, each with its member.
    pub effects: Vec<(String, CodeEffect)>,
    /// The reason why an archive is ambiguous: its loader may see other members.
    pub ambiguous: Option<String>,
}

/// A member of an archive, or a file.
#[derive(Clone, Debug)]
pub struct Part {
    /// The name of the member; `None` for a file.
    pub member: Option<String>,
    /// The bytes, if they are in the file as they are.
    pub bytes: Option<Blob>,
}

/// An effect of a program on files, other machines or code outside of its framework.
#[derive(Clone, Debug)]
pub struct CodeEffect {
    /// The line of the code, counted from 1.
    pub line: u32,
    /// The operator.
    pub name: String,
    /// What the operator does.
    pub what: &'static str,
}

/// The way in which a framework stores numeric data outside of the pickle that refers to it.
#[derive(Debug)]
pub(crate) struct Outside {
    /// Returns where the data of a pickle is, by the name of its archive member and those of all members; `None` if the
    /// member is no such pickle.
    pub(crate) place: fn(&str, &BTreeSet<&str>) -> Option<Place>,
    /// Returns the members that hold the data of a pickle, by name, with their sizes in bytes.
    pub(crate) members: fn(&Place, &Tree) -> Option<BTreeMap<String, u64>>,
    /// Returns whether [`is_file`](Self::is_file) needs pickle number N of a file, given that it needs those before it.
    pub(crate) keeps: fn(usize, &Tree) -> bool,
    /// Returns whether a file consists exactly of pickles and their data.
    pub(crate) is_file: fn(&Blob, &Loads) -> bool,
    /// Returns whether a tape archive with these members has pickles and numeric data in turn in each of them.
    pub(crate) is_tape: fn(&BTreeSet<&str>) -> bool,
    /// Returns the numeric data in a member of such an archive, by name; `None` if the member has anything else, apart from
    /// the pickles that it reads.
    pub(crate) elements: fn(&str, &Blob, &mut Read<'_>) -> Option<Parts>,
    /// Returns the modules that belong to the programs in an archive instead of Python, by the names of all members.
    pub(crate) own_modules: fn(&BTreeSet<&str>) -> BTreeSet<String>,
    /// Returns the members that the loader of a package imports in place of modules of Python, each with its module, by the
    /// names of all members.
    pub(crate) shadows: fn(&BTreeSet<&str>) -> Vec<(String, String)>,
    /// Returns whether a member of an archive is a file of such a program.
    pub(crate) is_code: fn(&str) -> bool,
    /// Returns the effects of such a file, or the reason why it is not understood.
    pub(crate) effects: fn(&str) -> std::result::Result<Vec<CodeEffect>, String>,
    /// Extensions of files that are concatenated archives and tensors.
    pub(crate) joined: &'static [&'static str],
    /// Returns whether a member of an archive is native code, or is compiled to it, by its name.
    pub(crate) is_native: fn(&str) -> bool,
}

/// Parts of a file, by name.
pub(crate) type Parts = Vec<(String, Blob)>;

/// Reads the pickle at an offset; `None` if it may raise.
pub(crate) type Read<'a> = dyn FnMut(u64) -> Option<Tree> + 'a;

/// Where an archive has the data of a pickle: in members with names `{before}KEY{after}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The folder of the program that the pickle belongs to.
    pub(crate) folder: String,
    pub(crate) before: String,
    pub(crate) after: &'static str,
}

/// The parts of a file that its format does not describe.
#[derive(Debug)]
pub(crate) struct Opaque {
    /// Parts that other software interprets, by name.
    pub(crate) parts: Parts,
    /// The first range that belongs to no part of the format and is not zero: its start and end.
    pub(crate) unread: Option<(u64, u64)>,
}

/// Maximum levels of nested archives.
const MAX_ARCHIVE_DEPTH: usize = 3;

/// Maximum bytes to inflate of a deflated member.
const MAX_INFLATED: u64 = 256 << 20;

/// The number of bytes that a scan may inflate, including nested members, in addition to [`RATIO`] for each
/// byte of a file: nested archives multiply the time.
const INFLATED: u64 = 256 << 20;

/// The number of bytes to inflate per byte of a file: pickles deflate to a third of their size.
const RATIO: u64 = 4;

/// The number of values of a pickle in a small file: deflated, a byte can hold a thousand.
const VALUES: usize = 1 << 20;

/// The number of values per byte of the file.
const VALUES_RATIO: u64 = 16;

/// The remaining work of a scan for small files that expand to large ones, for all files together. Work that is
/// proportional to the size of a file is not counted.
#[derive(Debug)]
pub struct Effort {
    /// The remaining bytes to inflate.
    inflated: u64,
    /// The remaining opcodes of pickles.
    steps: Steps,
}

impl Default for Effort {
    fn default() -> Self {
        Self::new(&Progress::default())
    }
}

impl Effort {
    /// Creates the budget of one scan, which `progress` can cancel.
    pub fn new(progress: &Progress) -> Self {
        let progress = progress.clone();
        let steps = Steps { left: pickle::STEPS, progress, ..Steps::default() };
        Self { inflated: INFLATED, steps }
    }

    /// Accepts imports of pickles by names `MODULE.NAME`, as values and in calls. Their results may be given items and a
    /// state, without reserved names; they are not called.
    ///
    /// # Errors
    /// Returns the first name that is not of this form.
    pub fn allowing(mut self, names: &[String]) -> std::result::Result<Self, String> {
        self.steps.allowed = Arc::new(Allowed::parse(names).map_err(Clone::clone)?);
        Ok(self)
    }
}

/// Lists the effects of the pickles in a file when its own framework loads it, and the parts of it that are not
/// understood. Files are inspected by content: a name can hide a pickle, but does not make another file one.
/// Files that are scanned together share an `effort`.
///
/// # Errors
/// Fails if reading the file fails, or the scan is cancelled.
pub fn pickles(
    path: &Location,
    blob: &Blob,
    limits: &Limits,
    effort: &mut Effort,
) -> Result<Pickles> {
    let values = at_most(blob.len().saturating_mul(VALUES_RATIO), usize::MAX);
    let values = values.saturating_add(VALUES);
    let limits = limits.clone().with_nodes(limits.nodes.min(values));
    let steps = effort.steps.left.saturating_add(pickle::steps_of(blob));
    let left = Effort {
        inflated: effort.inflated.saturating_add(blob.len().saturating_mul(RATIO)),
        steps: Steps { left: steps, ..effort.steps.clone() },
    };
    let mut look = Look { found: Pickles::default(), limits: &limits, left };
    let name = path.path().to_string_lossy();
    let known = Known::Nothing;
    let looked =
        look.at(&Entry { name: &name, member: None, blob, left: MAX_ARCHIVE_DEPTH, known });
    effort.inflated = effort.inflated.min(look.left.inflated);
    effort.steps.left = effort.steps.left.min(look.left.steps.left);
    effort.steps.progress.advance(0).map_err(Error::from)?;
    looked.map(|()| look.found)
}
