//! Branches that depend on computed values.

use std::rc::Rc;

use lodstone_model::{Attribute, AttributeValue, Block, Op, Operand};

use super::emit::{Argument, operator};
use super::evaluator::{Evaluator, Flow, Outcome};
use super::value::{Cell, Scope, Type, Value, is_same};
use crate::torch::code::{Expression, Kind, Statement};

/// What a branch changes, to return to the state before it.
pub(super) struct Before {
    scope: Scope,
    pub(super) heap: Vec<Cell>,
    pub(super) set: std::collections::BTreeMap<String, Value>,
}

/// A branch that has been evaluated.
struct Branch {
    block: Block,
    flow: Flow,
    scope: Scope,
    heap: Vec<Cell>,
    set: std::collections::BTreeMap<String, Value>,
}

impl Evaluator<'_> {
    /// Opens a block.
    pub(super) fn begin(&mut self) -> Outcome<()> {
        let index = i32::try_from(self.blocks.len());
        let index = index.map_err(|_| self.failure("there are too many blocks"))?;
        let around = self.open.last().ok_or_else(|| self.failure("no block is open"))?;
        let parent = around.index;
        self.blocks.push(Block::default());
        self.open.push(Block { index, parent, ..Block::default() });
        Ok(())
    }

    /// Returns the innermost block, which is no longer open.
    pub(super) fn close(&mut self) -> Outcome<Block> {
        self.open.pop().ok_or_else(|| self.failure("no block is open"))
    }

    /// Closes the innermost block.
    pub(super) fn end(&mut self, block: Block) -> i32 {
        let index = block.index;
        if let Some(place) = usize::try_from(index).ok().and_then(|at| self.blocks.get_mut(at)) {
            *place = block;
        }
        index
    }

    pub(super) fn before(&self, scope: &Scope) -> Before {
        Before { scope: scope.clone(), heap: self.heap.clone(), set: self.set.clone() }
    }

    pub(super) fn restore(&mut self, before: &Before, scope: &mut Scope) {
        scope.clone_from(&before.scope);
        self.heap.clone_from(&before.heap);
        self.set.clone_from(&before.set);
    }

    /// Evaluates a branch into a block of its own.
    fn branch(&mut self, body: &[Statement], before: &Before) -> Outcome<Branch> {
        let mut scope = before.scope.clone();
        self.heap.clone_from(&before.heap);
        self.set.clone_from(&before.set);
        self.begin()?;
        let flow = self.body(body, &mut scope);
        let block = self.close()?;
        let heap = self.heap.clone();
        Ok(Branch { block, flow: flow?, scope, heap, set: self.set.clone() })
    }

    /// Evaluates an `if` whose condition is computed.
    pub(super) fn branches(
        &mut self,
        condition: &Value,
        then: &[Statement],
        otherwise: &[Statement],
        scope: &mut Scope,
    ) -> Outcome<Flow> {
        self.keeping(scope, |evaluator, scope| evaluator.either(condition, then, otherwise, scope))
    }

    fn either(
        &mut self,
        condition: &Value,
        then: &[Statement],
        otherwise: &[Statement],
        scope: &mut Scope,
    ) -> Outcome<Flow> {
        let before = self.before(scope);
        let first = self.branch(then, &before)?;
        let second = self.branch(otherwise, &before)?;
        match (&first.flow, &second.flow) {
            (Flow::Raise(what), Flow::Raise(_)) => {
                let what = what.clone();
                self.restore(&before, scope);
                return Ok(Flow::Raise(what));
            }
            // A branch that raises an exception is not taken.
            (Flow::Raise(_), _) => return self.taken(second, scope),
            (_, Flow::Raise(_)) => return self.taken(first, scope),
            _ => {}
        }
        if matches!(condition, Value::Tensor(_)) {
            let condition = self.number_of(condition, Type::Bool)?;
            return self.merged(&condition, first, second, &before, scope);
        }
        self.merged(condition, first, second, &before, scope)
    }

    /// Continues after one branch, whose operators become those of the block around it.
    fn taken(&mut self, branch: Branch, scope: &mut Scope) -> Outcome<Flow> {
        let index = branch.block.index;
        let outer = self.open.last_mut();
        let outer = match outer {
            Some(outer) => outer,
            None => return Err(self.failure("no block is open")),
        };
        let parent = outer.index;
        outer.vars.extend(branch.block.vars);
        outer.ops.extend(branch.block.ops);
        for block in &mut self.blocks {
            if block.parent == index {
                block.parent = parent;
            }
        }
        *scope = branch.scope;
        self.heap = branch.heap;
        self.set = branch.set;
        Ok(branch.flow)
    }

    /// Makes `prim::If` of two branches: its results are the variables that differ.
    fn merged(
        &mut self,
        condition: &Value,
        first: Branch,
        second: Branch,
        before: &Before,
        scope: &mut Scope,
    ) -> Outcome<Flow> {
        let shared = before.heap.len();
        let mut merge = Merge { shared, pairs: Vec::new(), results: Vec::new() };
        // What the first branch allocated stays in its place; the rest follows.
        self.heap.clone_from(&first.heap);
        let mut merged = Scope::new();
        for (name, left) in &first.scope {
            let Some(right) = second.scope.get(name) else { continue };
            let value = self.joined(left, right, (&first, &second), name, &mut merge);
            // What no path reads may differ.
            match value {
                Ok(value) => merged.insert(name.clone(), value),
                Err(_) => merged.insert(name.clone(), Value::Unset),
            };
        }
        let flow = match (&first.flow, &second.flow) {
            (Flow::Return(left), Flow::Return(right)) => {
                Flow::Return(self.joined(left, right, (&first, &second), "", &mut merge)?)
            }
            (Flow::Next, Flow::Next) => Flow::Next,
            _ => return Err(self.failure("one branch returns, and the other does not")),
        };
        let mut set = before.set.clone();
        for path in first.set.keys().chain(second.set.keys()) {
            let stored = self.stored.get(path).cloned().unwrap_or(Value::Unset);
            let left = first.set.get(path).unwrap_or(&stored).clone();
            let right = second.set.get(path).unwrap_or(&stored).clone();
            let value = self.joined(&left, &right, (&first, &second), path, &mut merge)?;
            set.insert(path.clone(), value);
        }
        // Structures that a branch changes.
        for at in 0..shared {
            if let (Some(left), Some(right)) = (first.heap.get(at), second.heap.get(at)) {
                let cell = self.joined_cell(left, right, (&first, &second), &mut merge)?;
                if let Some(place) = self.heap.get_mut(at) {
                    *place = cell;
                }
            }
        }
        let Merge { pairs, results, .. } = merge;
        let (mut first, mut second) = (first, second);
        for side in 0..2 {
            let branch = if side == 0 { &mut first } else { &mut second };
            let mut block = std::mem::take(&mut branch.block);
            block.outputs = Vec::new();
            self.open.push(block);
            for (left, right) in &pairs {
                let value = if side == 0 { left } else { right };
                let name = self.variable(value)?;
                if let Some(block) = self.open.last_mut() {
                    block.outputs.push(name.to_string());
                }
            }
            branch.block = self.close()?;
        }
        let kinds = pairs.iter().map(|(left, right)| match left {
            Value::Sequence(_) => Sort::Sequence,
            _ => number_type(left, right).map_or(Sort::Tensor, Sort::Number),
        });
        let kinds: Vec<Sort> = kinds.collect();
        let condition = self.variable(condition)?;
        let blocks = vec![self.end(first.block), self.end(second.block)];
        let arguments = vec![("cond".to_owned(), Argument::Values(vec![condition.to_string()]))];
        let mut op = operator("prim::If", "", arguments);
        op.attributes
            .push(Attribute { name: "blocks".to_owned(), value: AttributeValue::Blocks(blocks) });
        self.finish(op, &results, &kinds)?;
        *scope = merged;
        self.set = set;
        Ok(flow)
    }

    /// Adds an operator with blocks, whose results have been named.
    pub(super) fn finish(
        &mut self,
        mut op: Op,
        results: &[Rc<str>],
        kinds: &[Sort],
    ) -> Outcome<()> {
        let args: Vec<String> = results.iter().map(ToString::to_string).collect();
        for (name, kind) in results.iter().zip(kinds) {
            self.declare_sort(name, *kind);
        }
        op.name = args.first().cloned().unwrap_or_else(|| op.kind.clone());
        op.outputs.push(Operand { slot: "0".to_owned(), args });
        self.add(op)?;
        Ok(())
    }

    /// Joins the values of a variable after two branches.
    fn joined(
        &mut self,
        left: &Value,
        right: &Value,
        branches: (&Branch, &Branch),
        name: &str,
        merge: &mut Merge,
    ) -> Outcome {
        let shared = merge.shared;
        // Structures of the branches are different ones, even in the same place.
        if is_same(left, right) && !has_new(left, shared) {
            return Ok(left.clone());
        }
        match (left, right) {
            (Value::Unset, value) if has_new(value, shared) => {
                return Err(
                    self.failure(format!("only one branch assigns the {} `{name}`", value.kind()))
                );
            }
            (Value::Unset, value) | (value, Value::Unset) => return Ok(value.clone()),
            (Value::Tuple(a), Value::Tuple(b)) if a.len() == b.len() => {
                let items =
                    a.iter().zip(b.iter()).map(|(a, b)| self.joined(a, b, branches, name, merge));
                let items = items.collect::<Outcome<Vec<_>>>()?;
                return Ok(Value::Tuple(items.into()));
            }
            (Value::List(a), Value::List(b)) => {
                let (a, b) = (list_at(&branches.0.heap, *a), list_at(&branches.1.heap, *b));
                if let (Some(a), Some(b)) = (a, b)
                    && a.len() == b.len()
                {
                    let items =
                        a.iter().zip(&b).map(|(a, b)| self.joined(a, b, branches, name, merge));
                    let items = items.collect::<Outcome<Vec<_>>>()?;
                    return self.list(items);
                }
            }
            (Value::Dict(a), Value::Dict(b)) | (Value::Instance(a), Value::Instance(b)) => {
                if let (Some(a), Some(b)) = (branches.0.heap.get(*a), branches.1.heap.get(*b)) {
                    let cell = self.joined_cell(a, b, branches, merge)?;
                    let place = self.allocate(cell)?;
                    return Ok(match left {
                        Value::Dict(_) => Value::Dict(place),
                        _ => Value::Instance(place),
                    });
                }
            }
            _ => {}
        }
        let class = |value: &Value| match value {
            Value::Tensor(_) => Some("Tensor"),
            Value::Sequence(_) => Some("List[Tensor]"),
            value => number_type(value, value).map(|_| "number"),
        };
        if class(left).is_none() || class(left) != class(right) {
            let what =
                format!("after an `if`, `{name}` is a {} or a {}", left.kind(), right.kind());
            return Err(self.failure(what));
        }
        let known = merge.pairs.iter().position(|(a, b)| is_same(a, left) && is_same(b, right));
        let scalar = number_type(left, right);
        let result = match known.and_then(|at| merge.results.get(at)) {
            Some(result) => Rc::clone(result),
            None => {
                let result = self.fresh(name);
                merge.pairs.push((left.clone(), right.clone()));
                merge.results.push(Rc::clone(&result));
                result
            }
        };
        Ok(match (scalar, left) {
            (Some(scalar), _) => Value::Number(result, scalar),
            (None, Value::Sequence(_)) => Value::Sequence(result),
            (None, _) => Value::Tensor(result),
        })
    }

    fn joined_cell(
        &mut self,
        left: &Cell,
        right: &Cell,
        branches: (&Branch, &Branch),
        merge: &mut Merge,
    ) -> Outcome<Cell> {
        match (left, right) {
            (Cell::Sequence(a), Cell::Sequence(b)) => {
                let (a, b) = (Value::Sequence(Rc::clone(a)), Value::Sequence(Rc::clone(b)));
                match self.joined(&a, &b, branches, "list", merge)? {
                    Value::Sequence(name) => Ok(Cell::Sequence(name)),
                    _ => Err(self.failure("a list was lost")),
                }
            }
            (Cell::List(a), Cell::List(b)) if a.len() == b.len() => {
                let items =
                    a.iter().zip(b).map(|(a, b)| self.joined(a, b, branches, "item", merge));
                Ok(Cell::List(items.collect::<Outcome<_>>()?))
            }
            (Cell::Dict(a), Cell::Dict(b)) if a.len() == b.len() => {
                let mut items = Vec::new();
                for ((key, a), (other, b)) in a.iter().zip(b) {
                    if !is_same(key, other) {
                        return Err(self.failure("a dictionary has other keys after an `if`"));
                    }
                    items.push((key.clone(), self.joined(a, b, branches, "item", merge)?));
                }
                Ok(Cell::Dict(items))
            }
            (Cell::Instance(class, a), Cell::Instance(_, b)) => {
                let mut fields = std::collections::BTreeMap::new();
                for (name, a) in a {
                    let b = b.get(name).unwrap_or(&Value::Unset);
                    fields.insert(name.clone(), self.joined(a, b, branches, name, merge)?);
                }
                Ok(Cell::Instance(Rc::clone(class), fields))
            }
            _ => Err(self.failure("a list has another length after an `if`")),
        }
    }

    /// Declares a variable that has a name.
    pub(super) fn declare_sort(&mut self, name: &str, sort: Sort) {
        match sort {
            Sort::Tensor => self.declare_as(name, None),
            Sort::Number(scalar) => self.declare_as(name, Some(scalar)),
            Sort::Sequence => self.declare_sequence(name),
        }
    }
}

/// What a variable of the program holds.
#[derive(Clone, Copy)]
pub(super) enum Sort {
    Tensor,
    Number(Type),
    Sequence,
}

/// The variables that two branches compute, and the results of the `if`.
struct Merge {
    /// The number of structures that existed before the branches.
    shared: usize,
    pairs: Vec<(Value, Value)>,
    results: Vec<Rc<str>>,
}

/// Whether a value is, or contains, a structure that did not exist before the branches.
fn has_new(value: &Value, shared: usize) -> bool {
    match value {
        Value::List(place) | Value::Dict(place) | Value::Instance(place) => *place >= shared,
        Value::Tuple(items) => items.iter().any(|item| has_new(item, shared)),
        _ => false,
    }
}

pub(super) fn list_at(heap: &[Cell], place: usize) -> Option<Vec<Value>> {
    match heap.get(place) {
        Some(Cell::List(items)) => Some(items.clone()),
        _ => None,
    }
}

/// Returns the type of a number that is one of two values; `None` of tensors.
pub(super) fn number_type(left: &Value, right: &Value) -> Option<Type> {
    let of = |value: &Value| match value {
        Value::Number(_, scalar) => Some(*scalar),
        Value::Bool(_) => Some(Type::Bool),
        Value::Int(_) => Some(Type::Int),
        Value::Float(_) => Some(Type::Float),
        _ => None,
    };
    match (of(left)?, of(right)?) {
        (Type::Float, _) | (_, Type::Float) => Some(Type::Float),
        (left, _) => Some(left),
    }
}

/// Returns whether an expression is the name of a type.
pub(super) fn type_name(expression: &Expression) -> Option<String> {
    match &expression.kind {
        Kind::Index(object, _) => object.path(),
        Kind::None => Some("NoneType".to_owned()),
        _ => expression.path(),
    }
}
