//! Hostile files of every format, made of honest ones and by hand, and what each has to be answered
//! with.
#![allow(dead_code, unreachable_pub, reason = "each suite uses a part")]

pub mod build;
pub mod fields;
pub mod formats;

use std::path::{Path, PathBuf};

use crate::support::facts::cases;
use crate::support::{bytes, golden};

/// What is hostile about a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A length or count that is not the truth.
    Length,
    /// Extents that no tensor has.
    Shape,
    /// Things in things in things.
    Nesting,
    /// A name or field that may be there once, again.
    Twice,
    /// A name that leads out of the directory.
    Path,
}

/// A file by itself, before it is known what it has to be answered with.
pub struct Made {
    pub kind: Kind,
    pub what: String,
    pub bytes: Vec<u8>,
}

/// What a file has to be answered with.
#[derive(Clone, Debug)]
pub enum Answer {
    /// An error of one of these kinds, whose message has these words.
    Refused(&'static [&'static str], Vec<String>),
    /// It is a model, for this reason.
    Readable(&'static str),
    /// It is malformed or a model, for this reason.
    Perhaps(&'static str),
}

/// Files that are hostile together.
pub struct Hostile {
    pub kind: Kind,
    pub what: String,
    pub files: Vec<(String, Vec<u8>)>,
    /// Symbolic links: name and target.
    pub links: Vec<(String, String)>,
    /// The file that is opened, or the directory.
    pub open: &'static str,
    pub answer: Answer,
}

/// What every format that reads bytes answers with.
pub const MALFORMED: &[&str] = &["Malformed"];

/// What may be whole, and more than a reader takes.
const TOO_MUCH: &[&str] = &["Limit", "Malformed"];

impl Hostile {
    /// A file that has to be refused: as malformed, or for a limit where such a file may be whole.
    pub fn new(kind: Kind, what: impl Into<String>, open: &'static str, bytes: Vec<u8>) -> Self {
        let (files, links) = (vec![(open.to_owned(), bytes)], Vec::new());
        let kinds = match kind {
            Kind::Shape | Kind::Nesting => TOO_MUCH,
            Kind::Length | Kind::Twice | Kind::Path => MALFORMED,
        };
        let answer = Answer::Refused(kinds, Vec::new());
        Self { kind, what: what.into(), files, links, open, answer }
    }

    /// Other files beside.
    pub fn beside(mut self, files: &[(&str, &[u8])]) -> Self {
        self.files.extend(files.iter().map(|(name, bytes)| ((*name).to_owned(), bytes.to_vec())));
        self
    }

    /// The directory is opened.
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

/// Files by themselves, opened under a name; `readable` gives the reason for those that are models.
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

/// No lie is a model.
pub fn never(_: &str) -> Option<&'static str> {
    None
}

/// A golden file.
pub fn file(path: &str) -> Vec<u8> {
    bytes(&root().join(path))
}

/// Kinds of the tensors in a golden file of Paddle's.
pub fn kinds(path: &str) -> Vec<String> {
    let cases = cases(&root().join("paddle"));
    let case = cases.iter().find(|case| Path::new("paddle").join(&case.path) == Path::new(path));
    case.expect("a case").tensors.iter().map(|tensor| tensor.kind.clone()).collect()
}

fn root() -> PathBuf {
    golden().with_file_name("")
}

/// Names that lead out of a directory, or nowhere: what is said of each.
pub const PATHS: &[(&str, &str)] = &[
    ("../secret", "it climbs with `..`"),
    ("sub/../../secret", "it climbs with `..`"),
    ("./../secret", "it climbs with `..`"),
    ("sub//..//../secret", "it climbs with `..`"),
    ("..", "it climbs with `..`"),
    ("sub/..", "it climbs with `..`"),
    ("/etc/passwd", "it is absolute"),
    ("//server/share", "it is absolute"),
    ("/", "it is absolute"),
    ("..\\secret", "it climbs with `..`"),
    ("sub\\..\\..\\secret", "it climbs with `..`"),
    ("\\secret", "it is absolute on another system"),
    ("\\\\server\\share\\secret", "it is absolute on another system"),
    ("C:\\secret", "it is absolute on another system"),
    ("c:/secret", "it is absolute on another system"),
    ("C:", "it is absolute on another system"),
    ("secret\0", "it contains a zero byte"),
    ("ok\0/../secret", "it contains a zero byte"),
    ("", "it is empty"),
];

/// Names that are longer than any file system takes.
pub fn long_names() -> [String; 2] {
    ["x".repeat(300), "x/".repeat(3000) + "x"]
}

/// Symbolic links that lead out, with a name that passes each.
pub const LINKS: &[(&str, &str, &str)] = &[
    ("link", "../secret", "link"),
    ("link", "/etc/hostname", "link"),
    ("sub", "..", "sub/secret"),
    ("sub", "/etc", "sub/hostname"),
    ("link", "./../secret", "link"),
];

/// Brackets, one in the other.
pub fn nested(open: &str, levels: usize, close: &str) -> String {
    open.repeat(levels) + &close.repeat(levels)
}

/// As deep as no honest file is, and as would exhaust a stack.
pub const DEEP: usize = 100_000;
