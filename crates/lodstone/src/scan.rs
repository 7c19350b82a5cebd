//! What a model could do, or tell about its maker, if its own framework opened it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use lodstone_formats::pickle::Finding;
use lodstone_formats::{Effort, Error as FormatError, OpenOptions, pickles};
use lodstone_model::{AttributeValue, Model, Op, Program, some};
use lodstone_schema::{Conventions, Risk, conventions};
use lodstone_store::{Blob, Dir, Error as StoreError, check_relative, exists, is_dir, list_dir};
use serde::Serialize;

use crate::harmless::is_harmless;
use crate::{Error, Result, open_with};

/// What was found.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Scan {
    /// Version of this structure.
    pub schema: u32,
    /// Whether nothing was, in files that could all be looked into.
    pub clean: bool,
    /// How many files were looked at.
    pub files: usize,
    /// What was found, file by file.
    pub findings: Vec<Danger>,
    /// Files of a model that could not be looked into, with the reason: what they would do is not
    /// known.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unread: Vec<String>,
}

/// Something that a model could do or tell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Danger {
    /// What kind of thing it is.
    pub kind: DangerKind,
    /// The file it is in.
    pub file: PathBuf,
    /// Where in it: a byte of a pickle, an operator.
    pub place: String,
    /// What it is, in a sentence.
    pub message: String,
}

/// What a model could do or tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum DangerKind {
    /// A pickle imports or calls something that tensors do not need.
    Callable,
    /// An operator reads or writes files, runs code or talks to other machines.
    Operator,
    /// A name leads out of the directory of the model.
    Path,
    /// An archive says different things in different places.
    Archive,
    /// Paths, source lines and names of the machine that it was made on.
    Source,
}

/// Most files of a directory that are looked at.
const MOST_FILES: usize = 100_000;

/// Looks for what a model could do or tell, if its own framework opened it. A directory is looked
/// through with everything below it. Nothing is executed, and nothing compared with a seal.
///
/// # Errors
/// If there is nothing at `path`, it cannot be read, or it is one file that is no model.
pub fn scan(path: impl AsRef<Path>, options: &OpenOptions) -> Result<Scan> {
    let path = path.as_ref();
    let options = &OpenOptions { verify: false, ..options.clone() };
    let mut scan = Scan { schema: 1, ..Scan::default() };
    let mut effort = Effort::default();
    if is_dir(path) {
        let dir = Dir::open(path, options.links, options.mmap)?;
        let listing = dir.everything(MOST_FILES)?;
        for (name, why) in listing.others {
            scan.unread.push(format!("`{}`: {why}", path.join(name).display()));
        }
        for name in listing.files {
            let file = path.join(&name);
            match dir.open_file(&name) {
                Ok(Some(blob)) => drop(look(&file, &blob, options, &mut effort, &mut scan)?),
                Ok(None) => {}
                Err(StoreError::Escapes { why, .. }) => {
                    let message = format!("a link that leads out of the directory: {why}");
                    scan.add(DangerKind::Path, &file, "the file itself", message);
                }
                Err(error) => scan.unread.push(error.to_string()),
            }
        }
    } else if exists(path) {
        let model = look(path, &options.file(path)?, options, &mut effort, &mut scan)?;
        if let (Some(error), true) = (model, scan.findings.is_empty() && scan.unread.is_empty()) {
            return Err(error);
        }
    } else {
        let files = with_prefix(path)?;
        if files.is_empty() {
            // Nothing is there: opening it says what was looked for.
            open_with(path, options)?;
        }
        for file in files {
            look(&file, &options.file(&file)?, options, &mut effort, &mut scan)?;
        }
    }
    scan.clean = scan.findings.is_empty() && scan.unread.is_empty();
    Ok(scan)
}

/// The files that share a prefix.
fn with_prefix(path: &Path) -> Result<Vec<PathBuf>> {
    let directory = path.parent().unwrap_or(Path::new(""));
    let listed = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
    let Some(prefix) = path.file_name().and_then(|name| name.to_str()) else {
        return Ok(Vec::new());
    };
    let entries = list_dir(listed)?.into_iter().filter(|entry| !entry.is_dir);
    let names = entries
        .map(|entry| entry.name)
        .filter(|name| name.strip_prefix(prefix).is_some_and(|rest| rest.starts_with(['.', '-'])));
    Ok(names.map(|name| directory.join(name)).collect())
}

/// Looks at one file; gives why it could not be opened, if it is no model.
fn look(
    path: &Path,
    blob: &Blob,
    options: &OpenOptions,
    effort: &mut Effort,
    scan: &mut Scan,
) -> Result<Option<Error>> {
    scan.files += 1;
    // What cannot be read is not said to be clean.
    let found = match pickles(path, blob, &options.limits, effort) {
        Ok(found) => found,
        Err(error) => {
            scan.unread.push(error.to_string());
            return Ok(None);
        }
    };
    let calls = callables(&found.findings);
    let is_known = found.is_archive || !found.findings.is_empty();
    for (member, finding) in found.findings.iter().filter(|(_, finding)| finding.how == "limit") {
        let place =
            member.as_ref().map(|member| format!("member `{member}`, ")).unwrap_or_default();
        let (path, offset) = (path.display(), finding.offset);
        scan.unread.push(format!("`{path}`: {place}from byte {offset} on: {}", finding.name));
    }
    for (_, finding) in found.findings.iter().filter(|(_, f)| f.module == "pathlib") {
        if finding.how != "import" {
            let message = format!("a path of the machine it was made on: {}", finding.arguments);
            scan.add(DangerKind::Source, path, &format!("byte {}", finding.offset), message);
        }
    }
    for (place, message) in calls {
        scan.add(DangerKind::Callable, path, &place, message);
    }
    for (member, why) in &found.unread {
        let member =
            member.as_ref().map(|member| format!("member `{member}`: ")).unwrap_or_default();
        scan.unread.push(format!("`{}`: {member}{why}", path.display()));
    }
    for (name, why) in found.escapes {
        scan.add(DangerKind::Path, path, &format!("member `{name}`"), why);
    }
    if let Some(why) = found.ambiguous {
        let message = format!("who loads the archive may see other members: {why}");
        scan.add(DangerKind::Archive, path, "the archive", message);
    }
    let error = match open_with(path, options) {
        Ok(model) => {
            tells(path, &model, scan);
            return Ok(None);
        }
        Err(error) => error,
    };
    match &error {
        Error::Format(error) if escapes(error) => {
            scan.add(DangerKind::Path, path, "a name in it", error.to_string());
            Ok(None)
        }
        // What is no model does nothing; a pickle or an archive that is no model was looked through.
        Error::Format(FormatError::Unrecognized { .. } | FormatError::Unsupported { .. }) => {
            Ok((!is_known).then_some(error))
        }
        _ if is_known => Ok(None),
        _ => {
            scan.unread.push(error.to_string());
            Ok(None)
        }
    }
}

fn escapes(error: &FormatError) -> bool {
    match error {
        FormatError::Inside { source, .. } | FormatError::InRecord { source, .. } => {
            escapes(source)
        }
        FormatError::Store(error) => matches!(error, StoreError::Escapes { .. }),
        _ => false,
    }
}

impl Scan {
    fn add(&mut self, kind: DangerKind, file: &Path, place: &str, message: impl Into<String>) {
        let (file, place, message) = (file.to_path_buf(), place.to_owned(), message.into());
        let danger = Danger { kind, file, place, message };
        if !self.findings.contains(&danger) {
            self.findings.push(danger);
        }
    }
}

/// What a pickle would do, and the member of an archive that it is in.
type Found = (Option<String>, Finding);

/// What is imported and called beyond what tensors need: where first, and what.
fn callables(findings: &[Found]) -> Vec<(String, String)> {
    let mut by_name: BTreeMap<(&str, &str), Vec<&Found>> = BTreeMap::new();
    let does = |finding: &Finding| !matches!(finding.how, "persistent" | "limit");
    for entry in findings.iter().filter(|(_, finding)| does(finding)) {
        by_name.entry((&entry.1.module, &entry.1.name)).or_default().push(entry);
    }
    let mut dangers = Vec::new();
    for ((module, name), uses) in by_name {
        let Some((member, first)) = uses.first() else { continue };
        if is_harmless(module, name, uses.iter().map(|(_, finding)| finding)) {
            continue;
        }
        let place = match member {
            Some(member) => format!("member `{member}`, byte {}", first.offset),
            None => format!("byte {}", first.offset),
        };
        if let ("pathlib", "PosixPath" | "WindowsPath") = (module, name) {
            continue;
        }
        let what = match (first.how, module) {
            ("extension", _) => format!("the extension registered as number {name}"),
            (_, "") => format!("what is {name}"),
            _ => format!("`{module}.{name}`"),
        };
        let call = uses.iter().find(|(_, f)| !matches!(f.how, "import" | "extension" | "value"));
        let message = match call {
            Some((_, call)) if call.how == "patch" => {
                format!("sets attributes of {what}: {}", call.arguments)
            }
            Some((_, call)) if call.how == "build" => format!("calls {what}, sets its state"),
            Some((_, call)) => format!("calls {what} with {}", call.arguments),
            None => format!("imports {what}"),
        };
        dangers.push((first.offset, place, message));
    }
    dangers.sort();
    dangers.into_iter().map(|(_, place, message)| (place, message)).collect()
}

/// What a model itself does and tells.
fn tells(path: &Path, model: &Model, scan: &mut Scan) {
    if let Some(program) = &model.program {
        let conventions = conventions(program);
        operators(path, program, conventions, scan);
        let count = conventions.count_source(program);
        if count > 0 {
            let attribute = conventions.source.unwrap_or_default();
            let message = format!(
                "paths and source lines of the training script in `{attribute}`: {}",
                some(sources(program, attribute).iter().map(|line| format!("`{line}`")))
            );
            scan.add(DangerKind::Source, path, &format!("{count} operators"), message);
        }
        // Names of parameters are names of files where each has its own.
        let kept = program.vars().filter(|var| var.persistable);
        for var in kept {
            if let Err(StoreError::Escapes { why, .. }) = check_relative(&var.name) {
                let message = format!("saved under its name, it leads out of the directory: {why}");
                scan.add(DangerKind::Path, path, &format!("variable `{}`", var.name), message);
            }
        }
    }
    for (key, value) in &model.metadata {
        if is_private(value) {
            let message = format!("names a file of the machine it was made on: `{value}`");
            scan.add(DangerKind::Source, path, &format!("metadata `{key}`"), message);
        }
    }
}

fn operators(path: &Path, program: &Program, conventions: &Conventions, scan: &mut Scan) {
    let unknown = (conventions.unknown_operators)(program);
    for (number, block) in program.blocks.iter().enumerate() {
        for (index, op) in block.ops.iter().enumerate() {
            let place = format!("block {number}, operator {index} (`{}`)", op.kind);
            let risk = (conventions.risk)(&op.kind);
            if let Some(risk) = risk {
                scan.add(DangerKind::Operator, path, &place, risk.describe());
            } else if unknown.binary_search(&(op.domain.as_str(), op.kind.as_str())).is_ok() {
                let message = format!(
                    "is no operator of {}: {}",
                    conventions.framework,
                    Risk::Runs.describe()
                );
                scan.add(DangerKind::Operator, path, &place, message);
            }
            for (attribute, text) in texts(op, conventions) {
                if risk.is_some()
                    && let Err(StoreError::Escapes { why, .. }) = check_relative(&text)
                {
                    let message = format!("`{attribute}` is `{text}`: {why}");
                    // Most texts are no paths, and an empty one is none.
                    if text.contains(['/', '\\']) {
                        scan.add(DangerKind::Path, path, &place, message);
                    }
                } else if is_private(&text) {
                    let message = format!(
                        "`{attribute}` names a file of the machine it was made on: `{text}`"
                    );
                    scan.add(DangerKind::Source, path, &place, message);
                }
            }
        }
    }
}

/// The texts among the constants of an operator, but for where it was made.
fn texts(op: &Op, conventions: &Conventions) -> Vec<(String, String)> {
    let mut texts = Vec::new();
    for attribute in &op.attributes {
        if Some(attribute.name.as_str()) == conventions.source {
            continue;
        }
        let values = match &attribute.value {
            AttributeValue::String(value) => std::slice::from_ref(value),
            AttributeValue::Strings(values) => values,
            _ => continue,
        };
        texts.extend(values.iter().map(|value| (attribute.name.clone(), value.to_string())));
    }
    texts
}

/// The files of the training script.
fn sources(program: &Program, attribute: &str) -> Vec<String> {
    let lines =
        program.ops().filter_map(|op| op.attribute(attribute)).flat_map(|value| match value {
            AttributeValue::Strings(lines) => lines.as_slice(),
            _ => &[],
        });
    let mut files: Vec<String> = lines
        .filter_map(|line| {
            let line = line.to_string();
            let (_, rest) = line.split_once("File \"")?;
            Some(rest.split_once('"')?.0.to_owned())
        })
        .collect();
    files.sort();
    files.dedup();
    // The framework's own say less than those of who used it.
    let installed =
        |file: &String| file.contains("site-packages") || file.contains("dist-packages");
    files.sort_by_key(installed);
    files
}

/// Whether a text names a file as they are named on somebody's machine.
fn is_private(text: &str) -> bool {
    const TOPS: [&str; 8] = ["home", "root", "Users", "mnt", "data", "tmp", "workspace", "opt"];
    let drive = matches!(text.as_bytes(), [b'A'..=b'Z' | b'a'..=b'z', b':', b'\\' | b'/', ..]);
    let below = text.strip_prefix('/').and_then(|rest| rest.split_once('/'));
    drive || below.is_some_and(|(top, _)| TOPS.contains(&top))
}
