//! Branches and loops that depend on computed values.

use std::rc::Rc;

use lodstone_model::{Attribute, AttributeValue, Block, Op, Operand};

use super::emit::Argument;
use super::emit::operator;
use super::evaluator::{Evaluator, Flow, Outcome};
use super::value::{Cell, Scope, Type, Value, is_same};
use crate::torch::code::{Expression, Kind, Statement, Step};

/// The maximum number of repetitions of a loop whose count is known.
const MAX_REPETITIONS: i64 = 1 << 16;

/// What a branch changes, to return to the state before it.
struct Before {
    scope: Scope,
    heap: Vec<Cell>,
    set: std::collections::BTreeMap<String, Value>,
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
    /// Opens a block; returns its index.
    fn begin(&mut self) -> i32 {
        let index = i32::try_from(self.blocks.len()).unwrap_or(i32::MAX);
        let parent = self.open.last().map_or(0, |block| block.index);
        self.blocks.push(Block::default());
        self.open.push(Block { index, parent, ..Block::default() });
        index
    }

    /// Closes the innermost block.
    fn end(&mut self, block: Block) -> i32 {
        let index = block.index;
        if let Some(place) = usize::try_from(index).ok().and_then(|at| self.blocks.get_mut(at)) {
            *place = block;
        }
        index
    }

    fn before(&self, scope: &Scope) -> Before {
        Before { scope: scope.clone(), heap: self.heap.clone(), set: self.set.clone() }
    }

    fn restore(&mut self, before: &Before, scope: &mut Scope) {
        scope.clone_from(&before.scope);
        self.heap.clone_from(&before.heap);
        self.set.clone_from(&before.set);
    }

    /// Evaluates a branch into a block of its own.
    fn branch(&mut self, body: &[Statement], before: &Before) -> Outcome<Branch> {
        let mut scope = before.scope.clone();
        self.heap.clone_from(&before.heap);
        self.set.clone_from(&before.set);
        self.begin();
        let flow = self.body(body, &mut scope);
        let block = self.open.pop().unwrap_or_default();
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
        let mut merge = Merge { pairs: Vec::new(), results: Vec::new() };
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
            let parameter = Value::Tensor(Rc::from(path.as_str()));
            let left = first.set.get(path).unwrap_or(&parameter).clone();
            let right = second.set.get(path).unwrap_or(&parameter).clone();
            let value = self.joined(&left, &right, (&first, &second), path, &mut merge)?;
            set.insert(path.clone(), value);
        }
        // Structures that a branch changes.
        let mut heap = first.heap.clone();
        for (at, cell) in heap.iter_mut().enumerate() {
            if let Some(other) = second.heap.get(at)
                && at < before.heap.len()
            {
                *cell = self.joined_cell(cell, other, (&first, &second), &mut merge)?;
            }
        }
        let Merge { pairs, results } = merge;
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
            let block = self.open.pop().unwrap_or_default();
            branch.block = block;
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
        self.heap = heap;
        self.set = set;
        Ok(flow)
    }

    /// Adds an operator with blocks, whose results have been named.
    fn finish(&mut self, mut op: Op, results: &[Rc<str>], kinds: &[Sort]) -> Outcome<()> {
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
        if is_same(left, right) {
            return Ok(left.clone());
        }
        match (left, right) {
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

    /// Evaluates a `for` over a range.
    pub(super) fn counted(
        &mut self,
        target: &str,
        count: &Expression,
        body: &[Statement],
        scope: &mut Scope,
    ) -> Outcome<Flow> {
        let count = self.expression(count, scope)?;
        match &count {
            Value::Int(count) => {
                if *count > MAX_REPETITIONS {
                    return Err(self.failure(format!("a loop repeats {count} times")));
                }
                for number in 0..*count {
                    scope.insert(target.to_owned(), Value::Int(number));
                    match self.body(body, scope)? {
                        Flow::Next => {}
                        flow => return Ok(flow),
                    }
                }
                Ok(Flow::Next)
            }
            Value::Number(_, Type::Int) => {
                self.looped(Some(&count), None, Some(target), body, scope)
            }
            other => Err(self.failure(format!("a loop over a {}", other.kind()))),
        }
    }

    /// Evaluates a `while`: as long as its condition is known, its body is repeated here.
    pub(super) fn repeated(
        &mut self,
        condition: &Expression,
        body: &[Statement],
        scope: &mut Scope,
    ) -> Outcome<Flow> {
        for _ in 0..MAX_REPETITIONS {
            let known = self.expression(condition, scope)?;
            match self.truth(&known)? {
                Some(false) => return Ok(Flow::Next),
                Some(true) => match self.body(body, scope)? {
                    Flow::Next => {}
                    flow => return Ok(flow),
                },
                None => return self.looped(None, Some(condition), None, body, scope),
            }
        }
        Err(self.failure(format!("a loop repeats more than {MAX_REPETITIONS} times")))
    }

    /// Makes `prim::Loop`: its states are the variables that the body assigns and that exist before it, and lists of
    /// tensors that it extends.
    fn looped(
        &mut self,
        count: Option<&Value>,
        condition: Option<&Expression>,
        target: Option<&str>,
        body: &[Statement],
        scope: &mut Scope,
    ) -> Outcome<Flow> {
        let (mut states, kept) = self.states(body, scope)?;
        let lists: Vec<usize> = (0..self.heap.len())
            .filter(|place| matches!(self.heap.get(*place), Some(Cell::Sequence(_))))
            .collect();
        for place in &lists {
            if let Some(Cell::Sequence(name)) = self.heap.get(*place) {
                states.push((State::List(*place), Rc::clone(name), Sort::Sequence));
            }
        }
        let start = match condition {
            Some(condition) => self.expression(condition, scope)?,
            None => Value::Bool(true),
        };
        let start = self.as_truth(start)?;
        let start = self.variable(&start)?;
        let most = match count {
            Some(count) => self.variable(count)?,
            None => self.variable(&Value::Int(i64::MAX))?,
        };
        let before = self.before(scope);
        let blocks = self.blocks.len();
        self.begin();
        let mut inner = scope.clone();
        let number = self.declare(target.unwrap_or("i"), Some(Type::Int));
        let mut inputs = vec![number.to_string()];
        if let Some(target) = target {
            inner.insert(target.to_owned(), Value::Number(number, Type::Int));
        }
        for (state, _, sort) in &states {
            let variable = self.fresh(state.base());
            self.declare_sort(&variable, *sort);
            inputs.push(variable.to_string());
            self.assign(state, variable, *sort, &mut inner);
        }
        let flow = self.body(body, &mut inner)?;
        if !matches!(flow, Flow::Next) {
            return Err(self.failure("the body of a loop returns or raises"));
        }
        let grown = self.grown(&before, &lists)?;
        if !grown.is_empty() {
            // Again, with these lists as values of the program.
            self.open.pop();
            self.blocks.truncate(blocks);
            self.restore(&before, scope);
            for place in grown {
                let items = list_at(&self.heap, place).unwrap_or_default();
                let names = items.iter().map(|item| self.variable(item).map(|it| it.to_string()));
                let names = names.collect::<Outcome<_>>()?;
                let arguments = vec![("self".to_owned(), Argument::Values(names))];
                let name = self.sequence("prim::ListConstruct", arguments)?;
                if let Some(cell) = self.heap.get_mut(place) {
                    *cell = Cell::Sequence(name);
                }
            }
            return self.looped(count, condition, target, body, scope);
        }
        for (name, value) in &kept {
            if inner.get(name).is_none_or(|now| !is_same(now, value)) {
                let what = format!("the {} `{name}` changes in a loop", value.kind());
                return Err(self.failure(what));
            }
        }
        let goes_on = match condition {
            Some(condition) => self.expression(condition, &mut inner)?,
            None => Value::Bool(true),
        };
        let goes_on = self.as_truth(goes_on)?;
        let mut outputs = vec![self.variable(&goes_on)?.to_string()];
        for (state, _, sort) in &states {
            let value = match state {
                State::Variable(name) => inner.get(name).cloned().unwrap_or(Value::Unset),
                State::List(place) => match self.heap.get(*place) {
                    Some(Cell::Sequence(name)) => Value::Sequence(Rc::clone(name)),
                    _ => Value::Unset,
                },
            };
            let is_number = number_type(&value, &value).is_some();
            if is_number != matches!(sort, Sort::Number(_)) {
                let what =
                    format!("the state `{}` of a loop becomes a {}", state.base(), value.kind());
                return Err(self.failure(what));
            }
            outputs.push(self.variable(&value)?.to_string());
        }
        let mut block = self.open.pop().unwrap_or_default();
        block.inputs = inputs;
        block.outputs = outputs;
        let index = self.end(block);
        let values = |names: Vec<String>| Argument::Values(names);
        let arguments = vec![
            ("max_trip_count".to_owned(), values(vec![most.to_string()])),
            ("cond".to_owned(), values(vec![start.to_string()])),
            ("states".to_owned(), values(states.iter().map(|(_, it, _)| it.to_string()).collect())),
        ];
        let mut op = operator("prim::Loop", "", arguments);
        op.attributes
            .push(Attribute { name: "body".to_owned(), value: AttributeValue::Block(index) });
        self.restore(&before, scope);
        let results: Vec<Rc<str>> =
            states.iter().map(|(state, ..)| self.fresh(state.base())).collect();
        let sorts: Vec<Sort> = states.iter().map(|(.., sort)| *sort).collect();
        self.finish(op, &results, &sorts)?;
        for ((state, _, sort), result) in states.into_iter().zip(results) {
            self.assign(&state, result, sort, scope);
        }
        Ok(Flow::Next)
    }

    /// Returns the variables that statements assign: those that become states of a loop, and objects, which must stay
    /// the same.
    fn states(
        &mut self,
        body: &[Statement],
        scope: &Scope,
    ) -> Outcome<(States, Vec<(String, Value)>)> {
        let mut assigned = Vec::new();
        assigned_in(body, &mut assigned);
        let (mut states, mut kept): (States, Vec<(String, Value)>) = Default::default();
        for name in assigned {
            let Some(value) = scope.get(&name) else { continue };
            let is_known = states
                .iter()
                .any(|(state, ..)| matches!(state, State::Variable(it) if *it == name));
            if is_known || matches!(value, Value::Unset) {
                continue;
            }
            let value = value.clone();
            let sort = match number_type(&value, &value) {
                Some(scalar) => Sort::Number(scalar),
                None if matches!(value, Value::Tensor(_)) => Sort::Tensor,
                None => {
                    kept.push((name, value));
                    continue;
                }
            };
            let variable = self.variable(&value)?;
            states.push((State::Variable(name), variable, sort));
        }
        Ok((states, kept))
    }

    /// Returns the lists that the body of a loop extends by tensors.
    fn grown(&self, before: &Before, known: &[usize]) -> Outcome<Vec<usize>> {
        let mut grown = Vec::new();
        for (place, (now, then)) in self.heap.iter().zip(&before.heap).enumerate() {
            if is_same_cell(now, then) || known.contains(&place) {
                continue;
            }
            let is_tensor = |item: &Value| matches!(item, Value::Tensor(_));
            match (now, then) {
                (Cell::List(now), Cell::List(then))
                    if now.len() > then.len()
                        && now.iter().zip(then).all(|(a, b)| is_same(a, b))
                        && now.iter().all(is_tensor) =>
                {
                    grown.push(place);
                }
                _ => return Err(self.failure("the body of a loop changes a list or an object")),
            }
        }
        match self.set.len() == before.set.len() {
            true => Ok(grown),
            false => Err(self.failure("the body of a loop assigns an attribute")),
        }
    }

    fn as_truth(&mut self, value: Value) -> Outcome {
        match value {
            Value::Tensor(_) => self.number_of(&value, Type::Bool),
            value => Ok(value),
        }
    }

    /// Assigns a variable of the program to a state.
    fn assign(&mut self, state: &State, variable: Rc<str>, sort: Sort, scope: &mut Scope) {
        match (state, sort) {
            (State::Variable(name), Sort::Number(scalar)) => {
                scope.insert(name.clone(), Value::Number(variable, scalar));
            }
            (State::Variable(name), _) => {
                scope.insert(name.clone(), Value::Tensor(variable));
            }
            (State::List(place), _) => {
                if let Some(cell) = self.heap.get_mut(*place) {
                    *cell = Cell::Sequence(variable);
                }
            }
        }
    }

    /// Declares a variable that has a name.
    fn declare_sort(&mut self, name: &str, sort: Sort) {
        match sort {
            Sort::Tensor => self.declare_as(name, None),
            Sort::Number(scalar) => self.declare_as(name, Some(scalar)),
            Sort::Sequence => self.declare_sequence(name),
        }
    }
}

/// What a variable of the program holds.
#[derive(Clone, Copy)]
enum Sort {
    Tensor,
    Number(Type),
    Sequence,
}

/// What a state of a loop belongs to: a variable of the code, or a list.
enum State {
    Variable(String),
    List(usize),
}

/// States of a loop, with their variable before it.
type States = Vec<(State, Rc<str>, Sort)>;

impl State {
    fn base(&self) -> &str {
        match self {
            Self::Variable(name) => name,
            Self::List(_) => "list",
        }
    }
}

/// The variables that two branches compute, and the results of the `if`.
struct Merge {
    pairs: Vec<(Value, Value)>,
    results: Vec<Rc<str>>,
}

fn list_at(heap: &[Cell], place: usize) -> Option<Vec<Value>> {
    match heap.get(place) {
        Some(Cell::List(items)) => Some(items.clone()),
        _ => None,
    }
}

/// Returns the type of a number that is one of two values; `None` of tensors.
fn number_type(left: &Value, right: &Value) -> Option<Type> {
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

fn is_same_cell(left: &Cell, right: &Cell) -> bool {
    match (left, right) {
        (Cell::Sequence(a), Cell::Sequence(b)) => a == b,
        (Cell::List(a), Cell::List(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_same(a, b))
        }
        (Cell::Dict(a), Cell::Dict(b)) => {
            a.len() == b.len()
                && a.iter().zip(b).all(|(a, b)| is_same(&a.0, &b.0) && is_same(&a.1, &b.1))
        }
        (Cell::Instance(_, a), Cell::Instance(_, b)) => {
            a.len() == b.len()
                && a.iter().zip(b).all(|((name, a), (other, b))| name == other && is_same(a, b))
        }
        _ => false,
    }
}

/// Collects the names that statements assign.
fn assigned_in(body: &[Statement], names: &mut Vec<String>) {
    for statement in body {
        match &statement.step {
            Step::Assign { targets, .. } => names.extend(targets.iter().cloned()),
            Step::If { then, otherwise, .. } => {
                assigned_in(then, names);
                assigned_in(otherwise, names);
            }
            Step::While { body, .. } | Step::For { body, .. } | Step::With { body, .. } => {
                assigned_in(body, names);
            }
            _ => {}
        }
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
