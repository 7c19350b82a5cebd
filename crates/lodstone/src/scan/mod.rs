//! Lists code-execution and information-leak risks of a model without loading it in its framework.
//!
//! A file is clean if every byte of it is understood and there are no findings. Other content is reported as unknown,
//! since a loader may interpret it in any way.

mod covered;
mod findings;
mod libraries;
mod model;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use globset::GlobSet;
use lodstone_formats::encoding::pickle::Finding;
use lodstone_formats::onnx::TRAINING;
use lodstone_formats::{Effort, Error as FormatError, OpenOptions, Part, Pickles, named, pickles};
use lodstone_model::Model;
use lodstone_store::{Blob, Dir, Error as StoreError, Location, Progress};
use serde::Serialize;

use self::covered::Covered;
use self::findings::Findings;
use self::libraries::library;
use crate::adapt::globs;
use crate::{Error, Result, open_with};

/// The result of a scan.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Scan {
    /// The version of this structure.
    pub schema: u32,
    /// The verdict.
    pub verdict: Verdict,
    /// Whether the verdict is [`Verdict::Clean`].
    pub clean: bool,
    /// The number of files scanned.
    pub files: usize,
    /// The number of findings.
    pub finding_count: usize,
    /// The first thousand findings, file by file.
    pub findings: Vec<Danger>,
    /// The number of further findings, of [ignored](ScanOptions::ignore_kinds) kinds.
    pub ignored_finding_count: usize,
    /// Imports of pickles that [an option](ScanOptions::allow_imports) accepts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub accepted: Vec<Accepted>,
    /// The number of files and archive members that are not understood.
    pub unknown_count: usize,
    /// The first of them.
    pub unknown: Vec<Unknown>,
    /// The number of those that are ignored, which do not count as unknown.
    pub ignored_count: usize,
    /// The first of them.
    pub ignored: Vec<Unknown>,
}

/// The verdict of a scan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Verdict {
    /// No findings, in files that are ignored or were understood to the last byte.
    #[default]
    Clean,
    /// There are findings. Some files may not have been understood either.
    Findings,
    /// No findings, but not everything was understood.
    Unknown,
}

/// A risk that a model poses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Danger {
    /// The kind of risk.
    pub kind: DangerKind,
    /// The file.
    pub file: PathBuf,
    /// The location in the file: a byte of a pickle, an operator.
    pub place: String,
    /// The description, in a sentence.
    pub message: String,
}

/// An import of a pickle that the user accepts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Accepted {
    /// The file.
    pub file: PathBuf,
    /// The member, if the file is an archive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub member: Option<String>,
    /// Module and name.
    pub name: String,
}

/// A file, or a member of an archive, that is not understood.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unknown {
    /// The file.
    pub file: PathBuf,
    /// The member, if the file is an archive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub member: Option<String>,
    /// The reason.
    pub reason: String,
}

/// The kind of a risk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum DangerKind {
    /// A pickle imports or calls something that tensors do not need.
    Callable,
    /// An operator reads or writes files, runs code or uses the network.
    Operator,
    /// Native code, or source code that is compiled when the model is loaded.
    Native,
    /// A name leads out of the directory of the model.
    Path,
    /// An archive has contradictory directories.
    Archive,
    /// Paths, source lines and names of the machine that wrote the model.
    Source,
}

impl DangerKind {
    /// All kinds.
    pub const ALL: &[Self] =
        &[Self::Callable, Self::Operator, Self::Native, Self::Path, Self::Archive, Self::Source];

    /// Returns the name, as in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Callable => "callable",
            Self::Operator => "operator",
            Self::Native => "native",
            Self::Path => "path",
            Self::Archive => "archive",
            Self::Source => "source",
        }
    }

    /// Returns a description of findings of this kind.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Callable => "a pickle imports or calls something that tensors do not need",
            Self::Operator => "an operator reads or writes files, runs code or uses the network",
            Self::Native => "native code runs when the model is loaded",
            Self::Path => "a name leads out of the directory of the model",
            Self::Archive => "readers of an archive may disagree about its contents",
            Self::Source => "paths, source lines or names of the machine that wrote the model",
        }
    }
}

/// The options of a scan.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ScanOptions {
    /// The options for opening files.
    pub open: OpenOptions,
    /// Patterns of paths, relative to the scanned directory, and of file names. Content there that is not
    /// understood is accepted; findings there are still reported.
    pub ignore: Vec<String>,
    /// Kinds of findings that are counted, but not reported.
    pub ignore_kinds: Vec<DangerKind>,
    /// Names `MODULE.NAME` of callables that pickles may import and call, with any arguments. Results may be given items
    /// and a state without reserved names. They may not be called, and no attribute may be taken from them.
    pub allow_imports: Vec<String>,
    /// The progress in bytes, which also cancels.
    pub progress: Progress,
}

lodstone_model::with_fields!(ScanOptions {
    with_open(open: OpenOptions),
    with_ignore(ignore: Vec<String>),
    with_ignore_kinds(ignore_kinds: Vec<DangerKind>),
    with_allow_imports(allow_imports: Vec<String>),
    with_progress(progress: Progress),
});

/// The version of [`Scan`].
const SCHEMA: u32 = 2;

/// The maximum number of files in a directory.
const MAX_FILES: usize = 100_000;

/// The reason of an unknown file that is in no known format.
const UNRECOGNIZED: &str = "unrecognized file format";

/// The maximum number of accepted imports that are kept.
const MAX_ACCEPTED: usize = 10_000;

/// The maximum number of unknown files that are kept.
const MAX_UNKNOWN: usize = 10_000;

/// Scans a model for code-execution and information-leak risks. A directory is scanned
/// recursively. Nothing is executed, and seals are not checked.
///
/// # Errors
/// If `path` does not exist or cannot be read, a pattern or the name of a callable is invalid, or the scan was cancelled.
pub fn scan(path: impl Into<Location>, options: &ScanOptions) -> Result<Scan> {
    let path = path.into();
    let effort = Effort::new(&options.progress).allowing(&options.allow_imports);
    let effort = effort.map_err(|name| Error::NotACallable { name })?;
    let mut look = Look {
        options: options.open.clone().with_verify(false).stopped_by(&options.progress),
        progress: &options.progress,
        effort,
        accepted: Vec::new(),
        files: 0,
        findings: Findings::without(options.ignore_kinds.clone()),
        unknown: Vec::new(),
        covered: Covered::default(),
    };
    let ignore = globs(&options.ignore)?;
    let mut root = path.clone();
    if path.is_dir()? {
        look.directory(&path)?;
    } else if path.exists()? {
        root = path.directory();
        look.file(&path, &look.options.file(&path)?)?;
    } else {
        root = path.directory();
        let files = with_prefix(&path)?;
        if files.is_empty() {
            // The path does not exist: opening it returns the error with the expected names.
            open_with(&path, &look.options)?;
        }
        for file in files {
            look.file(&file, &look.options.file(&file)?)?;
        }
    }
    look.finish(root.path(), &ignore)
}

/// Returns the files that share a prefix.
fn with_prefix(path: &Location) -> Result<Vec<Location>> {
    let Some(prefix) = path.name() else { return Ok(Vec::new()) };
    let directory = path.directory();
    let entries = directory.list()?.into_iter().filter(|entry| !entry.is_dir);
    let names = entries
        .map(|entry| entry.name)
        .filter(|name| name.strip_prefix(prefix).is_some_and(|rest| rest.starts_with(['.', '-'])));
    Ok(names.map(|name| directory.join(name)).collect())
}

/// A scan in progress.
struct Look<'a> {
    options: OpenOptions,
    progress: &'a Progress,
    effort: Effort,
    files: usize,
    findings: Findings,
    accepted: Vec<Accepted>,
    unknown: Vec<Pending>,
    covered: Covered,
}

/// Content that is not understood, and its bytes, which may be tensors of a model.
struct Pending {
    unknown: Unknown,
    blob: Option<Blob>,
}

/// Whether a reader recognized a file, and then found something else than its format has.
fn is_damage(error: &Error) -> bool {
    let Error::Format(error) = error else { return false };
    matches!(
        error.cause(),
        FormatError::Store(StoreError::Malformed { .. } | StoreError::OutOfRange { .. })
            | FormatError::Json { .. }
    )
}

impl Look<'_> {
    fn directory(&mut self, path: &Location) -> Result<()> {
        let dir = Dir::open(path, self.options.links, self.options.mmap)?;
        let listing = dir.everything(MAX_FILES)?;
        for (name, why) in listing.others {
            self.unknown(path.join(name).path(), None, why);
        }
        for name in listing.files {
            let file = path.join(&name);
            match dir.open_file(&name) {
                Ok(Some(blob)) => self.file(&file, &blob)?,
                Ok(None) => {}
                Err(StoreError::Escapes { why, .. }) => {
                    let message = format!("a link that leads out of the directory: {why}");
                    self.findings.add(DangerKind::Path, file.path(), "the file itself", message);
                }
                Err(error) => self.unknown(file.path(), None, error.to_string()),
            }
        }
        Ok(())
    }

    fn file(&mut self, path: &Location, blob: &Blob) -> Result<()> {
        self.files += 1;
        self.progress.advance(0)?;
        // A file that cannot be read is unknown.
        let found = match pickles(path, blob, &self.options.limits, &mut self.effort) {
            Ok(found) => found,
            Err(error @ FormatError::Store(StoreError::Cancelled)) => return Err(error.into()),
            Err(error) => {
                self.unknown(path.path(), None, error.to_string());
                return Ok(());
            }
        };
        self.pickled(path.path(), &found);
        let opened = open_with(path, &self.options);
        self.model(path.path(), &found, opened);
        Ok(self.progress.advance(blob.len())?)
    }

    /// Adds the findings of the pickles in a file, and of their container.
    fn pickled(&mut self, path: &Path, found: &Pickles) {
        let left = MAX_ACCEPTED.saturating_sub(self.accepted.len());
        self.accepted.extend(
            found.accepted.iter().take(left).cloned().map(|(member, name)| Accepted {
                file: path.to_path_buf(),
                member,
                name,
            }),
        );
        for (member, finding) in &found.findings {
            let offset = finding.offset;
            if finding.how == "limit" {
                let reason = format!("at byte {offset}: {}", finding.name);
                self.unknown(path, member.as_deref(), reason);
            } else if finding.how == "path" {
                let message = format!("a path on the machine that wrote it: {}", finding.arguments);
                let place = place_of(member.as_deref(), offset);
                self.findings.add(DangerKind::Source, path, &place, message);
            }
        }
        for (place, message) in callables(&found.findings) {
            self.findings.add(DangerKind::Callable, path, &place, message);
        }
        for (member, why) in &found.unread {
            self.unknown(path, member.as_deref(), why.as_str());
        }
        for (name, why) in &found.escapes {
            self.findings.add(DangerKind::Path, path, &format!("member `{name}`"), why.as_str());
        }
        for (member, effect) in &found.effects {
            let place = format!("member `{member}`, line {}", effect.line);
            let message = format!("calls `{}`: {}", effect.name, effect.what);
            self.findings.add(DangerKind::Operator, path, &place, message);
        }
        for member in &found.native {
            let place = member.as_ref().map(|member| format!("member `{member}`"));
            let place = place.unwrap_or_else(|| "the file itself".to_owned());
            let message = "native code, which runs when the model is loaded";
            self.findings.add(DangerKind::Native, path, &place, message);
        }
        if let Some(why) = &found.ambiguous {
            let message = format!("other readers may find other members: {why}");
            self.findings.add(DangerKind::Archive, path, "the archive", message);
        }
    }

    /// Adds the findings of a model, if the file is one, and the parts of it that are not understood.
    fn model(&mut self, path: &Path, found: &Pickles, opened: Result<Model>) {
        let mut reason = UNRECOGNIZED.to_owned();
        let mut read_members: fn(&str) -> bool = |_| false;
        match &opened {
            Ok(model) => {
                model::look(path, model, &self.options.limits, &mut self.findings);
                self.covered.add(model);
                if model.report.warnings.iter().any(|warning| warning == TRAINING) {
                    self.unknown(path, None, TRAINING);
                }
                read_members = named(&model.format).map_or(read_members, |it| it.reads_member);
            }
            Err(Error::Format(error)) if escapes(error) => {
                self.findings.add(DangerKind::Path, path, "a file name", error.to_string());
            }
            Err(Error::Format(FormatError::Unrecognized { .. })) => {}
            Err(error) => {
                reason = error.to_string();
                // The bytes may be text or a pickle, but a framework may read them as what they begin like.
                let is_understood = found.uninterpreted.iter().all(|part| part.member.is_some());
                let is_told = !found.findings.is_empty() || found.is_arrays;
                if is_understood && !is_told && is_damage(error) {
                    self.unknown(path, None, reason.as_str());
                }
            }
        }
        let is_read = |part: &Part| match &part.member {
            None => opened.is_ok(),
            Some(member) => read_members(member),
        };
        for (part, why) in found.improbable.iter().filter(|(part, _)| !is_read(part)) {
            self.pending(path, part, why);
        }
        for part in found.uninterpreted.iter().filter(|part| !is_read(part)) {
            self.pending(path, part, if part.member.is_none() { &reason } else { UNRECOGNIZED });
        }
    }

    fn unknown(&mut self, file: &Path, member: Option<&str>, reason: impl Into<String>) {
        let (file, member) = (file.to_path_buf(), member.map(str::to_owned));
        let unknown = Unknown { file, member, reason: reason.into() };
        self.unknown.push(Pending { unknown, blob: None });
    }

    /// Adds content that is not understood, unless it turns out to be tensors of a model.
    fn pending(&mut self, file: &Path, part: &Part, reason: &str) {
        let (file, member) = (file.to_path_buf(), part.member.clone());
        let unknown = Unknown { file, member, reason: reason.to_owned() };
        self.unknown.push(Pending { unknown, blob: part.bytes.clone() });
    }

    fn finish(self, root: &Path, ignore: &GlobSet) -> Result<Scan> {
        let mut scan = Scan { schema: SCHEMA, files: self.files, ..Scan::default() };
        for Pending { unknown, blob } in self.unknown {
            if let Some(blob) = blob
                && self.covered.is_all_of(&blob)?
            {
                continue;
            }
            let (count, list) = match is_ignored(&unknown, root, ignore) {
                true => (&mut scan.ignored_count, &mut scan.ignored),
                false => (&mut scan.unknown_count, &mut scan.unknown),
            };
            *count += 1;
            if list.len() < MAX_UNKNOWN {
                list.push(unknown);
            }
        }
        scan.accepted = self.accepted;
        scan.finding_count = self.findings.count;
        scan.ignored_finding_count = self.findings.ignored;
        scan.findings = self.findings.kept;
        scan.verdict = match (scan.finding_count, scan.unknown_count) {
            (0, 0) => Verdict::Clean,
            (0, _) => Verdict::Unknown,
            _ => Verdict::Findings,
        };
        scan.clean = scan.verdict == Verdict::Clean;
        Ok(scan)
    }
}

/// Returns whether a pattern matches the path of a file below `root`, its name, or the path of a member after that
/// of the archive.
fn is_ignored(unknown: &Unknown, root: &Path, ignore: &GlobSet) -> bool {
    let path = unknown.file.strip_prefix(root).unwrap_or(&unknown.file);
    let is_named = || unknown.file.file_name().is_some_and(|name| ignore.is_match(name));
    let member = || {
        let member = unknown.member.as_ref()?;
        Some(ignore.is_match(path.join(member)))
    };
    ignore.is_match(path) || is_named() || member().unwrap_or(false)
}

fn escapes(error: &FormatError) -> bool {
    matches!(error.cause(), FormatError::Store(StoreError::Escapes { .. }))
}

/// A finding in a pickle, and the archive member that holds the pickle.
type Found = (Option<String>, Finding);

/// Returns the location of a byte in a pickle.
fn place_of(member: Option<&str>, offset: u64) -> String {
    match member {
        Some(member) => format!("member `{member}`, byte {offset}"),
        None => format!("byte {offset}"),
    }
}

/// Returns the imports and calls: the first location of each, and a description.
fn callables(findings: &[Found]) -> Vec<(String, String)> {
    let mut by_name: BTreeMap<(&str, &str), Vec<&Found>> = BTreeMap::new();
    let does = |finding: &Finding| !matches!(finding.how, "persistent" | "limit" | "path");
    for entry in findings.iter().filter(|(_, finding)| does(finding)) {
        by_name.entry((&entry.1.module, &entry.1.name)).or_default().push(entry);
    }
    let mut dangers = Vec::new();
    for ((module, name), uses) in by_name {
        let Some((member, first)) = uses.first() else { continue };
        let place = place_of(member.as_deref(), first.offset);
        let what = match (first.how, module) {
            ("extension", _) => format!("the extension registered as number {name}"),
            (_, "") => format!("the value {name}"),
            _ => format!("`{module}.{name}`"),
        };
        let call = uses.iter().find(|(_, f)| !matches!(f.how, "import" | "extension" | "value"));
        let message = match call {
            Some((_, call)) if call.how == "patch" => {
                format!("sets attributes of {what}: {}", call.arguments)
            }
            Some((_, call)) if call.how == "build" => format!("calls {what} and sets its state"),
            Some((_, call)) => format!("calls {what} with {}", call.arguments),
            None => format!("imports {what}"),
        };
        let message = match library(module) {
            Some(library) => format!(
                "{message}, of {}: its code runs when the file is loaded ({})",
                library.name, library.instead
            ),
            None => message,
        };
        dangers.push((first.offset, place, message));
    }
    dangers.sort();
    dangers.into_iter().map(|(_, place, message)| (place, message)).collect()
}
