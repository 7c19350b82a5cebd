//! The walk over the nodes of a program.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::HashSet;

use lodstone_model::{Block, DType, Dim, Kind, Model, Op, TensorType, ValueType, Var};
use lodstone_schema::mxnet::{
    check_attributes, check_variable, interface, likely_parameters, operator, real_name,
    variable_of,
};
use lodstone_schema::numbers::{Rank, length};
use lodstone_schema::onnx::infer::ValueInfo;
use lodstone_schema::onnx::quoted;
use lodstone_schema::{Code, Finding, Findings};

use super::attributes::Attributes;
use super::control::ControlRule;
use super::equal::EqualDims;
use super::node::{Node, Outcome, Rule};
use super::ranks::{dims_by_use, dtype_by_use};
use super::{control, families};
use crate::frame::{At, Dialect, Frame, Halt, Scope, Step};
use crate::onnx::{Graph, Value};

/// Operators that call Python code.
const PYTHON: &[&str] = &["Custom", "_CustomFunction", "_NDArray", "_Native"];

/// The problem of a parameter that the files do not hold.
const NO_VALUE: &str = "it has no value: parameters of the program were not found";

/// A program that is being translated.
pub(super) type Walk<'m> = Frame<'m, Symbol<'m>>;

/// What only symbols have.
#[derive(Default)]
pub(super) struct Symbol<'m> {
    /// The dims of the main graph that operators require to be equal, for fills whose dims are not declared.
    equal: OnceCell<EqualDims<'m>>,
}

/// How an operator is translated.
pub(super) enum Translation {
    /// With the graphs that it runs, or as one.
    Control(ControlRule),
    Single(Rule),
}

impl<'m> Dialect<'m> for Symbol<'m> {
    type Item = Value;

    type Rule = Translation;

    const PROGRAM: &'static str = "the program";

    const IS_OPEN: bool = true;

    fn value(value: &Value) -> Option<&Value> {
        Some(value)
    }

    fn rule(op: &Op) -> Outcome<Translation> {
        let kind = real_name(&op.kind);
        let control = control::rule(kind).map(Translation::Control);
        let rule = control.or_else(|| families::rule(kind).map(Translation::Single));
        rule.ok_or_else(|| unsupported(kind))
    }

    fn bind_results(
        walk: &mut Walk<'m>,
        at: At,
        op: &'m Op,
        results: Vec<Value>,
        scope: &mut Scope<Value>,
    ) -> Step {
        walk.bind(at, op, &results, scope)
    }

    fn apply(
        walk: &mut Walk<'m>,
        rule: Translation,
        at: At,
        op: &'m Op,
        scope: &mut Scope<Value>,
    ) -> Step {
        check_attributes(op)?;
        let inputs = inputs_of(op, scope)?;
        let results = match rule {
            Translation::Control(rule) => {
                let inputs = inputs.into_iter().collect::<Option<Vec<Value>>>();
                rule(walk, op, inputs.ok_or("an input is missing")?)?
            }
            Translation::Single(rule) => {
                let is_fill = inputs.is_empty() && at.block == 0;
                let inputs = match is_fill && families::has_open_dims(real_name(&op.kind)) {
                    true => walk.unknown_dims(op, scope)?.into_iter().map(Some).collect(),
                    false => inputs,
                };
                apply(&mut walk.graph, op, inputs, rule)?
            }
        };
        walk.bind(at, op, &results, scope)
    }
}

impl<'m> Walk<'m> {
    /// Starts to translate the program of a model.
    ///
    /// # Errors
    /// If there is none.
    pub(super) fn of(model: &'m Model, covers: bool) -> Result<Self, Findings> {
        let mut walk = Self::begin(model, Symbol::default(), covers)?;
        let parameters = model.parameters.iter();
        let parameters = parameters.map(|it| (variable_of(&it.name), Cow::Borrowed(&it.tensor)));
        walk.parameters = parameters.collect();
        walk.variables();
        Ok(walk)
    }

    /// Binds the variables of the main graph.
    fn variables(&mut self) {
        let main = self.main_block();
        let inputs = interface(self.program).inputs;
        for var in &main.vars {
            let name = var.name.as_str();
            if let Err(finding) = check_variable(var) {
                self.findings.add(format!("the variable {}", quoted(name)), finding);
            }
            match self.parameters.get(name) {
                Some(tensor) if var.persistable => match tensor.kind {
                    Kind::Dense => self.scope.bind(name, Value::new(name, ValueInfo::of(tensor))),
                    _ => {
                        let place = format!("the parameter {}", quoted(name));
                        self.findings.add(place, "expected a dense tensor, found a sparse one");
                        self.scope.fail(name);
                    }
                },
                _ if var.persistable => match declared(var) {
                    Some(info) => self.scope.bind(name, Value::new(name, info)),
                    None => self.absent_parameter(name),
                },
                _ if inputs.contains(&name) => {
                    let tensor = self.fed(main, var);
                    let value = self.input(name, tensor);
                    self.scope.bind(name, value);
                }
                // A label.
                _ => {}
            }
        }
    }

    /// Returns the type of an input, as far as the program determines it.
    fn fed(&self, main: &Block, var: &Var) -> TensorType {
        let mut tensor = match &var.value {
            ValueType::Tensor(tensor) => tensor.clone(),
            _ => TensorType::default(),
        };
        if tensor.shape.is_none() {
            let dims_of = |name: &str| self.parameters.get(name).map(|tensor| tensor.shape.clone());
            tensor.shape = dims_by_use(main, &var.name, dims_of);
        }
        if tensor.dtype == DType::Unspecified {
            let dtype_of = |name: &str| self.parameters.get(name).map(|tensor| tensor.dtype);
            // MXNet's default.
            tensor.dtype = dtype_by_use(main, &var.name, dtype_of).unwrap_or(DType::Float32);
        }
        tensor
    }

    /// Translates the graph that an operator runs, with values for its variables; returns its outputs.
    pub(super) fn subgraph(
        &mut self,
        block: usize,
        values: impl IntoIterator<Item = (String, Value)>,
    ) -> Step<Vec<Value>> {
        let mut scope: Scope<Value> = values.into_iter().collect();
        self.enter(block, &mut scope)?;
        let outputs = self.program.blocks.get(block).map_or(&[][..], |block| &block.outputs);
        let value = |name: &String| {
            let absent = || Halt::from(format!("the subgraph does not compute {}", quoted(name)));
            scope.find(name)?.cloned().ok_or_else(absent)
        };
        outputs.iter().map(value).collect()
    }

    /// Returns each unknown dim of a fill as a list of one number: the equal dim of a value that is computed before it.
    fn unknown_dims(&mut self, op: &Op, scope: &Scope<Value>) -> Outcome<Vec<Value>> {
        let (shape, Some(name)) = (Attributes::new(op).ints("shape")?, op.output("").first())
        else {
            return Ok(Vec::new());
        };
        let unknown: Vec<usize> =
            (0..shape.len()).filter(|axis| shape.get(*axis) == Some(&0)).collect();
        let Some(main) = self.program.blocks.first().filter(|_| !unknown.is_empty()) else {
            return Ok(Vec::new());
        };
        let rank_of = |name: &str| scope.get(name)?.rank().ok().map(Rank::count);
        let equal = self.dialect.equal.get_or_init(|| EqualDims::of(main, rank_of));
        let mut dims = Vec::new();
        for axis in unknown {
            let places = equal.equal_to(name, axis);
            let values = places.iter().filter_map(|(name, axis)| {
                let value = scope.get(name)?;
                Some((value, value.shape().ok()?.get(*axis)?, *axis))
            });
            let values: Vec<_> = values.collect();
            let is_known = |(_, dim, _): &&(&Value, &Dim, usize)| matches!(dim, Dim::Known(_));
            let Some((value, _, axis)) = values.iter().find(is_known).or(values.first()) else {
                let what = format!(
                    "dim {axis} of `shape` is 0, which means unknown, and no operator determines it"
                );
                return Err(Finding::new(Code::UnknownDims, what).about_attribute("shape"));
            };
            dims.push(self.graph.dim(value, length(*axis))?);
        }
        Ok(dims)
    }

    /// Binds the outputs of an operator to its results.
    fn bind(&mut self, at: At, op: &Op, results: &[Value], scope: &mut Scope<Value>) -> Step {
        for (index, name) in op.output("").iter().enumerate() {
            let Some(value) = results.get(index) else {
                let what = format!("{} is not computed in inference", quoted(name));
                scope.refuse(name, what.into());
                continue;
            };
            // Names of operators are unique: the one that writes the first output has the name of the node.
            let own = if index == 0 { op.name.as_str() } else { "" };
            let value = self.named(at, name, own, value)?;
            scope.bind(name, value);
        }
        Ok(())
    }

    /// Reports parameters without a value that operators read, and inputs that seem to be such parameters.
    pub(super) fn check_parameters(&mut self) {
        let likely = likely_parameters(self.program);
        let is_open = |var: &&Var| var.value.tensor_type().is_none_or(|it| it.shape.is_none());
        let open = self.inputs.iter().filter(is_open).map(|var| var.name.as_str());
        let inner = self.blocks.iter().flat_map(|block| &block.ops);
        let read: HashSet<&str> = self.graph.ops.iter().chain(inner).flat_map(Op::reads).collect();
        let given = self.main_block().vars.iter().filter(|var| var.persistable);
        let given = given.map(|var| var.name.as_str()).filter(|name| read.contains(name));
        let absent = given.filter(|name| !self.parameters.contains_key(name));
        for name in open.filter(|name| likely.contains(*name)).chain(absent) {
            let finding = Finding::new(Code::NoParameter, NO_VALUE);
            self.findings.add(format!("the parameter {}", quoted(name)), finding);
        }
    }
}

/// Returns the inputs of an operator, of which labels may have no value.
fn inputs_of(op: &Op, scope: &Scope<Value>) -> Step<Vec<Option<Value>>> {
    let slots = operator(&op.kind).map_or(&[][..], |known| known.inputs.as_slice());
    let input = |(index, name): (usize, &String)| {
        let value = scope.find(name).map_err(|halt| halt.about_input(index))?;
        match value {
            None if slots.get(index) != Some(&"label") => {
                let what = format!("{} has no value", quoted(name));
                Err(Finding::from(what).about_input(index).into())
            }
            value => Ok(value.cloned()),
        }
    };
    op.input("").iter().enumerate().map(input).collect()
}

/// Applies the rule of an operator.
pub(super) fn apply(
    graph: &mut Graph,
    op: &Op,
    inputs: Vec<Option<Value>>,
    rule: Rule,
) -> Outcome<Vec<Value>> {
    let mut node = Node::new(graph, op, inputs);
    let results = match rule {
        Rule::One(rule) => vec![rule(&mut node)?],
        Rule::Many(rule) => rule(&mut node)?,
    };
    match node.attributes.unread() {
        Some(name) => Err(Finding::from(format!("the attribute {} is unknown", quoted(name)))
            .about_attribute(name)),
        None => Ok(results),
    }
}

fn unsupported(kind: &str) -> Finding {
    let what = match PYTHON.contains(&kind) {
        true => "the operator is Python code outside the model",
        false => "the operator is not supported",
    };
    Finding::new(Code::NoEquivalent, what)
}

/// Returns the declared type of a variable, if all its dims are known.
fn declared(var: &Var) -> Option<ValueInfo> {
    let tensor = var.value.tensor_type()?;
    let shape = tensor.shape.clone()?;
    let is_known = |dim: &Dim| matches!(dim, Dim::Known(_));
    let dtype = match tensor.dtype {
        // MXNet's default.
        DType::Unspecified => DType::Float32,
        known => known,
    };
    shape.iter().all(is_known).then(|| ValueInfo::tensor(dtype, Some(shape)))
}
