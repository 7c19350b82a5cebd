//! Walks the nets of a model operator by operator.

use std::collections::HashMap;

use lodstone_model::{Model, Op, Program, Programs, Tensor};
use lodstone_schema::onnx::infer::ValueInfo;
use lodstone_schema::onnx::{place_of, quoted};
use lodstone_schema::{Finding, Findings, caffe2};

use super::{rules, weights};
use crate::caffe2::missing;
use crate::glow::from_onnx::finish::Saved;
use crate::glow::from_onnx::graph::{Graph, Source, Value};
use crate::glow::from_onnx::known::value_of;
use crate::glow::from_onnx::names::Names;
use crate::glow::from_onnx::op::{Cx, Entry, Fault};
use crate::glow::from_onnx::walk::Walked;

/// An operator or an input without an equivalent.
struct Failure {
    place: String,
    /// The reason; `None` if it is only an operand without an equivalent.
    what: Option<Finding>,
    /// The failures of operands.
    causes: Vec<usize>,
}

struct Walk<'m> {
    graph: Graph,
    entries: Vec<Entry>,
    /// The entries of blobs by name; a later write replaces an earlier one.
    scope: HashMap<&'m str, usize>,
    failures: Vec<Failure>,
    findings: Findings,
}

/// Walks the nets of a model.
///
/// # Errors
/// All operators that outputs depend on and that have no equivalent, with their places.
pub(super) fn walk(model: &Model) -> Result<Walked, Findings> {
    let mut findings = Findings::default();
    let main = model.main().and_then(|program| Some((program, program.blocks.first()?)));
    let Some((program, main)) = main else {
        findings.add("the model", "expected a net, found none");
        return Err(findings);
    };
    if main.outputs.is_empty() {
        findings.add("the net", "expected `external_output`, found none");
        return Err(findings);
    }
    let startup = model.programs.get(Programs::STARTUP);
    let mut walk = Walk::new(program, startup);
    walk.inputs(program);
    let names: Vec<String> = main.outputs.iter().map(|name| walk.graph.names.give(name)).collect();
    walk.startup(model, startup);
    for (number, op) in main.ops.iter().enumerate() {
        walk.operator(op, &place_of("the graph", number, op));
    }
    let mut saved = Vec::new();
    let mut reached = Vec::new();
    for (original, name) in main.outputs.iter().zip(names) {
        let value = match walk.scope.get(original.as_str()) {
            Some(entry) => value_of(&mut walk.graph, &mut walk.entries, *entry),
            None => Err("no operator writes it".into()),
        };
        match value {
            Ok(value) => saved.push(Saved { original: original.clone(), name, value }),
            Err(Fault::Before(place)) => reached.push(place),
            Err(Fault::What(what)) => {
                walk.findings.add(format!("the graph, output {}", quoted(original)), what);
            }
        }
    }
    walk.report(reached);
    if !walk.findings.is_empty() {
        return Err(walk.findings);
    }
    Ok(walk.finish(saved))
}

impl<'m> Walk<'m> {
    fn new(main: &'m Program, startup: Option<&'m Program>) -> Self {
        let ops = || startup.into_iter().chain([main]).flat_map(|program| program.ops());
        let names = ops().map(|op| op.name.clone()).filter(|name| !name.is_empty());
        Self {
            graph: Graph::new(Names::new(names), ops().count()),
            entries: Vec::new(),
            scope: HashMap::new(),
            failures: Vec::new(),
            findings: Findings::default(),
        }
    }

    fn add(&mut self, name: &'m str, entry: Entry) {
        self.entries.push(entry);
        self.scope.insert(name, self.entries.len() - 1);
    }

    fn weight(&mut self, name: &'m str, tensor: &Tensor, fill: Option<&Op>) {
        let entry = weights::entry(name, tensor, fill).unwrap_or_else(|finding| {
            let place = format!("the weight {}", quoted(name));
            let fault = Some(self.fail(&place, Some(finding), Vec::new()));
            Entry { name: name.to_owned(), fault, ..Entry::default() }
        });
        self.add(name, entry);
    }

    fn fail(&mut self, place: &str, what: Option<Finding>, causes: Vec<usize>) -> usize {
        self.failures.push(Failure { place: place.to_owned(), what, causes });
        self.failures.len() - 1
    }

    /// Adds the inputs that are fed.
    fn inputs(&mut self, program: &'m Program) {
        let Some(main) = program.blocks.first() else { return };
        for var in main.vars.iter().filter(|var| !var.persistable) {
            let name = var.name.as_str();
            let entry = Entry { name: name.to_owned(), ..Entry::default() };
            let is_read = main.ops.iter().any(|op| op.input("").contains(&var.name))
                || main.outputs.contains(&var.name);
            let entry = match weights::placeholder(&mut self.graph, var, main) {
                Ok(value) => Entry { value: Some(value), ..entry },
                Err(what) => {
                    let place = format!("the graph, input {}", quoted(name));
                    let fault = self.fail(&place, Some(what), Vec::new());
                    Entry { fault: Some(fault), ..entry }
                }
            };
            if is_read || entry.value.is_some() {
                self.add(name, entry);
            }
        }
    }

    /// Adds the weights, and walks the operators of the startup net that compute other blobs.
    fn startup(&mut self, model: &'m Model, startup: Option<&'m Program>) {
        let stored: HashMap<&str, &Tensor> =
            model.parameters.iter().map(|it| (it.name.as_str(), &it.tensor)).collect();
        let main = startup.and_then(|startup| startup.blocks.first());
        let ops = main.map_or(&[][..], |main| main.ops.as_slice());
        let mut last = HashMap::new();
        for (number, op) in ops.iter().enumerate() {
            last.extend(op.writes().map(|name| (name, number)));
        }
        let is_added = |name: &str| !last.contains_key(name);
        for parameter in model.parameters.iter().filter(|it| is_added(&it.name)) {
            self.weight(&parameter.name, &parameter.tensor, None);
        }
        let fed: Vec<&str> = self.scope.keys().copied().collect();
        for (number, op) in ops.iter().enumerate() {
            let output = op.output("").first().map(String::as_str);
            let is_last = output.is_some_and(|name| last.get(name) == Some(&number));
            let tensor =
                output.filter(|_| is_last).and_then(|name| Some((name, *stored.get(name)?)));
            match tensor {
                Some((name, tensor)) if weights::is_stored(op, tensor) => {
                    self.weight(name, tensor, Some(op));
                }
                // The placeholder of an input.
                _ if op.input("").is_empty() && output.is_some_and(|name| fed.contains(&name)) => {}
                _ => self.operator(op, &place_of("the startup net", number, op)),
            }
        }
    }

    /// Translates an operator, and binds its outputs.
    fn operator(&mut self, op: &'m Op, place: &str) {
        let mut inputs = Vec::new();
        let mut absent = None;
        for name in op.input("") {
            let entry = self.scope.get(name.as_str()).copied();
            if entry.is_none() {
                absent = absent.or(Some(format!("value {} does not exist", quoted(name))));
            }
            inputs.push(entry);
        }
        let outcome = match (rules::rule(&op.kind), absent) {
            (None, _) => Err(missing(&op.kind).into()),
            (Some(_), Some(absent)) => Err(absent.into()),
            (Some(rule), None) => {
                let checked = caffe2::check_arguments(op);
                let base = match op.name.as_str() {
                    "" => op.output("").first().cloned().unwrap_or_default(),
                    name => name.to_owned(),
                };
                let mut cx = Cx {
                    graph: &mut self.graph,
                    entries: &mut self.entries,
                    op,
                    base,
                    inputs: inputs.clone(),
                    outputs: Vec::new(),
                };
                checked.map_err(Fault::from).and_then(|()| rule(&mut cx))
            }
        };
        let values = match outcome {
            Ok(values) => values,
            Err(fault) => {
                let faults = inputs.iter().flatten().filter_map(|it| self.entries.get(*it)?.fault);
                let mut causes: Vec<usize> = faults.collect();
                let what = match fault {
                    Fault::What(what) => Some(what),
                    Fault::Before(cause) => {
                        causes.push(cause);
                        None
                    }
                };
                let failure = self.fail(place, what, causes);
                for name in op.writes() {
                    let fault = Some(failure);
                    self.add(name, Entry { name: name.to_owned(), fault, ..Entry::default() });
                }
                return;
            }
        };
        for (index, name) in op.output("").iter().enumerate().filter(|(_, name)| !name.is_empty()) {
            let entry = Entry { name: name.clone(), ..Entry::default() };
            let entry = match values.get(index).copied().flatten() {
                Some(value) => self.known(value, entry),
                None => {
                    let what = format!("Glow does not compute output {index}, {}", quoted(name));
                    Entry { fault: Some(self.fail(place, Some(what.into()), Vec::new())), ..entry }
                }
            };
            self.add(name, entry);
        }
    }

    /// Completes the entry of a value: a constant stays known by its elements.
    fn known(&self, value: Value, entry: Entry) -> Entry {
        let constant = match self.graph.source(value) {
            Source::Constant(number) => self.graph.constants.get(number),
            _ => None,
        };
        let tensor = constant.map(|constant| constant.tensor.clone());
        let info = tensor.as_ref().map(ValueInfo::of).unwrap_or_default();
        Entry { value: Some(value), tensor, info, ..entry }
    }

    /// Reports all failures that the given ones come from.
    fn report(&mut self, mut open: Vec<usize>) {
        let mut seen = vec![false; self.failures.len()];
        while let Some(number) = open.pop() {
            if seen.get_mut(number).is_some_and(|seen| std::mem::replace(seen, true)) {
                continue;
            }
            if let Some(failure) = self.failures.get(number) {
                open.extend(&failure.causes);
            }
        }
        for (failure, _) in self.failures.iter().zip(seen).filter(|(_, seen)| *seen) {
            if let Some(what) = &failure.what {
                self.findings.add(&failure.place, what.clone());
            }
        }
        let is_silent = self.findings.is_empty() && !self.failures.is_empty();
        debug_assert!(!is_silent || self.failures.iter().all(|it| it.what.is_some()));
    }

    fn finish(self, outputs: Vec<Saved>) -> Walked {
        let mut named: Vec<(String, Value)> = Vec::new();
        for (name, entry) in &self.scope {
            let value = self.entries.get(*entry).and_then(|entry| entry.value);
            named.extend(value.map(|value| ((*name).to_owned(), value)));
        }
        named.sort_by(|left, right| left.0.cmp(&right.0));
        Walked { graph: self.graph, outputs, calls: 0, named, constants: Vec::new() }
    }
}
