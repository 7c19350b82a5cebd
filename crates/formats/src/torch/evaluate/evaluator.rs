//! Statements and expressions.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::rc::Rc;

use lodstone_model::{Block, Dialect, Program, Topology, ValueType, Var};

use super::value::{Callable, Cell, Scope, Value};
use super::{Budget, Failure};
use crate::torch::code::{Class, Expression, Function, Kind, Source, Statement, Step};
use crate::torch::object::Objects;

/// The maximum number of statements and expressions that are evaluated, loops included.
const MAX_STEPS: u64 = 1 << 24;

/// The maximum depth of calls and expressions.
const MAX_DEPTH: usize = 2000;

/// The code of an archive and its objects.
pub(crate) struct Code<'a> {
    /// Files of code by the name of their module: `__torch__.torch.nn`.
    pub(crate) sources: HashMap<String, Source>,
    /// The objects in `data.pkl`, of which the root is the module.
    pub(crate) data: &'a Objects,
    /// The objects in `constants.pkl`.
    pub(crate) constants: Option<&'a Objects>,
    /// The version of the archive.
    pub(crate) version: u64,
    /// The memory that evaluating it may take.
    pub(crate) budget: Budget,
    /// Whether a parameter exists.
    pub(crate) has: &'a dyn Fn(&str) -> bool,
}

/// A program.
#[derive(Debug)]
pub(crate) struct Evaluated {
    pub(crate) program: Program,
    /// What the user should know.
    pub(crate) notes: Vec<String>,
    /// The full names of the functions that it calls.
    pub(crate) called: HashSet<Rc<str>>,
}

/// The size of the stack of the thread that evaluates code: calls nest deeply.
const STACK: usize = 256 << 20;

pub(super) type Outcome<T = Value> = Result<T, Failure>;

/// What follows a statement.
pub(super) enum Flow {
    Next,
    Return(Value),
    /// The code raises an exception with a message.
    Raise(String),
}

/// The state of an evaluation.
pub(super) struct Evaluator<'a> {
    pub(super) code: &'a Code<'a>,
    pub(super) heap: Vec<Cell>,
    /// Blocks that are complete, by index; those that are open are empty.
    pub(super) blocks: Vec<Block>,
    /// Open blocks, the innermost last.
    pub(super) open: Vec<Block>,
    /// The number of uses of each base of a name.
    pub(super) names: HashMap<String, usize>,
    /// The parameters that the program reads.
    pub(super) parameters: BTreeSet<String>,
    /// Attributes that the code has set, by path.
    pub(super) set: BTreeMap<String, Value>,
    /// The values that these attributes have in the archive.
    pub(super) stored: BTreeMap<String, Value>,
    pub(super) elements: usize,
    /// The grids of quantized tensors, by variable.
    pub(super) grids: HashMap<Rc<str>, super::quantized::Grid>,
    /// The variable that the current expression is assigned to.
    pub(super) own_base: Option<String>,
    /// The path of the module whose method is being evaluated.
    pub(super) module: String,
    steps: u64,
    depth: usize,
    /// The functions that are being evaluated.
    functions: Vec<Rc<str>>,
    pub(super) line: u32,
    /// What the user should know.
    pub(super) notes: Vec<String>,
    /// Why the last call raised.
    pub(super) raised: Option<String>,
    /// The full names of the functions that were called.
    called: HashSet<Rc<str>>,
}

/// Translates a method of the module.
///
/// # Errors
/// What could not be translated, with the function and the line.
pub(crate) fn evaluate(code: &Code<'_>, method: &str) -> Result<Evaluated, Failure> {
    let mut evaluator = Evaluator::new(code);
    let left = code.budget.left();
    let program = evaluator.program(method).inspect_err(|_| code.budget.restore(left))?;
    Ok(Evaluated { program, notes: evaluator.notes, called: evaluator.called })
}

/// Returns the full names of the methods of the module, and their own names.
///
/// # Errors
/// Why there is no module.
pub(crate) fn methods(code: &Code<'_>) -> Result<Vec<(String, String)>, Failure> {
    let mut evaluator = Evaluator::new(code);
    let root = evaluator.root()?;
    let class = evaluator.class(&root.class);
    let methods = class.iter().flat_map(|class| &class.methods);
    Ok(methods.map(|it| (format!("{}.{}", root.class, it.name), it.name.clone())).collect())
}

impl<'a> Evaluator<'a> {
    fn new(code: &'a Code<'a>) -> Self {
        Self {
            code,
            heap: Vec::new(),
            blocks: vec![Block::default()],
            open: vec![Block { parent: -1, ..Block::default() }],
            names: HashMap::new(),
            parameters: BTreeSet::new(),
            set: BTreeMap::new(),
            stored: BTreeMap::new(),
            elements: 0,
            grids: HashMap::new(),
            own_base: None,
            module: String::new(),
            steps: 0,
            depth: 0,
            functions: Vec::new(),
            line: 0,
            notes: Vec::new(),
            raised: None,
            called: HashSet::new(),
        }
    }
}

/// Runs a function on a thread whose stack holds deep code.
///
/// # Errors
/// Fails if no thread can be started.
pub(crate) fn deep<T: Send>(function: impl FnOnce() -> T + Send) -> std::io::Result<T> {
    std::thread::scope(|scope| {
        let builder = std::thread::Builder::new().stack_size(STACK);
        let thread = builder.spawn_scoped(scope, function)?;
        match thread.join() {
            Ok(result) => Ok(result),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

impl Evaluator<'_> {
    pub(super) fn failure(&self, what: impl Into<String>) -> Failure {
        let function = self.functions.last().map_or("", |name| name);
        Failure { function: function.to_owned(), line: self.line, what: what.into() }
    }

    fn program(&mut self, method: &str) -> Outcome<Program> {
        let root = self.root()?;
        let class = Rc::clone(&root.class);
        let Some((_, function)) = self.method(&class, method) else {
            return Err(self.failure(format!("the class `{class}` has no method `{method}`")));
        };
        self.functions.push(Rc::from(format!("{class}.{method}")));
        let mut scope = Scope::new();
        for (number, parameter) in function.parameters.iter().enumerate() {
            let value = match number {
                0 => Value::Object(Rc::clone(&root)),
                _ => self.input(parameter)?,
            };
            scope.insert(parameter.name.clone(), value);
        }
        let result = match self.body(&function.body, &mut scope)? {
            Flow::Return(value) => value,
            Flow::Next => Value::None,
            Flow::Raise(what) => return Err(self.failure(format!("the program raises: {what}"))),
        };
        self.outputs(&result, "output", 0)?;
        self.store()?;
        let mut main = self.close()?;
        for name in &self.parameters {
            main.vars.push(Var {
                name: name.clone(),
                persistable: true,
                value: ValueType::Unspecified,
                ..Var::default()
            });
        }
        if let Some(first) = self.blocks.first_mut() {
            *first = main;
        }
        super::prune::prune(&mut self.blocks);
        super::uses::declare(&mut self.blocks);
        let mut topology = Topology::new(Dialect::Torch);
        topology.blocks = std::mem::take(&mut self.blocks);
        Ok(topology.into())
    }

    /// Counts a step.
    fn step(&mut self, line: u32) -> Outcome<()> {
        self.line = line;
        self.steps += 1;
        match self.steps > MAX_STEPS {
            true => Err(self.failure(format!("more than {MAX_STEPS} steps"))),
            false => Ok(()),
        }
    }

    /// Runs a part that nests.
    fn deeper<T>(&mut self, part: impl FnOnce(&mut Self) -> Outcome<T>) -> Outcome<T> {
        if self.depth >= MAX_DEPTH {
            return Err(self.failure(format!("more than {MAX_DEPTH} levels of calls")));
        }
        self.depth += 1;
        let result = part(self);
        self.depth -= 1;
        result
    }

    /// Puts a structure on the heap.
    pub(super) fn allocate(&mut self, cell: Cell) -> Outcome<usize> {
        let count = match &cell {
            Cell::List(items) => items.len(),
            Cell::Sequence(_) => 0,
            Cell::Dict(items) => items.len(),
            Cell::Instance(_, fields) => fields.len(),
        };
        self.count(count + 1)?;
        self.heap.push(cell);
        Ok(self.heap.len() - 1)
    }

    /// Counts and charges elements of structures.
    pub(super) fn count(&mut self, elements: usize) -> Outcome<()> {
        self.charge_values(elements)?;
        self.elements += elements;
        Ok(())
    }

    pub(super) fn list(&mut self, items: Vec<Value>) -> Outcome {
        self.allocate(Cell::List(items)).map(Value::List)
    }

    /// Evaluates statements up to a return.
    pub(super) fn body(&mut self, body: &[Statement], scope: &mut Scope) -> Outcome<Flow> {
        for statement in body {
            self.step(statement.line)?;
            match self.deeper(|evaluator| evaluator.statement(statement, scope))? {
                Flow::Next => {}
                flow => return Ok(flow),
            }
        }
        Ok(Flow::Next)
    }

    fn statement(&mut self, statement: &Statement, scope: &mut Scope) -> Outcome<Flow> {
        match &statement.step {
            Step::Pass => {}
            Step::Evaluate(expression) => {
                self.expression(expression, scope)?;
            }
            Step::Assign { targets, unpacks, values } => {
                let values = match (values.as_slice(), unpacks) {
                    ([value], true) => {
                        let value = self.named_expression(value, targets.first(), scope)?;
                        if let Some(what) = self.raised.take() {
                            return Ok(Flow::Raise(what));
                        }
                        self.unpacked(&value, targets.len())?
                    }
                    (values, _) => {
                        let pairs = values.iter().zip(targets);
                        pairs
                            .map(|(value, target)| {
                                self.named_expression(value, Some(target), scope)
                            })
                            .collect::<Outcome<_>>()?
                    }
                };
                for (target, value) in targets.iter().zip(values) {
                    scope.insert(target.clone(), value);
                }
            }
            Step::SetAttribute { object, name, value } => {
                let object = self.expression(object, scope)?;
                let value = self.expression(value, scope)?;
                self.set_attribute(&object, name, value)?;
            }
            Step::Return(value) => {
                let value = match value {
                    Some(value) => self.expression(value, scope)?,
                    None => Value::None,
                };
                if let Some(what) = self.raised.take() {
                    return Ok(Flow::Raise(what));
                }
                return Ok(Flow::Return(value));
            }
            Step::If { condition, then, otherwise } => {
                let condition = self.expression(condition, scope)?;
                return match self.truth(&condition)? {
                    Some(true) => self.body(then, scope),
                    Some(false) => self.body(otherwise, scope),
                    None => self.branches(&condition, then, otherwise, scope),
                };
            }
            Step::While { condition, body } => return self.repeated(condition, body, scope),
            Step::For { target, count, body } => {
                return self.counted(target, count, body, scope);
            }
            // Contexts affect gradients and profiles only.
            Step::With { body, target, .. } => {
                if let Some(target) = target {
                    scope.insert(target.clone(), Value::None);
                }
                return self.body(body, scope);
            }
            Step::Define(function) => {
                self.charge_values(scope.len())?;
                let name = Rc::from(function.name.as_str());
                let callable =
                    Callable { name, function: Rc::clone(function), scope: scope.clone() };
                scope.insert(function.name.clone(), Value::Function(Rc::new(callable)));
            }
        }
        match self.raised.take() {
            Some(what) => Ok(Flow::Raise(what)),
            None => Ok(Flow::Next),
        }
    }

    /// Evaluates an expression that is assigned to a variable: the results of operators get its name.
    fn named_expression(
        &mut self,
        expression: &Expression,
        target: Option<&String>,
        scope: &mut Scope,
    ) -> Outcome {
        let own = self.base(target.map(String::as_str));
        let value = self.expression(expression, scope);
        self.base(own.as_deref());
        value
    }

    pub(super) fn expression(&mut self, expression: &Expression, scope: &mut Scope) -> Outcome {
        self.step(expression.line)?;
        self.deeper(|evaluator| evaluator.evaluated(expression, scope))
    }

    pub(super) fn expressions(
        &mut self,
        expressions: &[Expression],
        scope: &mut Scope,
    ) -> Outcome<Vec<Value>> {
        expressions.iter().map(|expression| self.expression(expression, scope)).collect()
    }

    fn evaluated(&mut self, expression: &Expression, scope: &mut Scope) -> Outcome {
        match &expression.kind {
            Kind::None => Ok(Value::None),
            Kind::Bool(value) => Ok(Value::Bool(*value)),
            Kind::Int(value) => Ok(Value::Int(*value)),
            Kind::Float(value) => Ok(Value::Float(*value)),
            Kind::Complex(real, imaginary) => Ok(Value::Complex(*real, *imaginary)),
            Kind::String(text) => self.text(&[text]),
            Kind::Name(name) => match scope.get(name) {
                Some(value) => Ok(value.clone()),
                None => Err(self.failure(format!("the variable `{name}` is not assigned"))),
            },
            Kind::Attribute(object, name) => {
                if let Some(value) = self.global(expression, scope)? {
                    return Ok(value);
                }
                let object = self.expression(object, scope)?;
                self.attribute(&object, name)
            }
            Kind::Index(object, index) => {
                let object = self.expression(object, scope)?;
                let index = self.expression(index, scope)?;
                self.item(&object, &index)
            }
            Kind::Slice(object, start, end) => {
                let object = self.expression(object, scope)?;
                let mut bound = |part: &Option<Box<Expression>>| match part {
                    Some(part) => self.expression(part, scope),
                    None => Ok(Value::None),
                };
                let (start, end) = (bound(start)?, bound(end)?);
                self.sliced(&object, &start, &end, &Value::None)
            }
            Kind::Call { callee, arguments, named } => self.call(callee, arguments, named, scope),
            Kind::Tuple(items) => {
                let items = self.expressions(items, scope)?;
                self.count(items.len())?;
                Ok(Value::Tuple(items.into()))
            }
            Kind::List(items) => {
                let items = self.expressions(items, scope)?;
                self.list(items)
            }
            Kind::Dict(entries) => {
                let mut items = Vec::new();
                for (key, value) in entries {
                    items.push((self.expression(key, scope)?, self.expression(value, scope)?));
                }
                self.allocate(Cell::Dict(items)).map(Value::Dict)
            }
        }
    }

    /// Returns a class of the code by its full name.
    pub(super) fn class(&self, name: &str) -> Option<&Class> {
        let (module, own) = name.rsplit_once('.')?;
        self.code.sources.get(module)?.classes.iter().find(|class| class.name == own)
    }

    /// Returns the method of a class, with its full name.
    pub(super) fn method(&self, class: &str, name: &str) -> Option<(Rc<str>, Rc<Function>)> {
        let methods = &self.class(class)?.methods;
        let function = methods.iter().find(|method| method.name == name)?;
        Some((Rc::from(format!("{class}.{name}")), Rc::clone(function)))
    }

    /// Returns a function of the code by its full name.
    pub(super) fn function(&self, name: &str) -> Option<Rc<Function>> {
        let (module, own) = name.rsplit_once('.')?;
        let functions = &self.code.sources.get(module)?.functions;
        functions.iter().find(|function| function.name == own).cloned()
    }

    /// Calls a function with values.
    pub(super) fn enter(
        &mut self,
        callable: &Callable,
        arguments: Vec<Value>,
        named: Vec<(String, Value)>,
    ) -> Outcome {
        let function = Rc::clone(&callable.function);
        self.called.insert(Rc::clone(&callable.name));
        let mut scope = callable.scope.clone();
        if arguments.len() > function.parameters.len() {
            let found = arguments.len();
            let what = format!(
                "`{}` takes {} arguments, found {found}",
                callable.name,
                function.parameters.len()
            );
            return Err(self.failure(what));
        }
        let mut arguments = arguments.into_iter();
        for parameter in &function.parameters {
            let given = named.iter().find(|(name, _)| *name == parameter.name);
            let value = match (arguments.next(), given, &parameter.default) {
                (Some(value), ..) => value,
                (None, Some((_, value)), _) => value.clone(),
                (None, None, Some(default)) => self.expression(default, &mut Scope::new())?,
                (None, None, None) => {
                    let what =
                        format!("`{}` is called without `{}`", callable.name, parameter.name);
                    return Err(self.failure(what));
                }
            };
            scope.insert(parameter.name.clone(), value);
        }
        let line = self.line;
        self.functions.push(Rc::clone(&callable.name));
        let flow = self.deeper(|evaluator| evaluator.body(&function.body, &mut scope));
        let flow = flow?;
        self.functions.pop();
        self.line = line;
        Ok(match flow {
            Flow::Next => Value::None,
            Flow::Return(value) => value,
            Flow::Raise(what) => {
                self.raised = Some(what);
                Value::Unset
            }
        })
    }

    /// Returns the truth of a condition, if it is known.
    pub(super) fn truth(&self, condition: &Value) -> Outcome<Option<bool>> {
        match condition {
            Value::Bool(value) => Ok(Some(*value)),
            Value::Int(value) => Ok(Some(*value != 0)),
            Value::None => Ok(Some(false)),
            Value::Number(..) | Value::Tensor(_) => Ok(None),
            other => Err(self.failure(format!("expected a condition, found a {}", other.kind()))),
        }
    }
}
