//! Attributes: constants of operators, variables and tensors.

use std::fmt;

use bytes::Bytes;

use crate::nested::sealed::Depth;
use crate::{Nested, Tensor, TooDeep, ValueType};

/// A named constant of an operator or variable.
#[derive(Clone, Debug, PartialEq)]
pub struct Attribute {
    /// The name, such as `strides`.
    pub name: String,
    /// The value.
    pub value: AttributeValue,
}

/// The value of an attribute.
///
/// Formats and reports match it without a `_` arm, so that each kind is handled explicitly. Nested values are
/// [`Nested`], which bounds their depth: build them with [`list`](Self::list) and [`dict`](Self::dict).
#[derive(Clone, Debug, PartialEq)]
pub enum AttributeValue {
    /// No value: the attribute is present but empty.
    None,
    /// A boolean.
    Bool(bool),
    /// A 32-bit integer.
    Int(i32),
    /// A 64-bit integer.
    Long(i64),
    /// A 32-bit float.
    Float(f32),
    /// A 64-bit float.
    Double(f64),
    /// A string: text, or arbitrary bytes.
    String(ByteString),
    /// Booleans.
    Bools(Vec<bool>),
    /// 32-bit integers.
    Ints(Vec<i32>),
    /// 64-bit integers.
    Longs(Vec<i64>),
    /// 32-bit floats.
    Floats(Vec<f32>),
    /// 64-bit floats.
    Doubles(Vec<f64>),
    /// Strings.
    Strings(Vec<ByteString>),
    /// The index of a block of the program.
    Block(i32),
    /// Indices of blocks of the program.
    Blocks(Vec<i32>),
    /// The name of a variable that the operator reads.
    Var(String),
    /// Names of variables that the operator reads.
    Vars(Vec<String>),
    /// A scalar that carries its type.
    Scalar(Scalar),
    /// Scalars, each of which carries its type.
    Scalars(Vec<Scalar>),
    /// A tensor.
    Tensor(Box<Tensor>),
    /// Tensors.
    Tensors(Vec<Tensor>),
    /// A sparse tensor.
    SparseTensor(Box<Tensor>),
    /// Sparse tensors.
    SparseTensors(Vec<Tensor>),
    /// A value type.
    Type(Box<ValueType>),
    /// Value types.
    Types(Vec<ValueType>),
    /// A list of values of any kind.
    List(Nested<Vec<AttributeValue>>),
    /// Values by key, in file order.
    Dict(Nested<Vec<Attribute>>),
    /// A reference to an attribute of the enclosing function.
    Reference {
        /// The name of the function's attribute.
        name: String,
        /// The type code of the attribute.
        kind: i32,
    },
    /// An attribute type that the reader does not support, by its code; the value is in the residual.
    Unknown(i32),
}

/// A scalar that carries its type.
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(missing_docs, reason = "the names are self-explanatory")]
pub enum Scalar {
    Bool(bool),
    Long(i64),
    Double(f64),
    Complex(Complex),
    /// A scalar type that the reader does not support, by its code.
    Unknown(i32),
}

/// A complex number.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Complex {
    /// The real part.
    pub re: f64,
    /// The imaginary part.
    pub im: f64,
}

/// Bytes that are usually, but not necessarily, UTF-8 text.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct ByteString(pub Bytes);

impl AttributeValue {
    /// Returns a list of values of any kind.
    ///
    /// # Errors
    /// [`TooDeep`] if the values are nested too deeply.
    pub fn list(values: Vec<Self>) -> Result<Self, TooDeep> {
        Nested::new(values).map(Self::List)
    }

    /// Returns a dictionary of values by key.
    ///
    /// # Errors
    /// [`TooDeep`] if the values are nested too deeply.
    pub fn dict(entries: Vec<Attribute>) -> Result<Self, TooDeep> {
        Nested::new(entries).map(Self::Dict)
    }

    /// Returns the values inside lists and dictionaries, in order; or the value itself if it is neither.
    pub fn leaves(&self) -> impl Iterator<Item = &Self> {
        let (mut next, mut open) = (Some(self), Vec::new());
        std::iter::from_fn(move || {
            loop {
                match next.take().or_else(|| open.pop())? {
                    Self::List(values) => open.extend(values.iter().rev()),
                    Self::Dict(entries) => open.extend(entries.iter().rev().map(|it| &it.value)),
                    leaf => return Some(leaf),
                }
            }
        })
    }

    /// The mutable counterpart of [`leaves`](Self::leaves), for edits that do not change the depth.
    fn leaves_mut(&mut self) -> impl Iterator<Item = &mut Self> {
        let (mut next, mut open) = (Some(self), Vec::new());
        std::iter::from_fn(move || {
            loop {
                match next.take().or_else(|| open.pop())? {
                    Self::List(values) => open.extend(values.value_mut().iter_mut().rev()),
                    Self::Dict(entries) => {
                        let entries = entries.value_mut().iter_mut().rev();
                        open.extend(entries.map(|it| &mut it.value));
                    }
                    leaf => return Some(leaf),
                }
            }
        })
    }

    /// Returns the tensors in the value.
    pub fn tensors(&self) -> impl Iterator<Item = &Tensor> {
        self.leaves().flat_map(|leaf| match leaf {
            Self::Tensor(tensor) | Self::SparseTensor(tensor) => std::slice::from_ref(&**tensor),
            Self::Tensors(tensors) | Self::SparseTensors(tensors) => tensors,
            _ => &[],
        })
    }

    /// Returns mutable references to the tensors in the value.
    pub(crate) fn tensors_mut(&mut self) -> impl Iterator<Item = &mut Tensor> {
        self.leaves_mut().flat_map(|leaf| match leaf {
            Self::Tensor(tensor) | Self::SparseTensor(tensor) => {
                std::slice::from_mut(&mut **tensor)
            }
            Self::Tensors(tensors) | Self::SparseTensors(tensors) => tensors,
            _ => &mut [],
        })
    }

    /// Returns the indices of the blocks that the value refers to.
    pub fn blocks(&self) -> impl Iterator<Item = i32> {
        let blocks = self.leaves().flat_map(|leaf| match leaf {
            Self::Block(block) => std::slice::from_ref(block),
            Self::Blocks(blocks) => blocks,
            _ => &[],
        });
        blocks.copied()
    }

    /// Returns the names of the variables that the value refers to.
    pub fn names(&self) -> impl Iterator<Item = &String> {
        self.leaves().flat_map(|leaf| match leaf {
            Self::Var(name) => std::slice::from_ref(name),
            Self::Vars(names) => names,
            _ => &[],
        })
    }

    /// Calls `edit` for each block index in the value.
    pub fn edit_blocks(&mut self, mut edit: impl FnMut(&mut i32)) {
        for leaf in self.leaves_mut() {
            match leaf {
                Self::Block(block) => edit(block),
                Self::Blocks(blocks) => blocks.iter_mut().for_each(&mut edit),
                _ => {}
            }
        }
    }

    /// Calls `edit` for each variable name in the value.
    pub fn edit_names(&mut self, mut edit: impl FnMut(&mut String)) {
        for leaf in self.leaves_mut() {
            match leaf {
                Self::Var(name) => edit(name),
                Self::Vars(names) => names.iter_mut().for_each(&mut edit),
                _ => {}
            }
        }
    }
}

impl Depth for AttributeValue {
    fn depth(&self) -> usize {
        match self {
            Self::List(values) => values.depth(),
            Self::Dict(entries) => entries.depth(),
            _ => 0,
        }
    }
}

impl Depth for Attribute {
    fn depth(&self) -> usize {
        self.value.depth()
    }
}

impl fmt::Debug for ByteString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.to_string())
    }
}

impl fmt::Display for ByteString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.0))
    }
}

impl From<&str> for ByteString {
    fn from(text: &str) -> Self {
        Self(Bytes::copy_from_slice(text.as_bytes()))
    }
}

macro_rules! from_values {
    ($($from:ty => $to:ident),+ $(,)?) => {
        $(impl From<$from> for AttributeValue {
            fn from(value: $from) -> Self {
                Self::$to(value)
            }
        })+
    };
}

from_values! {
    bool => Bool,
    i32 => Int,
    i64 => Long,
    f32 => Float,
    f64 => Double,
    Vec<i32> => Ints,
    Vec<i64> => Longs,
    Vec<f32> => Floats,
    Vec<f64> => Doubles,
}

impl From<&str> for AttributeValue {
    fn from(value: &str) -> Self {
        Self::String(ByteString::from(value))
    }
}
