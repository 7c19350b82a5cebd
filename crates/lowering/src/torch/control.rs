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

use std::collections::HashSet;

use lodstone_model::{Attribute, AttributeValue, Block, DType, Dim, Op};
use lodstone_schema::Finding;
use lodstone_schema::numbers::{exact, length};
use lodstone_schema::onnx::infer::{ValueInfo, common_type};

use super::arguments::{Arguments, Item};
use super::node::{Node, Outcome, no_complex};
use super::walk::{Bound, Scope, Walk};
use crate::onnx::{Value, blocks, int, ints};
use crate::rules::RuleName;

/// The rule of an operator that runs subgraphs. It returns the results, or `None` if an operator of a subgraph could
/// not be translated, which has been reported.
pub(super) type ControlRule =
    for<'m> fn(&mut Walk<'m>, &'m Op, &mut Scope<'m>) -> Outcome<Option<Vec<Value>>>;

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

/// Returns the values in an argument; `None` if one could not be computed.
fn items<'m>(
    walk: &mut Walk<'m>,
    op: &Op,
    position: usize,
    scope: &mut Scope<'m>,
) -> Outcome<Option<Vec<Item>>> {
    let slot = position.to_string();
    if let Some(value) = op.attribute(&slot) {
        return Ok(Some(constants(value)));
    }
    let mut items = Vec::new();
    for name in op.input(&slot) {
        match walk.item(name, scope)? {
            Some(item) => items.push(item),
            None => return Ok(None),
        }
    }
    Ok(Some(items))
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
    /// Emits operators into a list of their own.
    pub(super) fn apart<T>(
        &mut self,
        name: &str,
        make: impl FnOnce(&mut Self) -> Outcome<T>,
    ) -> Outcome<(Vec<Op>, T)> {
        let around = std::mem::take(&mut self.graph.ops);
        self.graph.begin(name);
        let made = make(self);
        let ops = std::mem::replace(&mut self.graph.ops, around);
        self.graph.begin(name);
        Ok((ops, made?))
    }

    /// Adds a block of the result, whose outputs get names of their own; returns its attribute.
    pub(super) fn block(
        &mut self,
        name: &str,
        inputs: &[Value],
        ops: Vec<Op>,
        results: &[Value],
    ) -> Outcome<AttributeValue> {
        let written: HashSet<String> = ops.iter().flat_map(Op::writes).map(str::to_owned).collect();
        let mut seen = HashSet::new();
        let (copies, outputs) = self.apart(name, |walk| {
            let one = |value: &Value| {
                let is_own = written.contains(value.name()) && seen.insert(value.name().to_owned());
                if is_own { Ok(value.clone()) } else { walk.graph.call("Identity", &[value], []) }
            };
            results.iter().map(one).collect::<Outcome<Vec<_>>>()
        })?;
        let names = |values: &[Value]| values.iter().map(|it| it.name().to_owned()).collect();
        self.blocks.push(Block {
            name: self.graph.names.fresh("block"),
            vars: inputs.iter().chain(&outputs).map(blocks::declared).collect(),
            inputs: names(inputs),
            outputs: names(&outputs),
            ops: ops.into_iter().chain(copies).collect(),
            ..Block::default()
        });
        Ok(AttributeValue::Block(exact(self.blocks.len())?))
    }

    /// Creates an input of a block.
    pub(super) fn block_input(&mut self, base: &str, info: ValueInfo) -> Value {
        Value::new(&self.graph.names.fresh(base), info)
    }

    /// Binds an item as an input of a subgraph.
    pub(super) fn bound(&mut self, item: &Item) -> Bound<'m> {
        match item {
            Item::Tensor(value) => Bound::Tensor(self.tensors.add(value.clone(), None)),
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

    /// Returns a condition as a Boolean scalar.
    pub(super) fn truth(&mut self, value: &Value) -> Outcome {
        let value = self.graph.cast(value, DType::Bool)?;
        self.graph.reshape(&value, &[])
    }
}

pub(super) fn body(name: &str, value: AttributeValue) -> Attribute {
    Attribute { name: name.to_owned(), value }
}

/// Returns the type of a value, without its contents.
pub(super) fn type_of(value: &Value) -> ValueInfo {
    ValueInfo::from(value.value_type().clone())
}

/// Returns an item of the kind of another, with another value.
pub(super) fn like(item: &Item, value: Value) -> Item {
    match item {
        Item::Number(_) | Item::Constant(_) => Item::Number(value),
        Item::Tensor(_) | Item::Absent | Item::Complex(_) => Item::Tensor(value),
    }
}

/// Runs one of two subgraphs.
fn choose<'m>(
    walk: &mut Walk<'m>,
    op: &'m Op,
    scope: &mut Scope<'m>,
) -> Outcome<Option<Vec<Value>>> {
    let branches =
        [(subgraph(walk, op, 1)?, "then_branch"), (subgraph(walk, op, 2)?, "else_branch")];
    let Some(condition) = items(walk, op, 0, scope)? else { return Ok(None) };
    let Some(operands) = items(walk, op, 3, scope)? else { return Ok(None) };
    let [condition] = condition.as_slice() else { return Err("expected one condition".into()) };
    if let Some(super::arguments::Number::Bool(truth)) = condition.number() {
        let [(then, _), (other, _)] = branches;
        let block = if truth { then } else { other };
        let operands = walk.all_bound(&operands);
        let results = walk.subgraph(block, operands)?;
        walk.graph.begin(&op.name);
        return Ok(results);
    }
    let condition = walk.value(condition)?;
    let condition = walk.truth(&condition)?;
    let (mut bodies, mut results) = (Vec::new(), Vec::new());
    for (block, name) in branches {
        let operands = walk.all_bound(&operands);
        let (ops, made) = walk.apart(&op.name, |walk| walk.subgraph(block, operands))?;
        let Some(made) = made else { return Ok(None) };
        let value = walk.block(&op.name, &[], ops, &made)?;
        bodies.push(body(name, value));
        results.push(made);
    }
    let [then, other] = results.as_slice() else {
        return Err(Finding::internal("a branch was lost"));
    };
    if then.len() != other.len() {
        return Err(format!("the branches have {} and {} results", then.len(), other.len()).into());
    }
    let common = |(a, b): (&Value, &Value)| {
        let common = common_type(a.value_type(), b.value_type()).filter(|_| a.dtype() == b.dtype());
        let other = || format!("the branches return {} and {}", a.dtype(), b.dtype());
        Ok(ValueInfo::from(common.ok_or_else(other)?))
    };
    let infos = then.iter().zip(other).map(common).collect::<Result<Vec<_>, Finding>>()?;
    Ok(Some(walk.graph.emit_typed("If", &[Some(&condition)], bodies, infos)))
}

/// Fails if the next value of a state has another type.
fn check_state(before: &Value, after: &Value) -> Outcome<()> {
    match before.dtype() == after.dtype() && before.rank().ok() == after.rank().ok() {
        true => Ok(()),
        false => Err("a state of a loop changes its type".into()),
    }
}

/// Runs a subgraph while another one returns true.
fn repeat<'m>(
    walk: &mut Walk<'m>,
    op: &'m Op,
    scope: &mut Scope<'m>,
) -> Outcome<Option<Vec<Value>>> {
    let (condition, block) = (subgraph(walk, op, 0)?, subgraph(walk, op, 1)?);
    let Some(states) = items(walk, op, 2, scope)? else { return Ok(None) };
    let Some(others) = items(walk, op, 3, scope)? else { return Ok(None) };
    let first: Vec<Value> = states.iter().map(|it| walk.value(it)).collect::<Outcome<_>>()?;
    // Before the loop, with the first states.
    let inputs: Vec<Item> =
        states.iter().zip(&first).map(|(item, value)| like(item, value.clone())).collect();
    let bound = walk.all_bound(&[&inputs[..], &others[..]].concat());
    let Some(begins) = walk.subgraph(condition, bound)? else { return Ok(None) };
    walk.graph.begin(&op.name);
    let [begins] = begins.as_slice() else { return Err("expected one condition".into()) };
    let begins = walk.truth(begins)?;
    // In the loop. Dims of states may change, ranks may not.
    let own: Vec<Value> =
        first.iter().map(|value| walk.block_input("state", type_of(value))).collect();
    let inputs: Vec<Item> =
        states.iter().zip(&own).map(|(item, value)| like(item, value.clone())).collect();
    let bound = walk.all_bound(&[&inputs[..], &others[..]].concat());
    let (mut ops, next) = walk.apart(&op.name, |walk| walk.subgraph(block, bound))?;
    let Some(next) = next else { return Ok(None) };
    if next.len() != own.len() {
        return Err(format!("expected {} states, found {}", own.len(), next.len()).into());
    }
    own.iter().zip(&next).try_for_each(|(before, after)| check_state(before, after))?;
    let inputs: Vec<Item> =
        states.iter().zip(&next).map(|(item, value)| like(item, value.clone())).collect();
    let bound = walk.all_bound(&[&inputs[..], &others[..]].concat());
    let (more, goes_on) = walk.apart(&op.name, |walk| {
        let Some(goes_on) = walk.subgraph(condition, bound)? else { return Ok(None) };
        let [goes_on] = goes_on.as_slice() else { return Err("expected one condition".into()) };
        walk.truth(goes_on).map(Some)
    })?;
    let Some(goes_on) = goes_on else { return Ok(None) };
    ops.extend(more);
    let number = walk.block_input("iteration", ValueInfo::tensor(DType::Int64, Some(Vec::new())));
    let flag = walk.block_input("condition", ValueInfo::tensor(DType::Bool, Some(Vec::new())));
    let inputs: Vec<Value> = [number, flag].into_iter().chain(own).collect();
    let returned: Vec<Value> = std::iter::once(&goes_on).chain(&next).cloned().collect();
    let value = walk.block(&op.name, &inputs, ops, &returned)?;
    let infos: Vec<ValueInfo> = first.iter().map(type_of).collect();
    let operands: Vec<Option<&Value>> =
        [None, Some(&begins)].into_iter().chain(first.iter().map(Some)).collect();
    Ok(Some(walk.graph.emit_typed("Loop", &operands, [body("body", value)], infos)))
}

/// Returns the type of a slice along the first dim.
fn slice_of(value: &Value) -> Outcome<ValueInfo> {
    let dims = value.shape()?.get(1..).ok_or("expected data of at least rank 1")?;
    Ok(ValueInfo::tensor(value.dtype(), Some(dims.to_vec())))
}

/// Runs a subgraph for each slice of the data, and passes states on.
fn scan<'m>(walk: &mut Walk<'m>, op: &'m Op, scope: &mut Scope<'m>) -> Outcome<Option<Vec<Value>>> {
    let block = subgraph(walk, op, 0)?;
    let Some(states) = items(walk, op, 1, scope)? else { return Ok(None) };
    let Some(slices) = items(walk, op, 2, scope)? else { return Ok(None) };
    let Some(others) = items(walk, op, 3, scope)? else { return Ok(None) };
    scanned(walk, op, block, (states, slices, others))
}

/// Runs a subgraph for each slice of the data.
fn map<'m>(walk: &mut Walk<'m>, op: &'m Op, scope: &mut Scope<'m>) -> Outcome<Option<Vec<Value>>> {
    let block = subgraph(walk, op, 0)?;
    let Some(slices) = items(walk, op, 1, scope)? else { return Ok(None) };
    let Some(others) = items(walk, op, 2, scope)? else { return Ok(None) };
    scanned(walk, op, block, (Vec::new(), slices, others))
}

fn scanned<'m>(
    walk: &mut Walk<'m>,
    op: &'m Op,
    block: usize,
    (states, slices, others): (Vec<Item>, Vec<Item>, Vec<Item>),
) -> Outcome<Option<Vec<Value>>> {
    let first: Vec<Value> = states.iter().map(|it| walk.value(it)).collect::<Outcome<_>>()?;
    let data: Vec<Value> = slices.iter().map(|it| walk.value(it)).collect::<Outcome<_>>()?;
    if data.is_empty() {
        return Err("expected data".into());
    }
    let own: Vec<Value> =
        first.iter().map(|value| walk.block_input("state", type_of(value))).collect();
    let mut parts = Vec::new();
    for value in &data {
        parts.push(walk.block_input("slice", slice_of(value)?));
    }
    let items: Vec<Item> = own.iter().chain(&parts).map(|it| Item::Tensor(it.clone())).collect();
    let bound = walk.all_bound(&[&items[..], &others[..]].concat());
    let (ops, results) = walk.apart(&op.name, |walk| walk.subgraph(block, bound))?;
    let Some(results) = results else { return Ok(None) };
    let (next, made) = results.split_at_checked(own.len()).ok_or("a result is missing")?;
    own.iter().zip(next).try_for_each(|(before, after)| check_state(before, after))?;
    let inputs: Vec<Value> = own.into_iter().chain(parts).collect();
    let value = walk.block(&op.name, &inputs, ops, &results)?;
    let steps = data.first().and_then(|data| data.shape().ok()?.first().cloned());
    let steps = steps.unwrap_or(Dim::Unknown);
    let mut infos: Vec<ValueInfo> = first.iter().map(type_of).collect();
    for value in made {
        let dims = std::iter::once(steps.clone()).chain(value.shape()?.iter().cloned()).collect();
        infos.push(ValueInfo::tensor(value.dtype(), Some(dims)));
    }
    let operands: Vec<Option<&Value>> = first.iter().chain(&data).map(Some).collect();
    let count = length(data.len());
    let axes = vec![0; data.len()];
    let attributes =
        [body("body", value), int("num_scan_inputs", count), ints("scan_input_axes", &axes)];
    Ok(Some(walk.graph.emit_typed("Scan", &operands, attributes, infos)))
}

/// Replaces an operator by those of its subgraph: `wrap_with_set_grad_enabled(flag, graph, *operands)`.
fn inline<'m>(
    walk: &mut Walk<'m>,
    op: &'m Op,
    scope: &mut Scope<'m>,
) -> Outcome<Option<Vec<Value>>> {
    let block = subgraph(walk, op, 1)?;
    let count = op.inputs.len().saturating_add(op.attributes.len());
    let mut operands = Vec::new();
    for position in 2..count {
        let Some(items) = items(walk, op, position, scope)? else { return Ok(None) };
        operands.extend(items);
    }
    let bound = walk.all_bound(&operands);
    let results = walk.subgraph(block, bound)?;
    walk.graph.begin(&op.name);
    Ok(results)
}
