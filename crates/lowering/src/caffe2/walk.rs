//! The walk over the operators of the nets.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use lodstone_model::{
    AttributeValue, Block, DType, Kind, Model, Op, Programs, Report, Tensor, TensorType, Var,
};
use lodstone_schema::onnx::infer::ValueInfo;
use lodstone_schema::onnx::{place_of, quoted};
use lodstone_schema::{Code, Finding, Findings, Origin, Origins, caffe2};

use super::inputs::{dims_by_use, dtype_by_use};
use super::node::{Blob, Node, Outcome, Rule, check_size};
use super::signed::{SHIFT, signed};
use super::{RULES, missing};
use crate::OperatorCoverage;
use crate::onnx::quantization::Grid;
use crate::onnx::{Graph, Value, blocks};

/// Where the operators of the nets are.
const STARTUP: &str = "the startup net";
const MAIN: &str = "the graph";

/// What the name of a blob stands for.
#[derive(Clone, Debug)]
enum Bound {
    Blob(Blob),
    /// It cannot be used, for this reason.
    Unusable(Finding),
    /// The result of an operator that could not be translated.
    Failed,
}

/// An operator of a net.
#[derive(Clone, Copy)]
struct Step<'m> {
    net: &'static str,
    /// Its index in the net.
    number: usize,
    op: &'m Op,
}

/// Nets that are being translated.
pub(super) struct Walk<'m> {
    model: &'m Model,
    main: &'m Block,
    /// The operators of the startup net that are no constants, and those of the main net.
    steps: Vec<Step<'m>>,
    graph: Graph,
    /// The blobs; a later write replaces an earlier one.
    scope: HashMap<String, Bound>,
    inputs: Vec<Var>,
    /// The names of the inputs and of the parameters, which no result may have.
    given: HashSet<&'m str>,
    /// The constants that fills of the startup net hold.
    parameters: HashMap<&'m str, Cow<'m, Tensor>>,
    /// The steps that write a blob last.
    last: HashMap<&'m str, usize>,
    findings: Findings,
}

impl<'m> Walk<'m> {
    /// Starts to translate the nets of a model.
    ///
    /// # Errors
    /// If there is no net, or it has no outputs.
    pub(super) fn new(model: &'m Model) -> Result<Self, Findings> {
        let mut findings = Findings::default();
        let Some(main) = model.main().and_then(|program| program.blocks.first()) else {
            findings.add("the model", "expected a net, found none");
            return Err(findings);
        };
        if main.outputs.is_empty() {
            findings.add("the net", "expected `external_output`, found none");
            return Err(findings);
        }
        let startup = model.programs.get(Programs::STARTUP);
        let startup = startup.and_then(|startup| startup.blocks.first());
        let mut graph = Graph::symbolic();
        graph.names.take("");
        let blocks = || startup.into_iter().chain([main]);
        for op in blocks().flat_map(|block| &block.ops) {
            op.writes().chain([op.name.as_str()]).for_each(|name| graph.names.take(name));
        }
        let vars = main.vars.iter().map(|var| var.name.as_str());
        let names = model.parameters.iter().map(|parameter| parameter.name.as_str());
        vars.chain(names).for_each(|name| graph.names.take(name));
        let mut walk = Self {
            model,
            main,
            steps: Vec::new(),
            graph,
            scope: HashMap::new(),
            inputs: Vec::new(),
            given: HashSet::new(),
            parameters: HashMap::new(),
            last: HashMap::new(),
            findings,
        };
        walk.constants(startup);
        walk.fed();
        Ok(walk)
    }

    /// Binds the parameters, and finds the operators of the startup net that compute other blobs.
    fn constants(&mut self, startup: Option<&'m Block>) {
        let ops = startup.map_or(&[][..], |startup| startup.ops.as_slice());
        let fills: HashMap<&str, &Op> =
            ops.iter().flat_map(|op| op.writes().map(move |name| (name, op))).collect();
        let fed: HashSet<&str> =
            self.main.vars.iter().filter(|it| !it.persistable).map(|it| it.name.as_str()).collect();
        let unfed = self.model.parameters.iter().filter(|it| !fed.contains(it.name.as_str()));
        let mut kept = HashSet::new();
        for parameter in unfed {
            let (name, tensor) = (parameter.name.as_str(), &parameter.tensor);
            let fill = fills.get(name);
            if !matches!(tensor.kind, Kind::Dense) || fill.is_some_and(|op| op.reads().count() > 0)
            {
                continue;
            }
            kept.insert(name);
            let is_unsigned = fill.is_some_and(|fill| fill.kind == "Int8GivenTensorFill")
                && tensor.dtype == DType::Uint8;
            let tensor = match is_unsigned {
                true => Cow::Owned(signed(tensor)),
                false => Cow::Borrowed(tensor),
            };
            let bound = match grid_of(fill.copied(), tensor.dtype) {
                Ok(grid) => {
                    let value = Value::new(name, ValueInfo::of(&tensor));
                    self.given.insert(name);
                    self.parameters.insert(name, tensor);
                    Bound::Blob(Blob { value, grid })
                }
                Err(finding) => Bound::Unusable(finding),
            };
            self.scope.insert(name.to_owned(), bound);
        }
        // A blob that is fed needs no fill.
        let is_done = |op: &Op| {
            op.reads().count() == 0
                && op.writes().all(|name| kept.contains(name) || fed.contains(name))
        };
        let steps = |net: &'static str, ops: &'m [Op]| {
            ops.iter().enumerate().map(move |(number, op)| Step { net, number, op })
        };
        let computed = steps(STARTUP, ops).filter(|step| !is_done(step.op));
        let all: Vec<Step<'m>> = computed.chain(steps(MAIN, &self.main.ops)).collect();
        for (index, step) in all.iter().enumerate() {
            self.last.extend(step.op.writes().map(|name| (name, index)));
        }
        self.steps = all;
    }

    /// Binds the inputs.
    fn fed(&mut self) {
        let main = self.main;
        let read: HashSet<&str> = main
            .ops
            .iter()
            .flat_map(Op::reads)
            .chain(main.outputs.iter().map(String::as_str))
            .collect();
        for var in main.vars.iter().filter(|var| !var.persistable) {
            let name = var.name.as_str();
            let mut tensor = var.value.tensor_type().cloned().unwrap_or_else(TensorType::default);
            if tensor.shape.is_none() {
                let rank_of = |name: &str| self.parameters.get(name).map(|it| it.shape.len());
                tensor.shape = dims_by_use(main, name, rank_of);
            }
            if tensor.shape.is_none() && !read.contains(name) {
                continue;
            }
            let dtype = match tensor.dtype {
                DType::Unspecified => dtype_by_use(main, name),
                known => known,
            };
            let mut info = ValueInfo::tensor(dtype, tensor.shape);
            self.given.insert(name);
            self.inputs.push(Var {
                name: var.name.clone(),
                value: info.value.clone(),
                ..Var::default()
            });
            self.graph.symbolize(&mut info);
            let value = Value::new(name, info);
            // What is fed has no scale in the net: its integers are its numbers.
            let grid = (dtype == DType::Int8).then_some(Grid { scale: 1.0, zero: 0, dtype });
            self.scope.insert(var.name.clone(), Bound::Blob(Blob { value, grid }));
        }
    }

    /// Returns the steps that outputs depend on.
    fn needed(&self) -> HashSet<usize> {
        let mut names: HashSet<&str> = self.main.outputs.iter().map(String::as_str).collect();
        let mut needed = HashSet::new();
        for (index, step) in self.steps.iter().enumerate().rev() {
            if step.op.writes().any(|name| names.contains(name)) {
                for name in step.op.writes() {
                    names.remove(name);
                }
                names.extend(step.op.reads());
                needed.insert(index);
            }
        }
        needed
    }

    /// Translates the operators that outputs depend on.
    pub(super) fn nets(&mut self) {
        let needed = self.needed();
        self.operators(&|index| needed.contains(&index), None);
    }

    /// Translates all operators, and returns what became of those of the main net.
    pub(super) fn coverage(mut self) -> Vec<OperatorCoverage> {
        let mut covered = Vec::new();
        self.operators(&|_| true, Some(&mut covered));
        covered
    }

    fn operators(
        &mut self,
        is_needed: &dyn Fn(usize) -> bool,
        mut covered: Option<&mut Vec<OperatorCoverage>>,
    ) {
        for (index, step) in self.steps.clone().into_iter().enumerate() {
            if !is_needed(index) {
                continue;
            }
            let Step { net, number, op } = step;
            let before = self.graph.ops.len();
            let outcome = self.operator(index, op);
            if outcome.is_err() {
                self.graph.take_back();
                let failed = op.writes().map(|name| (name.to_owned(), Bound::Failed));
                self.scope.extend(failed);
            }
            let finding = outcome.err().flatten();
            if let Some(covered) = covered.as_mut().filter(|_| net == MAIN) {
                covered.push(self.covered(number, op, before, finding.as_ref()));
            }
            if let Some(finding) = finding {
                self.findings.add(place_of(net, number, op), finding);
            }
        }
    }

    /// Translates an operator.
    ///
    /// # Errors
    /// Why it could not be translated; `None` if an input could not be computed.
    fn operator(&mut self, index: usize, op: &Op) -> Result<(), Option<Finding>> {
        let base = if op.name.is_empty() { op.writes().next() } else { Some(op.name.as_str()) };
        self.graph.begin(base.unwrap_or(&op.kind));
        let rule = RULES.get(&op.kind).ok_or_else(|| missing(&op.kind))?;
        let mut inputs = Vec::new();
        for (place, name) in op.input("").iter().enumerate() {
            match self.scope.get(name) {
                Some(Bound::Blob(blob)) => inputs.push(blob.clone()),
                Some(Bound::Failed) => return Err(None),
                Some(Bound::Unusable(finding)) => {
                    return Err(Some(finding.clone().about_input(place)));
                }
                None => {
                    let what = format!("value {} does not exist", quoted(name));
                    return Err(Some(Finding::from(what).about_input(place)));
                }
            }
        }
        caffe2::check_arguments(op)?;
        let mut node = Node { graph: &mut self.graph, op, inputs, parameters: &self.parameters };
        let results: Vec<Blob> = match rule {
            Rule::One(rule) => vec![rule(&mut node)?.into()],
            Rule::Many(rule) => rule(&mut node)?.into_iter().map(Blob::from).collect(),
            Rule::Quantized(rule) => vec![rule(&mut node)?],
        };
        Ok(self.bind(index, op, &results)?)
    }

    /// Binds the outputs of an operator to its results.
    fn bind(&mut self, index: usize, op: &Op, results: &[Blob]) -> Outcome<()> {
        for (place, name) in op.output("").iter().enumerate().filter(|(_, name)| !name.is_empty()) {
            let Some(blob) = results.get(place) else {
                let what = format!("output {place}, {}, is not computed", quoted(name));
                self.scope.insert(name.clone(), Bound::Unusable(what.into()));
                continue;
            };
            check_size(&blob.value)?;
            let own = match (place, op.name.as_str()) {
                (0, "") => name.as_str(),
                (0, own) => own,
                _ => "",
            };
            let is_last = self.last.get(name.as_str()) == Some(&index);
            let value = match is_last && !self.given.contains(name.as_str()) {
                true => self.graph.name(&blob.value, name, own)?,
                false => {
                    let name = self.graph.names.fresh(name);
                    self.graph.name(&blob.value, &name, own)?
                }
            };
            self.scope.insert(name.clone(), Bound::Blob(Blob { value, grid: blob.grid }));
        }
        Ok(())
    }

    /// Returns what became of an operator of the main net; `before` is the number of operators that were emitted before.
    fn covered(
        &self,
        number: usize,
        op: &Op,
        before: usize,
        finding: Option<&Finding>,
    ) -> OperatorCoverage {
        let known = |name: &String| match self.scope.get(name) {
            Some(Bound::Blob(blob)) => blob.value.known_dims().is_some(),
            _ => false,
        };
        let is_open = !op.input("").iter().all(known);
        // A net without declared shapes is no obstacle: they are given when it is exported.
        let finding = finding.filter(|it| !is_open && it.code != Code::UnknownDims).cloned();
        let finding = finding.or_else(|| RULES.get(&op.kind).is_none().then(|| missing(&op.kind)));
        let opset = self.graph.opset_since(before).filter(|_| finding.is_none());
        let (kind, domain, place) = (op.kind.clone(), op.domain.clone(), (0, number));
        OperatorCoverage { domain, kind, place, opset, finding }
    }

    /// Returns the model and the origins of its values.
    ///
    /// # Errors
    /// All findings of the walk, and outputs that nothing computes.
    pub(super) fn finish(mut self, report: &mut Report) -> Result<(Model, Origins), Findings> {
        let mut outputs: Vec<Value> = Vec::new();
        for name in if self.findings.is_empty() { &*self.main.outputs } else { &[] } {
            match self.output(name, &outputs) {
                Ok(value) => {
                    if value.name() != name {
                        report.warn(format!(
                            "the output {} is named {}: an input, a parameter or another output has its name",
                            quoted(name),
                            quoted(value.name())
                        ));
                    }
                    outputs.push(value);
                }
                Err(finding) => {
                    self.findings.add(format!("{MAIN}, output {}", quoted(name)), finding);
                }
            }
        }
        for var in &self.inputs {
            if var.value.tensor_type().is_none_or(|it| it.shape.is_none()) {
                let what = "its shape is unknown: nets declare none";
                let place = format!("{MAIN}, input {}", quoted(&var.name));
                self.findings.push(Finding::new(Code::UnknownDims, what).at(place));
            }
        }
        if !self.findings.is_empty() {
            return Err(self.findings);
        }
        let mut origins = Origins::default();
        for (name, bound) in &self.scope {
            if let Bound::Blob(blob) = bound {
                origins.insert(0, name, Origin::Value(Arc::from(blob.value.name())));
            }
        }
        let (ends, none) = ((self.inputs, outputs.as_slice()), HashMap::new());
        let parameters = self.parameters.iter().map(|(name, it)| (*name, it.as_ref())).collect();
        let model = blocks::assembled(self.model, self.graph, ends, Vec::new(), &parameters, &none);
        model.map(|model| (model, origins)).map_err(|finding| {
            let mut findings = Findings::default();
            findings.add("the net", finding);
            findings
        })
    }

    /// Returns the value of an output, under a name that no other output has.
    fn output(&mut self, name: &str, others: &[Value]) -> Outcome {
        let value = match self.scope.get(name) {
            Some(Bound::Blob(blob)) => blob.value.clone(),
            Some(Bound::Unusable(finding)) => return Err(finding.clone()),
            Some(Bound::Failed) => return Err(Finding::internal("its failure was not reported")),
            None => return Err("no operator writes it".into()),
        };
        self.graph.output(&value, name, others)
    }
}

/// Returns the grid of a constant that a quantized fill holds, by default of scale 1 and zero point 0.
fn grid_of(fill: Option<&Op>, dtype: DType) -> Outcome<Option<Grid>> {
    let Some(fill) = fill.filter(|fill| fill.kind.starts_with("Int8Given")) else {
        return Ok(None);
    };
    let scale = match fill.attribute("Y_scale") {
        None => 1.0,
        Some(AttributeValue::Float(scale)) => *scale,
        Some(_) => return Err("expected a float as `Y_scale`".into()),
    };
    let zero = match fill.attribute("Y_zero_point") {
        None => 0,
        Some(AttributeValue::Long(zero)) => *zero,
        Some(_) => return Err("expected an integer as `Y_zero_point`".into()),
    };
    let shift = if dtype == DType::Int8 { SHIFT } else { 0 };
    Grid::new(scale, zero.saturating_sub(shift.into()), dtype).map(Some)
}
