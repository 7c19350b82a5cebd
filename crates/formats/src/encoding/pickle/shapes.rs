//! What a format lets a pickle refer to: a table of things to be imported, and what each stands for.
//! Whatever is not in the table is an error, wherever in the pickle it is and whether or not it is
//! used: what a pickle calls and throws away is called all the same.

use std::collections::HashMap;
use std::sync::Arc;

use lodstone_store::Blob;

use super::array::{self, Array, Number};
use super::opcode::Span;
use super::text::Encoding;
use super::text::{Latin1, Spelling};
use super::tree::{How, Id, Node, Object, Tree};
use crate::{Error, Result};

/// What something that a pickle imports stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Builds {
    /// The type of an array of NumPy: an argument of others.
    Ndarray,
    /// An element type of NumPy: `dtype('f4', False, True)`.
    Dtype,
    /// An array without its state: `_reconstruct(ndarray, (0,), b'b')`.
    Reconstruct,
    /// An array at once, of protocol 5: `_frombuffer(bytes, dtype, shape, 'C')`.
    FromBuffer,
    /// A number of NumPy: `scalar(dtype, bytes)`.
    Scalar,
    /// Bytes as a text: `encode('..', 'latin1')`.
    Encode,
    /// `tuple(value)`: the value, which has to be a tuple.
    Tuple,
    /// `eval('data', {'data': array})`, in this form alone: the array. The text names the form in messages.
    Eval(&'static str),
    /// `bytes()`, empty.
    Bytes,
    /// `bytearray(bytes)`.
    ByteArray,
    /// `set([..])` and `frozenset([..])`.
    Set,
    /// `complex(1.0, 2.0)`.
    Complex,
    /// A dict that keeps its order.
    OrderedDict,
    /// An instance of a class that is shown by the attributes it would get.
    Record,
    /// The same as protocols 0 and 1 write it: `_reconstructor(class, object, None)`.
    Reconstructor,
    /// The base of all classes: an argument of others.
    Object,
    /// Anything that the format itself makes sense of; it is not looked into here.
    Opaque,
}

/// A line of the table.
#[derive(Debug)]
pub(crate) struct Rule {
    /// The modules it is found in: they were renamed.
    pub(crate) modules: &'static [&'static str],
    pub(crate) name: &'static str,
    pub(crate) builds: Builds,
}

/// Built-in functions and types, in Python 3 and 2.
pub(crate) const BUILTINS: &[&str] = &["builtins", "__builtin__"];

/// NumPy 1 and 2.
pub(crate) const MULTIARRAY: &[&str] = &["numpy.core.multiarray", "numpy._core.multiarray"];

/// A line of a table.
pub(crate) const fn rule(
    modules: &'static [&'static str],
    name: &'static str,
    builds: Builds,
) -> Rule {
    Rule { modules, name, builds }
}

impl Rule {
    /// What a table says of something to be imported.
    pub(crate) fn find(rules: &[Self], module: &str, name: &str) -> Option<Builds> {
        let mut rules = rules.iter();
        let rule = rules.find(|rule| rule.name == name && rule.modules.contains(&module));
        rule.map(|rule| rule.builds)
    }
}

/// What a value is, one level deep, seen through what a format allows.
#[derive(Debug)]
pub(crate) enum Value<'a> {
    None,
    Bool(bool),
    Int(i64),
    /// An integer beyond 64 bits, as a text.
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
    /// A number of NumPy, or several of them: its element type and its bytes.
    Number(Number),
    /// Class and attributes.
    Record(String, &'a [(Id, Id)]),
}

/// Bytes, and how they are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Data {
    pub(crate) span: Span,
    pub(crate) spelling: Spelling,
}

impl Data {
    /// Bytes as they are.
    pub(crate) fn plain(span: Span) -> Self {
        Self { span, spelling: Spelling::Plain }
    }
}

/// A pickle that holds only what a table allows.
#[derive(Debug)]
pub(crate) struct Shapes {
    pub(crate) tree: Tree,
    globals: HashMap<Id, Builds>,
}

impl Shapes {
    /// Checks every value of a pickle, reachable or not; `allowed` says what something to be
    /// imported, by module and name, stands for.
    ///
    /// # Errors
    /// If it would import or call anything else: what, and where.
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

    /// What the callable of an object stands for.
    pub(crate) fn builds(&self, id: Id) -> Option<Builds> {
        self.globals.get(&id).copied()
    }

    /// The arguments of an object.
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
            (Builds::Ndarray, _) => ("no instance of ndarray but by `_reconstruct`", false),
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

    /// The array of `eval('data', {'data': array})`; none if it has another form.
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

    /// Bytes, however they are written.
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
                    // Bytes inside a bytearray are never a bytearray again.
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

    /// What a value is.
    ///
    /// # Errors
    /// If it is something that is only a part of others, or an array that is not supported.
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
                    // One step: what is evaluated is an array and never evaluates again.
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

    /// Bytes, read.
    ///
    /// # Errors
    /// If they are a text with other characters; what reading gives.
    pub(crate) fn decoded(&self, data: Data) -> Result<bytes::Bytes> {
        let blob = self.tree.blob().slice(data.span.start, data.span.len)?;
        if data.spelling == Spelling::Plain {
            return Ok(blob.read()?);
        }
        Ok(Blob::derived(Arc::new(Latin1::new(blob, data.spelling)?)).read()?)
    }
}

/// Whether all that an object would be given is a dict of attributes, at most.
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

/// A little-endian number of many bytes in two's complement.
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
