//! Hostile files of every format, derived from valid ones and built by hand, and the expected result of
//! each.
#![allow(dead_code, unreachable_pub, reason = "each suite uses a part")]

pub mod build;
pub mod fields;
pub mod pickle;
pub mod seal;

use std::path::{Path, PathBuf};

use crate::support::facts::cases;
use crate::support::{bytes, golden};

/// The kind of a hostile file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A wrong length or count.
    Length,
    /// Dims that no tensor has.
    Shape,
    /// Excessive nesting.
    Nesting,
    /// A duplicate name or field.
    Twice,
    /// A name that leads out of the directory.
    Path,
}

/// A single file, before its expected result is known.
pub struct Made {
    pub kind: Kind,
    pub what: String,
    pub bytes: Vec<u8>,
}

/// The expected result for a file.
#[derive(Clone, Debug)]
pub enum Answer {
    /// An error of one of these kinds, whose message contains these words.
    Refused(&'static [&'static str], Vec<String>),
    /// A valid model, for this reason.
    Readable(&'static str),
    /// Either malformed or a valid model, for this reason.
    Perhaps(&'static str),
}

/// Files that are hostile together.
pub struct Hostile {
    pub kind: Kind,
    pub what: String,
    pub files: Vec<(String, Vec<u8>)>,
    /// Symlinks: name and target.
    pub links: Vec<(String, String)>,
    /// The file that is opened; empty for the directory.
    pub open: &'static str,
    pub answer: Answer,
}

/// The error kinds of every format that reads bytes.
pub const MALFORMED: &[&str] = &["Malformed"];

/// The error kinds of files that may be valid, but exceed a limit.
const TOO_MUCH: &[&str] = &["Limit", "Malformed"];

impl Hostile {
    /// Creates a file that must be rejected: as malformed, or for a limit if such a file may be valid.
    pub fn new(kind: Kind, what: impl Into<String>, open: &'static str, bytes: Vec<u8>) -> Self {
        let (files, links) = (vec![(open.to_owned(), bytes)], Vec::new());
        let kinds = match kind {
            Kind::Shape | Kind::Nesting => TOO_MUCH,
            Kind::Length | Kind::Twice | Kind::Path => MALFORMED,
        };
        let answer = Answer::Refused(kinds, Vec::new());
        Self { kind, what: what.into(), files, links, open, answer }
    }

    /// Adds other files beside it.
    pub fn beside(mut self, files: &[(&str, &[u8])]) -> Self {
        self.files.extend(files.iter().map(|(name, bytes)| ((*name).to_owned(), bytes.to_vec())));
        self
    }

    /// Opens the directory instead of the file.
    pub fn directory(self) -> Self {
        Self { open: "", ..self }
    }

    pub fn readable(self, reason: &'static str) -> Self {
        Self { answer: Answer::Readable(reason), ..self }
    }

    pub fn perhaps(self, reason: &'static str) -> Self {
        Self { answer: Answer::Perhaps(reason), ..self }
    }

    pub fn refused(self, kinds: &'static [&'static str], words: &[&str]) -> Self {
        let words = words.iter().map(|word| (*word).to_owned()).collect();
        Self { answer: Answer::Refused(kinds, words), ..self }
    }
}

/// Converts single files, opened under a name; `readable` returns the reason for those that are valid models.
pub fn alone(
    open: &'static str,
    made: Vec<Made>,
    readable: impl Fn(&str) -> Option<&'static str>,
) -> impl Iterator<Item = Hostile> {
    made.into_iter().map(move |made| {
        let reason = readable(&made.what);
        let hostile = Hostile::new(made.kind, made.what, open, made.bytes);
        match reason {
            Some(reason) => hostile.readable(reason),
            None => hostile,
        }
    })
}

/// For formats in which no wrong value is a valid model.
pub fn never(_: &str) -> Option<&'static str> {
    None
}

/// Reads a golden file.
pub fn file(path: &str) -> Vec<u8> {
    bytes(&root().join(path))
}

/// Returns the kinds of the tensors in a golden file of Paddle.
pub fn kinds(path: &str) -> Vec<String> {
    let cases = cases(&root().join("paddle"));
    let case = cases.iter().find(|case| Path::new("paddle").join(&case.path) == Path::new(path));
    case.expect("a case").tensors.iter().map(|tensor| tensor.kind.clone()).collect()
}

fn root() -> PathBuf {
    golden().with_file_name("")
}

/// Names that lead out of a directory, or nowhere, with the error for each.
pub const PATHS: &[(&str, &str)] = &[
    ("../secret", "it contains `..`"),
    ("sub/../../secret", "it contains `..`"),
    ("./../secret", "it contains `..`"),
    ("sub//..//../secret", "it contains `..`"),
    ("..", "it contains `..`"),
    ("sub/..", "it contains `..`"),
    ("/etc/passwd", "it is absolute"),
    ("//server/share", "it is absolute"),
    ("/", "it is absolute"),
    ("..\\secret", "it contains `..`"),
    ("sub\\..\\..\\secret", "it contains `..`"),
    ("\\secret", "it is absolute on another system"),
    ("\\\\server\\share\\secret", "it is absolute on another system"),
    ("C:\\secret", "it is absolute on another system"),
    ("c:/secret", "it is absolute on another system"),
    ("C:", "it is absolute on another system"),
    ("secret\0", "it contains a zero byte"),
    ("ok\0/../secret", "it contains a zero byte"),
    ("", "it is empty"),
];

/// Returns names that exceed the limit of any file system.
pub fn long_names() -> [String; 2] {
    ["x".repeat(300), "x/".repeat(3000) + "x"]
}

/// Symlinks that lead out, with a name that passes each.
pub const LINKS: &[(&str, &str, &str)] = &[
    ("link", "../secret", "link"),
    ("link", "/etc/hostname", "link"),
    ("sub", "..", "sub/secret"),
    ("sub", "/etc", "sub/hostname"),
    ("link", "./../secret", "link"),
];

/// Returns nested brackets.
pub fn nested(open: &str, levels: usize, close: &str) -> String {
    open.repeat(levels) + &close.repeat(levels)
}

/// A depth that no valid file has, and that would exhaust a stack.
pub const DEEP: usize = 100_000;
