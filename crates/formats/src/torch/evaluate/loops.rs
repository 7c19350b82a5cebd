//! Loops: repeated here while their condition or count is known, and loops of the program beyond that.

use std::rc::Rc;

use lodstone_model::{Attribute, AttributeValue};

use super::control::{Before, Sort, list_at, number_type};
use super::emit::{Argument, operator};
use super::evaluator::{Evaluator, Flow, Outcome};
use super::value::{Cell, Scope, Type, Value, is_same};
use crate::torch::code::{Expression, Statement, Step};

/// The maximum number of repetitions of a loop whose count is known.
const MAX_REPETITIONS: i64 = 1 << 16;

impl Evaluator<'_> {
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
                let repeated =
                    Loop { count: Some(&count), condition: None, target: Some(target), body };
                self.looped(&repeated, &[], scope)
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
                None => {
                    let condition = Some(condition);
                    let repeated = Loop { count: None, condition, target: None, body };
                    return self.looped(&repeated, &[], scope);
                }
            }
        }
        Err(self.failure(format!("a loop repeats more than {MAX_REPETITIONS} times")))
    }

    /// Makes `prim::Loop`: its states are the variables that the body assigns and that exist before it, attributes that
    /// it assigns, and lists of tensors that it extends.
    fn looped(
        &mut self,
        repeated: &Loop<'_>,
        attributes: &[String],
        scope: &mut Scope,
    ) -> Outcome<Flow> {
        self.keeping(scope, |evaluator, scope| evaluator.once(repeated, attributes, scope))
    }

    fn once(
        &mut self,
        repeated: &Loop<'_>,
        attributes: &[String],
        scope: &mut Scope,
    ) -> Outcome<Flow> {
        let Loop { count, condition, target, body } = *repeated;
        let (mut states, kept) = self.states(body, scope)?;
        for path in attributes {
            let value = self.set.get(path).or_else(|| self.stored.get(path)).cloned();
            let value = value.unwrap_or(Value::Unset);
            let Some(sort) = sort_of(&value) else {
                let what = format!("the {} `{path}` changes in a loop", value.kind());
                return Err(self.failure(what));
            };
            states.push((State::Attribute(path.clone()), self.variable(&value)?, sort));
        }
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
        self.begin()?;
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
        let assigned = self.assigned(&before, attributes);
        if !grown.is_empty() || !assigned.is_empty() {
            // Again, with these lists and attributes as values of the program.
            self.open.pop();
            self.blocks.truncate(blocks);
            self.restore(&before, scope);
            for place in grown {
                let items = list_at(&self.heap, place);
                let items = items.ok_or_else(|| self.failure("a list was lost"))?;
                let names = items.iter().map(|item| self.variable(item).map(|it| it.to_string()));
                let names = names.collect::<Outcome<_>>()?;
                let arguments = vec![("self".to_owned(), Argument::Values(names))];
                let name = self.sequence("prim::ListConstruct", arguments)?;
                if let Some(cell) = self.heap.get_mut(place) {
                    *cell = Cell::Sequence(name);
                }
            }
            let attributes = [attributes, &assigned].concat();
            return self.looped(repeated, &attributes, scope);
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
                State::Attribute(path) => self.set.get(path).cloned().unwrap_or(Value::Unset),
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
        let mut block = self.close()?;
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
            let Some(sort) = sort_of(&value) else {
                kept.push((name, value));
                continue;
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
        Ok(grown)
    }

    /// Returns the attributes that the body of a loop assigns, other than those known.
    fn assigned(&self, before: &Before, known: &[String]) -> Vec<String> {
        let is_new = |(path, value): &(&String, &Value)| {
            before.set.get(*path).is_none_or(|then| !is_same(value, then)) && !known.contains(path)
        };
        self.set.iter().filter(is_new).map(|(path, _)| path.clone()).collect()
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
            (State::Attribute(path), Sort::Number(scalar)) => {
                self.set.insert(path.clone(), Value::Number(variable, scalar));
            }
            (State::Attribute(path), _) => {
                self.set.insert(path.clone(), Value::Tensor(variable));
            }
            (State::List(place), _) => {
                if let Some(cell) = self.heap.get_mut(*place) {
                    *cell = Cell::Sequence(variable);
                }
            }
        }
    }
}

/// A loop of the code.
struct Loop<'c> {
    count: Option<&'c Value>,
    condition: Option<&'c Expression>,
    /// The variable of the number of the repetition.
    target: Option<&'c str>,
    body: &'c [Statement],
}

/// Returns what a value becomes as a state of a loop; `None` if it cannot be one.
fn sort_of(value: &Value) -> Option<Sort> {
    match number_type(value, value) {
        Some(scalar) => Some(Sort::Number(scalar)),
        None => matches!(value, Value::Tensor(_)).then_some(Sort::Tensor),
    }
}

/// What a state of a loop belongs to: a variable of the code, an attribute by its path, or a list.
enum State {
    Variable(String),
    Attribute(String),
    List(usize),
}

/// States of a loop, with their variable before it.
type States = Vec<(State, Rc<str>, Sort)>;

impl State {
    fn base(&self) -> &str {
        match self {
            Self::Variable(name) | Self::Attribute(name) => name,
            Self::List(_) => "list",
        }
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

/// Whether two structures have the same parts.
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
