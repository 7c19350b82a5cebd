//! Imports and calls of honest pickles of tensors, by exact module and name, and their allowed
//! forms. Everything else is a finding.
//!
//! A name in this table may be called with any arguments that a pickle can build from the rest: it reads and writes no
//! files, imports nothing, and calls none of its arguments, unless only a specific form is allowed. The
//! result of a call is never called, never used as a name, and given a state only if its class is known to accept
//! one.

use std::collections::{HashMap, HashSet};

use super::tree::{How, Id, Node, Object, Tree};
use crate::registry::IMPORTS;

/// The allowed use of an import.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// It may be called, and passed on.
    Call,
    /// In addition, the result of a call may be given attributes.
    Attributes,
    /// In addition, the result of a call may be given a state, which its own method takes.
    State,
    /// `encode('..', 'latin1')`: bytes encoded as a string.
    Encode,
    /// `eval('data', {'data': array})`, only in this form.
    Eval,
    /// `_reconstructor(class, object, None)`, which protocols 0 and 1 use to create instances.
    Reconstructor,
}

/// Imports and calls of a pickle that tensors do not need.
pub(super) struct Suspects(HashSet<Id>);

impl Suspects {
    pub(super) fn of(tree: &Tree) -> Self {
        let mut suspects = HashSet::new();
        let mut known = HashMap::new();
        for (id, node) in tree.nodes() {
            if let Node::Global(..) = node {
                match use_of(tree, id) {
                    Some(what) => _ = known.insert(id, what),
                    None => _ = suspects.insert(id),
                }
            }
        }
        let mut called = HashSet::new();
        for (id, node) in tree.nodes() {
            let Node::Object(object) = node else {
                if let Node::Extension(_) = node {
                    suspects.insert(id);
                }
                continue;
            };
            called.insert(object.callable);
            let is_fine = known.get(&object.callable).is_some_and(|what| what.allows(tree, object));
            if !is_fine {
                suspects.insert(id);
                // A disallowed use of an import makes its other uses suspicious too.
                if known.get(&object.callable).is_some_and(|what| what.has_form()) {
                    suspects.insert(object.callable);
                }
            }
        }
        let handed_on = tree.handed_on();
        for (id, what) in &known {
            if what.has_form() && (handed_on.contains(id) || !called.contains(id)) {
                suspects.insert(*id);
            }
        }
        for (id, node) in tree.nodes() {
            if let Node::Object(object) = node
                && suspects.contains(&object.callable)
            {
                suspects.insert(id);
            }
        }
        Self(suspects)
    }

    pub(super) fn contains(&self, id: Id) -> bool {
        self.0.contains(&id)
    }
}

impl Use {
    /// Returns whether only one form of call is allowed, and the import must not be passed on.
    fn has_form(self) -> bool {
        matches!(self, Self::Eval | Self::Reconstructor)
    }

    /// Returns whether a call, and the use of its result, are allowed.
    fn allows(self, tree: &Tree, object: &Object) -> bool {
        if object.how == How::Patch {
            return false;
        }
        let has_form = match self {
            Self::Call | Self::Attributes | Self::State => true,
            Self::Encode => encodes(tree, object),
            Self::Eval => object.how == How::Reduce && is_data(tree, object),
            Self::Reconstructor => object.how == How::Reduce && reconstructs(tree, object),
        };
        let may_have = |state: &Id| match self {
            Self::State => true,
            Self::Attributes | Self::Reconstructor => are_attributes(tree, *state),
            Self::Call | Self::Encode | Self::Eval => false,
        };
        has_form && object.state.iter().all(may_have)
    }
}

/// A module, names in it, and their allowed use.
pub(crate) type Row = (&'static str, &'static [&'static str], Use);

/// Returns the allowed use of a name in a module.
pub(crate) fn find(rows: &[Row], module: &str, name: &str) -> Option<Use> {
    let has = |(known, names, _): &&Row| *known == module && names.contains(&name);
    rows.iter().find(has).map(|(.., what)| *what)
}

/// Returns the allowed use of an import. Module and name must be string literals of the file.
fn use_of(tree: &Tree, id: Id) -> Option<Use> {
    let Node::Global(module, name) = tree.node(id) else { return None };
    let (module, name) = (tree.short(*module)?, tree.short(*name)?);
    let of_framework = || IMPORTS.iter().find_map(|imports| imports(&module, &name));
    find(KNOWN, &module, &name).or_else(of_framework)
}

/// Returns the arguments of a call, if their number is `COUNT`.
fn arguments<'a, const COUNT: usize>(tree: &'a Tree, object: &Object) -> Option<&'a [Id; COUNT]> {
    match tree.node(object.arguments) {
        Node::Tuple(items) if object.named.is_none() => items.as_slice().try_into().ok(),
        _ => None,
    }
}

fn encodes(tree: &Tree, object: &Object) -> bool {
    const ENCODINGS: [&str; 3] = ["latin1", "latin-1", "utf-8"];
    let Some([text, encoding]) = arguments(tree, object) else { return false };
    matches!(tree.node(*text), Node::Text(..))
        && tree.short(*encoding).is_some_and(|encoding| ENCODINGS.contains(&encoding.as_str()))
}

/// Returns whether the arguments of `eval` are the name of an array, and a dict of only that name to the array.
fn is_data(tree: &Tree, object: &Object) -> bool {
    let is_name = |id: Id| tree.short(id).is_some_and(|name| name == "data");
    let Some([code, names]) = arguments(tree, object) else { return false };
    let Node::Dict(names) = tree.node(*names) else { return false };
    let [(name, data)] = names.as_slice() else { return false };
    let is_array = match tree.node(*data) {
        Node::Object(array) => use_of(tree, array.callable) == Some(Use::State),
        // An uninitialized array.
        Node::None => true,
        _ => false,
    };
    is_name(*code) && is_name(*name) && is_array
}

fn reconstructs(tree: &Tree, object: &Object) -> bool {
    let Some([class, base, state]) = arguments(tree, object) else { return false };
    let is_object = tree.global(*base).is_some_and(|(module, name)| {
        matches!(module.as_str(), "builtins" | "__builtin__") && name == "object"
    });
    let is_class = matches!(tree.node(*class), Node::Global(..));
    is_class && is_object && matches!(tree.node(*state), Node::None)
}

/// Returns whether a state consists of attributes with ordinary names. An attribute `__setstate__` would be called with
/// the next state.
fn are_attributes(tree: &Tree, state: Id) -> bool {
    let are_usual = |id: &Id| match tree.node(*id) {
        Node::Dict(pairs) => pairs.iter().all(|(key, _)| {
            matches!(tree.node(*key), Node::Text(..))
                && tree.word(*key).is_ok_and(|key| key.is_some_and(|key| !key.starts_with("__")))
        }),
        Node::None => true,
        _ => false,
    };
    match tree.node(state) {
        // Attributes and slots; a longer tuple is rejected.
        Node::Tuple(both) if both.len() == 2 => both.iter().all(are_usual),
        Node::Tuple(_) => true,
        _ => are_usual(&state),
    }
}

/// Imports of pickles of tensors in any framework, by module.
const KNOWN: &[Row] = &[
    ("numpy", &["dtype"], Use::State),
    ("numpy", NUMPY, Use::Call),
    ("numpy.core.multiarray", &["_reconstruct"], Use::State),
    ("numpy._core.multiarray", &["_reconstruct"], Use::State),
    ("numpy.core.multiarray", &["scalar"], Use::Call),
    ("numpy._core.multiarray", &["scalar"], Use::Call),
    ("numpy.core.numeric", &["_frombuffer"], Use::State),
    ("numpy._core.numeric", &["_frombuffer"], Use::State),
    ("numpy.ma.core", &["_mareconstruct"], Use::State),
    ("numpy.ma.core", MASKED, Use::Call),
    ("numpy.ma", MASKED, Use::Call),
    ("numpy.dtypes", DTYPES, Use::Call),
    ("_codecs", &["encode"], Use::Encode),
    ("collections", &["OrderedDict"], Use::Attributes),
    ("collections", &["Counter", "defaultdict", "deque"], Use::Call),
    ("datetime", &["date", "datetime", "time", "timedelta", "timezone"], Use::Call),
    ("decimal", &["Decimal"], Use::Call),
    ("pathlib", PATHS, Use::Call),
    ("pathlib._local", PATHS, Use::Call),
    ("builtins", BUILTINS, Use::Call),
    ("__builtin__", BUILTINS, Use::Call),
    ("builtins", &["eval"], Use::Eval),
    ("__builtin__", &["eval"], Use::Eval),
    ("copy_reg", &["_reconstructor"], Use::Reconstructor),
    ("copyreg", &["_reconstructor"], Use::Reconstructor),
];

#[rustfmt::skip]
const BUILTINS: &[&str] = &[
    "bool", "bytearray", "bytes", "complex", "dict", "float", "frozenset", "int", "list", "object",
    "range", "set", "slice", "str", "tuple", "xrange", "long", "unicode",
];

/// Classes of paths, which are created but not followed.
const PATHS: &[&str] =
    &["Path", "PosixPath", "PurePath", "PurePosixPath", "PureWindowsPath", "WindowsPath"];

/// Arrays and scalars.
#[rustfmt::skip]
const NUMPY: &[&str] = &[
    "ndarray", "bool_", "bool", "bytes_", "complex128", "complex64", "datetime64", "float16", "float32",
    "float64", "int16", "int32", "int64", "int8", "str_", "timedelta64", "uint16", "uint32", "uint64",
    "uint8", "void",
];

const MASKED: &[&str] = &["MaskedArray", "MaskedConstant", "mvoid"];

#[rustfmt::skip]
const DTYPES: &[&str] = &[
    "BoolDType", "BytesDType", "Complex128DType", "Complex64DType", "DateTime64DType", "Float16DType",
    "Float32DType", "Float64DType", "Int16DType", "Int32DType", "Int64DType", "Int8DType", "StrDType",
    "TimeDelta64DType", "UInt16DType", "UInt32DType", "UInt64DType", "UInt8DType",
];
