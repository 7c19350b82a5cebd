//! What a pickle would import and call, listed without doing either, however damaged it is.

use lodstone_model::Limits;
use lodstone_store::Blob;

use super::known::Suspects;
use super::machine::{Found, Steps, read_as_cpython, read_leniently};
use super::tree::{How, Id, Node, Object, Tree};
use crate::Result;

/// Something that a pickle would import or call, or ask its reader for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Offset of the opcode in the file.
    pub offset: u64,
    /// The module: `os`; empty where what is called is itself the result of a call.
    pub module: String,
    /// The name in it: `system`; or a description of what is called.
    pub name: String,
    /// What would be done: `import`, `reduce`, `newobj`, `newobj_ex`, `inst`, `obj`, `build`,
    /// `extension`, `persistent`; `patch` if what is imported is itself given a state, and `value`
    /// if it is handed on to something. Nothing is done by `limit`: what follows was not looked at;
    /// nor by `path`: the argument is a path of the machine that the pickle was made on.
    pub how: &'static str,
    /// The arguments, or the state for `build`, as Python would show them; cut after some hundred
    /// characters.
    pub arguments: String,
}

/// Pickles in one file that are looked at, and places that may begin one.
const STARTS: usize = 4096;

/// Findings that are kept of one file.
const FINDINGS: usize = 100_000;

/// Bytes at the beginning in which a pickle is looked for if the first of them are none, and between
/// one and the next.
const AHEAD: u64 = 1 << 20;

/// How often each byte may be looked at.
const AGAIN: u64 = 8;

/// Opcodes that are looked at in a small file: deflated, they are a thousand for each byte.
pub(crate) const STEPS: u64 = 32 << 20;

/// Opcodes that are looked at in a file beside those: each of its bytes may be one, to see whether it is
/// a pickle and again to see what that calls.
pub(crate) fn steps_of(blob: &Blob) -> u64 {
    blob.len().saturating_mul(2)
}

/// Lists what the pickles of a file would import and call when they are loaded, in file order.
///
/// A pickle that is damaged is listed up to the damage: what comes before it would have run.
/// Pickles that follow one another are all listed, and one behind other bytes is found by its
/// protocol. Whoever loads the file may stop earlier. Nothing is imported, called or evaluated.
/// A file that is no pickle has no findings.
///
/// # Errors
/// What reading the file gives.
pub fn scan(blob: &Blob, limits: &Limits) -> Result<Vec<Finding>> {
    let left = steps_of(blob).saturating_add(STEPS);
    scan_for(Wanted::All, blob, limits, &mut Steps { left, ..Steps::default() })
}

/// The same in `steps` opcodes at most, which are taken off, without what pickles of tensors need. That
/// there are more is a finding.
///
/// # Errors
/// What reading the file gives.
pub(crate) fn scan_within(blob: &Blob, limits: &Limits, steps: &mut Steps) -> Result<Vec<Finding>> {
    scan_for(Wanted::Suspects, blob, limits, steps)
}

fn scan_for(
    wanted: Wanted,
    blob: &Blob,
    limits: &Limits,
    steps: &mut Steps,
) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    // Whether everything up to `start` is pickles end to end, as a loader of several reads them.
    let (mut start, mut work, mut follows) = (0, 0u64, true);
    // What looks like many pickles, each of which goes on to the end, is not looked at so often.
    let most = blob.len().saturating_mul(AGAIN).saturating_add(AHEAD);
    for _ in 0..STARTS {
        if start >= blob.len() || findings.len() >= FINDINGS || work > most {
            break;
        }
        let Found { tree, whole, sound, cut } = read_leniently(blob, start, limits, steps);
        work = work.saturating_add(tree.end.saturating_sub(start));
        // A file that begins as a pickle is one, however it ends. Otherwise bytes that happen to be
        // opcodes have no names that a person could read; at the beginning those that can be printed
        // are enough.
        let names = match start {
            _ if whole && follows => Names::Any,
            0 if is_protocol(blob, 0)? => Names::Any,
            0 => Names::Printable,
            _ if whole && sound => Names::Named,
            _ => Names::Words,
        };
        list(&tree, names, wanted, &mut findings);
        if cut || findings.len() >= FINDINGS {
            findings.push(limit(tree.end.min(blob.len().saturating_sub(1))));
            follows = false;
            break;
        }
        // Behind a whole one the next may begin at once, of whatever protocol it is.
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

/// Lists what the one pickle that a file begins with would import and call, if it goes as far as
/// calling something that has a name: texts and numbers do not, though some begin as pickles do.
/// Neither the end of the pickle is asked for, nor a signature.
pub fn scan_calls(blob: &Blob, limits: &Limits) -> Vec<Finding> {
    let left = steps_of(blob).saturating_add(STEPS);
    let mut steps = Steps { left, ..Steps::default() };
    let Found { tree, sound, cut, .. } = read_leniently(blob, 0, limits, &mut steps);
    let mut findings = Vec::new();
    if sound {
        list(&tree, Names::Words, Wanted::All, &mut findings);
    }
    let calls = |how| matches!(how, "reduce" | "newobj" | "newobj_ex" | "inst" | "obj");
    if !findings.iter().any(|finding| calls(finding.how)) {
        findings.clear();
    }
    // What follows something unsound would not be believed.
    if sound && cut {
        findings.push(limit(tree.end.min(blob.len().saturating_sub(1))));
    }
    findings
}

/// What loading from the beginning of a file does, again and again while there are pickles: as CPython
/// does it, up to where it raises.
#[derive(Default)]
pub(crate) struct Loads {
    /// What is imported and called beyond what pickles of tensors need.
    pub(crate) findings: Vec<Finding>,
    /// Whether the bytes are pickles end to end.
    pub(crate) complete: bool,
    /// What is imported first by the pickle that breaks off, and where.
    pub(crate) broken: Option<Import>,
    /// Whether anything is imported.
    pub(crate) imports: bool,
    /// Whether it has persistent identifiers or extension codes, which only its loader resolves.
    pub(crate) asks: bool,
    /// Whether not all was looked at.
    pub(crate) cut: bool,
    /// Where the last whole pickle ends.
    pub(crate) end: u64,
    /// The first complete pickles, as many as the caller wants.
    pub(crate) kept: Vec<Tree>,
}

/// Something that is imported.
pub(crate) struct Import {
    pub(crate) offset: u64,
    /// Module and name.
    pub(crate) name: String,
    /// Whether that is an identifier of Python, as names of modules are.
    pub(crate) is_identifier: bool,
}

impl Import {
    fn of(tree: &Tree, id: Id) -> Self {
        let (module, name) = tree.global(id).unwrap_or_default();
        let is_identifier = module.chars().all(|c| c.is_alphanumeric() || "._".contains(c));
        Self { offset: tree.place(id), name: format!("{module}.{name}"), is_identifier }
    }
}

/// Reads pickles from the beginning of `blob`, in `steps` opcodes at most, which are taken off. Keeps
/// the first pickles, until `keep` refuses one; it gets the number of each, counted from 0.
pub(crate) fn loads(
    blob: &Blob,
    limits: &Limits,
    steps: &mut Steps,
    keep: impl Fn(usize, &Tree) -> bool,
) -> Loads {
    let mut loads = Loads::default();
    let mut count = 0_usize;
    while loads.end < blob.len() {
        let Found { tree, whole, sound, cut } = read_as_cpython(blob, loads.end, limits, steps);
        list(&tree, Names::Any, Wanted::Suspects, &mut loads.findings);
        loads.notice(&tree, whole && sound);
        loads.cut |= cut || loads.findings.len() >= FINDINGS;
        if loads.cut {
            loads.findings.push(limit(tree.end.min(blob.len().saturating_sub(1))));
        }
        if loads.cut || !whole {
            return loads;
        }
        loads.end = tree.end;
        if !sound {
            return loads;
        }
        if loads.kept.len() == count && keep(count, &tree) {
            loads.kept.push(tree);
        }
        count += 1;
    }
    loads.complete = !blob.is_empty();
    loads
}

impl Loads {
    /// Notices what a pickle needs to be loaded.
    fn notice(&mut self, tree: &Tree, is_whole: bool) {
        for (id, node) in tree.nodes() {
            match node {
                Node::Global(..) => {
                    self.imports = true;
                    if self.broken.is_none() && !is_whole {
                        self.broken = Some(Import::of(tree, id));
                    }
                }
                Node::Extension(_) | Node::Persistent(_) => self.asks = true,
                _ => {}
            }
        }
    }
}

/// That what follows was not looked at.
fn limit(offset: u64) -> Finding {
    let name = "more than a scan looks at".to_owned();
    Finding { offset, module: String::new(), name, how: "limit", arguments: String::new() }
}

/// Which names are believed to be ones.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Names {
    Any,
    /// Any, but no numbers of extensions: there are pickles of three bytes that have one.
    Named,
    Printable,
    Words,
}

/// Which findings are wanted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wanted {
    All,
    /// Those that pickles of tensors do not need.
    Suspects,
}

/// Adds what one pickle holds, as far as its names are believed.
fn list(tree: &Tree, names: Names, wanted: Wanted, findings: &mut Vec<Finding>) {
    let suspects = (wanted == Wanted::Suspects).then(|| Suspects::of(tree));
    let mut push = |finding: Finding| {
        let readable = |text: &str| {
            text.chars().all(|c| match names {
                Names::Words => c.is_alphanumeric() || "._-<>+".contains(c),
                Names::Printable | Names::Named | Names::Any => c.is_ascii_graphic(),
            })
        };
        // A module is imported before its name is looked up, so that it alone does harm.
        let named = readable(&finding.module) && readable(&finding.name);
        if findings.len() < FINDINGS
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
                // States beyond the first few say nothing new.
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

/// The path that an object is, if it is in the home directory of somebody.
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

/// Whether a pickle of protocol 2 or later begins at `at`.
fn is_protocol(blob: &Blob, at: u64) -> Result<bool> {
    if blob.len().saturating_sub(at) < 2 {
        return Ok(false);
    }
    let mut head = [0; 2];
    blob.read_at(at, &mut head)?;
    Ok(matches!(head, [0x80, 2..=5]))
}

/// Whether there is anything at `at` that may begin a pickle of any protocol.
fn is_opcode(blob: &Blob, at: u64) -> Result<bool> {
    if at >= blob.len() {
        return Ok(false);
    }
    let mut head = [0; 1];
    blob.read_at(at, &mut head)?;
    // Opcodes that push something, or name a protocol.
    Ok(b"(cVSXUTIJKMLFGN])}iP\x80\x82\x83\x84\x88\x89\x8a\x8b\x8c\x8d\x8e\x8f\x95\x96BC"
        .contains(&head[0]))
}

/// Where the next pickle of protocol 2 or later may begin, from `from` on.
fn find_protocol(blob: &Blob, from: u64) -> Result<Option<u64>> {
    const PIECE: u64 = 64 << 10;
    let end = blob.len().min(from.saturating_add(AHEAD));
    let mut at = from;
    let mut piece = Vec::new();
    while at + 1 < end {
        piece.resize(usize::try_from(PIECE.min(end - at)).unwrap_or(0), 0);
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
