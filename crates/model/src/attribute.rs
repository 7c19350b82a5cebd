//! Attributes: constants of operators, variables and tensors.

use std::fmt;

use bytes::Bytes;

use crate::nested::sealed::Depth;
use crate::{Nested, Tensor, TooDeep, ValueType};

/// A named constant of an operator or variable.
#[derive(Clone, Debug, PartialEq)]
pub struct Attribute {
    /// Its name: `strides`.
    pub name: String,
    /// Its value.
    pub value: AttributeValue,
}

/// A constant.
///
/// It is matched without `_` where a format or a report has to decide what becomes of every kind. Values in values are
/// [`Nested`], which bounds their depth: [`list`](Self::list) and [`dict`](Self::dict) build them.
#[derive(Clone, Debug, PartialEq)]
pub enum AttributeValue {
    /// No value: the attribute is there and holds nothing.
    None,
    /// A truth value.
    Bool(bool),
    /// A 32-bit integer.
    Int(i32),
    /// A 64-bit integer.
    Long(i64),
    /// A single-precision number.
    Float(f32),
    /// A double-precision number.
    Double(f64),
    /// Text, or any bytes.
    String(ByteString),
    /// Truth values.
    Bools(Vec<bool>),
    /// 32-bit integers.
    Ints(Vec<i32>),
    /// 64-bit integers.
    Longs(Vec<i64>),
    /// Single-precision numbers.
    Floats(Vec<f32>),
    /// Double-precision numbers.
    Doubles(Vec<f64>),
    /// Texts.
    Strings(Vec<ByteString>),
    /// A block of the program, by number.
    Block(i32),
    /// Blocks of the program, by number.
    Blocks(Vec<i32>),
    /// The name of a variable, which the operator reads.
    Var(String),
    /// Names of variables, which the operator reads.
    Vars(Vec<String>),
    /// A number of one of several types.
    Scalar(Scalar),
    /// Numbers of several types.
    Scalars(Vec<Scalar>),
    /// A tensor.
    Tensor(Box<Tensor>),
    /// Tensors.
    Tensors(Vec<Tensor>),
    /// A sparse tensor.
    SparseTensor(Box<Tensor>),
    /// Sparse tensors.
    SparseTensors(Vec<Tensor>),
    /// A type of values.
    Type(Box<ValueType>),
    /// Types of values.
    Types(Vec<ValueType>),
    /// Values of any kinds, in order.
    List(Nested<Vec<AttributeValue>>),
    /// Values by keys, in the order of the file.
    Dict(Nested<Vec<Attribute>>),
    /// What the function that the operator is in was given as an attribute.
    Reference {
        /// The attribute of the function.
        name: String,
        /// The code of its type.
        kind: i32,
    },
    /// A type that the reader does not know, by its code; the value is in the residual.
    Unknown(i32),
}

/// A number that carries its type.
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Scalar {
    Bool(bool),
    Long(i64),
    Double(f64),
    Complex(Complex),
    /// A type that the reader does not know, by its code.
    Unknown(i32),
}

/// A complex number.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Complex {
    /// Real part.
    pub re: f64,
    /// Imaginary part.
    pub im: f64,
}

/// Bytes that are text as a rule but need not be.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct ByteString(pub Bytes);

impl AttributeValue {
    /// Values of any kinds, in order.
    ///
    /// # Errors
    /// [`TooDeep`].
    pub fn list(values: Vec<Self>) -> Result<Self, TooDeep> {
        Nested::new(values).map(Self::List)
    }

    /// Values by keys.
    ///
    /// # Errors
    /// [`TooDeep`].
    pub fn dict(entries: Vec<Attribute>) -> Result<Self, TooDeep> {
        Nested::new(entries).map(Self::Dict)
    }

    /// The values in it that are no lists or dictionaries, in order; itself if it is neither.
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

    /// The same, for edits that nest nothing.
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

    /// The tensors in it.
    pub fn tensors(&self) -> impl Iterator<Item = &Tensor> {
        self.leaves().flat_map(|leaf| match leaf {
            Self::Tensor(tensor) | Self::SparseTensor(tensor) => std::slice::from_ref(&**tensor),
            Self::Tensors(tensors) | Self::SparseTensors(tensors) => tensors,
            _ => &[],
        })
    }

    /// The same, to be replaced.
    pub(crate) fn tensors_mut(&mut self) -> impl Iterator<Item = &mut Tensor> {
        self.leaves_mut().flat_map(|leaf| match leaf {
            Self::Tensor(tensor) | Self::SparseTensor(tensor) => {
                std::slice::from_mut(&mut **tensor)
            }
            Self::Tensors(tensors) | Self::SparseTensors(tensors) => tensors,
            _ => &mut [],
        })
    }

    /// The numbers of the blocks that it names.
    pub fn blocks(&self) -> impl Iterator<Item = i32> {
        let blocks = self.leaves().flat_map(|leaf| match leaf {
            Self::Block(block) => std::slice::from_ref(block),
            Self::Blocks(blocks) => blocks,
            _ => &[],
        });
        blocks.copied()
    }

    /// The variables that it names.
    pub fn names(&self) -> impl Iterator<Item = &String> {
        self.leaves().flat_map(|leaf| match leaf {
            Self::Var(name) => std::slice::from_ref(name),
            Self::Vars(names) => names,
            _ => &[],
        })
    }

    /// Calls `edit` with each number of a block in it.
    pub fn edit_blocks(&mut self, mut edit: impl FnMut(&mut i32)) {
        for leaf in self.leaves_mut() {
            match leaf {
                Self::Block(block) => edit(block),
                Self::Blocks(blocks) => blocks.iter_mut().for_each(&mut edit),
                _ => {}
            }
        }
    }

    /// Calls `edit` with each name of a variable in it.
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
