//! What expressions evaluate to: constants, values of the program, and structures of both.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::encoding::pickle::Id;
use crate::torch::code::Function;

/// A value.
#[derive(Clone, Debug)]
pub(super) enum Value {
    None,
    Bool(bool),
    Int(i64),
    Float(f64),
    Complex(f64, f64),
    Text(Rc<str>),
    Device(Rc<str>),
    /// A tensor: the name of a variable of the program.
    Tensor(Rc<str>),
    /// A number that the program computes: the name of a variable.
    Number(Rc<str>, Type),
    /// The sizes of a tensor.
    Sizes(Rc<str>),
    /// The results of an operator whose number is not known: the place of the operator, and of its slot.
    Results(Place, usize),
    /// A list of tensors that the program computes: the name of a variable.
    Sequence(Rc<str>),
    Tuple(Rc<[Value]>),
    /// A list, by its place on the heap.
    List(usize),
    Dict(usize),
    /// An instance of a class of the code.
    Instance(usize),
    /// An object of the archive.
    Object(Rc<Stored>),
    /// A member of an enum: its class, name and value.
    Member(Rc<str>, Rc<str>, Rc<Value>),
    Function(Rc<Callable>),
    /// A class, by its full name.
    Class(Rc<str>),
    /// What no path reads.
    Unset,
}

/// The type of a number that the program computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Type {
    Bool,
    Int,
    Float,
}

/// The place of an operator: its block and its index in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) block: i32,
    pub(super) index: usize,
}

/// An object of the archive.
#[derive(Debug)]
pub(super) struct Stored {
    pub(super) id: Id,
    /// Its path in the module, which the names of its tensors begin with.
    pub(super) path: String,
    pub(super) class: Rc<str>,
    /// Whether it is one of the constants.
    pub(super) is_constant: bool,
}

/// A function that can be called.
#[derive(Debug)]
pub(super) struct Callable {
    /// The full name.
    pub(super) name: Rc<str>,
    pub(super) function: Rc<Function>,
    /// The variables of the function that a closure is defined in.
    pub(super) scope: Scope,
}

/// The variables of a function.
pub(super) type Scope = BTreeMap<String, Value>;

/// A structure that can change.
#[derive(Clone, Debug)]
pub(super) enum Cell {
    List(Vec<Value>),
    /// A list of tensors that grows in a loop: the variable with its tensors.
    Sequence(Rc<str>),
    Dict(Vec<(Value, Value)>),
    Instance(Rc<str>, BTreeMap<String, Value>),
}

impl Value {
    pub(super) fn text(text: &str) -> Self {
        Self::Text(Rc::from(text))
    }

    /// Whether the program computes the value, or a part of it is not known.
    pub(super) fn is_computed(&self) -> bool {
        matches!(
            self,
            Self::Tensor(_)
                | Self::Number(..)
                | Self::Sizes(_)
                | Self::Results(..)
                | Self::Sequence(_)
        )
    }

    /// Returns the name of the type of the value, for messages.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::None => "None",
            Self::Bool(_) | Self::Number(_, Type::Bool) => "bool",
            Self::Int(_) | Self::Number(_, Type::Int) => "int",
            Self::Float(_) | Self::Number(_, Type::Float) => "float",
            Self::Complex(..) => "complex",
            Self::Text(_) => "str",
            Self::Device(_) => "Device",
            Self::Tensor(_) => "Tensor",
            Self::Sizes(_) => "List[int]",
            Self::Sequence(_) => "List[Tensor]",
            Self::Results(..) => "List[Tensor]",
            Self::Tuple(_) => "Tuple",
            Self::List(_) => "List",
            Self::Dict(_) => "Dict",
            Self::Instance(_) | Self::Object(_) => "object",
            Self::Member(..) => "Enum",
            Self::Function(_) => "function",
            Self::Class(_) => "class",
            Self::Unset => "uninitialized value",
        }
    }

    /// Returns a number as a float.
    #[expect(clippy::cast_precision_loss, reason = "as PyTorch converts integers")]
    pub(super) fn float(&self) -> Option<f64> {
        match self {
            Self::Float(value) => Some(*value),
            Self::Int(value) => Some(*value as f64),
            Self::Bool(value) => Some(f64::from(u8::from(*value))),
            _ => None,
        }
    }

    pub(super) fn int(&self) -> Option<i64> {
        match self {
            Self::Int(value) => Some(*value),
            Self::Bool(value) => Some(i64::from(*value)),
            _ => None,
        }
    }
}

/// Whether two values are the same constant or variable. Structures are the same if they have one place.
pub(super) fn is_same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::None, Value::None) | (Value::Unset, Value::Unset) => true,
        (Value::Bool(a), Value::Bool(b)) => a == b,
        (Value::Int(a), Value::Int(b)) => a == b,
        (Value::Float(a), Value::Float(b)) => a.to_bits() == b.to_bits(),
        (Value::Complex(a, b), Value::Complex(c, d)) => {
            a.to_bits() == c.to_bits() && b.to_bits() == d.to_bits()
        }
        (Value::Text(a), Value::Text(b))
        | (Value::Device(a), Value::Device(b))
        | (Value::Tensor(a), Value::Tensor(b))
        | (Value::Number(a, _), Value::Number(b, _))
        | (Value::Sizes(a), Value::Sizes(b))
        | (Value::Sequence(a), Value::Sequence(b))
        | (Value::Class(a), Value::Class(b)) => a == b,
        (Value::Results(a, b), Value::Results(c, d)) => (a, b) == (c, d),
        (Value::Tuple(a), Value::Tuple(b)) => {
            a.len() == b.len() && a.iter().zip(b.iter()).all(|(a, b)| is_same(a, b))
        }
        (Value::List(a), Value::List(b))
        | (Value::Dict(a), Value::Dict(b))
        | (Value::Instance(a), Value::Instance(b)) => a == b,
        (Value::Object(a), Value::Object(b)) => a.id == b.id && a.is_constant == b.is_constant,
        (Value::Member(a, b, _), Value::Member(c, d, _)) => a == c && b == d,
        (Value::Function(a), Value::Function(b)) => Rc::ptr_eq(a, b),
        _ => false,
    }
}
