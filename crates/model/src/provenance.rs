//! Where the operators and constants of a translated program come from.
//!
//! Lowerings and passes keep it on what they write. No format stores it, and equality ignores it.
//!
//! | on | type | contents |
//! |---|---|---|
//! | [`Op`](crate::Op) | [`Sources`] | the operators of the source that it computes |
//! | [`Tensor`](crate::Tensor) | [`Recipe`] | how its elements follow from parameters of the source |

use std::fmt;
use std::sync::Arc;

use crate::{Attribute, AttributeValue, DType, Dialect, Model, Op, Programs, Residual, Tensor};

/// An operator of a source program, as it was translated.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Source {
    /// The dialect of the source.
    pub dialect: Dialect,
    /// The name of the program of the model: `main` or `startup`.
    pub program: &'static str,
    /// The index of its block, and its index there.
    pub place: (usize, usize),
    /// The operator, with its attributes.
    pub op: Op,
}

impl Source {
    /// Creates the source of the operator at a place in a program.
    pub fn new(dialect: Dialect, program: &'static str, place: (usize, usize), op: Op) -> Self {
        Self { dialect, program, place, op }
    }
}

/// The operators of a source that an operator computes, in the order of the source. Empty for operators of a program that
/// [remembers](Model::remember) none, and for those that stand for no single operator, such as a copy that gives an output its
/// name.
#[derive(Clone, Default)]
pub struct Sources(Option<Arc<[Arc<Source>]>>);

impl Sources {
    /// Returns one source.
    pub fn one(source: Arc<Source>) -> Self {
        Self(Some(Arc::from([source])))
    }

    /// Returns the operators.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Source>> {
        self.0.iter().flat_map(|all| all.iter())
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Returns these sources and others, each once.
    #[must_use]
    pub fn and(&self, others: &Self) -> Self {
        let is_new = |other: &&Arc<Source>| !self.iter().any(|it| Arc::ptr_eq(it, other));
        if !others.iter().any(|other| is_new(&other)) {
            return self.clone();
        }
        let mut all: Vec<Arc<Source>> =
            self.iter().chain(others.iter().filter(is_new)).cloned().collect();
        all.sort_by_key(|source| (source.program, source.place));
        Self(Some(all.into()))
    }
}

impl PartialEq for Sources {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl fmt::Debug for Sources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter().map(|source| (source.place, &source.op.kind))).finish()
    }
}

/// How the elements of a tensor follow from parameters of a source. Empty for a tensor that depends on none. Numbers by which
/// a lowering decides, such as the scales of a resize that it turns into dims, are not followed.
#[derive(Clone, Default)]
pub struct Recipe(Option<Arc<Made>>);

/// A step of a [`Recipe`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Made {
    /// The parameter with this name in the source.
    Parameter(String),
    /// A tensor that depends on no parameter.
    Literal(Box<Tensor>),
    /// A result of an operator of ONNX's newest opset.
    Computed {
        /// The operator; its operands are `inputs`.
        op: Box<Op>,
        /// The operands by position; `None` where one is omitted.
        inputs: Vec<Option<Recipe>>,
        /// The position of the result among those of the operator.
        output: usize,
        /// The maximum number of steps from here to a parameter.
        depth: u32,
    },
    /// The real and imaginary parts of complex numbers, along a new last dim.
    Parts(Recipe),
    /// The nearest numbers of another element type.
    Cast {
        /// What is cast.
        of: Recipe,
        /// The element type.
        to: DType,
        /// Whether finite numbers stay finite, and others than 0 do not become 0.
        within: bool,
    },
    /// More steps than a recipe may have.
    TooLong,
}

/// The maximum number of elements of an attribute that a [`Source`] keeps.
const MAX_ELEMENTS: usize = 1 << 10;

impl Model {
    /// Makes operators and parameters remember themselves: what is made from them later tells which they were. Attributes with
    /// many elements are left out of what is remembered.
    pub fn remember(&mut self) {
        for parameter in &mut self.parameters {
            if parameter.tensor.recipe.is_empty() {
                parameter.tensor.recipe = Recipe::parameter(&parameter.name);
            }
        }
        for name in [Programs::MAIN, Programs::STARTUP] {
            let Some(program) = self.programs.get_mut(name) else { continue };
            let dialect = program.dialect;
            for (block, it) in program.blocks.iter_mut().enumerate() {
                for (number, op) in it.ops.iter_mut().enumerate() {
                    if op.sources.is_empty() {
                        let is_small = |attribute: &&Attribute| is_small(&attribute.value);
                        let attributes = op.attributes.iter().filter(is_small).cloned().collect();
                        let remembered = Op { attributes, ..without(op) };
                        let source = Source::new(dialect, name, (block, number), remembered);
                        op.sources = Sources::one(Arc::new(source));
                    }
                }
            }
        }
    }
}

/// Returns an operator without its attributes.
fn without(op: &Op) -> Op {
    Op {
        domain: op.domain.clone(),
        overload: op.overload.clone(),
        name: op.name.clone(),
        kind: op.kind.clone(),
        inputs: op.inputs.clone(),
        outputs: op.outputs.clone(),
        attributes: Vec::new(),
        reserved: op.reserved.clone(),
        residual: Residual::default(),
        sources: Sources::default(),
    }
}

/// Whether an attribute has few elements.
fn is_small(value: &AttributeValue) -> bool {
    let count = match value {
        AttributeValue::Bools(values) => values.len(),
        AttributeValue::Ints(values) => values.len(),
        AttributeValue::Longs(values) => values.len(),
        AttributeValue::Floats(values) => values.len(),
        AttributeValue::Doubles(values) => values.len(),
        AttributeValue::Strings(values) => values.len(),
        AttributeValue::Scalars(values) => values.len(),
        AttributeValue::String(text) => text.0.len(),
        AttributeValue::Tensor(_)
        | AttributeValue::Tensors(_)
        | AttributeValue::SparseTensor(_)
        | AttributeValue::SparseTensors(_) => return false,
        _ => 0,
    };
    count <= MAX_ELEMENTS
}

/// The maximum number of steps from a result to a parameter.
const MAX_DEPTH: u32 = 200;

impl Recipe {
    /// The recipe of a parameter of the source.
    pub fn parameter(name: &str) -> Self {
        Self(Some(Arc::new(Made::Parameter(name.to_owned()))))
    }

    /// Returns the recipe of a result of an operator of ONNX on tensors; empty if none of them has a recipe.
    pub fn computed(op: &Op, inputs: &[Option<&Tensor>], output: usize) -> Self {
        let depth = inputs.iter().flatten().filter_map(|input| input.recipe.depth()).max();
        let Some(depth) = depth.map(|depth| depth + 1) else { return Self::default() };
        if depth > MAX_DEPTH {
            return Self(Some(Arc::new(Made::TooLong)));
        }
        let recipe = |input: &Tensor| match &input.recipe {
            Self(Some(known)) => Self(Some(Arc::clone(known))),
            Self(None) => Self(Some(Arc::new(Made::Literal(Box::new(input.clone()))))),
        };
        let inputs = inputs.iter().map(|input| input.map(recipe)).collect();
        let op = Op { sources: Sources::default(), ..op.clone() };
        Self(Some(Arc::new(Made::Computed { op: Box::new(op), inputs, output, depth })))
    }

    /// Returns the recipe of the parts of complex numbers, as a tensor with another dim.
    #[must_use]
    pub fn parts(&self) -> Self {
        Self(self.0.as_ref().map(|_| Arc::new(Made::Parts(self.clone()))))
    }

    /// Returns the recipe of the numbers in another element type.
    #[must_use]
    pub fn cast(&self, to: DType, within: bool) -> Self {
        let of = self.clone();
        Self(self.0.as_ref().map(|_| Arc::new(Made::Cast { of, to, within })))
    }

    /// Returns the last step; `None` if there is no recipe.
    pub fn made(&self) -> Option<&Made> {
        self.0.as_deref()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    fn depth(&self) -> Option<u32> {
        Some(match self.made()? {
            Made::Parameter(_) | Made::Literal(_) => 0,
            Made::Computed { depth, .. } => *depth,
            Made::Parts(of) | Made::Cast { of, .. } => of.depth()?,
            Made::TooLong => MAX_DEPTH,
        })
    }

    /// Identifies a recipe among those that exist at the same time: equal ones share their steps.
    pub fn id(&self) -> usize {
        self.0.as_ref().map_or(0, |made| Arc::as_ptr(made) as usize)
    }
}

impl fmt::Debug for Recipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.made() {
            None => f.write_str("no recipe"),
            Some(Made::Parameter(name)) => write!(f, "{name}"),
            Some(Made::Literal(_)) => f.write_str("a literal"),
            Some(Made::Computed { op, .. }) => write!(f, "{}(..)", op.kind),
            Some(Made::Parts(of)) => write!(f, "parts({of:?})"),
            Some(Made::Cast { of, to, .. }) => write!(f, "{to}({of:?})"),
            Some(Made::TooLong) => f.write_str("too many steps"),
        }
    }
}
