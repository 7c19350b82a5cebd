//! The syntax tree of TorchScript.
//!
//! Types are expressions: `Tensor`, `List[int]`, `__torch__.Name`.

use std::rc::Rc;

/// A file of code.
#[derive(Debug, Default)]
pub(crate) struct Source {
    /// Its classes, by name.
    pub(crate) classes: Vec<Class>,
    /// Its functions outside of classes.
    pub(crate) functions: Vec<Rc<Function>>,
}

/// A class: a module, a named tuple, an enum or an interface.
#[derive(Debug)]
pub(crate) struct Class {
    /// The name without its module.
    pub(crate) name: String,
    /// The base: `Module`, `NamedTuple`, `Enum`, `Interface`; empty if there is none.
    pub(crate) base: String,
    /// Attributes and their types, in order.
    pub(crate) attributes: Vec<(String, Expression)>,
    /// Constants, and the members of an enum.
    pub(crate) constants: Vec<(String, Expression)>,
    /// Names that are assigned lists of names: `__parameters__`, `__buffers__`.
    pub(crate) lists: Vec<(String, Vec<String>)>,
    /// Methods.
    pub(crate) methods: Vec<Rc<Function>>,
}

/// A function or method.
#[derive(Debug)]
pub(crate) struct Function {
    pub(crate) name: String,
    pub(crate) parameters: Vec<FormalParameter>,
    pub(crate) body: Vec<Statement>,
}

/// A parameter of a function.
#[derive(Debug)]
pub(crate) struct FormalParameter {
    pub(crate) name: String,
    pub(crate) kind: Option<Expression>,
    pub(crate) default: Option<Expression>,
}

/// A statement and its line.
#[derive(Debug)]
pub(crate) struct Statement {
    pub(crate) line: u32,
    pub(crate) step: Step,
}

/// What a statement does.
#[derive(Debug)]
pub(crate) enum Step {
    /// `a = e`, `a, b, = e` or `a, b = e, f`.
    Assign {
        targets: Vec<String>,
        /// Whether the targets are the elements of a single value.
        unpacks: bool,
        values: Vec<Expression>,
    },
    /// `object.name = e`.
    SetAttribute {
        object: Expression,
        name: String,
        value: Expression,
    },
    Evaluate(Expression),
    Return(Option<Expression>),
    Pass,
    If {
        condition: Expression,
        then: Vec<Statement>,
        otherwise: Vec<Statement>,
    },
    While {
        condition: Expression,
        body: Vec<Statement>,
    },
    For {
        target: String,
        count: Expression,
        body: Vec<Statement>,
    },
    /// In programs, the context affects gradients and profiles only.
    With {
        context: Expression,
        target: Option<String>,
        body: Vec<Statement>,
    },
    Define(Rc<Function>),
}

/// An expression and its line.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Expression {
    pub(crate) line: u32,
    pub(crate) kind: Kind,
}

/// What an expression is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Kind {
    None,
    Bool(bool),
    Int(i64),
    Float(f64),
    /// The real and the imaginary part.
    Complex(f64, f64),
    String(String),
    Name(String),
    Attribute(Box<Expression>, String),
    Index(Box<Expression>, Box<Expression>),
    Slice(Box<Expression>, Option<Box<Expression>>, Option<Box<Expression>>),
    Call {
        callee: Box<Expression>,
        arguments: Vec<Expression>,
        named: Vec<(String, Expression)>,
    },
    Tuple(Vec<Expression>),
    List(Vec<Expression>),
    Dict(Vec<(Expression, Expression)>),
}

impl Expression {
    /// Returns the name that a chain of attributes spells: `torch.nn.relu`.
    pub(crate) fn path(&self) -> Option<String> {
        let mut names = Vec::new();
        let mut at = self;
        loop {
            match &at.kind {
                Kind::Attribute(object, name) => {
                    names.push(name.as_str());
                    at = object;
                }
                Kind::Name(name) => {
                    names.push(name);
                    names.reverse();
                    return Some(names.join("."));
                }
                _ => return None,
            }
        }
    }
}
