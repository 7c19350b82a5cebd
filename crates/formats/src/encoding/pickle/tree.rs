//! The contents of a pickle, as data.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use lodstone_store::{Blob, Ceiling};

use super::opcode::Span;
use super::text::{self, Encoding};
use crate::error::{Error, Result};

/// The index of a value in a [`Tree`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Id(pub(super) u32);

/// How an object is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// `callable(*args)`.
    Reduce,
    /// `class.__new__(class, *args)`.
    New,
    /// The same with keyword arguments.
    NewEx,
    /// Protocol 0: a class and arguments on the stack.
    Inst,
    /// Protocol 1: the same.
    Obj,
    /// Only in scans: an import is itself given a state, the argument.
    Patch,
}

/// A value, which refers to others by index, so that shared values are stored once.
#[derive(Debug)]
pub(crate) enum Node {
    None,
    Bool(bool),
    Int(i64),
    /// Little-endian, two's complement, more than eight bytes.
    BigInt(Span),
    /// Decimal digits that exceed 64 bits.
    Digits(Span),
    Float(f64),
    Text(Span, Encoding),
    Bytes(Span),
    /// Mutable bytes (`bytearray`).
    ByteArray(Span),
    List(Vec<Id>),
    Tuple(Vec<Id>),
    Dict(Vec<(Id, Id)>),
    Set(Vec<Id>),
    FrozenSet(Vec<Id>),
    /// An import: module and name.
    Global(Id, Id),
    /// An import by its code in a registry (`copyreg`).
    Extension(i64),
    /// An object that the caller of the unpickler resolves by this value.
    Persistent(Id),
    Object(Box<Object>),
    /// Only in scans: the result of popping an empty stack in a damaged pickle.
    Unknown,
}

impl Node {
    /// Calls `each` with every value inside; of an object, those that it is given, without its callable and its arguments.
    pub(super) fn each_value(&self, mut each: impl FnMut(Id)) {
        match self {
            Self::List(ids) | Self::Tuple(ids) | Self::Set(ids) | Self::FrozenSet(ids) => {
                ids.iter().copied().for_each(each);
            }
            Self::Dict(pairs) => pairs.iter().flat_map(|(a, b)| [*a, *b]).for_each(each),
            Self::Object(object) => {
                let given = object.named.iter().chain(&object.state).chain(&object.items);
                given.copied().for_each(&mut each);
                object.pairs.iter().flat_map(|(a, b)| [*a, *b]).for_each(each);
            }
            Self::Persistent(id) => each(*id),
            _ => {}
        }
    }
}

/// An object that Python would create by a call.
#[derive(Debug)]
pub(crate) struct Object {
    pub(crate) how: How,
    pub(crate) callable: Id,
    /// A tuple, in honest pickles.
    pub(crate) arguments: Id,
    /// A dict of keyword arguments.
    pub(crate) named: Option<Id>,
    /// The states that `BUILD` would set.
    pub(crate) state: Vec<Id>,
    /// Items that would be appended or added.
    pub(crate) items: Vec<Id>,
    /// Items that would be set.
    pub(crate) pairs: Vec<(Id, Id)>,
}

impl Object {
    /// Returns whether the object is the result of a plain call.
    pub(crate) fn is_call(&self) -> bool {
        self.how == How::Reduce
    }
}

/// All values of a pickle, including discarded ones.
#[derive(Debug)]
pub(crate) struct Tree {
    pub(super) blob: Blob,
    pub(super) nodes: Vec<Node>,
    /// The offset at which each value was created.
    pub(super) places: Vec<u64>,
    pub(super) root: Id,
    /// The offset after the pickle.
    pub(super) end: u64,
}

/// Maximum size of strings that are read into memory as names or words.
const MAX_WORD: u64 = 64 << 10;

/// Maximum size in bytes of module and attribute names.
const MAX_NAME: u64 = 256;

/// Maximum size in bytes of codes, which may be read repeatedly.
const MAX_SHORT: u64 = 64;

impl Tree {
    /// Returns imports that are more than called: part of another value, an argument, a state.
    pub(super) fn handed_on(&self) -> BTreeSet<Id> {
        let mut handed_on = BTreeSet::new();
        for node in &self.nodes {
            node.each_value(|id| {
                if let Node::Global(..) = self.node(id) {
                    handed_on.insert(id);
                }
            });
            if let Node::Object(object) = node
                && let Node::Global(..) = self.node(object.arguments)
            {
                handed_on.insert(object.arguments);
            }
        }
        handed_on
    }

    /// Returns the resulting value of the pickle.
    pub(crate) fn root(&self) -> Id {
        self.root
    }

    /// Returns the bytes of the file.
    pub(crate) fn blob(&self) -> &Blob {
        &self.blob
    }

    /// Returns the offset after the pickle.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// Returns the number of values.
    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Returns every value with its index.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = (Id, &Node)> {
        (0..).map(Id).zip(&self.nodes)
    }

    pub(crate) fn node(&self, id: Id) -> &Node {
        self.nodes.get(id.0 as usize).unwrap_or(&Node::Unknown)
    }

    /// Returns the offset at which a value was created.
    pub(crate) fn place(&self, id: Id) -> u64 {
        self.places.get(id.0 as usize).copied().unwrap_or_default()
    }

    /// Creates an [`Error`] for a value that violates the format.
    pub(crate) fn error(
        &self,
        id: Id,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> Error {
        self.blob.malformed(self.place(id), expected, found).into()
    }

    /// Creates an error for a value that exceeds a limit of the reader.
    pub(crate) fn over_limit(&self, id: Id, limit: impl Into<Ceiling>) -> Error {
        self.blob.over_limit(self.place(id), limit).into()
    }

    /// Returns a string of bounded size; `None` for any other value.
    ///
    /// # Errors
    /// Fails if the string is too long, or its encoding is invalid.
    pub(crate) fn word(&self, id: Id) -> Result<Option<String>> {
        let Node::Text(span, encoding) = self.node(id) else { return Ok(None) };
        if span.len > MAX_WORD {
            return Err(self.over_limit(id, format!("at most {MAX_WORD} bytes of a text")));
        }
        self.text(id, *span, *encoding).map(Some)
    }

    /// Returns a short string, such as a code; `None` for any other value.
    pub(crate) fn short(&self, id: Id) -> Option<String> {
        match self.node(id) {
            Node::Text(span, encoding) if span.len <= MAX_SHORT => {
                self.text(id, *span, *encoding).ok()
            }
            _ => None,
        }
    }

    /// Returns a string of any size.
    ///
    /// # Errors
    /// Fails if its encoding is invalid.
    pub(crate) fn text(&self, id: Id, span: Span, encoding: Encoding) -> Result<String> {
        let bytes = self.bytes(span)?;
        text::decode(&bytes, encoding).ok_or_else(|| {
            let found = format!("`{}`", start(&bytes).escape_ascii());
            self.error(id, "valid text in its encoding", found)
        })
    }

    /// Reads bytes of the file.
    ///
    /// # Errors
    /// Fails if reading fails.
    pub(crate) fn bytes(&self, span: Span) -> Result<bytes::Bytes> {
        Ok(self.blob.slice(span.start, span.len)?.read()?)
    }

    /// Returns module and name of an import. A long name is replaced by a description, because a few bytes suffice
    /// to import it repeatedly.
    pub(crate) fn global(&self, id: Id) -> Option<(String, String)> {
        let Node::Global(module, name) = self.node(id) else { return None };
        let word = |id| {
            let named = matches!(self.node(id), Node::Text(span, _) if span.len <= MAX_NAME);
            let word = named.then(|| self.word(id).ok().flatten()).flatten();
            word.unwrap_or_else(|| self.describe(id))
        };
        Some((word(*module), word(*name)))
    }

    /// Describes a value for a message, in bounded length.
    pub(crate) fn describe(&self, id: Id) -> String {
        let mut text = String::new();
        self.describe_into(id, &mut text, MAX_LEVELS);
        text
    }

    /// Describes a value up to `left` levels and [`LONG`] bytes.
    fn describe_into(&self, id: Id, out: &mut String, left: usize) {
        if out.len() > LONG || left == 0 {
            out.push_str("..");
            return;
        }
        let some = |span: Span| {
            let span = Span { len: span.len.min(QUOTED), ..span };
            self.bytes(span).unwrap_or_default()
        };
        let more = |span: Span| if span.len > QUOTED { ".." } else { "" };
        match self.node(id) {
            Node::None => out.push_str("None"),
            Node::Bool(true) => out.push_str("True"),
            Node::Bool(false) => out.push_str("False"),
            Node::Int(value) => _ = write!(out, "{value}"),
            Node::BigInt(span) => _ = write!(out, "an integer of {} bytes", span.len),
            Node::Digits(span) => _ = write!(out, "an integer of {} digits", span.len),
            Node::Float(value) => _ = write!(out, "{value:?}"),
            Node::Text(span, encoding) => {
                let bytes = some(*span);
                match text::decode(&bytes, *encoding) {
                    Some(text) => _ = write!(out, "'{}{}'", text.escape_debug(), more(*span)),
                    None => _ = write!(out, "'{}{}'", bytes.escape_ascii(), more(*span)),
                }
            }
            Node::Bytes(span) => {
                _ = write!(out, "b'{}{}'", some(*span).escape_ascii(), more(*span))
            }
            Node::ByteArray(span) => {
                _ = write!(out, "bytearray(b'{}{}')", some(*span).escape_ascii(), more(*span));
            }
            Node::List(items) => self.describe_all("[", items, "]", out, left),
            Node::Tuple(items) => self.describe_all("(", items, ")", out, left),
            Node::Set(items) => self.describe_all("{", items, "}", out, left),
            Node::FrozenSet(items) => self.describe_all("frozenset({", items, "})", out, left),
            Node::Dict(pairs) => {
                out.push('{');
                for (number, (key, value)) in pairs.iter().take(FEW).enumerate() {
                    out.push_str(if number > 0 { ", " } else { "" });
                    self.describe_into(*key, out, left - 1);
                    out.push_str(": ");
                    self.describe_into(*value, out, left - 1);
                }
                out.push_str(if pairs.len() > FEW { ", ..}" } else { "}" });
            }
            Node::Global(module, name) => {
                for (part, dot) in [(module, "."), (name, "")] {
                    let word = match self.node(*part) {
                        Node::Text(span, encoding) => text::decode(&some(*span), *encoding),
                        _ => None,
                    };
                    let word = word.unwrap_or_else(|| "?".to_owned());
                    _ = write!(out, "{}{dot}", word.escape_debug());
                }
            }
            Node::Extension(code) => _ = write!(out, "extension {code}"),
            Node::Persistent(id) => {
                out.push_str("persistent id ");
                self.describe_into(*id, out, left - 1);
            }
            Node::Object(object) => {
                self.describe_into(object.callable, out, left - 1);
                match self.node(object.arguments) {
                    Node::Tuple(items) => self.describe_all("(", items, ")", out, left),
                    _ => {
                        out.push_str("(*");
                        self.describe_into(object.arguments, out, left - 1);
                        out.push(')');
                    }
                }
            }
            Node::Unknown => out.push('?'),
        }
    }

    fn describe_all(&self, open: &str, items: &[Id], close: &str, out: &mut String, left: usize) {
        out.push_str(open);
        for (number, item) in items.iter().take(FEW).enumerate() {
            out.push_str(if number > 0 { ", " } else { "" });
            self.describe_into(*item, out, left - 1);
        }
        out.push_str(if items.len() > FEW { ", .." } else { "" });
        out.push_str(close);
    }
}

/// Limits of a description: levels, items per level, bytes of a string, total bytes.
const MAX_LEVELS: usize = 5;
const FEW: usize = 8;
const QUOTED: u64 = 160;
const LONG: usize = 400;

fn start(bytes: &[u8]) -> &[u8] {
    bytes.get(..24).unwrap_or(bytes)
}
