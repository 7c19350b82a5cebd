//! Lists what a pickle would import and call, without doing either, however damaged it is.

use lodstone_model::Limits;
use lodstone_store::Blob;

use super::known::{Allowed, Suspects, is_known, is_wrapper};
use super::machine::{Found, Steps, Wrapped, read_as_cpython, read_as_joblib, read_leniently};
use super::opcode::Span;
use super::tree::{How, Id, Node, Object, Tree};
use crate::error::Result;
use crate::lengths::length;

/// An import, call or request of a pickle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Offset of the opcode in the file.
    pub offset: u64,
    /// The module, such as `os`; empty if the callee is itself the result of a call.
    pub module: String,
    /// The name in the module, such as `system`; or a description of the callee.
    pub name: String,
    /// The operation: `import`, `reduce`, `newobj`, `newobj_ex`, `inst`, `obj`, `build`,
    /// `extension`, `persistent`; `patch` if an import is itself given a state, and `value`
    /// if it is passed on. Two kinds are no operation: `limit` means that the rest was not inspected,
    /// and `path` that the argument is a path on the machine that created the pickle.
    pub how: &'static str,
    /// The arguments, or the state for `build`, in Python syntax; truncated after some hundred
    /// characters.
    pub arguments: String,
}

/// Maximum number of pickles, and of locations where one may begin, that are inspected in a file.
const MAX_STARTS: usize = 4096;

/// Maximum number of findings per file.
const MAX_FINDINGS: usize = 100_000;

/// The number of bytes that are searched for a pickle at the beginning of a file that does not start with one, and
/// between one pickle and the next.
const SEARCH_RANGE: u64 = 1 << 20;

/// Maximum number of times that each byte is inspected.
const MAX_VISITS: u64 = 8;

/// The number of opcodes that are inspected in a small file: deflated, a byte can hold a thousand.
pub(crate) const STEPS: u64 = 32 << 20;

/// Returns the number of further opcodes that are inspected in a file: each byte may be an opcode, once to detect
/// a pickle and once to list its calls.
pub(crate) fn steps_of(blob: &Blob) -> u64 {
    blob.len().saturating_mul(2)
}

/// Lists what the pickles of a file would import and call when they are loaded, in file order.
///
/// A damaged pickle is listed up to the damage, because the part before it would have run.
/// Consecutive pickles are all listed, and a pickle after other bytes is found by its
/// protocol opcode. A loader may stop earlier. Nothing is imported, called or evaluated.
/// A file without pickles has no findings.
///
/// # Errors
/// Fails if reading the file fails.
pub fn scan(blob: &Blob, limits: &Limits) -> Result<Vec<Finding>> {
    let left = steps_of(blob).saturating_add(STEPS);
    scan_for(Filter::All, blob, limits, &mut Steps { left, ..Steps::default() })
}

/// Lists the same without what pickles of tensors need, within `steps` opcodes, which are subtracted. Exceeding them
/// is a finding.
///
/// # Errors
/// Fails if reading the file fails.
pub(crate) fn scan_within(blob: &Blob, limits: &Limits, steps: &mut Steps) -> Result<Vec<Finding>> {
    scan_for(Filter::Suspects { is_loaded: true }, blob, limits, steps)
}

fn scan_for(
    filter: Filter,
    blob: &Blob,
    limits: &Limits,
    steps: &mut Steps,
) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    // Whether everything up to `start` is consecutive pickles, as a loader of several reads them.
    let (mut start, mut work, mut follows) = (0, 0u64, true);
    // Limits the work for files that look like many pickles, each of which continues to the end.
    let max = blob.len().saturating_mul(MAX_VISITS).saturating_add(SEARCH_RANGE);
    for _ in 0..MAX_STARTS {
        if start >= blob.len() || findings.len() >= MAX_FINDINGS || work > max {
            break;
        }
        let Found { tree, whole, sound, cut, .. } = read_leniently(blob, start, limits, steps);
        work = work.saturating_add(tree.end.saturating_sub(start));
        // A file that begins with a protocol opcode is a pickle, however it ends. Elsewhere, random bytes that happen
        // to be opcodes have no readable names; at the beginning of the file, printable names suffice.
        let names = match start {
            _ if whole && follows => Names::Any,
            0 if is_protocol(blob, 0)? => Names::Any,
            0 => Names::Printable,
            _ if whole && sound => Names::Named,
            _ => Names::Words,
        };
        list(&tree, names, filter, steps, &mut findings);
        if cut || findings.len() >= MAX_FINDINGS {
            findings.push(limit(tree.end.min(blob.len().saturating_sub(1))));
            follows = false;
            break;
        }
        // A complete pickle may be followed directly by another one of any protocol.
        let after = if whole { tree.end.max(start + 1) } else { start + 1 };
        follows &= whole && sound;
        if whole && is_opcode(blob, after)? {
            start = after;
            continue;
        }
        let Some(next) = find_protocol(blob, after)? else {
            follows = false;
            break;
        };
        follows &= next == after;
        start = next;
    }
    if follows && start < blob.len() {
        findings.push(limit(start));
    }
    findings.sort_by_key(|finding| finding.offset);
    findings.dedup();
    Ok(findings)
}

/// Lists what the pickle at the beginning of a file would import and call, if it contains a call of
/// something that has a name: text and numeric data do not, though some begin like pickles.
/// Neither an end of the pickle nor a signature is required.
pub fn scan_calls(blob: &Blob, limits: &Limits) -> Vec<Finding> {
    let left = steps_of(blob).saturating_add(STEPS);
    let mut steps = Steps { left, ..Steps::default() };
    let Found { tree, sound, cut, .. } = read_leniently(blob, 0, limits, &mut steps);
    let mut findings = Vec::new();
    if sound {
        list(&tree, Names::Words, Filter::All, &mut steps, &mut findings);
    }
    let calls = |how| matches!(how, "reduce" | "newobj" | "newobj_ex" | "inst" | "obj");
    if !findings.iter().any(|finding| calls(finding.how)) {
        findings.clear();
    }
    // After an ignored error, the rest would not be credible.
    if sound && cut {
        findings.push(limit(tree.end.min(blob.len().saturating_sub(1))));
    }
    findings
}

/// The effects of loading from the beginning of a file, pickle by pickle: as in CPython,
/// up to the point where it raises.
#[derive(Default)]
pub(crate) struct Loads {
    /// Imports and calls that pickles of tensors do not need.
    pub(crate) findings: Vec<Finding>,
    /// Whether the file consists of consecutive pickles.
    pub(crate) complete: bool,
    /// The first import of the pickle that breaks off, if tensors do not need it.
    pub(crate) broken: Option<Import>,
    /// Whether anything is imported.
    pub(crate) imports: bool,
    /// Whether there are persistent identifiers or extension codes, which only the loader resolves.
    pub(crate) needs_loader: bool,
    /// Whether there are arrays of joblib, whose elements are between opcodes.
    pub(crate) has_arrays: bool,
    /// Whether the inspection was incomplete.
    pub(crate) cut: bool,
    /// The first place where readers disagree about frames.
    pub(crate) torn: Option<(u64, &'static str)>,
    /// The end of the last complete pickle.
    pub(crate) end: u64,
    /// The first complete pickles, as selected by the caller.
    pub(crate) kept: Vec<Tree>,
}

/// An import.
pub(crate) struct Import {
    pub(crate) offset: u64,
    pub(crate) module: String,
    pub(crate) name: String,
}

/// Reads pickles from the beginning of `blob`, within `steps` opcodes, which are subtracted. Keeps
/// the first pickles until `keep` rejects one; it receives the index of each, counted from 0.
pub(crate) fn loads(
    blob: &Blob,
    limits: &Limits,
    steps: &mut Steps,
    keep: impl Fn(usize, &Tree) -> bool,
) -> Loads {
    let mut loads = Loads::default();
    let mut count = 0_usize;
    while loads.end < blob.len() {
        let Some(tree) = loads.next(blob, limits, steps) else { return loads };
        if loads.kept.len() == count && keep(count, &tree) {
            loads.kept.push(tree);
        }
        count += 1;
    }
    loads.complete = !blob.is_empty();
    loads
}

/// Reads a file as joblib does: one pickle, with the elements of arrays and pickles of them inside of it. Returns their
/// ranges, too.
pub(crate) fn loads_of_joblib(
    blob: &Blob,
    limits: &Limits,
    steps: &mut Steps,
) -> (Loads, Vec<Span>) {
    let (mut loads, mut elements) = (Loads::default(), Vec::new());
    let (found, wrapped) = read_as_joblib(blob, limits, steps);
    loads.end = found.tree.end;
    let (mut is_sound, is_whole) = (found.whole && found.sound, found.whole);
    loads.add(&found, blob, is_sound, steps);
    for part in wrapped {
        match part {
            Wrapped::Elements(span) => elements.push(span),
            Wrapped::Pickle(found) => {
                let before = loads.has_arrays;
                loads.has_arrays = false;
                loads.add(&found, blob, found.whole && found.sound, steps);
                // The unpickler of an array of objects reads no elements.
                is_sound &= found.whole && found.sound && !loads.has_arrays;
                loads.has_arrays = before;
            }
        }
    }
    loads.complete = is_whole && is_sound && loads.end == blob.len();
    (loads, elements)
}

impl Loads {
    /// Reads the pickle at the end of those before; returns `None` if nothing after it is loaded.
    pub(crate) fn next(&mut self, blob: &Blob, limits: &Limits, steps: &mut Steps) -> Option<Tree> {
        let found = read_as_cpython(blob, self.end, limits, steps);
        self.add(&found, blob, found.whole && found.sound, steps);
        if self.cut || !found.whole {
            return None;
        }
        self.end = found.tree.end;
        found.sound.then_some(found.tree)
    }

    /// Adds what a pickle imports and calls.
    fn add(&mut self, found: &Found, blob: &Blob, is_whole: bool, steps: &mut Steps) {
        self.torn = self.torn.or(found.torn);
        self.notice(&found.tree, is_whole, &steps.allowed);
        // Readers other than joblib fail at the elements of an array, where calls may lack their arguments.
        let filter = Filter::Suspects { is_loaded: is_whole || !self.has_arrays };
        list(&found.tree, Names::Any, filter, steps, &mut self.findings);
        self.cut |= found.cut || self.findings.len() >= MAX_FINDINGS;
        if self.cut {
            self.findings.push(limit(found.tree.end.min(blob.len().saturating_sub(1))));
        }
    }

    /// Records what a pickle needs to be loaded.
    fn notice(&mut self, tree: &Tree, is_whole: bool, allowed: &Allowed) {
        for (id, node) in tree.nodes() {
            match node {
                Node::Global(..) => {
                    self.imports = true;
                    self.has_arrays |= is_wrapper(tree, id);
                    if self.broken.is_none() && !is_whole && !is_known(tree, id, allowed) {
                        let (module, name) = tree.global(id).unwrap_or_default();
                        self.broken = Some(Import { offset: tree.place(id), module, name });
                    }
                }
                Node::Extension(_) | Node::Persistent(_) => self.needs_loader = true,
                _ => {}
            }
        }
    }
}

/// Returns the finding that the rest was not inspected.
fn limit(offset: u64) -> Finding {
    let name = "more data than the scan limit".to_owned();
    Finding { offset, module: String::new(), name, how: "limit", arguments: String::new() }
}

/// The criterion for credible names.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Names {
    Any,
    /// Any name, but no extension codes: random pickles of three bytes can contain one.
    Named,
    Printable,
    Words,
}

/// The findings to list.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Filter {
    All,
    /// Those that pickles of tensors do not need.
    Suspects {
        /// Whether a loader returns the values of the pickle.
        is_loaded: bool,
    },
}

/// Adds the findings of a pickle that have credible names.
fn list(tree: &Tree, names: Names, filter: Filter, steps: &mut Steps, findings: &mut Vec<Finding>) {
    let suspects = match filter {
        Filter::All => None,
        Filter::Suspects { is_loaded } => Some(Suspects::of(tree, &steps.allowed, is_loaded)),
    };
    if suspects.is_some() {
        let accepted = tree.nodes().filter_map(|(id, _)| steps.allowed.find(tree, id));
        steps.accepted.extend(accepted);
    }
    let mut push = |finding: Finding| {
        let readable = |text: &str| {
            text.chars().all(|c| match names {
                Names::Words => c.is_alphanumeric() || "._-<>+".contains(c),
                Names::Printable | Names::Named | Names::Any => c.is_ascii_graphic(),
            })
        };
        // A module is imported before its name is looked up, so the module alone can do harm.
        let named = readable(&finding.module) && readable(&finding.name);
        if findings.len() < MAX_FINDINGS
            && match names {
                Names::Any => true,
                Names::Named => {
                    finding.how != "extension" && !finding.name.starts_with("extension")
                }
                Names::Words | Names::Printable => named && !finding.module.is_empty(),
            }
        {
            findings.push(finding);
        }
    };
    let handed_on = tree.handed_on();
    for (id, node) in tree.nodes() {
        let offset = tree.place(id);
        let nothing = String::new;
        if suspects.as_ref().is_some_and(|suspects| !suspects.contains(id)) {
            if let Node::Object(object) = node
                && let Some(arguments) = home_path(tree, object)
            {
                let (module, name) = ("pathlib".to_owned(), "Path".to_owned());
                push(Finding { offset, module, name, how: "path", arguments });
            }
            continue;
        }
        match node {
            Node::Global(..) => {
                let (module, name) = tree.global(id).unwrap_or_default();
                if module.is_empty() && name.is_empty() {
                    continue;
                }
                if handed_on.contains(&id) {
                    let (module, name) = (module.clone(), name.clone());
                    push(Finding { offset, module, name, how: "value", arguments: nothing() });
                }
                push(Finding { offset, module, name, how: "import", arguments: nothing() });
            }
            Node::Extension(code) => {
                let name = code.to_string();
                push(Finding {
                    offset,
                    module: nothing(),
                    name,
                    how: "extension",
                    arguments: nothing(),
                });
            }
            Node::Persistent(value) => {
                let (module, name, arguments) = (nothing(), nothing(), tree.describe(*value));
                push(Finding { offset, module, name, how: "persistent", arguments });
            }
            Node::Object(object) => {
                let how = match object.how {
                    How::Reduce => "reduce",
                    How::New => "newobj",
                    How::NewEx => "newobj_ex",
                    How::Inst => "inst",
                    How::Obj => "obj",
                    How::Patch => "patch",
                };
                let called = tree.global(object.callable);
                let (module, name) =
                    called.unwrap_or_else(|| (nothing(), tree.describe(object.callable)));
                let mut arguments = tree.describe(object.arguments);
                if let Some(named) = object.named {
                    arguments = format!("{arguments}, {}", tree.describe(named));
                }
                push(Finding {
                    offset,
                    module: module.clone(),
                    name: name.clone(),
                    how,
                    arguments,
                });
                // States beyond the first few add no information.
                for state in object.state.iter().take(8) {
                    let (module, name) = (module.clone(), name.clone());
                    let arguments = tree.describe(*state);
                    push(Finding { offset, module, name, how: "build", arguments });
                }
            }
            _ => {}
        }
    }
}

/// Returns the path that an object represents, if it is in a home directory.
fn home_path(tree: &Tree, object: &Object) -> Option<String> {
    const HOMES: [&str; 3] = ["home", "Users", "root"];
    let (module, _) = tree.global(object.callable)?;
    let Node::Tuple(parts) = tree.node(object.arguments) else { return None };
    if !matches!(module.as_str(), "pathlib" | "pathlib._local") {
        return None;
    }
    let parts: Vec<String> =
        parts.iter().filter_map(|part: &Id| tree.word(*part).ok().flatten()).collect();
    let path = parts.join("/");
    let mut names = path.split(['/', '\\']).filter(|name| !name.is_empty() && !name.ends_with(':'));
    let is_absolute = path.starts_with('/') || path.contains(':');
    (is_absolute && names.next().is_some_and(|top| HOMES.contains(&top))).then_some(path)
}

/// Returns whether a pickle of protocol 2 or later begins at `at`.
fn is_protocol(blob: &Blob, at: u64) -> Result<bool> {
    if blob.len().saturating_sub(at) < 2 {
        return Ok(false);
    }
    let mut head = [0; 2];
    blob.read_at(at, &mut head)?;
    Ok(matches!(head, [0x80, 2..=5]))
}

/// Returns whether a byte at `at` may begin a pickle of any protocol.
fn is_opcode(blob: &Blob, at: u64) -> Result<bool> {
    if at >= blob.len() {
        return Ok(false);
    }
    let mut head = [0; 1];
    blob.read_at(at, &mut head)?;
    // Opcodes that push a value or declare a protocol.
    Ok(b"(cVSXUTIJKMLFGN])}iP\x80\x82\x83\x84\x88\x89\x8a\x8b\x8c\x8d\x8e\x8f\x95\x96BC"
        .contains(&head[0]))
}

/// Returns the first offset from `from` at which a pickle of protocol 2 or later may begin.
fn find_protocol(blob: &Blob, from: u64) -> Result<Option<u64>> {
    const PIECE: u64 = 64 << 10;
    let end = blob.len().min(from.saturating_add(SEARCH_RANGE));
    let mut at = from;
    let mut piece = Vec::new();
    while at + 1 < end {
        piece.resize(length(PIECE.min(end - at))?, 0);
        blob.read_at(at, &mut piece)?;
        let found = piece.windows(2).position(|pair| matches!(pair, [0x80, 2..=5]));
        if let Some(found) = found {
            return Ok(Some(at + found as u64));
        }
        // The last byte may be the first of a pair.
        at += (piece.len() as u64).max(2) - 1;
    }
    Ok(None)
}
