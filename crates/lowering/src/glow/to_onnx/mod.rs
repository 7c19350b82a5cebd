//! Glow's own operators as ONNX's.
//!
//! [`table`] has a decision for every kind of node: a function that says it in ONNX's operators, or why
//! there is none. What ONNX has no words for stays what it is, in a set of operators of Glow's own
//! ([`DOMAIN`]), which is a loss that has to be allowed; what contradicts itself is an error.
//!
//! Quantized graphs become what the field calls QDQ: values are raw integers, operators compute with what
//! `DequantizeLinear` makes of them, and `QuantizeLinear` makes integers again. What a placeholder or
//! a constant is in Glow stays in its text (`doc_string`), so that nothing of it is lost.
//!
//! Source of truth: what Glow's interpreter computes (commit 05dd99b9), and results that it gave.

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
mod segments;
mod signal;
mod sparse;
mod storage;
mod table;
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

use super::kinds::is_untold;
use crate::onnx::{Graph, Value};
use node::{Given, Node, Wanted};
use storage::{info_of, tensor_of, type_of};
use table::{Decision, decision};

/// The set of operators that nodes keep which ONNX has no words for.
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
    /// Values of Glow that are there.
    values: HashMap<&'m str, Given>,
    /// Variables of the program that is made.
    vars: Vec<Var>,
    /// Which of them each name is.
    numbers: HashMap<&'m str, usize>,
    findings: Findings,
    losses: BTreeMap<Loss, Vec<String>>,
    /// The names of values that something reads.
    read: HashSet<String>,
    /// The names of values that are given.
    inputs: HashSet<&'m str>,
    /// Whether an operator stayed what it was.
    keeps: bool,
    /// Kinds of nodes that their operators do not tell.
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

    /// Takes in placeholders and constants.
    fn storage(&mut self) {
        let mut seen = HashSet::new();
        for parameter in &self.model.parameters {
            let tensor = &parameter.tensor;
            if !seen.insert(&parameter.name) {
                self.findings.add("the graph", format!("`{}` is a constant again", parameter.name));
            }
            let shape = tensor.shape.iter().map(|extent| i64::try_from(*extent).ok()).collect();
            let dense = matches!(tensor.kind, Kind::Dense | Kind::Absent);
            let found = (tensor.dtype, shape);
            match type_of(tensor.doc_string.as_ref(), dense.then_some(found)) {
                Ok(ty) => {
                    let value = Value::new(&parameter.name, ValueInfo::of(tensor));
                    self.values.insert(&parameter.name, Given { value, ty });
                }
                Err(what) => {
                    self.findings.add(format!("the constant `{}`", parameter.name), what);
                }
            }
        }
        let mut seen = HashSet::new();
        for name in &self.main.inputs {
            if !seen.insert(name) {
                self.findings.add("the graph", format!("`{name}` is an input again"));
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
                    self.values.insert(name, Given { value, ty });
                }
                Err(what) => self.findings.add(format!("the variable `{name}`"), what),
            }
        }
    }

    /// Tells outputs that nothing gives, unless it was told already what stands in the way.
    fn outputs(&mut self) {
        let mut seen = HashSet::new();
        for name in &self.main.outputs {
            if !seen.insert(name) {
                self.findings.add("the graph", format!("`{name}` is an output again"));
            }
            if self.findings.is_empty() && !self.values.contains_key(name.as_str()) {
                self.findings.add("the graph", format!("nothing gives the output `{name}`"));
            }
        }
    }

    /// The order in which operators have what they need; those that never have are told.
    fn order(&mut self) -> Vec<usize> {
        let mut writer: HashMap<&str, usize> = HashMap::new();
        for (number, op) in self.main.ops.iter().enumerate() {
            for name in op.writes().filter(|_| !is_fact(op)) {
                let is_storage = self.constants.contains_key(name) || self.inputs.contains(name);
                if is_storage || writer.insert(name, number).is_some() {
                    self.findings.add(place(number, op), format!("`{name}` is there already"));
                }
            }
        }
        // How many values an operator waits for, and who waits for a value.
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
                // A value that nobody writes is never there.
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
                self.findings.add(place(number, op), "a value that it reads never is there");
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

    /// A save node: its output is a placeholder.
    fn save(&mut self, op: &'m Op) -> Result<(), Finding> {
        let names = (op.input("").first(), op.output("").first());
        let (Some(input), Some(output)) = names else {
            return Err("expected an input and an output".into());
        };
        let given = self.values.get(input.as_str()).cloned();
        let given = given.ok_or_else(|| format!("there is no value `{input}`"))?;
        self.graph.begin(&op.name);
        let value = self.graph.call("Identity", &[&given.value], [])?;
        let value = self.graph.name(&value, output, &op.name)?;
        let number = self.numbers.get(output.as_str()).copied();
        if let Some(var) = number.and_then(|number| self.vars.get_mut(number)) {
            var.value = value.value_type().clone();
        }
        self.values.insert(output, Given { value, ty: given.ty });
        Ok(())
    }

    /// A node of one of Glow's kinds.
    fn node(&mut self, number: usize, op: &'m Op) -> Result<(), Finding> {
        let kind = op.kind.strip_prefix(PREFIX).and_then(node_kind);
        let kind = kind.ok_or("Glow has no such operator")?;
        let mut inputs = Vec::new();
        for name in reads(op) {
            match self.values.get(name.as_str()) {
                Some(given) => inputs.push(given.clone()),
                None if self.findings.is_empty() => {
                    return Err(Finding::internal(format!("`{name}` is read before it is there")));
                }
                // What reads a value that was not understood is not reported again.
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
            Wanted { name: name.clone(), ty, given: None }
        });
        let wanted: Vec<Wanted> = wanted.collect();
        self.graph.begin(&op.name);
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
            Some(Decision::NoWords(why)) => node::no_words(why),
            None => node::no_words("nothing is known of it"),
        };
        let told = node.wanted;
        let wanted = match outcome {
            Ok(()) => {
                self.graph.name_what_computes(&op.name);
                if is_untold(kind.kind) {
                    self.kinds.push((op.name.clone(), kind.kind));
                }
                told
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
                // What nothing reads need not be computed.
                None if !self.read.contains(name) => {}
                None => return Err(format!("the result `{name}` is not told").into()),
            }
        }
        Ok(())
    }

    /// Keeps an operator as it is.
    fn keep(&mut self, op: &Op, wanted: Vec<Wanted>) -> Result<Vec<Wanted>, Finding> {
        use AttributeValue as A;
        self.keeps = true;
        let is_said = |value: &A| {
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
        if let Some(other) = op.attributes.iter().find(|attribute| !is_said(&attribute.value)) {
            return Err(
                format!("the attribute `{}` is of a type that no node has", other.name).into()
            );
        }
        let arg = |name: String| match self.values.get(name.as_str()) {
            Some(given) => Ok(given.value.name().to_owned()),
            None => Err(Finding::internal(format!("`{name}` is read before it is there"))),
        };
        let args = reads(op).into_iter().map(arg).collect::<Result<_, _>>()?;
        let kept = Op {
            domain: DOMAIN.to_owned(),
            kind: op.kind.strip_prefix(PREFIX).unwrap_or(&op.kind).to_owned(),
            inputs: vec![Operand { slot: String::new(), args }],
            ..op.clone()
        };
        self.graph.ops.push(Op { residual: Residual::default(), ..kept });
        let mut told = Vec::new();
        for wanted in wanted {
            let ty = wanted.ty.clone()?;
            let info = info_of(&ty);
            self.vars.push(Var {
                name: wanted.name.clone(),
                value: info.value.clone(),
                ..Var::default()
            });
            let value = Value::new(&wanted.name, info);
            told.push(Wanted { given: Some(Given { value, ty }), ..wanted });
        }
        Ok(told)
    }

    fn lose(&mut self, loss: Loss, place: String) {
        self.losses.entry(loss).or_default().push(place);
    }
}

/// Whether an operator only says how the program came to be.
fn is_fact(op: &Op) -> bool {
    [CONSTANT_FOLDING, STATIC_PLACEHOLDER].contains(&op.kind.as_str())
}

/// The values that Glow reads for an operator: those of inputs by position, those of a member by its
/// names.
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

/// Where an operator is.
fn place(number: usize, op: &Op) -> String {
    place_of("the graph", number, op)
}
