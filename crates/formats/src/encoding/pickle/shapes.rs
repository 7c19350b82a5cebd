//! The references that a format allows in a pickle: a table of imports, and what each represents.
//! Anything else is an error, wherever it occurs in the pickle and whether or not it is
//! used: calls whose results are discarded are executed too.

use std::collections::HashMap;
use std::sync::Arc;

use lodstone_store::Blob;

use super::array::{self, Array, Number};
use super::opcode::Span;
use super::text::Encoding;
use super::text::{Latin1, Spelling};
use super::tree::{How, Id, Node, Object, Tree};
use crate::error::{Error, Result};

/// What an import represents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Builds {
    /// NumPy's array type, as an argument of others.
    Ndarray,
    /// A NumPy element type: `dtype('f4', False, True)`.
    Dtype,
    /// An array without its state: `_reconstruct(ndarray, (0,), b'b')`.
    Reconstruct,
    /// A complete array, protocol 5: `_frombuffer(bytes, dtype, shape, 'C')`.
    FromBuffer,
    /// A NumPy scalar: `scalar(dtype, bytes)`.
    Scalar,
    /// Bytes encoded as a string: `encode('..', 'latin1')`.
    Encode,
    /// `tuple(value)`: the value, which must be a tuple.
    Tuple,
    /// `eval('data', {'data': array})`, only in this form: the array. The string describes the form in messages.
    Eval(&'static str),
    /// `bytes()`, empty.
    Bytes,
    /// `bytearray(bytes)`.
    ByteArray,
    /// `set([..])` and `frozenset([..])`.
    Set,
    /// `complex(1.0, 2.0)`.
    Complex,
    /// An ordered dict.
    OrderedDict,
    /// An instance of a class, represented by its attributes.
    Record,
    /// The same in protocols 0 and 1: `_reconstructor(class, object, None)`.
    Reconstructor,
    /// The base class `object`, as an argument of others.
    Object,
    /// An object that the format itself interprets; it is not inspected here.
    Opaque,
}

/// A row of the table.
#[derive(Debug)]
pub(crate) struct Rule {
    /// The modules that contain it, under old and new names.
    pub(crate) modules: &'static [&'static str],
    pub(crate) name: &'static str,
    pub(crate) builds: Builds,
}

/// The modules of built-in functions and types, in Python 3 and 2.
pub(crate) const BUILTINS: &[&str] = &["builtins", "__builtin__"];

/// The modules of arrays, in NumPy 1 and 2.
pub(crate) const MULTIARRAY: &[&str] = &["numpy.core.multiarray", "numpy._core.multiarray"];

/// Creates a row of the table.
pub(crate) const fn rule(
    modules: &'static [&'static str],
    name: &'static str,
    builds: Builds,
) -> Rule {
    Rule { modules, name, builds }
}

impl Rule {
    /// Returns what an import represents according to a table.
    pub(crate) fn find(rules: &[Self], module: &str, name: &str) -> Option<Builds> {
        let mut rules = rules.iter();
        let rule = rules.find(|rule| rule.name == name && rule.modules.contains(&module));
        rule.map(|rule| rule.builds)
    }
}

/// A value, one level deep, as interpreted by the table of a format.
#[derive(Debug)]
pub(crate) enum Value<'a> {
    None,
    Bool(bool),
    Int(i64),
    /// An integer beyond 64 bits, as hexadecimal or decimal digits.
    Big(String),
    Float(f64),
    Complex(f64, f64),
    Text(Span, Encoding),
    Bytes(Data),
    List(&'a [Id]),
    Tuple(&'a [Id]),
    Set(&'a [Id]),
    Dict(&'a [(Id, Id)]),
    Array(Array),
    /// A NumPy scalar, or several: the element type and the bytes.
    Number(Number),
    /// A class and attributes.
    Record(String, &'a [(Id, Id)]),
}

/// Bytes, and how they are encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Data {
    pub(crate) span: Span,
    pub(crate) spelling: Spelling,
}

impl Data {
    /// Creates data that is stored as plain bytes.
    pub(crate) fn plain(span: Span) -> Self {
        Self { span, spelling: Spelling::Plain }
    }
}

/// A pickle with only the references that a table allows.
#[derive(Debug)]
pub(crate) struct Shapes {
    pub(crate) tree: Tree,
    globals: HashMap<Id, Builds>,
}

impl Shapes {
    /// Checks every value of a pickle, reachable or not; `allowed` returns what an import, by module and name,
    /// represents.
    ///
    /// # Errors
    /// Fails with the first other import or call, and its location.
    pub(crate) fn check(
        tree: Tree,
        allowed: impl Fn(&str, &str) -> Option<Builds>,
    ) -> Result<Self> {
        let mut globals = HashMap::new();
        for (id, node) in tree.nodes() {
            match node {
                Node::Global(..) => {
                    let Some((module, name)) = tree.global(id) else { continue };
                    let builds = allowed(&module, &name).ok_or_else(|| refused(&tree, id))?;
                    globals.insert(id, builds);
                }
                Node::Extension(_) | Node::Persistent(_) => return Err(refused(&tree, id)),
                _ => {}
            }
        }
        let shapes = Self { tree, globals };
        for (id, node) in shapes.tree.nodes() {
            if let Node::Object(object) = node {
                shapes.check_object(id, object)?;
            }
        }
        Ok(shapes)
    }

    /// Interprets a pickle with any imports and calls, of which the caller inspects those that are not in its table.
    pub(crate) fn unchecked(tree: Tree, known: impl Fn(&str, &str) -> Option<Builds>) -> Self {
        let mut globals = HashMap::new();
        for (id, node) in tree.nodes() {
            if let Node::Global(..) = node
                && let Some(builds) =
                    tree.global(id).and_then(|(module, name)| known(&module, &name))
            {
                globals.insert(id, builds);
            }
        }
        Self { tree, globals }
    }

    /// Returns what the callable of an object represents.
    pub(crate) fn builds(&self, id: Id) -> Option<Builds> {
        self.globals.get(&id).copied()
    }

    /// Returns the arguments of an object.
    pub(crate) fn arguments(&self, object: &Object) -> &[Id] {
        match self.tree.node(object.arguments) {
            Node::Tuple(items) => items,
            _ => &[],
        }
    }

    fn check_object(&self, id: Id, object: &Object) -> Result<()> {
        let Some(builds) = self.builds(object.callable) else {
            return Err(refused(&self.tree, id));
        };
        let plain = object.how == How::Reduce
            && object.named.is_none()
            && object.state.is_empty()
            && object.items.is_empty()
            && object.pairs.is_empty();
        let arguments = self.arguments(object);
        let is_text = |id: &Id, texts: &[&str]| {
            self.tree.short(*id).is_some_and(|word| texts.contains(&word.as_str()))
        };
        let (form, good) = match (builds, arguments) {
            (Builds::Opaque, _) => return Ok(()),
            (Builds::Ndarray, _) => ("`_reconstruct` instead of an instance of ndarray", false),
            (Builds::Dtype, _) => return array::check_dtype(self, id, object),
            (Builds::Reconstruct, _) => return array::check_reconstruct(self, id, object),
            (Builds::FromBuffer, _) => return array::from_buffer(self, id, object).map(|_| ()),
            (Builds::Scalar, _) => return array::scalar(self, id, object).map(|_| ()),
            (Builds::Encode, [text, codec]) => {
                let good = self.encoded(*text).is_some();
                let codecs = ["latin1", "latin-1", "iso-8859-1"];
                ("`encode(text, 'latin1')`", plain && good && is_text(codec, &codecs))
            }
            (Builds::Encode, _) => ("`encode(text, 'latin1')`", false),
            (Builds::Tuple, [items]) => {
                let good = matches!(self.tree.node(*items), Node::Tuple(_));
                ("`tuple((name, array))`", plain && good)
            }
            (Builds::Tuple, _) => ("`tuple((name, array))`", false),
            (Builds::Eval(form), _) => (form, plain && self.evaluated(object).is_some()),
            (Builds::Bytes, _) => ("`bytes()`", plain && arguments.is_empty()),
            (Builds::ByteArray, _) => {
                let good = match arguments {
                    [] => true,
                    [bytes] => self.data(*bytes).is_some(),
                    [text, codec] => {
                        self.encoded(*text).is_some() && is_text(codec, &["latin-1", "latin1"])
                    }
                    _ => false,
                };
                ("`bytearray(bytes)`", plain && good)
            }
            (Builds::Set, [items]) => {
                let good = matches!(self.tree.node(*items), Node::List(_));
                ("`set([..])`", plain && good)
            }
            (Builds::Set, _) => ("`set([..])`", false),
            (Builds::Complex, [re, im]) => {
                let float = |id: &Id| matches!(self.tree.node(*id), Node::Float(_));
                ("`complex(1.0, 2.0)`", plain && float(re) && float(im))
            }
            (Builds::Complex, _) => ("`complex(1.0, 2.0)`", false),
            (Builds::OrderedDict, _) => {
                let good = arguments.is_empty() && object.state.is_empty();
                let good = good && object.items.is_empty() && object.named.is_none();
                ("`OrderedDict()` and its items", good)
            }
            (Builds::Record, _) => {
                let new = object.how == How::New && arguments.is_empty();
                ("an instance and its attributes", new && has_attributes(&self.tree, object))
            }
            (Builds::Reconstructor, [class, base, none]) => {
                let classes = [self.builds(*class), self.builds(*base)];
                let good = classes == [Some(Builds::Record), Some(Builds::Object)]
                    && matches!(self.tree.node(*none), Node::None)
                    && object.how == How::Reduce;
                let form = "`_reconstructor(class, object, None)` and attributes";
                (form, good && has_attributes(&self.tree, object))
            }
            (Builds::Reconstructor, _) => ("`_reconstructor(class, object, None)`", false),
            (Builds::Object, _) => ("no instance of object itself", false),
        };
        if good {
            return Ok(());
        }
        let found = format!("`{}`, which was not called", self.tree.describe(id));
        Err(self.tree.error(id, form, found))
    }

    /// Returns the array of `eval('data', {'data': array})`; `None` for any other form.
    fn evaluated(&self, object: &Object) -> Option<Id> {
        let [text, scope] = self.arguments(object) else { return None };
        if self.tree.short(*text)? != "data" {
            return None;
        }
        let Node::Dict(pairs) = self.tree.node(*scope) else { return None };
        let [(key, value)] = pairs.as_slice() else { return None };
        if self.tree.short(*key)? != "data" {
            return None;
        }
        let Node::Object(value_object) = self.tree.node(*value) else { return None };
        let builds = self.builds(value_object.callable)?;
        matches!(builds, Builds::Reconstruct | Builds::FromBuffer).then_some(*value)
    }

    /// Returns bytes, in any encoding.
    pub(crate) fn data(&self, id: Id) -> Option<Data> {
        match self.tree.node(id) {
            Node::Bytes(span) | Node::ByteArray(span) | Node::Text(span, Encoding::Bytes) => {
                Some(Data::plain(*span))
            }
            Node::Object(object) => {
                let first = self.arguments(object).first().copied();
                match self.builds(object.callable)? {
                    Builds::Bytes => Some(Data::plain(Span { start: 0, len: 0 })),
                    Builds::Encode => self.encoded(first?),
                    // The argument of a bytearray is never a bytearray.
                    Builds::ByteArray => match first {
                        None => Some(Data::plain(Span { start: 0, len: 0 })),
                        Some(first) => match self.tree.node(first) {
                            Node::Text(..) => self.encoded(first),
                            Node::Bytes(span) => Some(Data::plain(*span)),
                            Node::Object(inner) => {
                                let builds = self.builds(inner.callable)?;
                                let text = self.arguments(inner).first().copied();
                                (builds == Builds::Encode).then(|| self.encoded(text?))?
                            }
                            _ => None,
                        },
                    },
                    _ => None,
                }
            }
            _ => None,
        }
    }

    fn encoded(&self, text: Id) -> Option<Data> {
        let Node::Text(span, encoding) = self.tree.node(text) else { return None };
        let spelling = match encoding {
            Encoding::Utf8 => Spelling::Utf8,
            Encoding::Escaped => Spelling::Escaped,
            Encoding::Bytes | Encoding::Quoted => return None,
        };
        Some(Data { span: *span, spelling })
    }

    /// Interprets a value.
    ///
    /// # Errors
    /// Fails if the value is valid only as part of others, or is an unsupported array.
    pub(crate) fn value(&self, id: Id) -> Result<Value<'_>> {
        Ok(match self.tree.node(id) {
            Node::None => Value::None,
            Node::Bool(value) => Value::Bool(*value),
            Node::Int(value) => Value::Int(*value),
            Node::BigInt(span) => Value::Big(hexadecimal(&self.tree.bytes(*span)?)),
            Node::Digits(span) => Value::Big(self.tree.text(id, *span, Encoding::Utf8)?),
            Node::Float(value) => Value::Float(*value),
            Node::Text(span, encoding) => Value::Text(*span, *encoding),
            Node::Bytes(span) | Node::ByteArray(span) => Value::Bytes(Data::plain(*span)),
            Node::List(items) => Value::List(items),
            Node::Tuple(items) => Value::Tuple(items),
            Node::Set(items) | Node::FrozenSet(items) => Value::Set(items),
            Node::Dict(pairs) => Value::Dict(pairs),
            Node::Object(object) => return self.object(id, object),
            Node::Global(..) | Node::Extension(_) | Node::Persistent(_) | Node::Unknown => {
                let found = format!("`{}` by itself", self.tree.describe(id));
                return Err(self.tree.error(id, "a value", found));
            }
        })
    }

    fn object<'a>(&'a self, id: Id, object: &'a Object) -> Result<Value<'a>> {
        let arguments = self.arguments(object);
        let first = arguments.first().copied().unwrap_or(id);
        let odd = || {
            let found = format!("`{}`", self.tree.describe(id));
            self.tree.error(id, "a value", found)
        };
        Ok(match self.builds(object.callable).ok_or_else(odd)? {
            Builds::Reconstruct => Value::Array(array::reconstructed(self, id, object)?),
            Builds::FromBuffer => Value::Array(array::from_buffer(self, id, object)?),
            Builds::Scalar => Value::Number(array::scalar(self, id, object)?),
            Builds::Encode | Builds::Bytes | Builds::ByteArray => {
                Value::Bytes(self.data(id).ok_or_else(odd)?)
            }
            Builds::Tuple => match self.tree.node(first) {
                Node::Tuple(items) => Value::Tuple(items),
                _ => return Err(odd()),
            },
            Builds::Eval(_) => {
                let array = self.evaluated(object).ok_or_else(odd)?;
                match self.tree.node(array) {
                    // A single step: the argument of `eval` is an array, which is never another `eval`.
                    Node::Object(inner) => match self.builds(inner.callable) {
                        Some(Builds::Reconstruct) => {
                            Value::Array(array::reconstructed(self, array, inner)?)
                        }
                        _ => Value::Array(array::from_buffer(self, array, inner)?),
                    },
                    _ => return Err(odd()),
                }
            }
            Builds::Set => match self.tree.node(first) {
                Node::List(items) => Value::Set(items),
                _ => return Err(odd()),
            },
            Builds::Complex => {
                let float = |id: Option<&Id>| match id.map(|id| self.tree.node(*id)) {
                    Some(Node::Float(value)) => Ok(*value),
                    _ => Err(odd()),
                };
                Value::Complex(float(arguments.first())?, float(arguments.get(1))?)
            }
            Builds::OrderedDict => Value::Dict(&object.pairs),
            Builds::Record | Builds::Reconstructor => {
                let class = match self.builds(object.callable) {
                    Some(Builds::Reconstructor) => first,
                    _ => object.callable,
                };
                let class = self.tree.describe(class);
                let attributes = match object.state.first().map(|state| self.tree.node(*state)) {
                    Some(Node::Dict(pairs)) => pairs.as_slice(),
                    _ => &[],
                };
                Value::Record(class, attributes)
            }
            Builds::Ndarray | Builds::Dtype | Builds::Object | Builds::Opaque => {
                return Err(odd());
            }
        })
    }

    /// Reads bytes.
    ///
    /// # Errors
    /// Fails if they are a string with other characters, or if reading fails.
    pub(crate) fn decoded(&self, data: Data) -> Result<bytes::Bytes> {
        let blob = self.tree.blob().slice(data.span.start, data.span.len)?;
        if data.spelling == Spelling::Plain {
            return Ok(blob.read()?);
        }
        Ok(Blob::derived(Arc::new(Latin1::new(blob, data.spelling)?)).read()?)
    }
}

/// Returns whether an object is given at most a dict of attributes.
fn has_attributes(tree: &Tree, object: &Object) -> bool {
    let state = match object.state.as_slice() {
        [] => true,
        [state] => matches!(tree.node(*state), Node::Dict(_)),
        _ => false,
    };
    state && object.items.is_empty() && object.pairs.is_empty() && object.named.is_none()
}

fn refused(tree: &Tree, id: Id) -> Error {
    let found = format!("`{}`, which was neither imported nor called", tree.describe(id));
    tree.error(id, "a pickle of tensors and plain values", found)
}

/// Formats a long little-endian integer in two's complement.
fn hexadecimal(bytes: &[u8]) -> String {
    let negative = bytes.last().is_some_and(|last| *last >= 0x80);
    let mut magnitude = bytes.to_vec();
    if negative {
        let mut carry = true;
        for byte in &mut magnitude {
            (*byte, carry) = (!*byte).overflowing_add(u8::from(carry));
        }
    }
    let digits: String = magnitude.iter().rev().map(|byte| format!("{byte:02x}")).collect();
    let digits = digits.trim_start_matches('0');
    format!("{}0x{digits}", if negative { "-" } else { "" })
}
