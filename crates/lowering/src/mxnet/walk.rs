//! The walk over the nodes of a program.

use std::cell::OnceCell;
use std::collections::{BTreeMap, HashMap};

use lodstone_model::{
    Block, DType, Dim, Kind, Model, Op, Program, Tensor, TensorType, ValueType, Var,
};
use lodstone_schema::mxnet::{
    check_attributes, check_variable, interface, operator, real_name, variable_of,
};
use lodstone_schema::numbers::{Rank, length};
use lodstone_schema::onnx::infer::ValueInfo;
use lodstone_schema::onnx::{place_of, quoted};
use lodstone_schema::{Code, Finding, Findings};

use super::attributes::Attributes;
use super::equal::EqualDims;
use super::node::{Node, Outcome, Rule, check_size};
use super::ranks::{dims_by_use, dtype_by_use};
use super::{control, families};
use crate::OperatorCoverage;
use crate::onnx::{Graph, Value};

/// Operators that call Python code.
const PYTHON: &[&str] = &["Custom", "_CustomFunction", "_NDArray", "_Native"];

/// The maximum depth of subgraphs, as in ONNX's checker.
const MAX_DEPTH: usize = 64;

/// What a name of a graph stands for.
#[derive(Clone, Debug)]
pub(super) enum Bound {
    /// A value.
    Value(Value),
    /// A parameter without a value, whose shape is not declared either.
    Missing,
    /// An output that an operator does not compute in inference.
    Untrained,
    /// The result of an operator that could not be translated.
    Failed,
}

/// The values of a graph, by name.
pub(super) type Scope = HashMap<String, Bound>;

/// A program that is being translated.
pub(super) struct Walk<'m> {
    pub(super) model: &'m Model,
    pub(super) program: &'m Program,
    pub(super) graph: Graph,
    /// The values of the main graph.
    pub(super) scope: Scope,
    /// The declarations of the inputs.
    pub(super) inputs: Vec<Var>,
    /// Parameters of the program by the names of variables.
    pub(super) parameters: HashMap<&'m str, &'m Tensor>,
    /// The subgraphs of the result.
    pub(super) blocks: Vec<Block>,
    pub(super) findings: Findings,
    depth: usize,
    /// The dims of the main graph that operators require to be equal, for fills whose dims are not declared.
    equal: OnceCell<EqualDims<'m>>,
    covered: Option<BTreeMap<(usize, usize), OperatorCoverage>>,
}

impl<'m> Walk<'m> {
    pub(super) fn new(model: &'m Model) -> Result<Self, Findings> {
        let Some((program, main)) =
            model.main().and_then(|program| Some((program, program.blocks.first()?)))
        else {
            let mut findings = Findings::default();
            findings.add("the model", "expected a program, found none");
            return Err(findings);
        };
        let mut graph = Graph::symbolic();
        graph.names.take("");
        let ops = main.ops.iter().flat_map(|op| op.writes().chain([op.name.as_str()]));
        let vars = main.vars.iter().map(|var| var.name.as_str());
        ops.chain(vars).for_each(|name| graph.names.take(name));
        let parameters = model.parameters.iter();
        let parameters = parameters.map(|it| (variable_of(&it.name), &it.tensor)).collect();
        let mut walk = Self {
            model,
            program,
            graph,
            scope: Scope::new(),
            inputs: Vec::new(),
            parameters,
            blocks: Vec::new(),
            findings: Findings::default(),
            depth: 0,
            equal: OnceCell::new(),
            covered: None,
        };
        walk.variables(main);
        Ok(walk)
    }

    /// Binds the variables of the main graph.
    fn variables(&mut self, main: &'m Block) {
        let inputs = interface(self.program).inputs;
        for var in &main.vars {
            let name = var.name.as_str();
            if let Err(finding) = check_variable(var) {
                self.findings.add(format!("the variable {}", quoted(name)), finding);
            }
            let bound = match self.parameters.get(name) {
                Some(tensor) if var.persistable => match tensor.kind {
                    Kind::Dense => Bound::Value(Value::new(name, ValueInfo::of(tensor))),
                    _ => {
                        let place = format!("the parameter {}", quoted(name));
                        self.findings.add(place, "expected a dense tensor, found a sparse one");
                        Bound::Failed
                    }
                },
                _ if var.persistable => match declared(var) {
                    Some(info) => Bound::Value(Value::new(name, info)),
                    None => Bound::Missing,
                },
                _ if inputs.contains(&name) => self.input(main, var),
                // A label.
                _ => continue,
            };
            self.scope.insert(name.to_owned(), bound);
        }
    }

    fn input(&mut self, main: &Block, var: &Var) -> Bound {
        let mut tensor = match &var.value {
            ValueType::Tensor(tensor) => tensor.clone(),
            _ => TensorType::default(),
        };
        if tensor.shape.is_none() {
            let dims_of = |name: &str| self.parameters.get(name).map(|tensor| tensor.shape.clone());
            tensor.shape = dims_by_use(main, &var.name, dims_of);
        }
        let dtype = match tensor.dtype {
            DType::Unspecified => {
                let dtype_of = |name: &str| self.parameters.get(name).map(|tensor| tensor.dtype);
                // MXNet's default.
                dtype_by_use(main, &var.name, dtype_of).unwrap_or(DType::Float32)
            }
            known => known,
        };
        let mut info = ValueInfo::tensor(dtype, tensor.shape);
        self.inputs.push(Var {
            name: var.name.clone(),
            value: info.value.clone(),
            ..Var::default()
        });
        self.graph.symbolize(&mut info);
        Bound::Value(Value::new(&var.name, info))
    }

    /// Translates the main graph.
    pub(super) fn main(&mut self) {
        let mut scope = std::mem::take(&mut self.scope);
        self.operators(0, &mut scope);
        self.scope = scope;
    }

    /// Translates the main graph, and returns what became of each operator.
    pub(super) fn coverage(mut self) -> Vec<OperatorCoverage> {
        self.covered = Some(BTreeMap::new());
        self.main();
        self.covered.take().unwrap_or_default().into_values().collect()
    }

    /// Translates the operators of a block.
    pub(super) fn operators(&mut self, block: usize, scope: &mut Scope) {
        let program = self.program;
        let ops = program.blocks.get(block).map_or(&[][..], |block| &block.ops);
        for (number, op) in ops.iter().enumerate() {
            let before = self.graph.ops.len();
            let outcome = self.operator(block, op, scope);
            // A symbol without declared shapes is no obstacle: they are given when it is exported.
            let is_open = self.covered.is_some() && !has_known_dims(op, scope);
            let needs_dims = |finding: &&Finding| {
                is_open || self.covered.is_some() && finding.code == Code::UnknownDims
            };
            let finding = outcome.as_ref().err().filter(|finding| !needs_dims(finding));
            self.cover((block, number), op, before, finding);
            if let Err(finding) = outcome {
                self.findings.add(place(block, number, op), finding);
                for name in op.output("") {
                    scope.insert(name.clone(), Bound::Failed);
                }
            }
        }
    }

    /// Translates the graph that an operator runs, with values for its variables; returns its outputs. Returns `None`
    /// if it could not be translated, which has been reported.
    pub(super) fn subgraph(
        &mut self,
        block: usize,
        values: impl IntoIterator<Item = (String, Value)>,
    ) -> Outcome<Option<Vec<Value>>> {
        if self.depth >= MAX_DEPTH {
            let deep = format!("subgraphs are nested deeper than {MAX_DEPTH}");
            return Err(Finding::new(Code::Limit, deep));
        }
        let values = values.into_iter().map(|(name, value)| (name, Bound::Value(value)));
        let mut scope: Scope = values.collect();
        self.depth += 1;
        self.operators(block, &mut scope);
        self.depth -= 1;
        let outputs = self.program.blocks.get(block).map_or(&[][..], |block| &block.outputs);
        let mut results = Vec::new();
        for name in outputs {
            match scope.get(name) {
                Some(Bound::Value(value)) => results.push(value.clone()),
                Some(Bound::Failed) => return Ok(None),
                _ => return Err(format!("the subgraph does not compute {}", quoted(name)).into()),
            }
        }
        Ok(Some(results))
    }

    fn operator(&mut self, block: usize, op: &'m Op, scope: &mut Scope) -> Outcome<()> {
        let kind = real_name(&op.kind);
        check_attributes(op)?;
        let Some(inputs) = self.inputs_of(op, scope)? else {
            for name in op.output("") {
                scope.insert(name.clone(), Bound::Failed);
            }
            return Ok(());
        };
        if let Some(rule) = control::rule(kind) {
            let inputs = inputs.into_iter().collect::<Option<Vec<Value>>>();
            let inputs = inputs.ok_or("an input is missing")?;
            self.graph.begin(&op.name);
            let Some(results) = rule(self, op, inputs)? else {
                for name in op.output("") {
                    scope.insert(name.clone(), Bound::Failed);
                }
                return Ok(());
            };
            return self.bind(block, op, &results, scope);
        }
        let rule = families::rule(kind).ok_or_else(|| unsupported(&op.kind))?;
        self.graph.begin(&op.name);
        let inputs = match inputs.is_empty() && block == 0 && families::has_open_dims(kind) {
            true => self.unknown_dims(op, scope)?.into_iter().map(Some).collect(),
            false => inputs,
        };
        let outcome = apply(&mut self.graph, op, inputs, rule);
        let bound = outcome.and_then(|results| self.bind(block, op, &results, scope));
        if bound.is_err() {
            self.graph.take_back();
        }
        bound
    }

    /// Returns each unknown dim of a fill as a list of one number: the equal dim of a value that is computed before it.
    fn unknown_dims(&mut self, op: &Op, scope: &Scope) -> Outcome<Vec<Value>> {
        let (shape, Some(name)) = (Attributes::new(op).ints("shape")?, op.output("").first())
        else {
            return Ok(Vec::new());
        };
        let unknown: Vec<usize> =
            (0..shape.len()).filter(|axis| shape.get(*axis) == Some(&0)).collect();
        let Some(main) = self.program.blocks.first().filter(|_| !unknown.is_empty()) else {
            return Ok(Vec::new());
        };
        let rank_of = |name: &str| match scope.get(name) {
            Some(Bound::Value(value)) => value.rank().ok().map(Rank::count),
            _ => None,
        };
        let equal = self.equal.get_or_init(|| EqualDims::of(main, rank_of));
        let mut dims = Vec::new();
        for axis in unknown {
            let places = equal.equal_to(name, axis);
            let values = places.iter().filter_map(|(name, axis)| match scope.get(*name) {
                Some(Bound::Value(value)) => Some((value, value.shape().ok()?.get(*axis)?, *axis)),
                _ => None,
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

    /// Returns the inputs of an operator, of which labels may have no value; `None` if one could not be computed.
    fn inputs_of(&self, op: &Op, scope: &Scope) -> Outcome<Option<Vec<Option<Value>>>> {
        let slots = operator(&op.kind).map_or(&[][..], |known| known.inputs.as_slice());
        let mut inputs = Vec::new();
        for (index, name) in op.input("").iter().enumerate() {
            inputs.push(match scope.get(name) {
                Some(Bound::Value(value)) => Some(value.clone()),
                Some(Bound::Failed) => return Ok(None),
                // Whether the operator is supported does not depend on it.
                Some(Bound::Missing) if self.covered.is_some() => return Ok(None),
                Some(Bound::Missing) => {
                    let what = format!("the parameter {} has no value", quoted(name));
                    return Err(Finding::from(what).about_input(index));
                }
                Some(Bound::Untrained) => {
                    let what = format!("{} is not computed in inference", quoted(name));
                    return Err(Finding::from(what).about_input(index));
                }
                None if slots.get(index) == Some(&"label") => None,
                None => {
                    let what = format!("{} has no value", quoted(name));
                    return Err(Finding::from(what).about_input(index));
                }
            });
        }
        Ok(Some(inputs))
    }

    /// Binds the outputs of an operator to its results.
    fn bind(&mut self, block: usize, op: &Op, results: &[Value], scope: &mut Scope) -> Outcome<()> {
        for (index, name) in op.output("").iter().enumerate() {
            let Some(value) = results.get(index) else {
                scope.insert(name.clone(), Bound::Untrained);
                continue;
            };
            check_size(value)?;
            // Names of operators are unique: the one that writes the first output has the name of the node.
            let own = if index == 0 && block == 0 { op.name.as_str() } else { "" };
            let named = match block {
                0 => self.graph.name(value, name, own)?,
                // The same subgraph may be translated several times.
                _ => {
                    let name = self.graph.names.fresh(name);
                    self.graph.name(value, &name, own)?
                }
            };
            scope.insert(name.clone(), Bound::Value(named));
        }
        Ok(())
    }

    /// Records what became of an operator of the program; `before` is the number of operators that were emitted before.
    fn cover(&mut self, place: (usize, usize), op: &Op, before: usize, finding: Option<&Finding>) {
        let Some(covered) = &mut self.covered else { return };
        let opset = self.graph.opset_since(before).filter(|_| finding.is_none());
        let mut finding = finding.cloned();
        if finding.is_none() && !is_known(real_name(&op.kind)) {
            finding = Some(unsupported(&op.kind));
        }
        let (kind, domain) = (op.kind.clone(), String::new());
        covered.insert(place, OperatorCoverage { domain, kind, place, opset, finding });
    }
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

/// Whether all dims of the inputs of an operator are known.
fn has_known_dims(op: &Op, scope: &Scope) -> bool {
    op.input("").iter().all(|name| match scope.get(name) {
        Some(Bound::Value(value)) => value.known_dims().is_some(),
        _ => true,
    })
}

fn is_known(kind: &str) -> bool {
    families::rule(kind).is_some() || control::rule(kind).is_some()
}

fn unsupported(kind: &str) -> Finding {
    let what = match PYTHON.contains(&real_name(kind)) {
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

fn place(block: usize, number: usize, op: &Op) -> String {
    match block {
        0 => place_of("the graph", number, op),
        _ => place_of(&format!("subgraph {block}"), number, op),
    }
}
