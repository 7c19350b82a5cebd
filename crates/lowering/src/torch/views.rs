//! Views of tensors: operators whose results share the elements of their first argument.
//!
//! A write is scattered through the view of all places if there is no shorter way.

use lodstone_model::Op;
use lodstone_schema::Finding;

use super::arguments::{Arguments, Item};
use super::families;
use super::node::{Node, Outcome, Rule, base_name, dim_of, place_in, rank};
use crate::frame::views;
use crate::onnx::{Graph, Value};

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
}

impl views::View for View<'_> {
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

    fn scatter(&self, graph: &mut Graph, parent: &Value, new: &Value) -> Outcome {
        let name = base_name(&self.op.kind);
        match name {
            _ if SAME.contains(&name) => Ok(new.clone()),
            _ if RESHAPES.contains(&name) => graph.reshape_as(new, parent),
            _ if INVOLUTIONS.contains(&name) => self.apply(graph, new),
            "select" | "slice" => match self.between(graph, parent, new, name)? {
                Some(joined) => Ok(joined),
                None => graph.scattered_view(self, parent, new),
            },
            _ => graph.scattered_view(self, parent, new),
        }
    }
}
