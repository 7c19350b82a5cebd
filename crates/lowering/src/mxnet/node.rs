//! An MXNet node as its rule sees it: inputs by slot or position, attributes, and the graph that is emitted.

use std::ops::{Deref, DerefMut};

use lodstone_model::Op;
use lodstone_schema::mxnet::{operator, real_name};
use lodstone_schema::{Code, Finding};

use super::attributes::Attributes;
pub(super) use crate::onnx::required::{MAX_ELEMENTS, dim_of, place_in, rank, required_dim};
use crate::onnx::{Graph, Value};

/// The result of a rule.
pub(super) type Outcome<T = Value> = Result<T, Finding>;

/// The rule of a kind of operator.
#[derive(Clone, Copy)]
pub(super) enum Rule {
    /// Returns the only output, or the first one of an operator whose others serve training.
    One(fn(&mut Node<'_>) -> Outcome),
    /// Returns all outputs.
    Many(fn(&mut Node<'_>) -> Outcome<Vec<Value>>),
}

/// The maximum number of operators, or of elements of a constant, that a single node may become.
pub(super) const MAX_PARTS: i64 = 1 << 16;

/// A node, and the operators that are emitted for it.
pub(super) struct Node<'a> {
    graph: &'a mut Graph,
    op: &'a Op,
    /// The inputs by position; `None` for labels without a value.
    inputs: Vec<Option<Value>>,
    pub(super) attributes: Attributes<'a>,
}

impl Deref for Node<'_> {
    type Target = Graph;

    fn deref(&self) -> &Graph {
        self.graph
    }
}

impl DerefMut for Node<'_> {
    fn deref_mut(&mut self) -> &mut Graph {
        self.graph
    }
}

impl<'a> Node<'a> {
    pub(super) fn new(graph: &'a mut Graph, op: &'a Op, inputs: Vec<Option<Value>>) -> Self {
        Self { graph, op, inputs, attributes: Attributes::new(op) }
    }

    /// Returns the kind of the operator, with aliases resolved.
    pub(super) fn kind(&self) -> &'a str {
        real_name(&self.op.kind)
    }

    /// Returns the number of inputs.
    pub(super) fn count(&self) -> usize {
        self.inputs.len()
    }

    /// Returns an input by position.
    pub(super) fn input(&self, index: usize) -> Outcome {
        match self.inputs.get(index) {
            Some(Some(value)) => Ok(value.clone()),
            _ => Err(self.absent(index)),
        }
    }

    /// Returns an input by position, if it is present.
    pub(super) fn optional(&self, index: usize) -> Option<Value> {
        self.inputs.get(index).cloned().flatten()
    }

    /// Returns all inputs, at least one.
    pub(super) fn all(&self) -> Outcome<Vec<Value>> {
        if self.inputs.is_empty() {
            return Err(self.absent(0));
        }
        (0..self.inputs.len()).map(|index| self.input(index)).collect()
    }

    /// Returns exactly `N` inputs.
    pub(super) fn exactly<const N: usize>(&self) -> Outcome<[Value; N]> {
        let all: Vec<Value> = (0..N).map(|index| self.input(index)).collect::<Outcome<_>>()?;
        self.at_most(N)?;
        all.try_into().map_err(|_| Finding::internal("inputs were lost"))
    }

    /// Fails if there are more inputs.
    pub(super) fn at_most(&self, count: usize) -> Outcome<()> {
        match self.inputs.len() <= count {
            true => Ok(()),
            false => {
                Err(format!("expected at most {count} inputs, found {}", self.inputs.len()).into())
            }
        }
    }

    fn absent(&self, index: usize) -> Finding {
        let slots = operator(&self.op.kind).map_or(&[][..], |known| known.inputs.as_slice());
        let what = match slots.get(index) {
            Some(slot) => format!("the input `{slot}` is missing"),
            None => format!("the input {index} is missing"),
        };
        Finding::from(what).about_input(index)
    }

    /// Applies a rule to other inputs, with the attributes of this operator.
    pub(super) fn with_inputs<T>(
        &mut self,
        inputs: Vec<Value>,
        rule: impl FnOnce(&mut Self) -> Outcome<T>,
    ) -> Outcome<T> {
        let inputs = inputs.into_iter().map(Some).collect();
        let own = std::mem::replace(&mut self.inputs, inputs);
        let outcome = rule(self);
        self.inputs = own;
        outcome
    }
}

/// Returns all dims of a value, which must be known.
pub(super) fn known_dims(value: &Value) -> Outcome<Vec<i64>> {
    value.shape()?;
    let unknown =
        || Finding::new(Code::UnknownDims, format!("the dims of `{}` must be known", value.name()));
    value.known_dims().ok_or_else(unknown)
}

/// Returns the index of an axis of a value; negative ones count from the end.
pub(super) fn axis_of(value: &Value, axis: i64) -> Outcome<i64> {
    place_in(rank(value)?, axis)
}

/// Returns the product of dims, which may not overflow.
pub(super) fn product(dims: &[i64]) -> Outcome<i64> {
    let all = dims.iter().try_fold(1_i64, |all, dim| all.checked_mul(*dim));
    all.filter(|all| *all >= 0 && all.unsigned_abs() <= MAX_ELEMENTS)
        .ok_or_else(|| format!("the dims {dims:?} have too many elements").into())
}
