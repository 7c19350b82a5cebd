//! Tensors that operators write to, and views of them.
//!
//! A value of the program refers to a base through views. When an operator writes to a value, its base gets a new
//! version: what was written is scattered back through the views. A value is computed again from its base when it is
//! read after the base has changed.
//!
//! A write is scattered through the view of all places if there is no shorter way.

use lodstone_model::{DType, Op};
use lodstone_schema::Finding;

use super::arguments::{Arguments, Item};
use super::families;
use super::node::{Node, Outcome, Rule, base_name, dim_of, place_in, rank};
use crate::onnx::{Graph, Value};

/// A value: its base, and the views that lead to it.
#[derive(Clone, Debug)]
pub(super) struct Reference<'m> {
    pub(super) base: usize,
    pub(super) views: Vec<View<'m>>,
    /// The version of the base at which `value` was computed.
    pub(super) version: u64,
    pub(super) value: Value,
    /// Whether the value is a view or a copy depends on strides that are unknown here.
    pub(super) is_ambiguous: bool,
}

/// An operator whose result is a view of its first argument.
#[derive(Clone, Debug)]
pub(super) struct View<'m> {
    pub(super) op: &'m Op,
    pub(super) arguments: Vec<(&'m str, Vec<Item>)>,
    /// The index of the result.
    pub(super) result: usize,
    /// Whether the program declares the dims of the results.
    pub(super) is_declared: bool,
}

/// A tensor with elements of its own.
#[derive(Clone, Debug)]
pub(super) struct Base {
    pub(super) value: Value,
    pub(super) version: u64,
    /// The name of the parameter or input that it is.
    pub(super) state: Option<String>,
}

/// All tensors with elements of their own.
#[derive(Debug, Default)]
pub(super) struct Tensors {
    pub(super) bases: Vec<Base>,
}

impl Tensors {
    /// Adds a tensor with elements of its own.
    pub(super) fn add<'m>(&mut self, value: Value, state: Option<String>) -> Reference<'m> {
        let base = self.bases.len();
        self.bases.push(Base { value: value.clone(), version: 0, state });
        Reference { base, views: Vec::new(), version: 0, value, is_ambiguous: false }
    }

    fn base(&self, reference: &Reference<'_>) -> Outcome<&Base> {
        self.bases.get(reference.base).ok_or_else(|| Finding::internal("a tensor was lost"))
    }

    /// Returns the value of a reference now.
    pub(super) fn read<'m>(&self, graph: &mut Graph, reference: &mut Reference<'m>) -> Outcome {
        let base = self.base(reference)?;
        if reference.version != base.version {
            let mut value = base.value.clone();
            for view in &reference.views {
                value = view.apply(graph, &value)?;
            }
            (reference.value, reference.version) = (value, base.version);
        }
        Ok(reference.value.clone())
    }

    /// Returns the whole tensor that a reference without views refers to.
    pub(super) fn whole(&self, reference: &mut Reference<'_>) -> Outcome {
        let base = self.base(reference)?;
        (reference.value, reference.version) = (base.value.clone(), base.version);
        Ok(base.value.clone())
    }

    /// Makes a value of any type and dims the next one of a parameter.
    pub(super) fn assign(&mut self, reference: &mut Reference<'_>, value: Value) -> Outcome<()> {
        let base = self.bases.get_mut(reference.base);
        let base = base.ok_or_else(|| Finding::internal("a tensor was lost"))?;
        base.value = value.clone();
        base.version += 1;
        (reference.value, reference.version) = (value, base.version);
        Ok(())
    }

    /// Writes a value of the same type and dims to a reference.
    pub(super) fn write<'m>(
        &mut self,
        graph: &mut Graph,
        reference: &mut Reference<'m>,
        value: Value,
    ) -> Outcome<()> {
        if reference.is_ambiguous {
            let what =
                "whether it writes to a view or a copy depends on strides, which is not supported";
            return Err(what.into());
        }
        let mut parents = vec![self.base(reference)?.value.clone()];
        for view in reference.views.iter().take(reference.views.len().saturating_sub(1)) {
            let parent = parents.last().cloned().ok_or_else(|| Finding::internal("no parent"))?;
            parents.push(view.apply(graph, &parent)?);
        }
        let mut new = value.clone();
        for view in reference.views.iter().rev() {
            let parent = parents.pop().ok_or_else(|| Finding::internal("no parent"))?;
            new = view.scatter(graph, &parent, &new)?;
        }
        self.assign(reference, new)?;
        reference.value = value;
        Ok(())
    }
}

/// Views that only change the dims.
const RESHAPES: &[&str] = &[
    "_reshape_alias",
    "_unsafe_view",
    "flatten",
    "reshape",
    "reshape_as",
    "squeeze",
    "unflatten",
    "unsqueeze",
    "view",
    "view_as",
];

/// Views that are their own inverse.
const INVOLUTIONS: &[&str] =
    &["adjoint", "mH", "mT", "matrix_H", "numpy_T", "swapaxes", "swapdims", "t", "transpose"];

/// Views with all elements in their order.
const SAME: &[&str] = &[
    "alias",
    "contiguous",
    "cpu",
    "cuda",
    "detach",
    "lift",
    "lift_fresh",
    "positive",
    "resolve_conj",
    "resolve_neg",
    "to",
    "type_as",
    "view_of",
];

impl<'m> View<'m> {
    fn node<T>(
        &self,
        graph: &mut Graph,
        input: &Value,
        act: impl FnOnce(&mut Node<'_>, Rule) -> Outcome<T>,
    ) -> Outcome<T> {
        let mut values = self.arguments.clone();
        if let Some((_, items)) = values.first_mut() {
            *items = vec![Item::Tensor(input.clone())];
        }
        let rule =
            families::rule(&self.op.kind).ok_or_else(|| Finding::internal("a view has no rule"))?;
        let arguments = Arguments::new(self.op, values).with_declared(self.is_declared);
        act(&mut Node::new(graph, self.op, arguments), rule)
    }

    /// Returns the view of a tensor.
    fn apply(&self, graph: &mut Graph, input: &Value) -> Outcome {
        self.node(graph, input, |node, rule| match rule {
            Rule::One(rule) => rule(node),
            Rule::Many(rule) => rule(node)?
                .get(self.result)
                .cloned()
                .ok_or_else(|| Finding::internal("a view was lost")),
            Rule::Number(_) | Rule::Numbers(_) | Rule::Made(_) | Rule::None => {
                Err(Finding::internal("a number is no view"))
            }
        })
    }

    /// Returns a tensor in which the elements of the view are those of `new`.
    fn scatter(&self, graph: &mut Graph, parent: &Value, new: &Value) -> Outcome {
        let name = base_name(&self.op.kind);
        match name {
            _ if SAME.contains(&name) => Ok(new.clone()),
            _ if RESHAPES.contains(&name) => graph.reshape_as(new, parent),
            _ if INVOLUTIONS.contains(&name) => self.apply(graph, new),
            "select" | "slice" => match self.between(graph, parent, new, name)? {
                Some(joined) => Ok(joined),
                None => self.scatter_any(graph, parent, new),
            },
            _ => self.scatter_any(graph, parent, new),
        }
    }

    /// Joins the parts before and after a slice of constant bounds with what it is replaced by.
    fn between(
        &self,
        graph: &mut Graph,
        parent: &Value,
        new: &Value,
        name: &str,
    ) -> Outcome<Option<Value>> {
        self.node(graph, parent, |node, _| {
            let axis = place_in(rank(parent)?, node.arguments.int("dim")?)?;
            let Some(dim) = dim_of(parent, axis) else { return Ok(None) };
            let from_end = |place: i64| if place < 0 { place.saturating_add(dim) } else { place };
            let (start, end) = match name {
                "select" => {
                    let start = from_end(node.arguments.int("index")?);
                    (start, start.saturating_add(1))
                }
                _ => {
                    if node.arguments.int("step")? != 1 {
                        return Ok(None);
                    }
                    // `None` is the first place, or the end.
                    let start = node.arguments.optional_int("start")?.map_or(0, from_end);
                    let end = node.arguments.optional_int("end")?.map_or(dim, from_end);
                    let start = start.clamp(0, dim);
                    (start, end.clamp(start, dim))
                }
            };
            let new = match name {
                "select" => node.unsqueeze(new, &[axis])?,
                _ => new.clone(),
            };
            node.replaced(parent, axis, [start, end], &new).map(Some)
        })
    }

    /// Finds the places of the elements by the view of all places.
    fn scatter_any(&self, graph: &mut Graph, parent: &Value, new: &Value) -> Outcome {
        let places = graph.element_places(parent)?;
        let places = self.apply(graph, &places)?;
        let places = graph.cast(&places, DType::Int64)?;
        graph.written_at(parent, &places, new)
    }
}
