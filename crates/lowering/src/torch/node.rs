//! A PyTorch operator as its rule sees it: arguments by name, and the graph that is emitted.

use std::ops::{Deref, DerefMut};

use lodstone_model::{DType, Op};
use lodstone_schema::Finding;
use lodstone_schema::numbers::Rank;
use lodstone_schema::torch::is_written;

use super::arguments::{Arguments, Item, Number, wrong};
pub(super) use crate::onnx::indexing::BEYOND;
pub(super) use crate::onnx::known_sizes;
pub(super) use crate::onnx::required::{dim_of, place_in, product, rank, required_dim};
use crate::onnx::{Graph, Value};

/// The result of a rule.
pub(super) type Outcome<T = Value> = Result<T, Finding>;

/// The rule of an operator.
#[derive(Clone, Copy)]
pub(super) enum Rule {
    /// Returns the only result.
    One(fn(&mut Node<'_>) -> Outcome),
    /// Returns all results; the members of a list follow each other.
    Many(fn(&mut Node<'_>) -> Outcome<Vec<Value>>),
    /// Returns a size, number or truth value.
    Number(fn(&mut Node<'_>) -> Outcome),
    /// Returns the numbers of a list.
    Numbers(fn(&mut Node<'_>) -> Outcome<Vec<Value>>),
    /// Returns the only result, which may be complex.
    Made(fn(&mut Node<'_>) -> Outcome<Made>),
    /// Checks something, and has no results.
    None,
}

/// A result of an operator on complex tensors.
pub(super) enum Made {
    Real(Value),
    /// The last dim holds the real and the imaginary part.
    Complex(Value),
}

/// The maximum number of operators, or of elements of a constant, that a single node may become.
pub(super) const MAX_PARTS: i64 = 1 << 14;

/// A node, and the operators that are emitted for it.
pub(super) struct Node<'a> {
    graph: &'a mut Graph,
    pub(super) op: &'a Op,
    pub(super) arguments: Arguments<'a>,
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
    pub(super) fn new(graph: &'a mut Graph, op: &'a Op, arguments: Arguments<'a>) -> Self {
        Self { graph, op, arguments }
    }

    /// Returns the name of the operator without its namespace and overload; of an operator that writes to its first
    /// argument, that of the one that does not.
    pub(super) fn name(&self) -> &'a str {
        base_name(&self.op.kind)
    }

    /// Returns a tensor; a number among tensors becomes one.
    pub(super) fn tensor(&mut self, name: &str) -> Outcome {
        self.optional(name)?.ok_or_else(|| {
            Finding::from(format!("the argument `{name}` is missing")).about_slot(name)
        })
    }

    /// Returns a tensor, if it is present.
    pub(super) fn optional(&mut self, name: &str) -> Outcome<Option<Value>> {
        match self.arguments.items(name) {
            Some([Item::Absent]) => Ok(None),
            Some([Item::Tensor(value) | Item::Number(value)]) => Ok(Some(value.clone())),
            Some([Item::Constant(_)]) | None => match self.arguments.number(name)? {
                Some(number) => self.number_of(number.dtype(), number).map(Some),
                None => Ok(None),
            },
            Some([Item::Complex(_)]) => Err(no_complex()),
            Some(_) => Err(wrong(name, "a tensor", "a list")),
        }
    }

    /// Returns a list of tensors, some of which may be absent.
    pub(super) fn optional_tensors(&self, name: &str) -> Outcome<Vec<Option<Value>>> {
        let one = |item: &Item| match item {
            Item::Tensor(value) | Item::Number(value) => Ok(Some(value.clone())),
            Item::Absent => Ok(None),
            Item::Complex(_) => Err(no_complex()),
            Item::Constant(_) => Err(wrong(name, "tensors", "a number")),
        };
        self.arguments.items(name).unwrap_or_default().iter().map(one).collect()
    }

    /// Returns a list of tensors.
    pub(super) fn tensors(&self, name: &str) -> Outcome<Vec<Value>> {
        let all = self.optional_tensors(name)?.into_iter().collect::<Option<Vec<_>>>();
        all.ok_or_else(|| wrong(name, "tensors", "`None`"))
    }

    /// Adds a number of a type.
    pub(super) fn number_of(&mut self, dtype: DType, number: Number) -> Outcome {
        match (dtype, number) {
            (DType::Int64, Number::Int(value)) => Ok(self.long(value)),
            _ => self.number(dtype, number.float()),
        }
    }

    /// Returns a number of a type: a constant, or one that the program computes.
    pub(super) fn scalar(&mut self, name: &str, dtype: DType) -> Outcome<Option<Value>> {
        if let Some([Item::Number(value) | Item::Tensor(value)]) = self.arguments.items(name) {
            let value = value.clone();
            return self.cast(&value, dtype).map(Some);
        }
        let number = self.arguments.number(name)?;
        number.map(|number| self.number_of(dtype, number)).transpose()
    }

    /// Applies a rule with another tensor in a slot.
    pub(super) fn with_tensor<T>(
        &mut self,
        name: &str,
        value: &Value,
        rule: impl FnOnce(&mut Self) -> Outcome<T>,
    ) -> Outcome<T> {
        let new = vec![Item::Tensor(value.clone())];
        let slot = self.arguments.values.iter_mut().find(|(slot, _)| *slot == name);
        let old = match slot {
            Some((_, items)) => std::mem::replace(items, new),
            None => return Err(Finding::internal(format!("there is no slot `{name}`"))),
        };
        let outcome = rule(self);
        if let Some((_, items)) = self.arguments.values.iter_mut().find(|(slot, _)| *slot == name) {
            *items = old;
        }
        outcome
    }
}

/// Returns the name of an operator without its namespace and overload, and without the mark of one that writes.
pub(super) fn base_name(kind: &str) -> &str {
    let name = kind.split_once("::").map_or(kind, |(_, name)| name);
    let name = name.split('.').next().unwrap_or(name);
    match is_written(kind) {
        true => name.strip_suffix('_').unwrap_or(name),
        false => name,
    }
}

/// The finding of an operator that gets a complex tensor.
pub(super) fn no_complex() -> Finding {
    Finding::from("it is not supported for complex tensors")
}

/// Returns the index of an axis of a value; negative ones count from the end. A scalar has the axis 0.
pub(super) fn axis_of(value: &Value, axis: i64) -> Outcome<i64> {
    place_in(rank(value)?.max(1), axis)
}

/// Returns the dims of a list along an axis of a tensor of a rank: -1 there, and 1 elsewhere.
pub(super) fn dims_along(rank: Rank, axis: i64) -> Vec<i64> {
    rank.numbers().map(|other| if other == axis { -1 } else { 1 }).collect()
}

/// Returns the indices of axes; none stands for all.
pub(super) fn axes_of(value: &Value, axes: &[i64]) -> Outcome<Vec<i64>> {
    if axes.is_empty() {
        return Ok((0..rank(value)?).collect());
    }
    let mut places = axes.iter().map(|axis| axis_of(value, *axis)).collect::<Outcome<Vec<_>>>()?;
    places.sort_unstable();
    let count = places.len();
    places.dedup();
    match places.len() == count {
        true => Ok(places),
        false => Err(format!("an axis appears twice in {axes:?}").into()),
    }
}

/// Fails if a rank is another one than expected.
pub(super) fn expect_rank(value: &Value, expected: &[i64]) -> Outcome<()> {
    let rank = rank(value)?;
    match expected.contains(&rank) {
        true => Ok(()),
        false => Err(format!("expected a tensor of rank {expected:?}, found {rank}").into()),
    }
}
