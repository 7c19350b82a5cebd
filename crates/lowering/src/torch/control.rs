//! Operators that run subgraphs.
//!
//! | operator | arguments | ONNX |
//! |---|---|---|
//! | `higher_order::cond` | condition, two subgraphs, operands | `If` |
//! | `higher_order::while_loop` | subgraphs of the condition and the body, states, operands | `Loop` |
//! | `higher_order::scan` | subgraph, states, slices, operands | `Scan` |
//! | `higher_order::map_impl` | subgraph, slices, operands | `Scan` |
//! | `higher_order::wrap_*` | a subgraph, operands | the operators of the subgraph |
//!
//! Arguments have their position as names. Subgraphs get all values as operands.

use lodstone_model::{AttributeValue, Op};

use super::arguments::{Arguments, Item};
use super::node::{Node, Outcome, no_complex};
use super::walk::{Bound, Scope, Walk};
use crate::frame::control::{Slices, Turn};
use crate::frame::{Halt, Step};
use crate::onnx::Value;
use crate::rules::RuleName;

/// The rule of an operator that runs subgraphs; it returns the results.
pub(super) type ControlRule = for<'m> fn(&mut Walk<'m>, &'m Op, &mut Scope<'m>) -> Step<Vec<Value>>;

const RULES: &[(&str, ControlRule)] = &[
    ("higher_order::cond", choose),
    ("higher_order::map_impl", map),
    ("higher_order::scan", scan),
    ("higher_order::while_loop", repeat),
    ("higher_order::wrap_with_set_grad_enabled", inline),
];

/// Returns the rule of an operator that runs subgraphs.
pub(super) fn rule(kind: &str) -> Option<ControlRule> {
    RULES.iter().find(|(known, _)| *known == kind).map(|(_, rule)| *rule)
}

/// Returns the names of the rules.
pub(super) fn names() -> impl Iterator<Item = RuleName> {
    RULES.iter().map(|(kind, _)| RuleName { family: "control", kind })
}

/// Returns the subgraph in an argument.
fn subgraph(walk: &Walk<'_>, op: &Op, position: usize) -> Outcome<usize> {
    let found = match op.attribute(&position.to_string()) {
        Some(AttributeValue::Block(block)) => usize::try_from(*block).ok(),
        _ => None,
    };
    let found = found.filter(|block| *block > 0 && *block < walk.program.blocks.len());
    found.ok_or_else(|| format!("the argument {position} must be a subgraph").into())
}

/// Returns the values in an argument.
fn items<'m>(
    walk: &mut Walk<'m>,
    op: &Op,
    position: usize,
    scope: &mut Scope<'m>,
) -> Step<Vec<Item>> {
    let slot = position.to_string();
    if let Some(value) = op.attribute(&slot) {
        return Ok(constants(value));
    }
    op.input(&slot).iter().map(|name| walk.item(name, scope)).collect()
}

/// Returns the members of a constant list.
fn constants(value: &AttributeValue) -> Vec<Item> {
    match value {
        AttributeValue::None => Vec::new(),
        AttributeValue::Longs(values) => {
            values.iter().map(|value| Item::Constant(AttributeValue::Long(*value))).collect()
        }
        other => vec![Item::Constant(other.clone())],
    }
}

impl<'m> Walk<'m> {
    /// Binds an item as an input of a subgraph.
    pub(super) fn bound(&mut self, item: &Item) -> Bound<'m> {
        match item {
            Item::Tensor(value) => Bound::Tensor(self.dialect.tensors.add(value.clone(), None)),
            Item::Number(value) => Bound::Number(value.clone()),
            Item::Constant(value) => Bound::Constant(value.clone()),
            Item::Complex(value) => Bound::Complex(value.clone()),
            Item::Absent => Bound::Object,
        }
    }

    pub(super) fn all_bound(&mut self, items: &[Item]) -> Vec<Bound<'m>> {
        items.iter().map(|item| self.bound(item)).collect()
    }

    /// Returns an item as a value of the graph.
    pub(super) fn value(&mut self, item: &Item) -> Outcome {
        match item {
            Item::Tensor(value) | Item::Number(value) => Ok(value.clone()),
            Item::Constant(_) => {
                let number = item.number().ok_or("expected a number")?;
                let op = Op::default();
                let mut node = Node::new(&mut self.graph, &op, Arguments::new(&op, Vec::new()));
                node.number_of(number.dtype(), number)
            }
            Item::Complex(_) => Err(no_complex()),
            Item::Absent => Err("expected a value, found `None`".into()),
        }
    }
}

/// Returns an item of the kind of another, with another value.
pub(super) fn like(item: &Item, value: Value) -> Item {
    match item {
        Item::Number(_) | Item::Constant(_) => Item::Number(value),
        Item::Tensor(_) | Item::Absent | Item::Complex(_) => Item::Tensor(value),
    }
}

/// Runs one of two subgraphs.
fn choose<'m>(walk: &mut Walk<'m>, op: &'m Op, scope: &mut Scope<'m>) -> Step<Vec<Value>> {
    let (then, other) = (subgraph(walk, op, 1)?, subgraph(walk, op, 2)?);
    let condition = items(walk, op, 0, scope)?;
    let operands = items(walk, op, 3, scope)?;
    let [condition] = condition.as_slice() else { return Err("expected one condition".into()) };
    if let Some(super::arguments::Number::Bool(truth)) = condition.number() {
        let block = if truth { then } else { other };
        let operands = walk.all_bound(&operands);
        let results = walk.subgraph(block, operands)?;
        walk.graph.begin(&op.name);
        return Ok(results);
    }
    let condition = walk.value(condition)?;
    let condition = walk.truth(&condition)?;
    walk.choose(&op.name, &condition, |walk, is_then| {
        let operands = walk.all_bound(&operands);
        walk.subgraph(if is_then { then } else { other }, operands)
    })
}

/// Runs a subgraph while another one returns true.
fn repeat<'m>(walk: &mut Walk<'m>, op: &'m Op, scope: &mut Scope<'m>) -> Step<Vec<Value>> {
    let (condition, block) = (subgraph(walk, op, 0)?, subgraph(walk, op, 1)?);
    let states = items(walk, op, 2, scope)?;
    let others = items(walk, op, 3, scope)?;
    let first: Vec<Value> = states.iter().map(|it| walk.value(it)).collect::<Outcome<_>>()?;
    let rebound = |walk: &mut Walk<'m>, values: &[Value]| {
        let inputs = states.iter().zip(values).map(|(item, value)| like(item, value.clone()));
        walk.all_bound(&inputs.chain(others.iter().cloned()).collect::<Vec<_>>())
    };
    let check = |walk: &mut Walk<'m>, values: &[Value]| {
        let bound = rebound(walk, values);
        match walk.subgraph(condition, bound)?.as_slice() {
            [result] => Ok(result.clone()),
            _ => Err(Halt::from("expected one condition")),
        }
    };
    // Before the loop, with the first states.
    let begins = check(walk, &first)?;
    walk.graph.begin(&op.name);
    let begins = walk.truth(&begins)?;
    let body = |walk: &mut Walk<'m>, own: &[Value]| {
        let bound = rebound(walk, own);
        let next = walk.subgraph(block, bound)?;
        walk.graph.begin(&op.name);
        let goes_on = check(walk, &next)?;
        let goes_on = walk.truth(&goes_on)?;
        Ok(Turn { goes_on, next, made: Vec::new() })
    };
    Ok(walk.repeat(&op.name, (None, &begins), &first, body)?.states)
}

/// Runs a subgraph for each slice of the data, and passes states on.
fn scan<'m>(walk: &mut Walk<'m>, op: &'m Op, scope: &mut Scope<'m>) -> Step<Vec<Value>> {
    let block = subgraph(walk, op, 0)?;
    let states = items(walk, op, 1, scope)?;
    let slices = items(walk, op, 2, scope)?;
    let others = items(walk, op, 3, scope)?;
    scanned(walk, op, block, (states, slices, others))
}

/// Runs a subgraph for each slice of the data.
fn map<'m>(walk: &mut Walk<'m>, op: &'m Op, scope: &mut Scope<'m>) -> Step<Vec<Value>> {
    let block = subgraph(walk, op, 0)?;
    let slices = items(walk, op, 1, scope)?;
    let others = items(walk, op, 2, scope)?;
    scanned(walk, op, block, (Vec::new(), slices, others))
}

fn scanned<'m>(
    walk: &mut Walk<'m>,
    op: &'m Op,
    block: usize,
    (states, slices, others): (Vec<Item>, Vec<Item>, Vec<Item>),
) -> Step<Vec<Value>> {
    let first: Vec<Value> = states.iter().map(|it| walk.value(it)).collect::<Outcome<_>>()?;
    let data: Vec<Value> = slices.iter().map(|it| walk.value(it)).collect::<Outcome<_>>()?;
    let slices = Slices { data: &data, is_reverse: false };
    let looped = walk.scan(&op.name, &first, slices, |walk, own, parts| {
        let items = own.iter().chain(parts).cloned().map(Item::Tensor).chain(others);
        let bound = walk.all_bound(&items.collect::<Vec<_>>());
        let results = walk.subgraph(block, bound)?;
        let (next, made) = results.split_at_checked(own.len()).ok_or("a result is missing")?;
        Ok((next.to_vec(), made.to_vec()))
    })?;
    Ok([looped.states, looped.stacked].concat())
}

/// Replaces an operator by those of its subgraph: `wrap_with_set_grad_enabled(flag, graph, *operands)`.
fn inline<'m>(walk: &mut Walk<'m>, op: &'m Op, scope: &mut Scope<'m>) -> Step<Vec<Value>> {
    let block = subgraph(walk, op, 1)?;
    let count = op.inputs.len().saturating_add(op.attributes.len());
    let mut operands = Vec::new();
    for position in 2..count {
        let items = items(walk, op, position, scope)?;
        operands.extend(items);
    }
    let bound = walk.all_bound(&operands);
    let results = walk.subgraph(block, bound)?;
    walk.graph.begin(&op.name);
    Ok(results)
}
