//! Translation of Glow nodes to ONNX operators.
//!
//! [`table`] has a decision for every kind of node: a function that translates it, or the reason why ONNX has no
//! equivalent. Nodes without an equivalent are kept, in a domain of their own ([`DOMAIN`]), which is a loss that must be
//! allowed; contradictions are errors.
//!
//! Quantized graphs use what is known as QDQ: values are raw integers, operators compute on the results of
//! `DequantizeLinear`, and `QuantizeLinear` makes integers again. The storage properties of placeholders and constants
//! are kept in their doc strings, so that nothing of them is lost.
//! The program declares the lowest opset, from 21 on, in which its operators have the same meaning.
//!
//! Source of truth: Glow's interpreter (commit 05dd99b9), and its results.

mod conv;
mod elementwise;
mod finish;
mod gradient;
mod index;
mod linear;
mod loss;
mod moves;
mod node;
mod normalize;
mod pool;
mod quantize;
mod reduce;
mod signal;
mod sparse;
mod storage;
pub(super) mod table;
mod vision;
mod window_gradient;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use lodstone_model::{
    AttributeValue, Block, Kind, Loss, Model, Op, Operand, Report, Residual, Tensor, Var,
};
use lodstone_schema::glow::{
    CONSTANT_FOLDING, PREFIX, SAVE, STATIC_PLACEHOLDER, Type, node as node_kind,
};
use lodstone_schema::onnx::infer::ValueInfo;
use lodstone_schema::onnx::place_of;
use lodstone_schema::{Code, Finding, Findings, Origins};

use super::kinds::is_ambiguous;
use crate::onnx::{Graph, Value};
use node::{GlowValue, Node, OutputSpec};
use storage::{info_of, tensor_of, type_of};
use table::{Decision, decision};

/// The domain of nodes that ONNX has no equivalent for.
pub(crate) const DOMAIN: &str = "com.facebook.glow";

/// The constants of a program, by name.
type Constants<'m> = HashMap<&'m str, &'m Tensor>;

pub(crate) fn to_onnx(model: &Model, report: &mut Report) -> Result<(Model, Origins), Findings> {
    let mut findings = Findings::default();
    let Some(main) = model.main().and_then(|program| program.blocks.first()) else {
        findings.add("the model", "expected a graph, found none");
        return Err(findings);
    };
    let mut work = Work::new(model, main, findings);
    work.storage();
    for number in work.order() {
        if let Some(op) = main.ops.get(number) {
            work.operator(number, op);
        }
    }
    work.outputs();
    if !work.findings.is_empty() {
        return Err(work.findings);
    }
    work.finish(report).map_err(|finding| {
        let mut findings = Findings::default();
        findings.add("the graph", finding);
        findings
    })
}

struct Work<'m> {
    model: &'m Model,
    main: &'m Block,
    constants: Constants<'m>,
    graph: Graph,
    /// The Glow values that are defined.
    values: HashMap<&'m str, GlowValue>,
    /// The variables of the result.
    vars: Vec<Var>,
    /// Indices into these variables, by name.
    numbers: HashMap<&'m str, usize>,
    findings: Findings,
    losses: BTreeMap<Loss, Vec<String>>,
    /// The names of values that are read.
    read: HashSet<String>,
    /// The names of inputs.
    inputs: HashSet<&'m str>,
    /// Whether a node was kept.
    keeps: bool,
    /// Kinds of nodes that their ONNX operators do not determine.
    kinds: Vec<(String, &'static str)>,
}

impl<'m> Work<'m> {
    fn new(model: &'m Model, main: &'m Block, findings: Findings) -> Self {
        let mut graph = Graph::exported();
        let constants: Constants<'m> =
            model.parameters.iter().map(|p| (p.name.as_str(), &p.tensor)).collect();
        let operators = main.ops.iter().flat_map(|op| op.writes().chain([op.name.as_str()]));
        let values = main.inputs.iter().chain(&main.outputs).map(String::as_str);
        operators
            .chain(values)
            .chain(constants.keys().copied())
            .for_each(|name| graph.names.take(name));
        graph.names.take("");
        let (values, losses) = Default::default();
        let names = main.vars.iter().enumerate();
        let numbers = names.map(|(number, var)| (var.name.as_str(), number)).collect();
        Self {
            model,
            main,
            constants,
            graph,
            values,
            vars: main.vars.clone(),
            numbers,
            findings,
            losses,
            read: main.ops.iter().flat_map(reads).chain(main.outputs.iter().cloned()).collect(),
            inputs: main.inputs.iter().map(String::as_str).collect(),
            keeps: false,
            kinds: Vec::new(),
        }
    }

    /// Defines placeholders and constants.
    fn storage(&mut self) {
        let mut seen = HashSet::new();
        for parameter in &self.model.parameters {
            let tensor = &parameter.tensor;
            if !seen.insert(&parameter.name) {
                self.findings.add("the graph", format!("duplicate constant `{}`", parameter.name));
            }
            let shape = tensor.shape.iter().map(|dim| i64::try_from(*dim).ok()).collect();
            let dense = matches!(tensor.kind, Kind::Dense | Kind::Absent);
            let found = (tensor.dtype, shape);
            match type_of(tensor.doc_string.as_deref(), dense.then_some(found)) {
                Ok(ty) => {
                    let value = Value::new(&parameter.name, ValueInfo::of(tensor));
                    self.values.insert(&parameter.name, GlowValue { value, ty });
                }
                Err(what) => {
                    self.findings.add(format!("the constant `{}`", parameter.name), what);
                }
            }
        }
        let mut seen = HashSet::new();
        for name in &self.main.inputs {
            if !seen.insert(name) {
                self.findings.add("the graph", format!("duplicate input `{name}`"));
            }
            if self.constants.contains_key(name.as_str()) {
                continue;
            }
            let var =
                self.numbers.get(name.as_str()).and_then(|number| self.main.vars.get(*number));
            let found = var.and_then(|var| tensor_of(&var.value));
            match type_of(var.and_then(Var::doc_string), found) {
                Ok(ty) => {
                    let value = Value::new(name, info_of(&ty));
                    self.values.insert(name, GlowValue { value, ty });
                }
                Err(what) => self.findings.add(format!("the variable `{name}`"), what),
            }
        }
    }

    /// Reports outputs that no operator writes, unless there are findings that explain it.
    fn outputs(&mut self) {
        let mut seen = HashSet::new();
        for name in &self.main.outputs {
            if !seen.insert(name) {
                self.findings.add("the graph", format!("duplicate output `{name}`"));
            }
            if self.findings.is_empty() && !self.values.contains_key(name.as_str()) {
                self.findings.add("the graph", format!("no operator writes the output `{name}`"));
            }
        }
    }

    /// Returns a topological order of the operators; reports those that have none.
    fn order(&mut self) -> Vec<usize> {
        let mut writer: HashMap<&str, usize> = HashMap::new();
        for (number, op) in self.main.ops.iter().enumerate() {
            for name in op.writes().filter(|_| !is_fact(op)) {
                let is_storage = self.constants.contains_key(name) || self.inputs.contains(name);
                if is_storage || writer.insert(name, number).is_some() {
                    self.findings.add(place(number, op), format!("`{name}` is already defined"));
                }
            }
        }
        // The number of inputs that each operator waits for, and the operators that wait for each writer.
        let mut waits = vec![0usize; self.main.ops.len()];
        let mut waiting: HashMap<usize, Vec<usize>> = HashMap::new();
        for (number, op) in self.main.ops.iter().enumerate() {
            if is_fact(op) {
                continue;
            }
            for name in reads(op) {
                if self.constants.contains_key(&*name) || self.inputs.contains(&*name) {
                    continue;
                }
                if let Some(writer) = writer.get(name.as_str()) {
                    waiting.entry(*writer).or_default().push(number);
                }
                // An input without a writer is never defined.
                if let Some(waits) = waits.get_mut(number) {
                    *waits += 1;
                }
            }
        }
        let mut ready: BTreeSet<usize> =
            waits.iter().enumerate().filter(|(_, waits)| **waits == 0).map(|(n, _)| n).collect();
        let mut order = Vec::new();
        while let Some(number) = ready.pop_first() {
            order.push(number);
            for other in waiting.remove(&number).unwrap_or_default() {
                if let Some(waits) = waits.get_mut(other) {
                    *waits -= 1;
                    if *waits == 0 {
                        ready.insert(other);
                    }
                }
            }
        }
        for (number, waits) in waits.iter().enumerate() {
            if let Some(op) = self.main.ops.get(number).filter(|_| *waits > 0) {
                self.findings.add(place(number, op), "an input is never defined");
            }
        }
        order
    }

    fn operator(&mut self, number: usize, op: &'m Op) {
        if is_fact(op) {
            self.lose(Loss::Hints, place(number, op));
            return;
        }
        for attribute in &op.attributes {
            let name = attribute.name.as_str();
            let is_hint = name.starts_with("NodeOpt_")
                || ["Predicate", "partitionName", "isIntermediateOutputForDAG"].contains(&name);
            if is_hint {
                self.lose(Loss::Hints, format!("{}: `{name}`", place(number, op)));
            }
        }
        let lowered = match op.kind.as_str() {
            SAVE => self.save(op),
            _ => self.node(number, op),
        };
        if let Err(what) = lowered {
            self.findings.add(place(number, op), what);
        }
    }

    /// Translates a save node: its output is a placeholder.
    fn save(&mut self, op: &'m Op) -> Result<(), Finding> {
        let names = (op.input("").first(), op.output("").first());
        let (Some(input), Some(output)) = names else {
            return Err("expected an input and an output".into());
        };
        let given = self.values.get(input.as_str()).cloned();
        let given = given.ok_or_else(|| format!("value `{input}` does not exist"))?;
        self.graph.begin(&op.name);
        self.graph.sources = op.sources.clone();
        let value = self.graph.call("Identity", &[&given.value], [])?;
        let value = self.graph.name(&value, output, &op.name)?;
        let number = self.numbers.get(output.as_str()).copied();
        if let Some(var) = number.and_then(|number| self.vars.get_mut(number)) {
            var.value = value.value_type().clone();
        }
        self.values.insert(output, GlowValue { value, ty: given.ty });
        Ok(())
    }

    /// Translates a node.
    fn node(&mut self, number: usize, op: &'m Op) -> Result<(), Finding> {
        let kind = op.kind.strip_prefix(PREFIX).and_then(node_kind);
        let kind = kind.ok_or("Glow has no such operator")?;
        let mut inputs = Vec::new();
        for name in reads(op) {
            match self.values.get(name.as_str()) {
                Some(given) => inputs.push(given.clone()),
                None if self.findings.is_empty() => {
                    return Err(Finding::internal(format!(
                        "`{name}` is read before it is defined"
                    )));
                }
                // Readers of a value with an unknown type are not reported again.
                None => return Ok(()),
            }
        }
        let results = op.output("").iter().enumerate();
        let wanted = results.map(|(index, name)| {
            let like = kind.results.get(index).and_then(|result| result.like);
            let like = like.and_then(|like| kind.inputs.iter().position(|input| *input == like));
            let ty = match like.and_then(|like| inputs.get(like)) {
                Some(input) => Ok(input.ty.clone()),
                None => Type::of(op, &format!("o{index}")),
            };
            OutputSpec { name: name.clone(), ty, given: None }
        });
        let wanted: Vec<OutputSpec> = wanted.collect();
        self.graph.begin(&op.name);
        self.graph.sources = op.sources.clone();
        let mut node = Node {
            graph: &mut self.graph,
            op,
            inputs: &inputs,
            constants: &self.constants,
            wanted: wanted.clone(),
            read: &self.read,
        };
        let outcome = match decision(kind.kind) {
            Some(Decision::Rule(rule)) => rule(&mut node),
            Some(Decision::NoEquivalent(why)) => node::no_equivalent(why),
            None => node::no_equivalent("the table has no decision for it"),
        };
        let results = node.wanted;
        let wanted = match outcome {
            Ok(()) => {
                self.graph.name_what_computes(&op.name);
                if is_ambiguous(kind.kind) {
                    self.kinds.push((op.name.clone(), kind.kind));
                }
                results
            }
            Err(finding) if finding.code != Code::NoEquivalent => return Err(finding),
            Err(finding) => {
                self.lose(Loss::CustomOperators, format!("{}: {finding}", place(number, op)));
                self.graph.take_back();
                self.keep(op, wanted)?
            }
        };
        for (name, wanted) in op.output("").iter().zip(wanted) {
            match wanted.given {
                Some(given) => drop(self.values.insert(name, given)),
                // Unused results need not be computed.
                None if !self.read.contains(name) => {}
                None => return Err(format!("the result `{name}` is not set").into()),
            }
        }
        Ok(())
    }

    /// Keeps a node in its own domain.
    fn keep(&mut self, op: &Op, wanted: Vec<OutputSpec>) -> Result<Vec<OutputSpec>, Finding> {
        use AttributeValue as A;
        self.keeps = true;
        let is_supported = |value: &A| {
            matches!(
                value,
                A::Long(_)
                    | A::Longs(_)
                    | A::Float(_)
                    | A::Floats(_)
                    | A::String(_)
                    | A::Strings(_)
            )
        };
        if let Some(other) = op.attributes.iter().find(|attribute| !is_supported(&attribute.value))
        {
            return Err(format!("attribute `{}` has a type that no node has", other.name).into());
        }
        let arg = |name: String| match self.values.get(name.as_str()) {
            Some(given) => Ok(given.value.name().to_owned()),
            None => Err(Finding::internal(format!("`{name}` is read before it is defined"))),
        };
        let args = reads(op).into_iter().map(arg).collect::<Result<_, _>>()?;
        let kept = Op {
            domain: DOMAIN.to_owned(),
            kind: op.kind.strip_prefix(PREFIX).unwrap_or(&op.kind).to_owned(),
            inputs: vec![Operand { slot: String::new(), args }],
            ..op.clone()
        };
        self.graph.ops.push(Op { residual: Residual::default(), ..kept });
        let mut results = Vec::new();
        for wanted in wanted {
            let ty = wanted.ty.clone()?;
            let info = info_of(&ty);
            self.vars.push(Var {
                name: wanted.name.clone(),
                value: info.value.clone(),
                ..Var::default()
            });
            let value = Value::new(&wanted.name, info);
            results.push(OutputSpec { given: Some(GlowValue { value, ty }), ..wanted });
        }
        Ok(results)
    }

    fn lose(&mut self, loss: Loss, place: String) {
        self.losses.entry(loss).or_default().push(place);
    }
}

/// Whether an operator only records how the program was made.
fn is_fact(op: &Op) -> bool {
    [CONSTANT_FOLDING, STATIC_PLACEHOLDER].contains(&op.kind.as_str())
}

/// Returns all values that an operator reads: its inputs by position, and the values of members by
/// name.
fn reads(op: &Op) -> Vec<String> {
    let by_position = op.input("");
    let Some(kind) = op.kind.strip_prefix(PREFIX).and_then(node_kind) else {
        return by_position.iter().filter(|name| !name.is_empty()).cloned().collect();
    };
    let mut names: Vec<String> = by_position.iter().take(kind.inputs.len()).cloned().collect();
    for (member, _) in &kind.members {
        if let Some(AttributeValue::Strings(values)) = op.attribute(member) {
            names.extend(values.iter().map(ToString::to_string));
        }
    }
    names
}

/// Returns the place of an operator.
fn place(number: usize, op: &Op) -> String {
    place_of("the graph", number, op)
}
